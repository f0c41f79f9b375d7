"""The tracking records of one acker, in one of two layouts with the same interface.

"slots" is the paper's: 20 bytes per root. "dense" stores the first attempts of ranges of roots at 8 bytes per root, and
uses slots for everything else: retries, acks that arrive before their range, records adopted from other ackers. Both
contain the same records after the same calls. The table uses neither a clock nor randomness: the caller passes ticks.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.spark_jobs.streaming.tracking.acker.dense import DenseRanges
from springline.spark_jobs.streaming.tracking.acker.root_ranges import RootRange
from springline.spark_jobs.streaming.tracking.acker.slots import SlotTable
from springline.spark_jobs.streaming.tracking.errors import InvalidUpdateError, InvariantError
from springline.spark_jobs.streaming.tracking.records import (
    CompletedRoots,
    Ids,
    TrackingRecords,
    merge_records,
    tracking_records,
)
from springline.spark_jobs.streaming.tracking.ring import AckerRing
from springline.spark_jobs.streaming.tracking.root_id import NO_ROOT, PARTITIONS, unpack_root_id

Layout = Literal["dense", "slots"]


class ExpiredRecords(NamedTuple):
    """Result of a sweep: registered roots, which are to be sent again, and roots with acks but no registration."""

    roots: Ids
    attempts: npt.NDArray[np.uint8]
    unregistered_roots: Ids
    unregistered_attempts: npt.NDArray[np.uint8]


class AckTable:
    """The records of one acker under a ring. Attempts count from 1; `tick` is the number of a time slice."""

    def __init__(self, layout: Layout, acker: int, ring: AckerRing) -> None:
        self.layout, self.acker, self.ring = layout, acker, ring
        self.completed_count = 0
        self._dense, self._slots = DenseRanges(acker), SlotTable()
        self._completed: list[CompletedRoots] = []
        self._stale = 0

    @classmethod
    def of(cls, snapshot: pa.RecordBatch, layout: Layout, acker: int, ring: AckerRing) -> AckTable:
        """Return a table with the records of a `snapshot`."""
        table = cls(layout, acker, ring)
        records = TrackingRecords.of(snapshot)
        if layout == "dense":
            records = records.select(~table._dense.load(records, ring))
        table._slots.load(records)
        return table

    @property
    def in_flight(self) -> int:
        """Number of records: roots that are not completed, registered or known only by acks."""
        return len(self._dense) + len(self._slots)

    @property
    def stale(self) -> int:
        """Roots and acks that arrived for an attempt that had ended."""
        return self._stale + self._slots.stale

    @property
    def nbytes(self) -> int:
        """Bytes of the records."""
        return self._dense.nbytes + self._slots.nbytes

    def register_range(
        self,
        partition: int,
        offset: int,
        messages: int,
        rows: int,
        values: npt.ArrayLike,
        attempt: int,
        tick: int,
        ring: AckerRing | None = None,
    ) -> None:
        """Register the acker's part of a range of roots, under the ring in force or `ring`.

        `values` belong to its roots in the order of their ids, or one value for all. Raises `InvalidRootError`,
        `InvalidUpdateError`.
        """
        range_ring, root_ranges = ring or self.ring, RootRange.of(partition, offset, messages, rows)
        root_values, counts = (
            np.asarray(values, np.uint64),
            [root_range.count(ring or self.ring, self.acker) for root_range in root_ranges],
        )
        if root_values.ndim and root_values.size != sum(counts):
            raise InvalidUpdateError(
                f"partition {partition}, {messages} messages of {rows} roots from "
                f"offset {offset}: {root_values.size} values "
                f"for {sum(counts)} roots of acker {self.acker}"
            )
        position = 0
        for run, count in zip(root_ranges, counts, strict=True):
            part = root_values[position : position + count] if root_values.ndim else root_values
            position += count
            if self.layout == "dense" and attempt == 1:
                self._register_dense_range(run, part, tick, range_ring)
            else:
                self.register(run.roots(range_ring, self.acker), attempt, part, tick)

    def register(self, roots: npt.ArrayLike, attempts: npt.ArrayLike, values: npt.ArrayLike, tick: int) -> None:
        """Register single roots: XOR their values, and mark them as registered."""
        ids, tries = np.asarray(roots, np.uint64), np.asarray(attempts)
        self._end_first_attempts(ids, tries)
        self._complete(self._slots.register(ids, tries, values, tick))

    def ack(self, roots: npt.ArrayLike, attempts: npt.ArrayLike, values: npt.ArrayLike, tick: int) -> None:
        """Apply acks by XOR: first those of later attempts; those of ended attempts are dropped."""
        ids, tries, added = np.asarray(roots, np.uint64), np.asarray(attempts), np.asarray(values, np.uint64)
        self._end_first_attempts(ids, tries)
        if tries.ndim and (tries > 1).any():
            later, added = tries > 1, np.broadcast_to(added, ids.shape)
            self._complete(self._slots.ack(ids[later], tries[later], added[later], tick))
            ids, added, tries = ids[~later], added[~later], tries[~later]
        if self.layout == "dense" and (tries.ndim or tries == 1):
            completed, is_unfinished = self._dense.ack(ids, added)
            self._complete(completed)
            if is_unfinished.all():
                return
            ids, added = ids[~is_unfinished], added[~is_unfinished] if added.ndim else added
            tries = tries[~is_unfinished] if tries.ndim else tries
        self._complete(self._slots.ack(ids, tries, added, tick))

    def sweep(self, before: int) -> ExpiredRecords:
        """Remove the records of ticks before this one, and return them in the order of roots."""
        swept = merge_records([self._dense.sweep(before), self._slots.sweep(before)])
        is_in = swept.registered
        return ExpiredRecords(swept.roots[is_in], swept.attempts[is_in], swept.roots[~is_in], swept.attempts[~is_in])

    def adopt(self, records: TrackingRecords) -> None:
        """Adopt records of other ackers: parts of one attempt are merged."""
        self._end_first_attempts(records.roots, records.attempts)
        completed, is_unfinished = self._dense.ack(
            records.roots, np.where(records.attempts == 1, records.values, np.uint64(0))
        )
        self._complete(completed)
        self._complete(self._slots.load(records.select(~is_unfinished)))

    def release(self, ring: AckerRing) -> TrackingRecords:
        """Switch to a ring: remove the records that belong to other ackers under it, and return them sorted by root."""
        self.ring = ring
        return merge_records([self._dense.release(ring), self._slots.release(ring.owners, self.acker)])

    def drain_completed(self) -> CompletedRoots:
        """Return the roots completed since the last call, with the ticks of their registrations."""
        completed, self._completed = CompletedRoots.concat(self._completed), []
        return completed

    def low_watermarks(self) -> dict[int, int]:
        """Return, by partition, the offset of the first root that is registered and not completed."""
        least = np.full(PARTITIONS, NO_ROOT, np.uint64)
        self._dense.update_least_roots(least)
        self._slots.update_least_roots(least)
        return {
            int(partition): unpack_root_id(int(least[partition])).offset
            for partition in np.flatnonzero(least != NO_ROOT)
        }

    def records(self) -> TrackingRecords:
        """Return all records, sorted by root."""
        return merge_records([self._dense.records(), self._slots.records()])

    def snapshot(self) -> pa.RecordBatch:
        """Return all records, sorted by root: the same bytes for the same records, whatever the history."""
        return self.records().to_batch()

    def _register_dense_range(
        self, root_range: RootRange, values: npt.NDArray[np.uint64], tick: int, ring: AckerRing
    ) -> None:
        """Register a range in the dense layout, with acks of it that arrived early."""
        early = tracking_records([], [], [], [], [])
        if len(self._slots):
            roots = root_range.roots(ring, self.acker)
            early = self._slots.pop(roots)
        if not early.roots.size:
            self._complete(self._dense.register(root_range, values, tick, ring))
            return
        over = early.attempts > 1
        joined, places = np.array(np.broadcast_to(values, roots.shape)), np.searchsorted(roots, early.roots)
        joined[places] = np.where(over, np.uint64(1), joined[places] ^ early.values)
        self._complete(self._dense.register(root_range, joined, tick, ring))
        if over.any():
            self._stale += int(over.sum())
            self._dense.pop(early.roots[over])
            self._slots.load(early.select(over))

    def _end_first_attempts(self, roots: Ids, attempts: npt.NDArray[np.integer]) -> None:
        """Remove first attempts that later attempts replace."""
        if len(self._dense) and (attempts > 1).any():
            self._dense.pop(roots[attempts > 1] if attempts.ndim else roots)

    def _complete(self, completed: CompletedRoots) -> None:
        if completed.roots.size:
            self.completed_count += completed.roots.size
            self._completed.append(completed)

    def _check(self) -> None:
        """Raise `InvariantError` if the table is inconsistent."""
        self._dense._check()
        self._slots._check()
        records = self.records()
        if (np.diff(records.roots.astype(object)) == 0).any() or len(records.roots) != self.in_flight:
            raise InvariantError("a root has two records")
