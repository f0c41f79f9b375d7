"""Output of a stage to the ackers: registrations of what a spring has read, and acks of what has been processed.

A stage with acks in its output needs only one call; the ring determines which acker holds which root.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from springline.spark_jobs.streaming.tracking.folds import Fold, fold_owners
from springline.spark_jobs.streaming.tracking.ids import Ids
from springline.spark_jobs.streaming.tracking.records import TrackingRecords
from springline.spark_jobs.streaming.tracking.ring import AckerRing, newest_epoch
from springline.spark_jobs.streaming.tracking.root_id import check_root_range, roots_of
from springline.spark_jobs.streaming.tracking.wire import AckEncoder, MessageKind

Acks = dict[int, list[pa.RecordBatch]]  # by acker
_ROOTS = 1 << 18  # registered in one batch, plus at most one message's: a quarter of the capacity of a message


def add_batches(sent: dict[int, list[pa.RecordBatch]], additions: Mapping[int, Sequence[pa.RecordBatch]]) -> None:
    """Append batches to those already sent, by acker or by unit."""
    for to, batches in additions.items():
        sent.setdefault(to, []).extend(batches)


class AckOutput:
    """Builds batches for the ackers of a round's ring, in its newest epoch."""

    def __init__(self, ring: Mapping[str, Any]) -> None:
        number, ackers = newest_epoch(ring)
        self.ring = AckerRing.of(ackers)
        self.encoder = AckEncoder(number, self.ring.ackers)

    def acks(self, roots: Ids, values: Ids, attempt: int, *, kind: MessageKind = MessageKind.ACKS) -> Acks:
        """Return acks of processed tuples, or retries of roots: the XOR of all values of each root.

        Adjacent values of the same root are combined, so sorted roots need fewer rows.
        """
        if not roots.size:
            return {}
        combined, added = _combine_by_root(roots, values)
        owners = self.ring.owners_of(combined)
        batches: Acks = {}
        for acker in self.ring.ackers:
            mine = owners == acker
            if mine.any():
                batches[acker] = [self.encoder.acks(combined[mine], added[mine], attempt, kind=kind)]
        return batches

    def folds(self, folds: Sequence[Fold], registered_up_to: Mapping[int, int]) -> Acks:
        """Return the registration of a round's folds, one for each partition of which it has roots.

        Every acker learns that everything before the offsets `registered_up_to`, by partition, is registered.
        """
        own = self._by_owner(folds)
        return {
            acker: [self.encoder.folds(own.get(acker, ()), MessageKind.FOLDS, registered_up_to=registered_up_to)]
            for acker in self.ring.ackers
        }

    def fold_acks(self, values: Mapping[int, int]) -> Acks:
        """Return acks of folds: by first root, the XOR of the ids of the tuples that were applied."""
        firsts = np.array(sorted(values), np.uint64)
        added = np.array([values[first] for first in firsts.tolist()], np.uint64)
        owners = fold_owners(self.ring, firsts)
        return {
            acker: [self.encoder.fold_acks(firsts[owners == acker], added[owners == acker])]
            for acker in np.unique(owners).tolist()
        }

    def fold_records(self, folds: Sequence[Fold]) -> Acks:
        """Return folds that were released by an acker, forwarded to those that they belong to now."""
        own = self._by_owner(folds)
        return {acker: [self.encoder.folds(each, MessageKind.FOLD_RECORDS)] for acker, each in sorted(own.items())}

    def _by_owner(self, folds: Sequence[Fold]) -> dict[int, list[Fold]]:
        """Return folds by the ackers that they belong to."""
        owners = fold_owners(self.ring, np.array([fold.first for fold in folds], np.uint64)).tolist()
        own: dict[int, list[Fold]] = {}
        for fold, owner in zip(folds, owners, strict=True):
            own.setdefault(owner, []).append(fold)
        return own

    def registrations(
        self,
        partition: int,
        offsets: npt.NDArray[np.int64],
        rows: npt.NDArray[np.int64],
        values: Ids,
        *,
        registered_up_to: int | None = None,
        age: int | None = None,
    ) -> Acks:
        """Return registrations of messages of a partition, with `rows` rows each and one value per row.

        `values` are the edges that leave the spring. With `registered_up_to`, every acker learns that everything before
        that offset is registered; many roots are sent in several batches, each with the offset that it reaches. `age`:
        how many ticks ago the fold of these roots was registered, if they had one. Raises `InvalidRootError`.
        """
        has_rows = rows > 0
        offsets, rows = offsets[has_rows], rows[has_rows]
        if offsets.size:
            check_root_range(partition, int(offsets.max()), 1, int(rows.max()))
        roots = roots_of(partition, offsets, rows)
        owners = self.ring.owners_of(roots)
        ends = np.cumsum(rows)
        firsts = [0, *(np.flatnonzero(np.diff((ends - 1) // _ROOTS)) + 1).tolist(), offsets.size]
        reached: list[int | None] = [registered_up_to] * (len(firsts) - 1)
        if registered_up_to is not None:
            reached[:-1] = offsets[firsts[1:-1]].tolist()
        batches: Acks = {}
        for acker in self.ring.ackers:
            mine = owners == acker
            owned_before = np.concatenate([[0], np.cumsum(mine)])[[0, *ends]]  # before each message, and after the last
            batches[acker] = [
                self.encoder.registrations(
                    partition,
                    offsets[a:b],
                    rows[a:b],
                    np.diff(owned_before[a : b + 1]),
                    values[mine][owned_before[a] : owned_before[b]],
                    registered_up_to=to,
                    age=age,
                )
                for (a, b), to in zip(itertools.pairwise(firsts), reached, strict=True)
            ]
        return batches

    def records(self, records: TrackingRecords) -> Acks:
        """Return records that another acker held, forwarded to the ackers that hold them now."""
        owners = self.ring.owners_of(records.roots)
        return {acker: [self.encoder.records(records.select(owners == acker))] for acker in np.unique(owners).tolist()}


@njit(cache=True, nogil=True)
def _combine(roots, values, combined, added):  # type: ignore[no-untyped-def]
    count = 0
    for i in range(roots.size):
        if count and combined[count - 1] == roots[i]:
            added[count - 1] ^= values[i]
        else:
            combined[count] = roots[i]
            added[count] = values[i]
            count += 1
    return count


def _combine_by_root(roots: Ids, values: Ids) -> tuple[Ids, Ids]:
    combined, added = np.empty_like(roots), np.empty_like(values)
    count = _combine(roots, values, combined, added)
    return combined[:count], added[:count]
