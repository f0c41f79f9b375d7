"""The first stage, and the spring: each line is a root, each of its words a tuple for the unit that counts it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.spark_jobs.streaming.runtime.message import Ints, Message, MessageBatch, MessageRun
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Input, Output, State
from springline.spark_jobs.streaming.sources.text import joined_lines
from springline.spark_jobs.streaming.tracking.ack_output import AckOutput, add_batches
from springline.spark_jobs.streaming.tracking.folds import Fold, RowRanges
from springline.spark_jobs.streaming.tracking.ids import Ids, fold_value, row_values
from springline.spark_jobs.streaming.tracking.replay.replay import EmittedRows, Replayer
from springline.spark_jobs.streaming.tracking.root_id import ROWS, numbers_within, roots_of
from springline.spark_jobs.streaming.tracking.tuples import TupleBatch, TupleKind
from springline.spark_jobs.streaming.wordcount.kernels import count_lines, find_words, pack_words

WORD_SCHEMA = pa.schema([pa.field("word", pa.binary(), nullable=False)])
_FIRST, _NONE = np.zeros(1, np.int64), np.empty(0, np.int64)
_TEXT_BYTES = 1 << 19  # of words in one row of a batch, at most: a message holds whole rows, and an offset a word


class _Share(NamedTuple):
    """Words of a text for one unit, in order: their numbers among all words, their starts and lengths."""

    numbers: npt.NDArray[np.int64]
    begins: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]

    def pack(self, text: npt.NDArray[np.uint8]) -> pa.BinaryArray:
        """Return the words as an Arrow array."""
        count = self.begins.size
        packed, offsets = np.empty(int(self.lengths.sum()), np.uint8), np.empty(count + 1, np.int32)
        pack_words(text, self.begins, self.lengths, packed, offsets)
        return pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(packed)])

    def counts_before(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return how many of the words are before words with these numbers."""
        return np.searchsorted(self.numbers, numbers)

    def select(self, firsts: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> _Share:
        """Return some ranges of the words."""
        places = np.repeat(firsts, counts) + numbers_within(counts)
        return _Share(*(column[places] for column in self))


@dataclass(frozen=True)
class _LineBatch:
    """The lines of some messages, `rows` per message; `dead` has those that are not UTF-8, and messages of too many.

    A line that is not UTF-8 has no words, so its root is completed at once.
    """

    text: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    dead: Sequence[DeadLetter] = ()

    @staticmethod
    def of(batches: Sequence[MessageBatch]) -> _LineBatch:
        run = MessageRun(batches)
        joined, stops = joined_lines(run)
        starts, ends, rows = np.concatenate([_FIRST, stops])[:-1], stops - 1, np.zeros(stops.size, np.int64)
        dead = list(_blank_undecodable_lines(joined, starts, ends, run))
        text = np.frombuffer(joined, np.uint8)
        count_lines(text, starts, ends, rows)
        for index in np.flatnonzero(rows > ROWS).tolist():
            reason = f"a message of more than {ROWS:,} lines: a line's id cannot hold its number"
            dead.append(DeadLetter.of(run[index], reason))
            ends[index], rows[index] = starts[index], 0
        offsets = np.concatenate([_NONE, *(batch.offsets for batch in batches)])
        return _LineBatch(text, starts, ends, offsets, rows, dead)

    def shares(self, units: int) -> tuple[dict[int, _Share], npt.NDArray[np.int64]]:
        """Return the words of each unit that has some, and the number of all words up to the end of each line."""
        most = self.text.size // 2 + self.rows.size + 1
        begins, lengths, hashes = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.uint64)
        line_ends = np.empty(int(self.rows.sum()), np.int64)
        count = find_words(self.text, self.starts, self.ends, begins, lengths, hashes, line_ends)
        to = hashes[:count] % np.uint64(units)
        shares = {}
        for unit in range(units):
            numbers = np.flatnonzero(to == unit)
            if numbers.size:
                shares[unit] = _Share(numbers, begins[numbers], lengths[numbers])
        return shares, line_ends

    def emit(self, units: int) -> dict[int, Sequence[pa.RecordBatch]]:
        """Return the words alone."""
        return {
            unit: [pa.RecordBatch.from_arrays([share.pack(self.text)], schema=WORD_SCHEMA)]
            for unit, share in self.shares(units)[0].items()
        }

    def emit_fold(self, partition: int, units: int) -> tuple[dict[int, Sequence[pa.RecordBatch]], Fold | None]:
        """Return the words by message, all of one partition, and the fold of all lines; None if there are no lines.

        Raises `InvalidRootError`.
        """
        has_rows = self.rows > 0
        offsets, rows = self.offsets[has_rows], self.rows[has_rows]
        if not offsets.size:
            return {}, None
        fold = Fold.registration(partition, RowRanges.of(offsets, rows), 0)
        messages = roots_of(partition, offsets, np.ones_like(rows))
        shares, line_ends = self.shares(units)
        message_ends = line_ends[np.cumsum(rows) - 1]
        buffers: dict[int, Sequence[pa.RecordBatch]] = {}
        value = 0
        for unit, share in shares.items():
            batch = _fold_batch(fold.first, messages, share.counts_before(message_ends), share.pack(self.text))
            value ^= fold_value(batch.roots, batch.firsts, batch.counts, unit)
            buffers[unit] = [batch.to_batch()]
        return buffers, fold._replace(value=value)

    def emit_lines(self, partition: int, attempt: int, units: int, lines: Sequence[int]) -> EmittedRows:
        """Return the words of some lines of the only message in an attempt, with the XOR values of those lines.

        In the first attempt, which is an audit, their numbers are returned without the words.
        """
        numbers = np.asarray(lines, np.int64)
        roots = np.uint64(roots_of(partition, self.offsets, np.ones(1, np.int64))[0]) + numbers.astype(np.uint64)
        values = np.zeros(numbers.size, np.uint64)
        buffers: dict[int, Sequence[pa.RecordBatch]] = {}
        shares, line_ends = self.shares(units)
        line_starts = np.concatenate([[0], line_ends[:-1]])
        for unit, share in shares.items():
            firsts = share.counts_before(line_starts[numbers])
            counts = share.counts_before(line_ends[numbers]) - firsts
            values ^= row_values(roots, firsts, counts, unit, attempt)
            mine = np.flatnonzero(counts)
            if not mine.size:
                continue
            columns = (roots[mine], firsts[mine], counts[mine])
            if attempt == 1:
                tuples = TupleBatch(TupleKind.AUDIT, *columns)
            else:
                packed = share.select(firsts[mine], counts[mine]).pack(self.text)
                tuples = TupleBatch(TupleKind.RETRIED, *columns, packed, attempt=attempt)
            buffers[unit] = [tuples.to_batch()]
        return EmittedRows(buffers, values)


def _fold_batch(fold: int, messages: Ids, ends: npt.NDArray[np.int64], packed: pa.BinaryArray) -> TupleBatch:
    """Return words by message: `ends` are the numbers of words up to the end of each; long lists are cut."""
    starts = np.concatenate([[0], ends[:-1]])
    places = np.frombuffer(packed.buffers()[1], np.int32)[: len(packed)]
    cuts = np.searchsorted(places, np.arange(_TEXT_BYTES, int(places[-1]) + 1, _TEXT_BYTES, dtype=np.int32))
    begins = np.unique(np.concatenate([starts, cuts]))
    stops, of = np.append(begins[1:], len(packed)), np.searchsorted(ends, begins, "right")
    some = stops > begins
    begins, stops, of = begins[some], stops[some], of[some]
    return TupleBatch(TupleKind.FOLDED, messages[of], begins - starts[of], stops - begins, packed, fold)


def _blank_undecodable_lines(joined: bytearray, starts: Ints, ends: Ints, run: MessageRun) -> Iterator[DeadLetter]:
    """Overwrite lines that are not UTF-8 with spaces; yields them as one dead letter for each message."""
    try:
        joined.decode()
        return
    except UnicodeDecodeError:
        pass
    for index, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        odd: list[tuple[int, int, bytes]] = []  # number, invalid byte, content
        for number, line in enumerate(bytes(joined[start:end]).split(b"\n")):
            if (byte_position := _invalid_byte(line)) is not None:
                odd.append((number, byte_position, line + b"\n"))
                joined[start : start + len(line)] = b" " * len(line)
            start += len(line) + 1
        if odd:
            number, byte_position, _ = odd[0]
            many = f"{len(odd)} lines, the first is " if len(odd) > 1 else ""
            reason = f"{many}line {number + 1}: not UTF-8, at byte {byte_position}"
            yield DeadLetter.of(run[index], reason, b"".join(line for *_, line in odd))


def _invalid_byte(line: bytes) -> int | None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


class Split:
    """The step; there are `units` counting units. Without `tracked`, it is not a spring."""

    def __init__(self, units: int, tracked: bool = True) -> None:
        self._units = units
        self._tracked = tracked

    def __call__(self, state: State, step_input: Input) -> Output:
        """Process one round."""
        if not self._tracked:
            lines = _LineBatch.of(list(step_input.batches))
            return _output(state, lines.emit(self._units), int(lines.rows.sum()), lines.dead)
        dead: list[DeadLetter] = []
        buffers: dict[int, list[pa.RecordBatch]] = {}
        folds: list[Fold] = []
        rows = 0
        for partition, own in groupby(step_input.batches, key=attrgetter("partition")):
            lines = _LineBatch.of(list(own))
            dead += lines.dead
            sent, fold = lines.emit_fold(partition, self._units)
            add_batches(buffers, sent)
            folds += [] if fold is None else [fold]
            rows += int(lines.rows.sum())
        return self._with_registration(_output(state, buffers, rows, dead), folds, step_input)

    def _with_registration(self, output: Output, folds: Sequence[Fold], step_input: Input) -> Output:
        ackers = AckOutput(step_input.round.broadcast_values["ring"])
        epoch, acks = ackers.encoder.epoch, {}
        is_read = any(to > start for start, to in step_input.ranges.values())
        if is_read or output.state.scalars.get("epoch") != epoch:  # informs a new acker of the offsets reached
            acks = ackers.folds(folds, {partition: to for partition, (_, to) in step_input.ranges.items()})
        return replace(output, state=State({"epoch": epoch}), acks=acks)


def _output(
    state: State, buffers: Mapping[int, Sequence[pa.RecordBatch]], rows: int, dead: Sequence[DeadLetter]
) -> Output:
    counts = {"rows": rows, "dead_letters": len(dead)}
    return Output(state, buffers, dead_letters=dead, counts=counts, timer=None)


def line_replayer(source: str, units: int) -> Replayer:
    """Return the step that replays lines."""

    def emit(partition: int, message: Message, rows: Sequence[int], attempt: int) -> EmittedRows:
        return _LineBatch.of([MessageBatch.of([message])]).emit_lines(partition, attempt, units, rows)

    return Replayer(source, emit, lambda message, row: bytes(message.value).split(b"\n")[row])
