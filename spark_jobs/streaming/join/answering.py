"""Answers: the pairs of probes with what is stored, a bounded number a round; what is left goes on at its place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.streaming.join.condition import Condition
from spark_jobs.streaming.join.evaluating import Ints
from spark_jobs.streaming.join.forms import GREATEST, LEAST, Side
from spark_jobs.streaming.join.kernels import expand, search
from spark_jobs.streaming.join.runs import Run, bytes_of
from spark_jobs.streaming.join.segments import Segment
from spark_jobs.streaming.join.selecting import Selection
from spark_jobs.streaming.join.store import Store

_CHUNK = 1 << 16  # candidate pairs that are looked at together
_CHUNK_BYTES = 64 << 20  # of texts, in what is looked at together; one pair may have more
_MOST_BYTES = 256 << 20  # of texts, in the pairs of a round, about: so that its results are no more than memory has
_TRIES = 16  # candidates for each pair that a round may emit: also what checks drop takes its time


@dataclass(frozen=True, slots=True)
class Place:
    """Where to go on: the side whose probes are answered, the segment they are held against, the probe, its pairs."""

    side: Side = Side.LEFT
    segment: int = 0
    probe: int = 0
    skip: int = 0

    def as_json(self) -> list[int]:
        """For a state's scalars."""
        return [int(self.side), self.segment, self.probe, self.skip]

    @staticmethod
    def from_json(told: list[int]) -> Place:
        """The inverse of `as_json`."""
        return Place(Side(told[0]), *told[1:])


class Answers:
    """The results of one round of a unit, at most so many pairs."""

    def __init__(self, condition: Condition, query: str, most: int) -> None:
        self._condition = condition
        self._query = query
        self._most = most
        self._tries = 0
        self._bytes = 0
        self._batches: list[pa.RecordBatch] = []
        self.pairs = 0

    @property
    def full(self) -> bool:
        """Whether this round has done enough."""
        return self.pairs >= self._most or self._tries >= _TRIES * self._most or self._bytes >= _MOST_BYTES

    @property
    def results(self) -> list[pa.RecordBatch]:
        """The pairs, as few batches."""
        return [pa.concat_batches(self._batches)] if self._batches else []

    def answer(self, probes: Run | None, stored: Store, place: Place) -> Place | None:
        """Answer the probes of `place.side` from there on; where to go on, or None when all are answered."""
        if probes is None:
            return None
        for number in range(place.segment, len(stored.segments)):
            here = place if number == place.segment else Place(place.side, number)
            if self.full:
                return here
            left = self._against(probes, stored.segments[number], stored.hiding, here)
            if left is not None:
                return left
        return None

    def _against(self, probes: Run, segment: Segment, hiding: Selection, place: Place) -> Place | None:
        """Answer probes from one segment."""
        run = segment.run
        begin, first, end = _ranges(self._condition, place.side, probes, segment)
        # A run that is older than all probes needs no look at its seqs.
        ordered = run.greatest < probes.least
        probe, skip = (0, 0) if place.probe < begin else (place.probe - begin, place.skip)
        while probe < first.size:
            if self.full:
                return replace(place, probe=begin + probe, skip=skip)
            room = min(_CHUNK, int((end[probe:] - first[probe:]).sum()) - skip)
            if not room:
                break
            of_probe, of_store = np.empty(room, np.int32), np.empty(room, np.int32)
            probe, skip, count = expand(first, end, probe, skip, of_probe, of_store)
            ours, theirs = of_probe[:count], of_store[:count]
            if (fits := _fitting(probes.text_bytes(ours + begin) + run.text_bytes(theirs))) < count:
                probe, skip = int(ours[fits]), int(theirs[fits] - first[ours[fits]])
                ours, theirs, count = ours[:fits], theirs[:fits], fits
            self._tries += count
            ours = ours + begin
            if not ordered:
                earlier = run.seqs[theirs] < probes.seqs[ours]
                ours, theirs = ours[earlier], theirs[earlier]
            if (seen := segment.visible(theirs, hiding)) is not None:
                ours, theirs = ours[seen], theirs[seen]
            ours, theirs = self._checked(place.side, (probes, ours), (run, theirs))
            if ours.size > (left := self._most - self.pairs):
                ours, theirs = ours[:left], theirs[:left]
                probe = int(ours[-1]) - begin
                skip = int(theirs[-1] - first[probe]) + 1
            self._emit(place.side, (probes, ours), (run, theirs))
        return None

    def _checked(self, side: Side, ours: tuple[Run, Any], theirs: tuple[Run, Any]) -> tuple[Any, Any]:
        """The candidates that pass what the key does not say."""
        if not self._condition.checks or not ours[1].size:
            return ours[1], theirs[1]
        columns = self._columns(side, ours, theirs, self._condition.checked)
        holds = self._condition.residual(*columns)
        return ours[1][holds], theirs[1][holds]

    def _emit(self, side: Side, ours: tuple[Run, Any], theirs: tuple[Run, Any]) -> None:
        rows = int(ours[1].size)
        if rows:
            columns = self._columns(side, ours, theirs, self._condition.shown)
            self._batches.append(self._condition.output(*columns, rows, self._query))
            self._bytes += bytes_of(self._batches[-1])
            self.pairs += rows

    def _columns(self, side: Side, ours: tuple[Run, Any], theirs: tuple[Run, Any], names: Any) -> tuple[Any, Any]:
        """Columns of candidates, left and right."""
        own = ours[0].taken(ours[1], names(side))
        other = theirs[0].taken(theirs[1], names(side.other))
        return (own, other) if side is Side.LEFT else (other, own)


def _fitting(sizes: Ints) -> int:
    """How many of some candidates are looked at together, by the bytes of their texts: one at least."""
    if int(sizes.sum()) <= _CHUNK_BYTES:
        return sizes.size
    return max(int(np.searchsorted(np.cumsum(sizes), _CHUNK_BYTES, "right")), 1)


def _ranges(condition: Condition, side: Side, probes: Run, segment: Segment) -> tuple[int, Ints, Ints]:
    """The first probe that may reach a segment, and for it and those that follow, which of its rows its key reaches."""
    reach = condition.reach.seen_from(side)
    low, high = reach.low, reach.high
    least = LEAST if high is None else segment.least[0] - high
    greatest = GREATEST if low is None else segment.greatest[0] - low
    if least > GREATEST or greatest < LEAST:
        return len(probes), np.empty(0, np.int64), np.empty(0, np.int64)
    place = probes.between((max(least, LEAST), min(greatest, GREATEST)))
    keys = probes.keys[place]
    first, end = np.empty(keys.size, np.int64), np.empty(keys.size, np.int64)
    run = segment.run
    search(run.keys, run.index, keys, low or 0, high or 0, low is not None, high is not None, first, end)
    return place.start, np.maximum(first, segment.start), np.maximum(end, segment.start)
