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

from springline.spark_jobs.streaming.join.buckets import BUCKETS, bucket_in, part_in
from springline.spark_jobs.streaming.join.unit.runs import Run
from springline.spark_jobs.streaming.join.wire import GREATEST, PARTS, Piece

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_WHOLE: Any = np.int64(PARTS)
# What a row of terms holds.
_LOW, _HIGH, _FIRST, _BEFORE, _LOW_PART, _HIGH_PART, _SALT, _NUMBER, _WITHOUT, _WITHOUT_END, _TERMS = range(11)


@dataclass(frozen=True, slots=True)
class Cut:
    """A piece as it was at a cut: its tuples with seqs below `before`.

    `number` counts the switches of a store; it is asked for only where what a later one left is looked for.
    """

    piece: Piece
    before: int
    number: int = 0


class _Marks(NamedTuple):
    """Some cuts as columns, which the loops below take one by one: what they read from a tuple costs them a count.

    `terms` has a row a cut; `asking[ends[b]:ends[b + 1]]` are those that ask for bucket b, and `asked[b]` is 1 where
    there are any, else 0.
    """

    terms: npt.NDArray[np.int64]
    without: Ints
    ends: Ints
    asking: Ints
    asked: npt.NDArray[np.uint8]
    block: int


class Selection:
    """What some cuts of one side mean; where two mean the same tuple, it is the first one's.

    Beside them, a store's `purged`: tuples with a seq below it are left out wherever rows are written anew.
    """

    def __init__(self, cuts: Iterable[Cut], purged: int = 0) -> None:
        self.cuts = tuple(cuts)
        self.purged = purged

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
            count = _in_buckets(run.keys, run.seqs, start, stop, since, rows, cuts, *marks)
            parts.append((rows[:count], which[cuts[:count]]))
        marks, which = self._wide
        for at in range(which.size):
            low, high = marks.terms[at, [_LOW, _HIGH]].tolist()
            place = run.between((low, high))
            begin, end = max(place.start, start), min(place.stop, stop)
            if begin < end and marks.terms[at, _NUMBER] >= since:
                rows, cuts = np.empty(end - begin, np.int64), np.empty(end - begin, np.int64)
                count = _in_range(run.keys, run.seqs, begin, end, at, rows, cuts, marks.terms, marks.without)
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
            if len(marks.terms):
                _of_rows(run.keys, run.seqs, rows, since, found, *marks)
        return found


def _marks(cuts: Sequence[Cut]) -> _Marks:
    pieces = [cut.piece for cut in cuts]
    buckets = np.array([bucket for piece in pieces for bucket in piece.buckets], np.int64)
    owners = np.repeat(np.arange(len(pieces)), [len(piece.buckets) for piece in pieces])
    without = [np.sort(np.array(piece.without, np.int64)) for piece in pieces]
    terms = np.empty((len(cuts), _TERMS), np.int64)
    end = 0
    for at, cut in enumerate(cuts):
        piece, begin, end = cut.piece, end, end + len(without[at])
        before = min(cut.before, piece.seqs[1] + 1, GREATEST)
        terms[at] = (*piece.keys, piece.seqs[0], before, *piece.part, piece.salt, cut.number, begin, end)
    return _Marks(
        terms=terms,
        without=np.concatenate([np.empty(0, np.int64), *without]),
        ends=np.searchsorted(np.sort(buckets), np.arange(BUCKETS + 1)).astype(np.int64),
        asking=owners[np.argsort(buckets, kind="stable")].astype(np.int64),
        asked=(np.bincount(buckets, minlength=BUCKETS) > 0).astype(np.uint8),
        block=pieces[0].block if pieces else 0,
    )


@njit(cache=True, nogil=True, inline="always")
def _meant(key, seq, at, terms, without):  # type: ignore[no-untyped-def]
    """Whether the cut `at` means a tuple, but for the bucket."""
    if key < terms[at, _LOW] or key > terms[at, _HIGH] or seq < terms[at, _FIRST] or seq >= terms[at, _BEFORE]:
        return False
    if terms[at, _LOW_PART] > 0 or terms[at, _HIGH_PART] < _WHOLE:
        part = part_in(seq, np.uint64(terms[at, _SALT]))
        if part < terms[at, _LOW_PART] or part >= terms[at, _HIGH_PART]:
            return False
    low, end = terms[at, _WITHOUT], terms[at, _WITHOUT_END]
    high = end
    while low < high:
        middle = (low + high) >> 1
        if without[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low == end or without[low] != key


@njit(cache=True, nogil=True)
def _in_buckets(keys, seqs, begin, end, since, rows, cuts, terms, without, ends, asking, asked, block):  # type: ignore[no-untyped-def]
    """Write the rows that cuts with buckets mean, and by which; how many they are."""
    many = 0
    for row in range(begin, end):  # without a branch on what a key's bucket is
        rows[many] = row
        many += asked[bucket_in(keys[row], block)]
    count = 0
    for i in range(many):
        row = rows[i]
        bucket = bucket_in(keys[row], block)
        for place in range(ends[bucket], ends[bucket + 1]):
            at = asking[place]
            if terms[at, _NUMBER] >= since and _meant(keys[row], seqs[row], at, terms, without):
                rows[count] = row
                cuts[count] = at
                count += 1
                break
    return count


@njit(cache=True, nogil=True)
def _in_range(keys, seqs, begin, end, at, rows, cuts, terms, without):  # type: ignore[no-untyped-def]
    """Write the rows that one cut without buckets means; how many they are."""
    count = 0
    for row in range(begin, end):
        if _meant(keys[row], seqs[row], at, terms, without):
            rows[count] = row
            cuts[count] = at
            count += 1
    return count


@njit(cache=True, nogil=True)
def _of_rows(keys, seqs, rows, since, found, terms, without, ends, asking, asked, block):  # type: ignore[no-untyped-def]
    """Tell which of some rows are meant: by cuts with buckets if there are any, else by any of the others."""
    for i in range(rows.size):
        key, seq = keys[rows[i]], seqs[rows[i]]
        if asking.size:
            bucket = bucket_in(key, block)
            if asked[bucket]:
                for place in range(ends[bucket], ends[bucket + 1]):
                    at = asking[place]
                    found[i] |= terms[at, _NUMBER] >= since and _meant(key, seq, at, terms, without)
        else:
            for at in range(len(terms)):
                found[i] |= terms[at, _NUMBER] >= since and _meant(key, seq, at, terms, without)
