"""Probing: emits the pairs of probes with stored tuples, a bounded number per round, resuming at a cursor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.join.condition.checked_arithmetic import Ints
from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.kernels import expand_pairs, search_ranges
from springline.spark_jobs.streaming.join.unit.segments import Segment
from springline.spark_jobs.streaming.join.unit.sorted_runs import SortedRun, bytes_of
from springline.spark_jobs.streaming.join.unit.store import TupleStore
from springline.spark_jobs.streaming.join.wire import GREATEST, LEAST, JoinSide

_CHUNK = 1 << 16  # candidate pairs of a chunk
_CHUNK_BYTES = 64 << 20  # text bytes of a chunk; a single pair may have more
_MOST_BYTES = 256 << 20  # approximate bytes of the pairs of a round, so that its results fit into memory
_TRIES = 16  # candidates per pair of a round's limit, since candidates that checks drop take time too


@dataclass(frozen=True, slots=True)
class ProbeCursor:
    """Position to resume at: the side of the probes, the probed segment, the probe, and the candidates to skip."""

    side: JoinSide = JoinSide.LEFT
    segment: int = 0
    probe: int = 0
    skip: int = 0


@dataclass(frozen=True)
class _Candidates:
    """Candidate pairs of probes with rows of one segment, as row numbers, out of `tried`, with `texts` bytes of text.

    They begin at `cursor`; `first` has the segment row where the candidates of each probe from `begin` on start.
    """

    cursor: ProbeCursor
    segment: Segment
    begin: int
    first: Ints
    probe_rows: Ints
    stored_rows: Ints
    tried: int
    texts: int

    def cursor_at(self, pair: int) -> ProbeCursor:
        """Return the cursor of a pair."""
        probe = int(self.probe_rows[pair])
        return replace(self.cursor, probe=probe, skip=int(self.stored_rows[pair] - self.first[probe - self.begin]))


class ProbeResults:
    """The results of one round of a unit, at most `most` pairs."""

    def __init__(self, condition: Condition, query: str, most: int) -> None:
        self._condition = condition
        self._query = query
        self._max_pairs = most
        self._tries = 0
        self._bytes = 0
        self._batches: list[pa.RecordBatch] = []
        self.pairs = 0

    @property
    def is_full(self) -> bool:
        """Whether the limits of this round are reached."""
        return self.pairs >= self._max_pairs or self._tries >= _TRIES * self._max_pairs or self._bytes >= _MOST_BYTES

    @property
    def results(self) -> list[pa.RecordBatch]:
        """The pairs, as at most one batch."""
        return [pa.concat_batches(self._batches)] if self._batches else []

    def probe(self, probes: SortedRun | None, store: TupleStore, cursor: ProbeCursor) -> ProbeCursor | None:
        """Process the probes of `cursor.side` from the cursor on; returns where to resume, or None at the end."""
        if probes is None:
            return None
        pending: list[_Candidates] = []
        pairs = texts = 0
        for candidates in _find_candidates(self._condition, probes, store, cursor):
            if self.is_full or pairs + candidates.probe_rows.size > _CHUNK or texts + candidates.texts > _CHUNK_BYTES:
                if (next_cursor := self._emit_matches(cursor.side, probes, pending)) is not None:
                    return next_cursor
                pending, pairs, texts = [], 0, 0
            if self.is_full:
                return candidates.cursor
            pending.append(candidates)
            self._tries += candidates.tried
            pairs, texts = pairs + candidates.probe_rows.size, texts + candidates.texts
        return self._emit_matches(cursor.side, probes, pending)

    def _emit_matches(self, side: JoinSide, probes: SortedRun, pending: Sequence[_Candidates]) -> ProbeCursor | None:
        """Emit the matching pairs; returns the cursor to resume at if the limit is reached."""
        matches: list[_Candidates] = []
        free_pairs, next_cursor = self._max_pairs - self.pairs, None
        for each in self._filter_candidates(side, probes, [each for each in pending if each.probe_rows.size]):
            if each.probe_rows.size > free_pairs:
                next_cursor = each.cursor_at(free_pairs)
                each = replace(each, probe_rows=each.probe_rows[:free_pairs], stored_rows=each.stored_rows[:free_pairs])
            matches.append(each)
            free_pairs -= each.probe_rows.size
            if next_cursor is not None:
                break
        self._emit(side, probes, matches)
        return next_cursor

    def _filter_candidates(
        self, side: JoinSide, probes: SortedRun, candidates: Sequence[_Candidates]
    ) -> Sequence[_Candidates]:
        """Return the candidates that satisfy the residual conditions."""
        if not self._condition.checks or not candidates:
            return candidates
        is_match = self._condition.residual(*self._columns(side, probes, candidates, self._condition.checked_columns))
        parts = np.split(is_match, np.cumsum([each.probe_rows.size for each in candidates])[:-1])
        passed = [
            replace(each, probe_rows=each.probe_rows[part], stored_rows=each.stored_rows[part])
            for each, part in zip(candidates, parts, strict=True)
        ]
        return [each for each in passed if each.probe_rows.size]

    def _emit(self, side: JoinSide, probes: SortedRun, matches: Sequence[_Candidates]) -> None:
        if matches := [each for each in matches if each.probe_rows.size]:
            rows = sum(each.probe_rows.size for each in matches)
            columns = self._columns(side, probes, matches, self._condition.output_columns)
            self._batches.append(self._condition.output(*columns, rows, self._query))
            self._bytes += bytes_of(self._batches[-1])
            self.pairs += rows

    def _columns(
        self, side: JoinSide, probes: SortedRun, candidates: Sequence[_Candidates], names: Any
    ) -> tuple[Any, Any]:
        """Return columns of candidates, left and right."""
        own = probes.take_columns(np.concatenate([each.probe_rows for each in candidates]), names(side))
        parts = [each.segment.run.take_columns(each.stored_rows, names(side.other)) for each in candidates]
        other = {name: pa.concat_arrays([part[name] for part in parts]) for name in parts[0]}
        return (own, other) if side is JoinSide.LEFT else (other, own)


def _find_candidates(
    condition: Condition, probes: SortedRun, store: TupleStore, cursor: ProbeCursor
) -> Iterator[_Candidates]:
    """Yield candidates by key from the cursor on, in chunks of bounded size."""
    for number in range(cursor.segment, len(store.segments)):
        segment = store.segments[number]
        run = segment.run
        if run.greatest < store.expired:
            continue
        begin, first, end = _ranges(condition, cursor.side, probes, segment)
        segment_cursor = cursor if number == cursor.segment else ProbeCursor(cursor.side, number)
        probe, skip = (0, 0) if segment_cursor.probe < begin else (segment_cursor.probe - begin, segment_cursor.skip)
        # If a run is older than all probes, its seqs need not be compared.
        ordered = run.greatest < probes.least
        remaining = int((end[probe:] - first[probe:]).sum()) - skip
        while remaining > 0:
            chunk_cursor = ProbeCursor(cursor.side, number, begin + probe, skip)
            capacity = min(_CHUNK, remaining)
            probe_rows, stored_rows = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
            probe, skip, count = expand_pairs(first, end, probe, skip, probe_rows, stored_rows)
            sizes = run.text_bytes(stored_rows) + probes.text_bytes(probe_rows + begin)
            if (fitting := _fitting(sizes)) < count:
                probe, skip = int(probe_rows[fitting]), int(stored_rows[fitting] - first[probe_rows[fitting]])
            remaining -= fitting
            probe_rows, stored_rows, texts = (
                probe_rows[:fitting] + begin,
                stored_rows[:fitting],
                int(sizes[:fitting].sum()),
            )
            if not ordered:
                is_earlier = run.seqs[stored_rows] < probes.seqs[probe_rows]
                probe_rows, stored_rows = probe_rows[is_earlier], stored_rows[is_earlier]
            if (is_unexpired := segment.unpurged_mask(stored_rows, store.expired)) is not None:
                probe_rows, stored_rows = probe_rows[is_unexpired], stored_rows[is_unexpired]
            if (is_visible := segment.visible_mask(stored_rows, store.hiding)) is not None:
                probe_rows, stored_rows = probe_rows[is_visible], stored_rows[is_visible]
            yield _Candidates(chunk_cursor, segment, begin, first, probe_rows, stored_rows, fitting, texts)


def _fitting(sizes: Ints) -> int:
    """Return how many candidates fit into a chunk, by the bytes of their texts; at least one."""
    if int(sizes.sum()) <= _CHUNK_BYTES:
        return sizes.size
    return max(int(np.searchsorted(np.cumsum(sizes), _CHUNK_BYTES, "right")), 1)


def _ranges(condition: Condition, side: JoinSide, probes: SortedRun, segment: Segment) -> tuple[int, Ints, Ints]:
    """Return the first probe whose band overlaps the segment, and for each probe from it on its range of rows."""
    key_band = condition.key_band.from_side(side)
    low, high = key_band.low, key_band.high
    least = LEAST if high is None else segment.least[0] - high
    greatest = GREATEST if low is None else segment.greatest[0] - low
    if least > GREATEST or greatest < LEAST:
        return len(probes), np.empty(0, np.int64), np.empty(0, np.int64)
    probe_slice = probes.between((max(least, LEAST), min(greatest, GREATEST)))
    keys = probes.keys[probe_slice]
    first, end = np.empty(keys.size, np.int64), np.empty(keys.size, np.int64)
    run = segment.run
    search_ranges(run.keys, run.index, keys, low or 0, high or 0, low is not None, high is not None, first, end)
    return probe_slice.start, np.maximum(first, segment.start), np.maximum(end, segment.start)
