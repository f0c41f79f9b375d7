"""Selection of the stored tuples that migrations cover, for all migrations of an epoch in one pass.

A table maps a key's bucket to the migrations that include it; migrations without buckets are searched by their keys.
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
from springline.spark_jobs.streaming.join.unit.sorted_runs import SortedRun
from springline.spark_jobs.streaming.join.wire import GREATEST, SEQ_HASHES, StateMigration

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_ALL_HASHES: Any = np.int64(SEQ_HASHES)
# The columns of `terms`.
_LOW, _HIGH, _FIRST, _BEFORE, _LOW_PART, _HIGH_PART, _SALT, _NUMBER, _WITHOUT, _WITHOUT_END, _TERMS = range(11)


@dataclass(frozen=True, slots=True)
class MigrationCut:
    """A migration at a cut: its tuples with seqs below `before_seq`.

    `number` is the number of the store's cutover; it matters only when cuts from some cutover on are searched.
    """

    migration: StateMigration
    before_seq: int
    number: int = 0


class _CutColumns(NamedTuple):
    """Cuts as columns, passed to the loops below one by one, since attribute access would slow down the loops.

    `terms` has a row per cut; `cuts_by_bucket[ends[b]:ends[b + 1]]` are those that include bucket b, and `has_cut[b]`
    is 1 if there are any, else 0.
    """

    terms: npt.NDArray[np.int64]
    without: Ints
    ends: Ints
    cuts_by_bucket: Ints
    has_cut: npt.NDArray[np.uint8]
    block: int


class Selection:
    """The tuples covered by cuts of one side; a tuple covered by two of them belongs to the first one.

    It also carries a store's `purged`: tuples with a lower seq are left out whenever rows are rewritten.
    """

    def __init__(self, cuts: Iterable[MigrationCut], purged: int = 0) -> None:
        self.cuts = tuple(cuts)
        self.purged = purged

    @cached_property
    def _by_block(self) -> Sequence[tuple[_CutColumns, Ints]]:
        """The cuts with buckets by block size, and their indices."""
        named = [at for at, cut in enumerate(self.cuts) if cut.migration.buckets]
        named.sort(key=lambda index: self.cuts[index].migration.block)
        groups = [list(group) for _, group in groupby(named, lambda at: self.cuts[at].migration.block)]
        return [(_cut_columns([self.cuts[at] for at in group]), np.array(group, np.int64)) for group in groups]

    @cached_property
    def _unbucketed(self) -> tuple[_CutColumns, Ints]:
        """The cuts without buckets, and their indices."""
        indices = [index for index, cut in enumerate(self.cuts) if not cut.migration.buckets]
        return _cut_columns([self.cuts[at] for at in indices]), np.array(indices, np.int64)

    def rows(self, run: SortedRun, start: int, stop: int, since: int = 0) -> tuple[Ints, Ints]:
        """Return the rows from `start` to `stop` that cuts from `since` on cover, ascending, and the cut of each."""
        parts = []
        for marks, which in self._by_block:
            rows, cuts = np.empty(stop - start, np.int64), np.empty(stop - start, np.int64)
            count = _rows_in_buckets(run.keys, run.seqs, start, stop, since, rows, cuts, *marks)
            parts.append((rows[:count], which[cuts[:count]]))
        marks, which = self._unbucketed
        for index in range(which.size):
            low, high = marks.terms[index, [_LOW, _HIGH]].tolist()
            place = run.between((low, high))
            begin, end = max(place.start, start), min(place.stop, stop)
            if begin < end and marks.terms[index, _NUMBER] >= since:
                rows, cuts = np.empty(end - begin, np.int64), np.empty(end - begin, np.int64)
                count = _rows_in_range(run.keys, run.seqs, begin, end, index, rows, cuts, marks.terms, marks.without)
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

    def matches(self, run: SortedRun, rows: npt.NDArray[np.integer[Any]], since: int = 0) -> Flags:
        """Return for each of the given rows of a run whether any cut from `since` on covers it."""
        is_match = np.zeros(rows.size, np.bool_)
        for marks, _ in (*self._by_block, self._unbucketed):
            if len(marks.terms):
                _mark_rows(run.keys, run.seqs, rows, since, is_match, *marks)
        return is_match


def _cut_columns(cuts: Sequence[MigrationCut]) -> _CutColumns:
    migrations = [cut.migration for cut in cuts]
    buckets = np.array([bucket for migration in migrations for bucket in migration.buckets], np.int64)
    owners = np.repeat(np.arange(len(migrations)), [len(piece.buckets) for piece in migrations])
    without = [np.sort(np.array(piece.excluded_keys, np.int64)) for piece in migrations]
    terms = np.empty((len(cuts), _TERMS), np.int64)
    end = 0
    for row, cut in enumerate(cuts):
        piece, begin, end = cut.migration, end, end + len(without[row])
        before_seq = min(cut.before_seq, piece.seqs[1] + 1, GREATEST)
        terms[row] = (*piece.keys, piece.seqs[0], before_seq, *piece.part, piece.salt, cut.number, begin, end)
    return _CutColumns(
        terms=terms,
        without=np.concatenate([np.empty(0, np.int64), *without]),
        ends=np.searchsorted(np.sort(buckets), np.arange(BUCKETS + 1)).astype(np.int64),
        cuts_by_bucket=owners[np.argsort(buckets, kind="stable")].astype(np.int64),
        has_cut=(np.bincount(buckets, minlength=BUCKETS) > 0).astype(np.uint8),
        block=migrations[0].block if migrations else 0,
    )


@njit(cache=True, nogil=True, inline="always")
def _is_meant(key, seq, cut, terms, without):  # type: ignore[no-untyped-def]
    """Whether `cut` covers a tuple, regardless of its bucket."""
    if key < terms[cut, _LOW] or key > terms[cut, _HIGH] or seq < terms[cut, _FIRST] or seq >= terms[cut, _BEFORE]:
        return False
    if terms[cut, _LOW_PART] > 0 or terms[cut, _HIGH_PART] < _ALL_HASHES:
        part = part_in(seq, np.uint64(terms[cut, _SALT]))
        if part < terms[cut, _LOW_PART] or part >= terms[cut, _HIGH_PART]:
            return False
    low, end = terms[cut, _WITHOUT], terms[cut, _WITHOUT_END]
    high = end
    while low < high:
        middle = (low + high) >> 1
        if without[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low == end or without[low] != key


@njit(cache=True, nogil=True)
def _rows_in_buckets(keys, seqs, begin, end, since, rows, cuts, terms, without, ends, cuts_by_bucket, has_cut, block):  # type: ignore[no-untyped-def]
    """Write the rows that cuts with buckets cover, and their cuts; returns how many."""
    candidates = 0
    for row in range(begin, end):  # without a branch on the key's bucket
        rows[candidates] = row
        candidates += has_cut[bucket_in(keys[row], block)]
    count = 0
    for i in range(candidates):
        row = rows[i]
        bucket = bucket_in(keys[row], block)
        for place in range(ends[bucket], ends[bucket + 1]):
            cut = cuts_by_bucket[place]
            if terms[cut, _NUMBER] >= since and _is_meant(keys[row], seqs[row], cut, terms, without):
                rows[count] = row
                cuts[count] = cut
                count += 1
                break
    return count


@njit(cache=True, nogil=True)
def _rows_in_range(keys, seqs, begin, end, cut, rows, cuts, terms, without):  # type: ignore[no-untyped-def]
    """Write the rows that one cut without buckets covers; returns how many."""
    count = 0
    for row in range(begin, end):
        if _is_meant(keys[row], seqs[row], cut, terms, without):
            rows[count] = row
            cuts[count] = cut
            count += 1
    return count


@njit(cache=True, nogil=True)
def _mark_rows(keys, seqs, rows, since, is_match, terms, without, ends, cuts_by_bucket, has_cut, block):  # type: ignore[no-untyped-def]
    """Mark the rows that are covered: by cuts with buckets if there are any, else by any of the others."""
    for i in range(rows.size):
        key, seq = keys[rows[i]], seqs[rows[i]]
        if cuts_by_bucket.size:
            bucket = bucket_in(key, block)
            if has_cut[bucket]:
                for place in range(ends[bucket], ends[bucket + 1]):
                    cut = cuts_by_bucket[place]
                    is_match[i] |= terms[cut, _NUMBER] >= since and _is_meant(key, seq, cut, terms, without)
        else:
            for cut in range(len(terms)):
                is_match[i] |= terms[cut, _NUMBER] >= since and _is_meant(key, seq, cut, terms, without)
