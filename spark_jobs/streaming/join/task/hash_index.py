"""A hash index of stored rows by key, for equality joins: 17 to 34 bytes a row of a rare key, 4 to 8 of a frequent one.

The rows of a key form a chain, the newest first. The index refers to rows by place, not by memory, and is built again
from the rows where it is lost; its candidates are the same then, and in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from springline.spark_jobs.streaming.join.task import index_kernels as kernels
from springline.spark_jobs.streaming.join.task.candidates import CandidateCursor, CandidateRows
from springline.spark_jobs.streaming.join.task.segments import Ints

MAX_PLACES = 1 << 31  # that an index can have between its first row and its last

_MIN_BITS, _MAX_BITS = 10, 31  # of the number of slots
_MAX_LOAD = (5, 8)  # share of slots that are used at most: at 3/4, searches go on over several cache lines


class HashIndex:
    """Places of rows by key; they count from 1, and ascend with each `append`."""

    needs_sorted_probes = False
    runs: tuple[int, ...] = ()

    def __init__(self) -> None:
        self._slots = np.zeros(1 << _MIN_BITS, np.uint64)
        self._used = 0
        self._links = np.zeros(1 << _MIN_BITS, np.uint32)
        self._floor = self._last = 0

    @property
    def bytes(self) -> int:
        """Bytes of memory."""
        return int(self._slots.nbytes + self._links.nbytes)

    def append(self, keys: Ints, place: int) -> None:
        """Insert rows, the first of them at `place`, which is above all others."""
        self._last = place + keys.size - 1
        self._reserve_links(self._last - self._floor + 1)
        row = 0
        while row < keys.size:
            limit = self._slots.size * _MAX_LOAD[0] // _MAX_LOAD[1]
            row, self._used = kernels.insert_rows(
                keys, row, place + row, self._slots, self._shift, self._links, self._used, limit
            )
            if row < keys.size:
                self._resize()

    def remove(self, keys: Ints, places: Ints) -> None:
        """Take rows out of their chains."""
        last_link = self._links.size - 1
        is_leaving = np.zeros(self._links.size, np.bool_)
        is_leaving[places & last_link] = True
        kernels.unlink_rows(keys, places, is_leaving, self._slots, self._shift, self._floor, self._links)

    def remove_until(self, place: int) -> None:
        """Remove all rows up to a place."""
        self._floor = place

    def settle(self) -> None:
        """Do nothing: rows need not be merged."""

    def candidates(self, keys: Ints, cursor: CandidateCursor, capacity: int) -> Iterator[CandidateRows]:
        """Yield the rows that may have the keys, by key and the newest first, from a cursor on."""
        heads = np.empty(keys.size - cursor.probe, np.uint32)
        kernels.find_heads(keys[cursor.probe :], self._slots, self._shift, self._floor, heads)
        begin, probe, skip = cursor.probe, 0, cursor.skip
        while probe < heads.size:
            start = CandidateCursor(0, begin + probe, skip)
            probes, places = np.empty(capacity, np.int32), np.empty(capacity, np.uint32)
            probe, skip, count = kernels.follow_chains(heads, self._links, self._floor, probe, skip, probes, places)
            yield CandidateRows(start, probes[:count] + np.int32(begin), places[:count])

    @property
    def _shift(self) -> np.uint64:
        return _shift_of(self._slots.size)

    def _reserve_links(self, count: int) -> None:
        if count > self._links.size:
            links = np.zeros(1 << (count - 1).bit_length(), np.uint32)
            kernels.copy_links(
                self._links, self._floor + 1, min(self._last + 1, self._floor + 1 + self._links.size), links
            )
            self._links = links

    def _resize(self) -> None:
        """Leave out slots without rows; grow if more than half of the limit remains in use."""
        live = kernels.count_slots(self._slots, self._floor)
        bits = self._slots.size.bit_length() - 1
        bits += live * 2 * _MAX_LOAD[1] > self._slots.size * _MAX_LOAD[0]
        slots = np.zeros(1 << min(bits, _MAX_BITS), np.uint64)
        self._used = kernels.copy_slots(self._slots, self._floor, slots, _shift_of(slots.size))
        self._slots = slots


def _shift_of(slots: int) -> np.uint64:
    """Return by how many bits a tag is shifted to the number of its slot."""
    return np.uint64(32 - (slots.bit_length() - 1))
