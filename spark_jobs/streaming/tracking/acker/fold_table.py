"""The folds of one acker: a record for all roots of a round of a spring, whatever their number.

The table uses neither a clock nor randomness: the caller passes ticks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.tracking.folds import Fold, fold_owners, folds_of_batch, folds_to_batch
from springline.spark_jobs.streaming.tracking.ring import AckerRing


class CompletedFold(NamedTuple):
    """Roots that were completed together, and the tick in which they were registered."""

    root_count: int
    tick: int


class ExpiredFolds(NamedTuple):
    """Result of a sweep: folds to be audited, folds that failed as one, and the number that were never registered."""

    audits: list[Fold]
    failed: list[Fold]
    unregistered: int


class FoldTable:
    """The folds that are not closed, by first root."""

    def __init__(self, folds: Iterable[Fold] = ()) -> None:
        self._folds = {fold.first: fold for fold in folds}
        self._completed: list[CompletedFold] = []
        self.in_flight = sum(map(_record_count, self._folds.values()))
        self.nbytes = sum(fold.nbytes for fold in self._folds.values())

    @classmethod
    def of(cls, snapshot: pa.RecordBatch) -> FoldTable:
        """Return a table with the folds of a `snapshot`."""
        return cls(folds_of_batch(snapshot))

    def __len__(self) -> int:
        return len(self._folds)

    def register(self, fold: Fold, tick: int) -> None:
        """Register a fold; acks that arrived before are part of its value."""
        self._merge(fold._replace(tick=tick))

    def ack(self, first: int, value: int, tick: int) -> None:
        """XOR the ids of applied tuples into the value of a fold."""
        self._merge(Fold(first, value, tick=tick))

    def adopt(self, folds: Iterable[Fold]) -> None:
        """Adopt folds of another acker."""
        for fold in folds:
            self._merge(fold)

    def release(self, ring: AckerRing, acker: int) -> list[Fold]:
        """Remove the folds that belong to other ackers under a ring, and return them in the order of first roots."""
        firsts = np.array(sorted(self._folds), np.uint64)
        return [self._remove(first) for first in firsts[fold_owners(ring, firsts) != acker].tolist()]

    def sweep(self, before: int, audits_before: int) -> ExpiredFolds:
        """Remove the folds of ticks before one, and of those whose roots can be distinguished, before another one."""
        expired = [
            self._remove(fold.first)
            for fold in sorted(self._folds.values())
            if fold.tick < (audits_before if fold.registered and fold.by_row else before)
        ]
        registered = [fold for fold in expired if fold.registered]
        audits, failed = ([fold for fold in registered if fold.by_row is by_row] for by_row in (True, False))
        return ExpiredFolds(audits, failed, len(expired) - len(registered))

    def drain_completed(self) -> list[CompletedFold]:
        """Return what was completed since the last call."""
        completed, self._completed = self._completed, []
        return completed

    def low_watermarks(self) -> dict[int, int]:
        """Return, by partition, the offset of the first root that is registered and not complete."""
        least: dict[int, int] = {}
        for fold in self._folds.values():
            if fold.registered:
                least[fold.partition] = min(least.get(fold.partition, fold.offset), fold.offset)
        return least

    def snapshot(self) -> pa.RecordBatch:
        """Return all folds: the same bytes for the same folds, whatever the history."""
        return folds_to_batch(self._folds.values())

    def rebased(self, shift: int) -> FoldTable:
        """Return a table whose ticks are less by `shift`, and not below 0."""
        return FoldTable(fold._replace(tick=max(fold.tick - shift, 0)) for fold in self._folds.values())

    def _merge(self, part: Fold) -> None:
        before = self._folds.get(part.first)
        fold = part if before is None else before.merge(part)
        if before is not None:
            self._remove(part.first)
        if fold.registered and fold.value == 0:
            self._completed.append(CompletedFold(fold.ranges.root_count, fold.tick))
        else:
            self._folds[fold.first] = fold
            self.in_flight += _record_count(fold)
            self.nbytes += fold.nbytes

    def _remove(self, first: int) -> Fold:
        fold = self._folds.pop(first)
        self.in_flight -= _record_count(fold)
        self.nbytes -= fold.nbytes
        return fold


def _record_count(fold: Fold) -> int:
    return fold.ranges.root_count if fold.registered else 1
