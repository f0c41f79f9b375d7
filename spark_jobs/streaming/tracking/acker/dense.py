"""The dense layout: for first attempts of ranges of roots, only a block of check values per range.

A root's id is not stored: it follows from the position of its value. A completed value is 0, a range without unfinished
roots is dropped, and roots that are not (or no longer) here are returned to the caller, who has slots for them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from springline.spark_jobs.streaming.tracking.acker import dense_kernels
from springline.spark_jobs.streaming.tracking.acker.dense_kernels import (
    ADDRESS,
    COLUMNS,
    FIRST,
    MESSAGES,
    ORDER,
    PLACE,
    RING,
    ROWS,
    TICK,
    UNFINISHED,
)
from springline.spark_jobs.streaming.tracking.acker.root_ranges import RootRange, root_ranges_of
from springline.spark_jobs.streaming.tracking.errors import InvalidUpdateError, InvariantError
from springline.spark_jobs.streaming.tracking.records import (
    SLICES,
    CompletedRoots,
    Ids,
    TrackingRecords,
    merge_records,
    tracking_records,
)
from springline.spark_jobs.streaming.tracking.ring import AckerRing

_Values = npt.NDArray[np.uint64]


class DenseRanges:
    """The ranges of one acker; each is addressed by the ring under which it was registered."""

    def __init__(self, acker: int) -> None:
        self.acker = acker
        self._ranges = np.empty((0, COLUMNS), np.int64)
        self._blocks: list[_Values] = []
        self._new: list[list[int]] = []
        self._rings: list[AckerRing] = []
        self._ranks = np.empty((0, 2, 4097), np.int64)

    def __len__(self) -> int:
        return int(self._sorted()[:, UNFINISHED].sum())

    @property
    def nbytes(self) -> int:
        """Bytes of blocks and ranges."""
        return sum(block.nbytes for block in self._blocks) + self._sorted().nbytes

    def register(self, root_range: RootRange, values: npt.ArrayLike, tick: int, ring: AckerRing) -> CompletedRoots:
        """Add the values of the acker's roots of the range, in the order of their ids, or one value for all."""
        if not 0 <= tick < SLICES:
            raise InvalidUpdateError(f"{root_range}, slice {tick}: a record allows slices 0 to {SLICES - 1}")
        own, root_values = root_range.count(ring, self.acker), np.asarray(values, np.uint64)
        if root_values.ndim and root_values.size != own:
            raise InvalidUpdateError(f"{root_range}: {root_values.size} values for {own} roots of acker {self.acker}")
        if not own:
            return CompletedRoots.first(np.empty(0, np.uint64), np.empty(0, np.uint32))
        block = np.array(np.broadcast_to(root_values, own))
        completed = root_range.roots_at(ring, self.acker, np.flatnonzero(block == 0))
        if completed.size < own:
            self._add(root_range, block, own - completed.size, tick, ring)
        return CompletedRoots.first(completed, np.full(completed.size, tick, np.uint32))

    def ack(self, roots: Ids, values: npt.ArrayLike) -> tuple[CompletedRoots, npt.NDArray[np.bool_]]:
        """XOR values into roots; return the completed roots, and for each root whether it is unfinished here."""
        is_unfinished, completed, ticks = (
            np.zeros(roots.size, np.bool_),
            np.empty(roots.size, np.uint64),
            np.empty(0, np.uint32),
        )
        ranges = self._sorted()
        if not len(ranges):
            return CompletedRoots.first(completed[:0], ticks), is_unfinished
        added, ticks = np.atleast_1d(np.asarray(values, np.uint64)), np.empty(roots.size, np.uint32)
        count = dense_kernels.ack(ranges, self._ranks, roots, added, is_unfinished, completed, ticks)
        if count:
            self._drop_complete()
        return CompletedRoots.first(completed[:count].copy(), ticks[:count].copy()), is_unfinished

    def pop(self, roots: Ids) -> TrackingRecords:
        """Remove those of the roots that are unfinished here and return them, in the order given."""
        ranges = self._sorted()
        holders, addresses = np.empty(roots.size, np.int64), np.empty(roots.size, np.uint64)
        dense_kernels.locate(ranges, self._ranks, roots, holders, addresses)
        values = np.zeros(roots.size, np.uint64)
        dense_kernels.exchange(ranges, holders, addresses, values)
        here = values != 0
        ticks = ranges[holders[here], TICK]
        self._drop_complete()
        return tracking_records(roots[here], 1, True, ticks, values[here])

    def put(self, roots: Ids, values: _Values) -> None:
        """Set the values of roots whose ranges are here."""
        holders, addresses = np.empty(roots.size, np.int64), np.empty(roots.size, np.uint64)
        dense_kernels.locate(self._sorted(), self._ranks, roots, holders, addresses)
        if not addresses.all():
            raise InvariantError("value for a position outside all ranges")
        dense_kernels.exchange(self._ranges, holders, addresses, values.copy())

    def records(self) -> TrackingRecords:
        """Return the unfinished records, in the order of roots."""
        return merge_records([self._records_of(index) for index in range(len(self._sorted()))])

    def load(self, records: TrackingRecords, ring: AckerRing) -> npt.NDArray[np.bool_]:
        """Load records, sorted by root, into an empty table; return which are dense enough to be stored here."""
        if len(self):
            raise InvariantError("records can only be loaded into a table that is empty")
        is_loaded = np.zeros(records.roots.size, np.bool_)
        for root_range, rows, tick in root_ranges_of(records, ring, self.acker):
            self._add(root_range, np.zeros(root_range.count(ring, self.acker), np.uint64), 0, tick, ring)
            is_loaded[rows] = True
        self.put(records.roots[is_loaded], records.values[is_loaded])
        return is_loaded

    def sweep(self, before: int) -> TrackingRecords:
        """Remove the ranges of ticks before this one; return their unfinished records, in the order of roots."""
        old = np.flatnonzero(self._sorted()[:, TICK] < before)
        swept = merge_records([self._records_of(int(index)) for index in old])
        self._ranges[old, UNFINISHED] = 0
        self._drop_complete()
        return swept

    def release(self, ring: AckerRing) -> TrackingRecords:
        """Remove the records that belong to other ackers under a ring; return them in the order of roots."""
        parts = []
        for index, row in enumerate(self._sorted()):
            if self._rings[row[RING]] != ring:
                records = self._records_of(index)
                parts.append(records.select(ring.owners_of(records.roots) != self.acker))
        out = merge_records(parts)
        if out.roots.size:
            self.pop(out.roots)
        return out

    def update_least_roots(self, least: Ids) -> None:
        """Lower `least`, by partition, to the least unfinished root that is here."""
        partitions = set()
        for index, row in enumerate(self._sorted()):
            partition = int(row[FIRST]) >> 36
            if partition not in partitions:
                partitions.add(partition)
                place = np.array([np.argmax(self._blocks[index] != 0)])
                least[partition] = min(least[partition], self._roots_at(index, place)[0])

    def _range_at(self, index: int) -> RootRange:
        first, messages, rows = (int(one) for one in self._ranges[index, [FIRST, MESSAGES, ROWS]])
        return RootRange(first >> 36, first & (1 << 36) - 1, messages, rows)

    def _roots_at(self, index: int, positions: npt.NDArray[np.int64]) -> Ids:
        return self._range_at(index).roots_at(self._rings[self._ranges[index, RING]], self.acker, positions)

    def _records_of(self, index: int) -> TrackingRecords:
        positions = np.flatnonzero(self._blocks[index])
        tick = self._ranges[index, TICK]
        return tracking_records(self._roots_at(index, positions), 1, True, tick, self._blocks[index][positions])

    def _add(self, root_range: RootRange, block: _Values, unfinished: int, tick: int, ring: AckerRing) -> None:
        if ring not in self._rings:
            self._rings.append(ring)
            self._ranks = np.stack([one.ranks(self.acker) for one in self._rings])
        row = [0] * COLUMNS
        row[FIRST], row[MESSAGES], row[ROWS] = (
            root_range.partition << 36 | root_range.offset,
            root_range.messages,
            root_range.rows,
        )
        row[ORDER], row[PLACE], row[RING] = root_range.order, root_range.place, self._rings.index(ring)
        row[ADDRESS], row[UNFINISHED], row[TICK] = block.ctypes.data, unfinished, tick
        self._new.append(row)
        self._blocks.append(block)

    def _sorted(self) -> npt.NDArray[np.int64]:
        """Return the ranges sorted by their first messages, including those registered since the last call."""
        if self._new:
            ranges = np.concatenate([self._ranges, np.array(self._new, np.int64)])
            order = np.argsort(ranges[:, FIRST], kind="stable")
            self._ranges, self._blocks, self._new = ranges[order], [self._blocks[index] for index in order], []
        return self._ranges

    def _drop_complete(self) -> None:
        """Drop the ranges without unfinished roots."""
        is_unfinished = self._ranges[:, UNFINISHED] != 0
        if not is_unfinished.all():
            self._ranges = self._ranges[is_unfinished]
            self._blocks = [block for block, stays in zip(self._blocks, is_unfinished, strict=True) if stays]

    def _check(self) -> None:
        """Raise `InvariantError` if the ranges are inconsistent."""
        ranges = self._sorted()
        if (ranges[:-1, FIRST] + ranges[:-1, MESSAGES] > ranges[1:, FIRST]).any():
            raise InvariantError("two ranges share a message")
        for index, row in enumerate(ranges):
            root_range, block = self._range_at(index), self._blocks[index]
            ring = self._rings[row[RING]]
            if row[UNFINISHED] != np.count_nonzero(block) or not row[UNFINISHED]:
                raise InvariantError(
                    f"{root_range}: {row[UNFINISHED]} roots are counted as unfinished, {np.count_nonzero(block)} are"
                )
            if row[ADDRESS] != block.ctypes.data or block.size != root_range.count(ring, self.acker):
                raise InvariantError(f"{root_range}: its values are not at their positions")
            if (row[PLACE], row[ORDER]) != (root_range.place, root_range.order):
                raise InvariantError(f"{root_range}: it begins elsewhere on the circle")
