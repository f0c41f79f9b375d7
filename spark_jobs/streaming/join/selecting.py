"""Which stored tuples some pieces mean: those of all pieces of an epoch are found in one pass.

A key's bucket tells in a table which pieces ask for it; pieces that name no buckets are looked for by their keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from spark_jobs.streaming.join.buckets import BUCKETS, bucket_in, part_in
from spark_jobs.streaming.join.forms import PARTS, Piece
from spark_jobs.streaming.join.runs import Run

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_WHOLE: Any = np.int64(PARTS)


@dataclass(frozen=True, slots=True)
class Cut:
    """A piece as it was at a cut: its tuples with seqs below `before`.

    `number` counts the switches of a store; it is asked for only where what a later one left is looked for.
    """

    piece: Piece
    before: int
    number: int = 0

    def as_json(self) -> list[Any]:
        """For a state's scalars."""
        return [self.number, self.before, self.piece.as_json()]

    @staticmethod
    def from_json(told: list[Any]) -> Cut:
        """The inverse of `as_json`."""
        return Cut(Piece.from_json(told[2]), told[1], told[0])


class _Marks(NamedTuple):
    """Some cuts as columns, for the loops below; `asking[ends[b]:ends[b + 1]]` are those that ask for bucket b."""

    low: Ints
    high: Ints
    first: Ints
    before: Ints
    low_part: Ints
    high_part: Ints
    salt: npt.NDArray[np.uint64]
    number: Ints
    without_ends: Ints
    without: Ints
    ends: Ints
    asking: Ints
    block: int


class Selection:
    """What some cuts of one side mean; where two mean the same tuple, it is the first one's."""

    def __init__(self, cuts: Iterable[Cut]) -> None:
        self.cuts = tuple(cuts)

    @cached_property
    def _tables(self) -> Sequence[tuple[_Marks, Ints]]:
        """For each size of blocks the cuts that name buckets, and which of all cuts they are."""
        named = [at for at, cut in enumerate(self.cuts) if cut.piece.buckets]
        named.sort(key=lambda at: self.cuts[at].piece.block)
        groups = [list(group) for _, group in groupby(named, lambda at: self.cuts[at].piece.block)]
        return [(_marks([self.cuts[at] for at in group]), np.array(group, np.int64)) for group in groups]

    @cached_property
    def _wide(self) -> tuple[_Marks, Ints]:
        """The cuts that name no buckets, and which of all cuts they are."""
        found = [at for at, cut in enumerate(self.cuts) if not cut.piece.buckets]
        return _marks([self.cuts[at] for at in found]), np.array(found, np.int64)

    def rows(self, run: Run, start: int, stop: int, since: int = 0) -> tuple[Ints, Ints]:
        """The rows from `start` to `stop` that cuts from `since` on mean, ascending, and by which cut each is."""
        parts = []
        for marks, which in self._tables:
            rows, cuts = np.empty(stop - start, np.int64), np.empty(stop - start, np.int64)
            count = _in_buckets(run.keys, run.seqs, start, stop, marks, since, rows, cuts)
            parts.append((rows[:count], which[cuts[:count]]))
        marks, which = self._wide
        for at in range(which.size):
            place = run.between((int(marks.low[at]), int(marks.high[at])))
            begin, end = max(place.start, start), min(place.stop, stop)
            if begin < end and marks.number[at] >= since:
                rows, cuts = np.empty(end - begin, np.int64), np.empty(end - begin, np.int64)
                count = _in_range(run.keys, run.seqs, begin, end, marks, at, rows, cuts)
                parts.append((rows[:count], which[cuts[:count]]))
        parts = [part for part in parts if part[0].size]
        if not parts:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        if len(parts) == 1:
            return parts[0]
        rows, cuts = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.lexsort((cuts, rows))
        rows, cuts = rows[order], cuts[order]
        once = np.append(True, rows[1:] != rows[:-1])
        return rows[once], cuts[once]

    def means(self, run: Run, rows: npt.NDArray[np.integer[Any]], since: int = 0) -> Flags:
        """Which of the given rows of a run are meant by any cut from `since` on."""
        found = np.zeros(rows.size, np.bool_)
        for marks, _ in (*self._tables, self._wide):
            if marks.number.size:
                _of_rows(run.keys, run.seqs, rows, marks, since, found)
        return found


def _marks(cuts: Sequence[Cut]) -> _Marks:
    pieces = [cut.piece for cut in cuts]
    buckets = np.array([bucket for piece in pieces for bucket in piece.buckets], np.int64)
    owners = np.repeat(np.arange(len(pieces)), [len(piece.buckets) for piece in pieces])
    without = [np.sort(np.array(piece.without, np.int64)) for piece in pieces]
    none = np.empty(0, np.int64)
    return _Marks(
        low=np.array([piece.keys[0] for piece in pieces], np.int64),
        high=np.array([piece.keys[1] for piece in pieces], np.int64),
        first=np.array([piece.seqs[0] for piece in pieces], np.int64),
        before=np.array([min(cut.before, cut.piece.seqs[1] + 1, (1 << 63) - 1) for cut in cuts], np.int64),
        low_part=np.array([piece.part[0] for piece in pieces], np.int64),
        high_part=np.array([piece.part[1] for piece in pieces], np.int64),
        salt=np.array([piece.salt for piece in pieces], np.uint64),
        number=np.array([cut.number for cut in cuts], np.int64),
        without_ends=np.cumsum([0, *map(len, without)], dtype=np.int64),
        without=np.concatenate([none, *without]),
        ends=np.searchsorted(np.sort(buckets), np.arange(BUCKETS + 1)).astype(np.int64),
        asking=owners[np.argsort(buckets, kind="stable")].astype(np.int64),
        block=pieces[0].block if pieces else 0,
    )


@njit(cache=True, nogil=True, inline="always")
def _meant(key, seq, marks, at):  # type: ignore[no-untyped-def]
    """Whether the cut `at` means a tuple, but for the bucket."""
    if key < marks.low[at] or key > marks.high[at] or seq < marks.first[at] or seq >= marks.before[at]:
        return False
    if marks.low_part[at] > 0 or marks.high_part[at] < _WHOLE:
        part = part_in(seq, marks.salt[at])
        if part < marks.low_part[at] or part >= marks.high_part[at]:
            return False
    low, end = marks.without_ends[at], marks.without_ends[at + 1]
    high = end
    while low < high:
        middle = (low + high) >> 1
        if marks.without[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low == end or marks.without[low] != key


@njit(cache=True, nogil=True)
def _in_buckets(keys, seqs, begin, end, marks, since, rows, cuts):  # type: ignore[no-untyped-def]
    """Write the rows that cuts with buckets mean, and by which; how many they are."""
    count = 0
    for row in range(begin, end):
        bucket = bucket_in(keys[row], marks.block)
        for place in range(marks.ends[bucket], marks.ends[bucket + 1]):
            at = marks.asking[place]
            if marks.number[at] >= since and _meant(keys[row], seqs[row], marks, at):
                rows[count] = row
                cuts[count] = at
                count += 1
                break
    return count


@njit(cache=True, nogil=True)
def _in_range(keys, seqs, begin, end, marks, at, rows, cuts):  # type: ignore[no-untyped-def]
    """Write the rows that one cut without buckets means; how many they are."""
    count = 0
    for row in range(begin, end):
        if _meant(keys[row], seqs[row], marks, at):
            rows[count] = row
            cuts[count] = at
            count += 1
    return count


@njit(cache=True, nogil=True)
def _of_rows(keys, seqs, rows, marks, since, found):  # type: ignore[no-untyped-def]
    """Tell which of some rows are meant: by cuts with buckets if there are any, else by any of the others."""
    bucketed = marks.asking.size > 0
    for i in range(rows.size):
        key, seq = keys[rows[i]], seqs[rows[i]]
        if bucketed:
            bucket = bucket_in(key, marks.block)
            for place in range(marks.ends[bucket], marks.ends[bucket + 1]):
                at = marks.asking[place]
                found[i] |= marks.number[at] >= since and _meant(key, seq, marks, at)
        else:
            for at in range(marks.number.size):
                found[i] |= marks.number[at] >= since and _meant(key, seq, marks, at)
