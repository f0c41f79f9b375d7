"""Selection of the stored tuples that migrations cover, for all migrations of an epoch in one pass.

A table maps a key's bucket to the migrations that include it.
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

from springline.spark_jobs.streaming.join.buckets import BUCKETS, bucket_in, bucket_of, part_in
from springline.spark_jobs.streaming.join.task.segments import Ints, Segment
from springline.spark_jobs.streaming.join.wire import GREATEST, SEQ_HASHES, StateMigration

_ALL_HASHES: Any = np.int64(SEQ_HASHES)
# The columns of `terms`.
_LOW, _HIGH, _FIRST, _BEFORE, _LOW_PART, _HIGH_PART, _SALT, _UNIT, _WITHOUT, _WITHOUT_END, _TERMS = range(11)


@dataclass(frozen=True, slots=True)
class MigrationCut:
    """A migration at a cut: the giver's tuples with seqs below `before_seq`."""

    migration: StateMigration
    before_seq: int


class _CutColumns(NamedTuple):
    """Cuts as columns, passed to the loop below one by one, since attribute access would slow down the loop.

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
    """The tuples covered by cuts of one side; a tuple covered by two of them belongs to the first one."""

    def __init__(self, cuts: Iterable[MigrationCut]) -> None:
        self.cuts = tuple(cuts)

    @cached_property
    def _by_block(self) -> Sequence[tuple[_CutColumns, Ints]]:
        """The cuts by block size, and their indices."""
        order = sorted(range(len(self.cuts)), key=lambda index: self.cuts[index].migration.block)
        groups = [list(group) for _, group in groupby(order, lambda at: self.cuts[at].migration.block)]
        return [(_cut_columns([self.cuts[at] for at in group]), np.array(group, np.int64)) for group in groups]

    def live_rows(self, segment: Segment) -> tuple[Ints, Ints]:
        """Return the rows of a segment that cuts cover and that are not dead, ascending, and the cut of each."""
        keys, seqs, units = segment.keys, segment.seqs, segment.units
        parts = []
        for columns, indices in self._by_block:
            rows, cuts = np.empty(keys.size, np.int64), np.empty(keys.size, np.int64)
            count = _find_rows(keys, seqs, units, rows, cuts, *columns)
            parts.append((rows[:count], indices[cuts[:count]]))
        rows, cuts = parts[0] if len(parts) == 1 else _first_of_each(parts)
        if segment.dead is None:
            return rows, cuts
        is_live = ~segment.dead[rows]
        return rows[is_live], cuts[is_live]


def _first_of_each(parts: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """Return the rows of all parts, ascending, each with the first of its cuts."""
    rows, cuts = (np.concatenate([np.empty(0, np.int64), *columns]) for columns in zip(*parts, strict=True))
    order = np.lexsort((cuts, rows))
    rows, cuts = rows[order], cuts[order]
    once = np.append(True, rows[1:] != rows[:-1])[: rows.size]
    return rows[once], cuts[once]


def _buckets_of(migration: StateMigration) -> Sequence[int]:
    """Return the buckets in which a migration's keys are."""
    if migration.buckets:
        return migration.buckets
    low, high = migration.keys
    return (int(bucket_of(low, migration.block)[0]),) if low == high else range(BUCKETS)


def _cut_columns(cuts: Sequence[MigrationCut]) -> _CutColumns:
    migrations = [cut.migration for cut in cuts]
    own_buckets = [_buckets_of(migration) for migration in migrations]
    buckets = np.array([bucket for own in own_buckets for bucket in own], np.int64)
    owners = np.repeat(np.arange(len(migrations)), [len(own) for own in own_buckets])
    without = [np.sort(np.array(piece.excluded_keys, np.int64)) for piece in migrations]
    terms = np.empty((len(cuts), _TERMS), np.int64)
    end = 0
    for row, cut in enumerate(cuts):
        piece, begin, end = cut.migration, end, end + len(without[row])
        before_seq = min(cut.before_seq, piece.seqs[1] + 1, GREATEST)
        terms[row] = (*piece.keys, piece.seqs[0], before_seq, *piece.part, piece.salt, piece.giver, begin, end)
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
    """Whether `cut` covers a tuple of its giver, regardless of its bucket."""
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
def _find_rows(keys, seqs, units, rows, cuts, terms, without, ends, cuts_by_bucket, has_cut, block):  # type: ignore[no-untyped-def]
    """Write the rows that cuts cover, and their cuts; returns how many."""
    candidates = 0
    for row in range(keys.size):  # without a branch on the key's bucket
        rows[candidates] = row
        candidates += has_cut[bucket_in(keys[row], block)]
    count = 0
    for i in range(candidates):
        row = rows[i]
        bucket = bucket_in(keys[row], block)
        for place in range(ends[bucket], ends[bucket + 1]):
            cut = cuts_by_bucket[place]
            if units[row] == terms[cut, _UNIT] and _is_meant(keys[row], seqs[row], cut, terms, without):
                rows[count] = row
                cuts[count] = cut
                count += 1
                break
    return count
