"""Probing: emits the pairs of probes with stored tuples, a bounded number per round, resuming at a cursor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.spark_jobs.streaming.join.condition.checked_arithmetic import Ints
from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.task import row_kernels as kernels
from springline.spark_jobs.streaming.join.task.candidates import CandidateCursor, CandidateRows
from springline.spark_jobs.streaming.join.task.segments import Rows, bytes_of, numbers_of
from springline.spark_jobs.streaming.join.task.store import TupleStore
from springline.spark_jobs.streaming.join.wire import JoinSide

_CHUNK = 1 << 16  # candidate pairs of a chunk
_CHUNK_BYTES = 64 << 20  # text bytes of a chunk; a single pair may have more
_MOST_BYTES = 256 << 20  # approximate bytes of the pairs of a round, so that its results fit into memory
_TRIES = 16  # candidates per pair of a round's limit, since candidates that checks drop take time too


@dataclass(frozen=True, slots=True)
class ProbeCursor:
    """Position to resume at: the side of the probes, and the candidate."""

    side: JoinSide = JoinSide.LEFT
    at: CandidateCursor = field(default_factory=CandidateCursor)


@dataclass(frozen=True)
class _Matches:
    """Candidates that have matched, as row numbers of probes, and segments and rows of stored tuples.

    `parts` are the candidates with the index of their first match; `candidates` has the index of each match in its own.
    """

    parts: list[tuple[int, CandidateRows]]
    candidates: Rows
    probes: Rows
    segments: Rows
    rows: Rows

    def __len__(self) -> int:
        return int(self.rows.size)

    def slice(self, begin: int, end: int) -> _Matches:
        """Return some of the matches."""
        parts = [(max(first - begin, 0), part) for first, part in self.parts if first < end]
        earlier = [place for place, (first, _) in enumerate(parts) if first == 0]
        cut = slice(begin, end)
        return _Matches(
            parts[earlier[-1] if earlier else 0 :], self.candidates[cut], self.probes[cut], self.segments[cut],
            self.rows[cut],
        )  # fmt: skip

    def select(self, mask: npt.NDArray[np.bool_]) -> _Matches:
        """Return the matches of a mask."""
        before = np.concatenate([[0], np.cumsum(mask)])
        parts = [(int(before[first]), part) for first, part in self.parts]
        return _Matches(parts, self.candidates[mask], self.probes[mask], self.segments[mask], self.rows[mask])

    def cursor_of(self, match: int) -> CandidateCursor:
        """Return the cursor of a match."""
        part = next(part for first, part in reversed(self.parts) if first <= match)
        return part.cursor_at(int(self.candidates[match]))


class ProbeResults:
    """The results of one round of a task, at most `most` pairs."""

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

    def probe(self, probes: pa.RecordBatch | None, store: TupleStore, cursor: ProbeCursor) -> ProbeCursor | None:
        """Process the probes of `cursor.side` from the cursor on; returns where to resume, or None at the end."""
        if probes is None or not store.segments:
            return None
        pending: list[CandidateRows] = []
        count = 0
        for candidates in store.index.candidates(numbers_of(probes, 0), cursor.at, _CHUNK):
            if self.is_full or count + candidates.places.size > _CHUNK:
                if (resume := self._emit(cursor.side, probes, store, pending)) is not None:
                    return ProbeCursor(cursor.side, resume)
                pending, count = [], 0
            if self.is_full:
                return ProbeCursor(cursor.side, candidates.start)
            pending.append(candidates)
            self._tries += candidates.places.size
            count += candidates.places.size
        resume = self._emit(cursor.side, probes, store, pending)
        return None if resume is None else ProbeCursor(cursor.side, resume)

    def _emit(
        self, side: JoinSide, probes: pa.RecordBatch, store: TupleStore, pending: list[CandidateRows]
    ) -> CandidateCursor | None:
        """Emit the pairs of candidates that match; returns where to resume if a limit is reached."""
        matches = _match(probes, store, pending, equal=self._condition.key_band.is_equality)
        sizes = _text_sizes(probes, store, matches)
        begin = 0
        while begin < len(matches):
            if begin and (self.pairs >= self._max_pairs or self._bytes >= _MOST_BYTES):
                return matches.cursor_of(begin)
            fitting = begin + _fitting(sizes[begin:])
            checked = self._check(side, probes, store, matches.slice(begin, fitting))
            free_pairs = self._max_pairs - self.pairs
            self._append(side, probes, store, checked.slice(0, free_pairs))
            if len(checked) > free_pairs:
                return checked.cursor_of(free_pairs)
            begin = fitting
        return None

    def _check(self, side: JoinSide, probes: pa.RecordBatch, store: TupleStore, matches: _Matches) -> _Matches:
        """Return the matches that satisfy the residual conditions."""
        if not self._condition.checks or not len(matches):
            return matches
        names = (self._condition.checked_columns(side), self._condition.checked_columns(side.other))
        return matches.select(self._condition.residual(*_columns(side, probes, store, matches, names)))

    def _append(self, side: JoinSide, probes: pa.RecordBatch, store: TupleStore, matches: _Matches) -> None:
        if len(matches):
            names = (self._condition.output_columns(side), self._condition.output_columns(side.other))
            columns = _columns(side, probes, store, matches, names)
            self._batches.append(self._condition.output(*columns, len(matches), self._query))
            self._bytes += bytes_of(self._batches[-1])
            self.pairs += len(matches)


def _match(probes: pa.RecordBatch, store: TupleStore, pending: list[CandidateRows], *, equal: bool) -> _Matches:
    """Return the candidates whose stored tuple precedes the probe and has not expired, with an equal key if asked."""
    table, parts, begin = store.table, [], 0
    matches = []
    for candidates in pending:
        size = candidates.places.size
        selected, segments, rows = (np.empty(size + 1, np.int32) for _ in range(3))
        count = kernels.match_candidates(
            numbers_of(probes, 0), numbers_of(probes, 1), candidates.probes, candidates.places, table.firsts,
            table.directory, table.keys, table.seqs, table.least, store.fresh_place, store.expired, equal, selected,
            segments, rows,
        )  # fmt: skip
        parts.append((begin, candidates))
        begin += count
        matches.append((selected[:count], candidates.probes[selected[:count]], segments[:count], rows[:count]))
    if len(matches) == 1:
        return _Matches(parts, *matches[0])
    none = np.empty(0, np.int32)
    matches.append((none, none, none, none))
    return _Matches(parts, *(np.concatenate(columns) for columns in zip(*matches, strict=True)))


def _columns(
    side: JoinSide,
    probes: pa.RecordBatch,
    store: TupleStore,
    matches: _Matches,
    names: tuple[Mapping[str, str], Mapping[str, str]],
) -> tuple[dict[str, pa.Array], dict[str, pa.Array]]:
    """Return columns of matches, left and right; `names` are those of the probes' side, then of the other one."""
    indices = pa.array(matches.probes)
    own = {name: probes.column(stored).take(indices) for name, stored in names[0].items()}
    other = store.table.take_columns(matches.segments, matches.rows, names[1])
    return (own, other) if side is JoinSide.LEFT else (other, own)


def _text_sizes(probes: pa.RecordBatch, store: TupleStore, matches: _Matches) -> Ints:
    """Return the bytes of all texts of each match."""
    sizes = store.table.text_sizes(matches.segments, matches.rows)
    for column in probes.columns:
        if pa.types.is_string(column.type):
            ends = np.frombuffer(column.buffers()[1], np.int32)[column.offset :]
            sizes += ends[matches.probes + 1] - ends[matches.probes]
    return sizes


def _fitting(sizes: Ints) -> int:
    """Return how many matches fit into a chunk, by the bytes of their texts; at least one."""
    if int(sizes.sum()) <= _CHUNK_BYTES:
        return int(sizes.size)
    return max(int(np.searchsorted(np.cumsum(sizes), _CHUNK_BYTES, "right")), 1)
