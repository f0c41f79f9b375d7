"""The paper's layout of tracking records: slots of 20 bytes in an open table (papers: tuple tracking, 3.2).

A root's slot is freed in the moment in which it is registered and its check value is 0. The table is full to nine
tenths, grows by small steps in place, and is made anew when less than two fifths of it are taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from springline.spark_jobs.streaming.tracking.acker import slot_choices, slot_kernels
from springline.spark_jobs.streaming.tracking.acker.growable_array import Growing
from springline.spark_jobs.streaming.tracking.acker.slot_kernels import BUCKETS, COUNT, DONE, NO_ROOT, STALE, WIDTH
from springline.spark_jobs.streaming.tracking.errors import InvalidUpdateError, InvariantError
from springline.spark_jobs.streaming.tracking.records import SLICES, Completed, Ids, Items, marks

_LEAST = 16  # buckets
_ALL = SLICES
_Marks = npt.NDArray[np.uint32]
_KINDS = (np.uint64, np.uint64, np.uint32)


class Slots:
    """An open table of slots; `stale` counts the acks of attempts that were over."""

    def __init__(self) -> None:
        self._state = np.zeros(4, np.int64)
        self._begin(_LEAST)

    def __len__(self) -> int:
        return int(self._state[COUNT])

    @property
    def stale(self) -> int:
        """Acks that came for an attempt that was over."""
        return int(self._state[STALE])

    @property
    def nbytes(self) -> int:
        """What the slots take, free ones too."""
        return int(self._state[BUCKETS]) * WIDTH * 20

    def register(self, roots: npt.ArrayLike, attempts: npt.ArrayLike, values: npt.ArrayLike, born: int) -> Completed:
        """XOR the edges that roots were sent with into their values and mark them as registered."""
        return self._update(roots, marks(attempts, True, born), values)

    def ack(self, roots: npt.ArrayLike, attempts: npt.ArrayLike, values: npt.ArrayLike, born: int) -> Completed:
        """XOR acks into the values: a root that is not there yet is made, a later attempt takes an earlier's place."""
        return self._update(roots, marks(attempts, False, born), values)

    def load(self, found: Items) -> Completed:
        """Add records of another table: parts of one attempt are joined."""
        return self._update(found.roots, marks(found.attempts, found.registered, found.born), found.values)

    def items(self) -> Items:
        """All records, in the order of roots."""
        return self._items(self._chosen(slot_choices.born_before, self._arrays[2], np.uint32(_ALL))).sorted()

    def sweep(self, before: int) -> Items:
        """Remove the records of slices before this one, registered or not, and return them in the order of roots."""
        return self._remove(self._chosen(slot_choices.born_before, self._arrays[2], np.uint32(before))).sorted()

    def release(self, owners: npt.NDArray[np.uint16], acker: int) -> Items:
        """Remove the records whose arc is another acker's, and return them in the order of roots."""
        return self._remove(self._chosen(slot_choices.held_for_others, owners, acker)).sorted()

    def take(self, roots: Ids) -> Items:
        """Remove the records of those of these roots that are there, and return them in the order given."""
        if not len(self):
            return self._items(np.empty(0, np.int64))
        slots = np.empty(roots.size, np.int64)
        slot_kernels.find(self._arrays[0], self._state, roots, slots)
        return self._remove(slots[slots >= 0])

    def lows(self, least: Ids) -> None:
        """Lower `least`, by partition, to the least registered root that is here."""
        roots, _, held = self._arrays
        slot_choices.lows(roots, held, least)

    def _update(self, roots: npt.ArrayLike, given: _Marks, values: npt.ArrayLike) -> Completed:
        ids = np.ascontiguousarray(roots, np.uint64)
        added = np.ascontiguousarray(np.atleast_1d(np.asarray(values, np.uint64)))
        if not {added.size, given.size} <= {1, ids.size}:
            raise InvalidUpdateError(
                f"{ids.size} roots, {added.size} values, {given.size} attempts: as many of each, or one"
            )
        done, held = np.empty(ids.size, np.uint64), np.empty(ids.size, np.uint32)
        self._state[DONE] = 0
        self._put(ids, added, given, done, held)
        self._shrink()
        count = self._state[DONE]
        return Completed(done[:count].copy(), held[:count] >> np.uint32(7), (held[:count] & 63).astype(np.uint8))

    @property
    def _arrays(self) -> tuple[npt.NDArray[Any], ...]:
        size = int(self._state[BUCKETS]) * WIDTH
        return tuple(column.array[:size] for column in self._columns)

    def _begin(self, buckets: int) -> None:
        self._columns = [Growing(kind, buckets * WIDTH) for kind in _KINDS]
        self._columns[0].array[:] = NO_ROOT
        self._state[BUCKETS], self._state[COUNT] = buckets, 0

    def _grow(self) -> None:
        buckets = int(self._state[BUCKETS])
        wanted = buckets + (buckets >> 5) + 1
        for column in self._columns:
            column.grow(wanted * WIDTH)
        roots, values, held = (column.array for column in self._columns)
        slot_kernels.split(roots, values, held, self._state, wanted)

    def _shrink(self) -> None:
        if self._state[BUCKETS] > 2 * _LEAST and 5 * len(self) < 2 * self._state[BUCKETS] * WIDTH:
            held = self._items(self._chosen(slot_choices.born_before, self._arrays[2], np.uint32(_ALL)))
            self._begin(max(_LEAST, len(held.roots) * 5 // (4 * WIDTH)))
            given = marks(held.attempts, held.registered, held.born)
            self._put(held.roots, held.values, given, held.roots[:0], held.born[:0])

    def _put(self, ids: Ids, added: Ids, given: _Marks, done: Ids, done_marks: _Marks) -> None:
        row = 0
        while row < ids.size:
            roots, values, held = self._arrays
            row = slot_kernels.update(roots, values, held, self._state, ids, added, given, row, done, done_marks)
            del roots, values, held  # memory that is referred to cannot be moved
            if row < ids.size:
                self._grow()

    def _chosen(self, choose: Any, *given: Any) -> npt.NDArray[np.int64]:
        roots = self._arrays[0]
        chosen = np.empty(choose(roots, *given, np.empty(0, np.int64)), np.int64)
        if chosen.size:
            choose(roots, *given, chosen)
        return chosen

    def _items(self, slots: npt.NDArray[np.int64]) -> Items:
        roots, values, held = (column[slots] for column in self._arrays)
        return Items(roots, (held & 63).astype(np.uint8), (held & 64) != 0, held >> np.uint32(7), values)

    def _remove(self, slots: npt.NDArray[np.int64]) -> Items:
        found = self._items(slots)
        self._arrays[0][slots] = NO_ROOT
        self._state[COUNT] -= slots.size
        self._shrink()
        return found

    def _check(self) -> None:
        """Raise `InvariantError` if the table contradicts itself."""
        roots, values, held = self._arrays
        taken = roots != NO_ROOT
        slots = np.empty(taken.sum(), np.int64)
        slot_kernels.find(roots, self._state, roots[taken], slots)
        if not np.array_equal(slots, np.flatnonzero(taken)):
            raise InvariantError("a root is not found where it lies, or lies in two slots")
        if taken.sum() != len(self):
            raise InvariantError(f"{taken.sum()} slots are taken, and {len(self)} are counted")
        if (taken & (values == 0) & (held & 64 != 0)).any():
            raise InvariantError("a slot that is registered and 0 was not freed")
        if (held[taken] & 63 == 0).any():
            raise InvariantError("a slot without an attempt")
