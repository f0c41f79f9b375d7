"""The paper's layout of tracking records: slots of 20 bytes in an open-addressing table (papers: tuple tracking, 3.2).

A root's slot is freed as soon as the root is registered and its check value is 0. The table fills to nine tenths, grows
by small steps in place, and is rebuilt when less than two fifths of it are occupied.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from springline.spark_jobs.streaming.tracking.acker import slot_choices, slot_kernels
from springline.spark_jobs.streaming.tracking.acker.growable_array import GrowableArray
from springline.spark_jobs.streaming.tracking.acker.slot_kernels import BUCKETS, COMPLETED, COUNT, NO_ROOT, STALE, WIDTH
from springline.spark_jobs.streaming.tracking.errors import InvalidUpdateError, InvariantError
from springline.spark_jobs.streaming.tracking.records import SLICES, CompletedRoots, Ids, TrackingRecords, pack_marks

_LEAST = 16  # buckets
_ALL = SLICES
_PackedMarks = npt.NDArray[np.uint32]
_KINDS = (np.uint64, np.uint64, np.uint32)


class SlotTable:
    """An open-addressing table of slots; `stale` counts the acks of attempts that had ended."""

    def __init__(self) -> None:
        self._state = np.zeros(4, np.int64)
        self._begin(_LEAST)

    def __len__(self) -> int:
        return int(self._state[COUNT])

    @property
    def stale(self) -> int:
        """Acks that arrived for an attempt that had ended."""
        return int(self._state[STALE])

    @property
    def nbytes(self) -> int:
        """Bytes of the slots, free ones included."""
        return int(self._state[BUCKETS]) * WIDTH * 20

    def register(
        self, roots: npt.ArrayLike, attempts: npt.ArrayLike, values: npt.ArrayLike, tick: int
    ) -> CompletedRoots:
        """XOR the edges on which roots were sent into their values, and mark them as registered."""
        return self._update(roots, pack_marks(attempts, True, tick), values)

    def ack(self, roots: npt.ArrayLike, attempts: npt.ArrayLike, values: npt.ArrayLike, tick: int) -> CompletedRoots:
        """XOR acks into the values: a new root is inserted, a later attempt replaces an earlier one."""
        return self._update(roots, pack_marks(attempts, False, tick), values)

    def load(self, records: TrackingRecords) -> CompletedRoots:
        """Add records of another table: parts of one attempt are merged."""
        return self._update(
            records.roots, pack_marks(records.attempts, records.registered, records.ticks), records.values
        )

    def records(self) -> TrackingRecords:
        """Return all records, in the order of roots."""
        return self._records_in(
            self._select_slots(slot_choices.slots_before_tick, self._arrays[2], np.uint32(_ALL))
        ).sorted()

    def sweep(self, before: int) -> TrackingRecords:
        """Remove the records of ticks before this one, registered or not, and return them in the order of roots."""
        return self._remove(
            self._select_slots(slot_choices.slots_before_tick, self._arrays[2], np.uint32(before))
        ).sorted()

    def release(self, owners: npt.NDArray[np.uint16], acker: int) -> TrackingRecords:
        """Remove the records whose arc belongs to another acker, and return them in the order of roots."""
        return self._remove(self._select_slots(slot_choices.slots_of_other_ackers, owners, acker)).sorted()

    def pop(self, roots: Ids) -> TrackingRecords:
        """Remove the records of those of these roots that are here, and return them in the order given."""
        if not len(self):
            return self._records_in(np.empty(0, np.int64))
        slots = np.empty(roots.size, np.int64)
        slot_kernels.find(self._arrays[0], self._state, roots, slots)
        return self._remove(slots[slots >= 0])

    def update_least_roots(self, least: Ids) -> None:
        """Lower `least`, by partition, to the least registered root that is here."""
        roots, _, slot_marks = self._arrays
        slot_choices.update_least_roots(roots, slot_marks, least)

    def _update(self, roots: npt.ArrayLike, added_marks: _PackedMarks, values: npt.ArrayLike) -> CompletedRoots:
        ids = np.ascontiguousarray(roots, np.uint64)
        added = np.ascontiguousarray(np.atleast_1d(np.asarray(values, np.uint64)))
        if not {added.size, added_marks.size} <= {1, ids.size}:
            raise InvalidUpdateError(
                f"{ids.size} roots, {added.size} values, {added_marks.size} attempts: lengths must be equal, or 1"
            )
        completed, completed_marks = np.empty(ids.size, np.uint64), np.empty(ids.size, np.uint32)
        self._state[COMPLETED] = 0
        self._put(ids, added, added_marks, completed, completed_marks)
        self._shrink()
        count = self._state[COMPLETED]
        return CompletedRoots(
            completed[:count].copy(),
            completed_marks[:count] >> np.uint32(7),
            (completed_marks[:count] & 63).astype(np.uint8),
        )

    @property
    def _arrays(self) -> tuple[npt.NDArray[Any], ...]:
        size = int(self._state[BUCKETS]) * WIDTH
        return tuple(column.array[:size] for column in self._columns)

    def _begin(self, buckets: int) -> None:
        self._columns = [GrowableArray(kind, buckets * WIDTH) for kind in _KINDS]
        self._columns[0].array[:] = NO_ROOT
        self._state[BUCKETS], self._state[COUNT] = buckets, 0

    def _grow(self) -> None:
        buckets = int(self._state[BUCKETS])
        new_buckets = buckets + (buckets >> 5) + 1
        for column in self._columns:
            column.grow(new_buckets * WIDTH)
        roots, values, slot_marks = (column.array for column in self._columns)
        slot_kernels.split(roots, values, slot_marks, self._state, new_buckets)

    def _shrink(self) -> None:
        if self._state[BUCKETS] > 2 * _LEAST and 5 * len(self) < 2 * self._state[BUCKETS] * WIDTH:
            records = self._records_in(
                self._select_slots(slot_choices.slots_before_tick, self._arrays[2], np.uint32(_ALL))
            )
            self._begin(max(_LEAST, len(records.roots) * 5 // (4 * WIDTH)))
            packed_marks = pack_marks(records.attempts, records.registered, records.ticks)
            self._put(records.roots, records.values, packed_marks, records.roots[:0], records.ticks[:0])

    def _put(
        self, ids: Ids, added: Ids, added_marks: _PackedMarks, completed: Ids, completed_marks: _PackedMarks
    ) -> None:
        row = 0
        while row < ids.size:
            roots, values, slot_marks = self._arrays
            row = slot_kernels.update(
                roots, values, slot_marks, self._state, ids, added, added_marks, row, completed, completed_marks
            )
            del roots, values, slot_marks  # referenced memory cannot be moved
            if row < ids.size:
                self._grow()

    def _select_slots(self, choose: Any, *arguments: Any) -> npt.NDArray[np.int64]:
        roots = self._arrays[0]
        slots = np.empty(choose(roots, *arguments, np.empty(0, np.int64)), np.int64)
        if slots.size:
            choose(roots, *arguments, slots)
        return slots

    def _records_in(self, slots: npt.NDArray[np.int64]) -> TrackingRecords:
        roots, values, slot_marks = (column[slots] for column in self._arrays)
        return TrackingRecords(
            roots, (slot_marks & 63).astype(np.uint8), (slot_marks & 64) != 0, slot_marks >> np.uint32(7), values
        )

    def _remove(self, slots: npt.NDArray[np.int64]) -> TrackingRecords:
        records = self._records_in(slots)
        self._arrays[0][slots] = NO_ROOT
        self._state[COUNT] -= slots.size
        self._shrink()
        return records

    def _check(self) -> None:
        """Raise `InvariantError` if the table is inconsistent."""
        roots, values, slot_marks = self._arrays
        occupied = roots != NO_ROOT
        slots = np.empty(occupied.sum(), np.int64)
        slot_kernels.find(roots, self._state, roots[occupied], slots)
        if not np.array_equal(slots, np.flatnonzero(occupied)):
            raise InvariantError("a root is not at its position, or in two slots")
        if occupied.sum() != len(self):
            raise InvariantError(f"{occupied.sum()} slots are in use, but {len(self)} are counted")
        if (occupied & (values == 0) & (slot_marks & 64 != 0)).any():
            raise InvariantError("a slot that is registered and 0 was not freed")
        if (slot_marks[occupied] & 63 == 0).any():
            raise InvariantError("a slot without an attempt")
