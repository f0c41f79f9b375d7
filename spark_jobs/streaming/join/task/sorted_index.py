"""An index of stored rows by key in sorted runs, for bands and inequalities: 12 bytes a row.

A run has the keys of consecutive rows, sorted, and their places. Runs are merged while one is not much longer than the
next, so that there are few. Where a run begins is in the state, so that an index that is built again has the same runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from springline.spark_jobs.streaming.join.kernels import (
    BLOCK,
    expand_pairs,
    interleave,
    merge_order,
    search_ranges,
    sort_order,
)
from springline.spark_jobs.streaming.join.task.candidates import CandidateCursor, CandidateRows
from springline.spark_jobs.streaming.join.task.segments import Ints
from springline.spark_jobs.streaming.join.wire import GREATEST, LEAST, KeyBand

_MERGE_FACTOR = 4  # a run is merged with the next one while it is at most this many times as long


@dataclass(frozen=True, eq=False)
class _Run:
    """Rows from the place `first` on, sorted by key, then by place."""

    first: int
    keys: Ints
    places: npt.NDArray[np.uint32]

    @cached_property
    def index(self) -> Ints:
        """Every `BLOCK`-th key: few enough to stay in the processor's cache."""
        return np.ascontiguousarray(self.keys[::BLOCK])

    @cached_property
    def least_place(self) -> int:
        """The least place."""
        return int(self.places.min())

    def merge(self, other: _Run) -> _Run:
        """Merge with the next run."""
        second = np.empty(self.keys.size + other.keys.size, np.bool_)
        keys, places = np.empty(second.size, np.int64), np.empty(second.size, np.uint32)
        merge_order(self.keys, self.places, other.keys, other.places, second)
        interleave(self.keys, other.keys, second, keys)
        interleave(self.places, other.places, second, places)
        return _Run(self.first, keys, places)

    def without(self, is_leaving: npt.NDArray[np.bool_], first: int) -> _Run:
        """Return the run without the rows that are marked; the first mark is that of the place `first`."""
        remaining = ~is_leaving[self.places - np.uint32(first)]
        return _Run(self.first, self.keys[remaining], self.places[remaining])


class SortedIndex:
    """Places of rows by key, for probes of one side: `band` says which keys match, as bounds of `stored - probe`."""

    needs_sorted_probes = True

    def __init__(self, band: KeyBand) -> None:
        self._band = band
        self._runs: list[_Run] = []

    @property
    def runs(self) -> tuple[int, ...]:
        """The first place of each run."""
        return tuple(run.first for run in self._runs)

    @property
    def bytes(self) -> int:
        """Bytes of memory."""
        return sum(run.keys.nbytes + run.places.nbytes for run in self._runs)

    def rebuild(self, firsts: Sequence[int], keys: Ints, places: Ints) -> None:
        """Build the runs of an empty index from the keys and places of all rows, in the order of places."""
        ends = np.searchsorted(places, [*firsts[1:], np.iinfo(np.int64).max][: len(firsts)])
        begin = 0
        for first, end in zip(firsts, ends.tolist(), strict=True):
            order = sort_order(keys[begin:end])
            self._runs.append(_Run(first, keys[begin:end][order], places[begin:end][order].astype(np.uint32)))
            begin = end

    def append(self, keys: Ints, place: int) -> None:
        """Insert rows as a run, the first of them at `place`, which is above all others."""
        if keys.size:
            order = sort_order(keys)
            self._runs.append(_Run(place, keys[order], (order + np.int64(place)).astype(np.uint32)))

    def remove(self, keys: Ints, places: Ints) -> None:
        """Remove rows; runs without any of them stay as they are."""
        if not places.size:
            return
        first, last = int(places.min()), int(places.max())
        runs, ends = [], [*self.runs[1:], last + 1]
        for run, end in zip(self._runs, ends, strict=True):
            if run.first > last or end <= first:
                runs.append(run)
                continue
            low, high = run.least_place, int(run.places.max())
            is_leaving = np.zeros(high - low + 1, np.bool_)
            is_leaving[places[(places >= low) & (places <= high)] - low] = True
            runs.append(run.without(is_leaving, low))
        self._runs = [run for run in runs if run.keys.size]

    def remove_until(self, place: int) -> None:
        """Remove all rows up to a place."""
        runs = []
        for run in self._runs:
            if run.least_place <= place:
                remaining = run.places > place
                run = _Run(run.first, run.keys[remaining], run.places[remaining])
            runs.append(run)
        self._runs = [run for run in runs if run.keys.size]

    def settle(self) -> None:
        """Merge runs from the newest on."""
        while len(self._runs) > 1 and self._runs[-2].keys.size <= _MERGE_FACTOR * self._runs[-1].keys.size:
            newer = self._runs.pop()
            self._runs.append(self._runs.pop().merge(newer))

    def candidates(self, keys: Ints, cursor: CandidateCursor, capacity: int) -> Iterator[CandidateRows]:
        """Yield the rows whose keys match sorted keys, by run and key, from a cursor on."""
        for part in range(cursor.part, len(self._runs)):
            run = self._runs[part]
            begin, first, end = self._ranges(keys, run)
            here = cursor if part == cursor.part else CandidateCursor(part)
            probe, skip = (0, 0) if here.probe < begin else (here.probe - begin, here.skip)
            remaining = int((end[probe:] - first[probe:]).sum()) - skip
            while remaining > 0:
                start = CandidateCursor(part, begin + probe, skip)
                size = min(capacity, remaining)
                probes, rows = np.empty(size, np.int32), np.empty(size, np.int64)
                probe, skip, count = expand_pairs(first, end, probe, skip, probes, rows)
                remaining -= count
                yield CandidateRows(start, probes[:count] + np.int32(begin), run.places[rows[:count]])

    def _ranges(self, keys: Ints, run: _Run) -> tuple[int, Ints, Ints]:
        """Return the first probe whose band overlaps the run, and for each probe from it on its range of rows."""
        low, high = self._band.low, self._band.high
        least = LEAST if high is None else int(run.keys[0]) - high
        greatest = GREATEST if low is None else int(run.keys[-1]) - low
        if least > GREATEST or greatest < LEAST:
            return keys.size, np.empty(0, np.int64), np.empty(0, np.int64)
        begin = int(np.searchsorted(keys, max(least, LEAST)))
        own = keys[begin : int(np.searchsorted(keys, min(greatest, GREATEST), "right"))]
        first, end = np.empty(own.size, np.int64), np.empty(own.size, np.int64)
        search_ranges(run.keys, run.index, own, low or 0, high or 0, low is not None, high is not None, first, end)
        return begin, first, end
