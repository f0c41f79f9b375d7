"""What a stage sends to the ackers: registrations of what a spring has read, acks of what has been processed.

A stage with these in its output needs no more than one call; which acker holds which root follows from the ring.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from springline.spark_jobs.streaming.tracking.ids import Ids
from springline.spark_jobs.streaming.tracking.records import Items
from springline.spark_jobs.streaming.tracking.ring import Circle, newest
from springline.spark_jobs.streaming.tracking.root_id import ROW_BITS, check, root_id
from springline.spark_jobs.streaming.tracking.wire import Kind, Span, Telling

Acks = dict[int, list[pa.RecordBatch]]  # by acker
_ROOTS = 1 << 18  # registered in one batch, and up to a message's more: a quarter of what a message has room for


def extend(sent: dict[int, list[pa.RecordBatch]], found: Mapping[int, Sequence[pa.RecordBatch]]) -> None:
    """Put what was found behind what is sent already, by acker or by unit."""
    for to, batches in found.items():
        sent.setdefault(to, []).extend(batches)


class Ackers:
    """The ackers that a round of a stage names, as somebody to send to: those of the newest epoch of the ring."""

    def __init__(self, ring: Mapping[str, Any]) -> None:
        number, ackers = newest(ring)
        self.circle = Circle.of(ackers)
        self.telling = Telling(number, self.circle.ackers)

    def acks(self, roots: Ids, values: Ids, attempt: int, *, kind: Kind = Kind.ACKS) -> Acks:
        """Tuples that were processed, or roots that are sent again: of each root, all values together.

        Roots that follow each other are combined; so whoever sends them in order sends fewer.
        """
        if not roots.size:
            return {}
        combined, added = _combined(roots, values)
        owners = self.circle.owners_of(combined)
        found: Acks = {}
        for acker in self.circle.ackers:
            mine = owners == acker
            if mine.any():
                found[acker] = [self.telling.acks(combined[mine], added[mine], attempt, kind=kind)]
        return found

    def sources(self, span: Span, through: int) -> Acks:
        """Messages that a spring has read, each a root, with the same edges; every acker takes what is its own."""
        found = [span] if span.messages else []
        batch = self.telling.spans(found, kind=Kind.SOURCES, through={str(span.partition): through})
        return {acker: [batch] for acker in self.circle.ackers}

    def spans(self, found: Sequence[Span]) -> Acks:
        """Acks of ranges of messages."""
        kept = [span for span in found if span.messages]
        return {acker: [self.telling.spans(kept)] for acker in self.circle.ackers} if kept else {}

    def registrations(
        self, partition: int, offsets: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], values: Ids, through: int
    ) -> Acks:
        """Messages of a partition with so many rows each, and a value for each row: the edges that leave the spring.

        Every acker is told that all before the offset `through` is registered; where there are many roots, in several
        batches, each of which tells how far it reaches. Raises `InvalidRootError`.
        """
        kept = rows > 0
        offsets, rows = offsets[kept], rows[kept]
        if offsets.size:
            check(partition, int(offsets.max()), 1, int(rows.max()))
        roots = roots_of(partition, offsets, rows)
        owners = self.circle.owners_of(roots)
        ends = np.cumsum(rows)
        firsts = [0, *(np.flatnonzero(np.diff((ends - 1) // _ROOTS)) + 1).tolist(), offsets.size]
        reached = [*offsets[firsts[1:-1]].tolist(), through]
        found: Acks = {}
        for acker in self.circle.ackers:
            mine = owners == acker
            held = np.concatenate([[0], np.cumsum(mine)])[[0, *ends]]  # before each message, and behind the last
            found[acker] = [
                self.telling.registrations(
                    partition, offsets[a:b], rows[a:b], np.diff(held[a : b + 1]), values[mine][held[a] : held[b]], to
                )
                for (a, b), to in zip(itertools.pairwise(firsts), reached, strict=True)
            ]
        return found

    def records(self, found: Items) -> Acks:
        """Records that another acker held, on their way to those that hold them now."""
        owners = self.circle.owners_of(found.roots)
        return {acker: [self.telling.records(found.at(owners == acker))] for acker in np.unique(owners).tolist()}


def roots_of(partition: int, offsets: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> Ids:
    """The ids of all rows of some messages, in their order."""
    if not offsets.size:
        return np.empty(0, np.uint64)
    firsts = np.uint64(root_id(partition, 0)) + (offsets.astype(np.uint64) << np.uint64(ROW_BITS))
    starts = np.cumsum(rows) - rows
    places = np.arange(int(rows.sum()), dtype=np.int64) - np.repeat(starts, rows)
    found: Ids = np.repeat(firsts, rows) + places.astype(np.uint64)
    return found


@njit(cache=True, nogil=True)
def _combine(roots, values, found, added):  # type: ignore[no-untyped-def]
    count = 0
    for i in range(roots.size):
        if count and found[count - 1] == roots[i]:
            added[count - 1] ^= values[i]
        else:
            found[count] = roots[i]
            added[count] = values[i]
            count += 1
    return count


def _combined(roots: Ids, values: Ids) -> tuple[Ids, Ids]:
    found, added = np.empty_like(roots), np.empty_like(values)
    count = _combine(roots, values, found, added)
    return found[:count], added[:count]
