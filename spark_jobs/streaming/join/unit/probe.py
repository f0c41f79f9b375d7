"""Answers: the pairs of probes with what is stored, a bounded number a round; what is left goes on at its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.join.condition.checked_arithmetic import Ints
from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.kernels import expand, search
from springline.spark_jobs.streaming.join.unit.runs import Run, bytes_of
from springline.spark_jobs.streaming.join.unit.segments import Segment
from springline.spark_jobs.streaming.join.unit.store import Store
from springline.spark_jobs.streaming.join.wire import GREATEST, LEAST, Side

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


@dataclass(frozen=True)
class _Candidates:
    """Pairs of probes with rows of one segment, by their rows, out of so many `tried`, with so many bytes of `texts`.

    They begin at `there`; `first` has where in the segment the candidates of each probe from `begin` on begin.
    """

    there: Place
    segment: Segment
    begin: int
    first: Ints
    ours: Ints
    theirs: Ints
    tried: int
    texts: int

    def place(self, pair: int) -> Place:
        """The place of a pair."""
        probe = int(self.ours[pair])
        return replace(self.there, probe=probe, skip=int(self.theirs[pair] - self.first[probe - self.begin]))


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
        looked: list[_Candidates] = []
        pairs = texts = 0
        for found in _candidates(self._condition, probes, stored, place):
            if self.full or pairs + found.ours.size > _CHUNK or texts + found.texts > _CHUNK_BYTES:
                if (left := self._look(place.side, probes, looked)) is not None:
                    return left
                looked, pairs, texts = [], 0, 0
            if self.full:
                return found.there
            looked.append(found)
            self._tries += found.tried
            pairs, texts = pairs + found.ours.size, texts + found.texts
        return self._look(place.side, probes, looked)

    def _look(self, side: Side, probes: Run, looked: Sequence[_Candidates]) -> Place | None:
        """Emit the pairs that hold; where to go on, if there was no room for all of them."""
        found: list[_Candidates] = []
        room, left = self._most - self.pairs, None
        for each in self._checked(side, probes, [each for each in looked if each.ours.size]):
            if each.ours.size > room:
                left = each.place(room)
                each = replace(each, ours=each.ours[:room], theirs=each.theirs[:room])
            found.append(each)
            room -= each.ours.size
            if left is not None:
                break
        self._emit(side, probes, found)
        return left

    def _checked(self, side: Side, probes: Run, found: Sequence[_Candidates]) -> Sequence[_Candidates]:
        """The candidates that pass what the key does not say."""
        if not self._condition.checks or not found:
            return found
        holds = self._condition.residual(*self._columns(side, probes, found, self._condition.checked))
        parts = np.split(holds, np.cumsum([each.ours.size for each in found])[:-1])
        kept = [
            replace(each, ours=each.ours[part], theirs=each.theirs[part])
            for each, part in zip(found, parts, strict=True)
        ]
        return [each for each in kept if each.ours.size]

    def _emit(self, side: Side, probes: Run, found: Sequence[_Candidates]) -> None:
        if found := [each for each in found if each.ours.size]:
            rows = sum(each.ours.size for each in found)
            columns = self._columns(side, probes, found, self._condition.shown)
            self._batches.append(self._condition.output(*columns, rows, self._query))
            self._bytes += bytes_of(self._batches[-1])
            self.pairs += rows

    def _columns(self, side: Side, probes: Run, found: Sequence[_Candidates], names: Any) -> tuple[Any, Any]:
        """Columns of candidates, left and right."""
        own = probes.taken(np.concatenate([each.ours for each in found]), names(side))
        parts = [each.segment.run.taken(each.theirs, names(side.other)) for each in found]
        other = {name: pa.concat_arrays([part[name] for part in parts]) for name in parts[0]}
        return (own, other) if side is Side.LEFT else (other, own)


def _candidates(condition: Condition, probes: Run, stored: Store, place: Place) -> Iterator[_Candidates]:
    """What the keys of probes find from a place on, not too much at a time."""
    for number in range(place.segment, len(stored.segments)):
        segment = stored.segments[number]
        run = segment.run
        if run.greatest < stored.expired:
            continue
        begin, first, end = _ranges(condition, place.side, probes, segment)
        here = place if number == place.segment else Place(place.side, number)
        probe, skip = (0, 0) if here.probe < begin else (here.probe - begin, here.skip)
        # A run that is older than all probes needs no look at its seqs.
        ordered = run.greatest < probes.least
        left = int((end[probe:] - first[probe:]).sum()) - skip
        while left > 0:
            there = Place(place.side, number, begin + probe, skip)
            room = min(_CHUNK, left)
            ours, theirs = np.empty(room, np.int64), np.empty(room, np.int64)
            probe, skip, count = expand(first, end, probe, skip, ours, theirs)
            sizes = run.text_bytes(theirs) + probes.text_bytes(ours + begin)
            if (fits := _fitting(sizes)) < count:
                probe, skip = int(ours[fits]), int(theirs[fits] - first[ours[fits]])
            left -= fits
            ours, theirs, texts = ours[:fits] + begin, theirs[:fits], int(sizes[:fits].sum())
            if not ordered:
                earlier = run.seqs[theirs] < probes.seqs[ours]
                ours, theirs = ours[earlier], theirs[earlier]
            if (lasting := segment.lasting(theirs, stored.expired)) is not None:
                ours, theirs = ours[lasting], theirs[lasting]
            if (seen := segment.visible(theirs, stored.hiding)) is not None:
                ours, theirs = ours[seen], theirs[seen]
            yield _Candidates(there, segment, begin, first, ours, theirs, fits, texts)


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
