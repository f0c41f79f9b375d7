"""The first stage, and the spring: each line is a root, each of its words a tuple for the unit that counts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.spark_jobs.streaming.runtime.step import DeadLetter, Input, Message, Output, State
from springline.spark_jobs.streaming.tracking.ack_output import AckOutput, roots_of
from springline.spark_jobs.streaming.tracking.ids import Ids
from springline.spark_jobs.streaming.tracking.replay.replay import EmittedRows, Replayer
from springline.spark_jobs.streaming.tracking.root_id import ROWS
from springline.spark_jobs.streaming.wordcount.kernels import count_lines, find_words, name_words, pack_words

WORD_SCHEMA = pa.schema(
    [
        pa.field("word", pa.binary(), nullable=False),
        pa.field("root", pa.uint64(), nullable=False),
        pa.field("id", pa.uint64(), nullable=False),
    ]
)
ATTEMPT = b"attempt"


class _WordSpans(NamedTuple):
    """Words of a text: the start, length, line, position in the line, and hash of each."""

    begins: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    of_line: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    hashes: Ids

    def take(self, rows: Any) -> _WordSpans:
        """Return some of the words, selected by a mask, indices, or a slice."""
        return _WordSpans(*(column[rows] for column in self))


@dataclass(frozen=True)
class _LineBatch:
    """The lines of some messages of one partition, `rows` per message; `dead` has those that are not UTF-8.

    Such a line has no words, so its root is completed at once.
    """

    text: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    dead: Sequence[DeadLetter] = ()

    @staticmethod
    def of(messages: Sequence[Message]) -> _LineBatch:
        dead: list[DeadLetter] = []
        values = [_decodable_lines(message, dead) for message in messages]
        sizes = np.array([len(value) for value in values], np.int64)
        text = np.frombuffer(b"".join(values), np.uint8)
        ends = np.cumsum(sizes)
        rows = np.zeros(sizes.size, np.int64)
        count_lines(text, ends - sizes, ends, rows)
        offsets = np.array([message.offset for message in messages], np.int64)
        return _LineBatch(text, ends - sizes, ends, offsets, rows, dead)

    def emit_words(
        self, partition: int, attempt: int, units: int, selected_lines: Sequence[int] | None = None
    ) -> EmittedRows:
        """Return the words of all lines, or of `selected_lines`, in an attempt, with the XOR values of those lines."""
        roots = roots_of(partition, self.offsets, self.rows)
        spans = self._find_spans()
        if selected_lines is not None:
            spans = spans.take(np.isin(spans.of_line, np.asarray(selected_lines)))
        ids, values = np.empty(spans.of_line.size, np.uint64), np.zeros(roots.size, np.uint64)
        name_words(roots, spans.of_line, spans.places, attempt, ids, values)
        to = spans.hashes % np.uint64(units)
        buffers = {}
        for unit in range(units):
            order = np.flatnonzero(to == unit)
            if order.size:
                batch = self._batch(spans.take(order), roots[spans.of_line[order]], ids[order], attempt)
                buffers[unit] = [batch]
        return EmittedRows(buffers, values if selected_lines is None else values[np.asarray(selected_lines)])

    def _find_spans(self) -> _WordSpans:
        most = self.text.size // 2 + self.rows.size + 1
        begins, of_line, places = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
        lengths, hashes = np.empty(most, np.int64), np.empty(most, np.uint64)
        count = find_words(self.text, self.starts, self.ends, begins, lengths, of_line, places, hashes)
        return _WordSpans(begins, lengths, of_line, places, hashes).take(slice(count))

    def _batch(self, spans: _WordSpans, roots: Ids, ids: Ids, attempt: int) -> pa.RecordBatch:
        count = roots.size
        packed, offsets = np.empty(int(spans.lengths.sum()), np.uint8), np.empty(count + 1, np.int32)
        pack_words(self.text, spans.begins, spans.lengths, packed, offsets)
        word_array = pa.BinaryArray.from_buffers(
            pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(packed)]
        )
        schema = WORD_SCHEMA.with_metadata({ATTEMPT: str(attempt)})
        return pa.RecordBatch.from_arrays([word_array, pa.array(roots), pa.array(ids)], schema=schema)


def _decodable_lines(message: Message, dead: list[DeadLetter]) -> bytes:
    """Return the message with lines that are not UTF-8 blanked out; they are added to `dead` as one dead letter."""
    value = bytes(message.value)
    try:
        value.decode()
        return value
    except UnicodeDecodeError:
        lines = value.split(b"\n")
    odd = [
        (number, byte_position)
        for number, line in enumerate(lines)
        if (byte_position := _invalid_byte(line)) is not None
    ]
    content = b"".join(lines[number] + b"\n" for number, _ in odd)
    (number, byte_position), many = odd[0], f"{len(odd)} lines, the first is " if len(odd) > 1 else ""
    dead.append(DeadLetter(message.offset, content, f"{many}line {number + 1}: not UTF-8, at byte {byte_position}"))
    for number, _ in odd:
        lines[number] = b" " * len(lines[number])
    return b"\n".join(lines)


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
        messages: list[Message] = []
        dead: list[DeadLetter] = []
        for message in step_input.messages:
            if bytes(message.value).count(b"\n") < ROWS:
                messages.append(message)
            else:
                reason = f"a message of more than {ROWS:,} lines: a line's id cannot hold its number"
                dead.append(DeadLetter(message.offset, bytes(message.value), reason))
        lines = _LineBatch.of(messages)
        emitted = lines.emit_words(step_input.unit, 1, self._units)
        dead += lines.dead
        counts = {"rows": int(lines.rows.sum()), "dead_letters": len(dead)}
        output = Output(state, emitted.buffers, dead_letters=dead, counts=counts)
        return self._with_registrations(output, lines, emitted.values, step_input) if self._tracked else output

    def _with_registrations(self, output: Output, lines: _LineBatch, values: Ids, step_input: Input) -> Output:
        ackers = AckOutput(step_input.round.versions["ring"])
        epoch, acks = ackers.encoder.epoch, {}
        if (
            step_input.to > step_input.start or output.state.scalars.get("epoch") != epoch
        ):  # inform a new acker of the offset reached
            acks = ackers.registrations(step_input.unit, lines.offsets, lines.rows, values, step_input.to)
        return replace(output, state=State({"epoch": epoch}), acks=acks)


def line_replayer(source: str, units: int) -> Replayer:
    """Return the step that replays lines."""

    def emit(partition: int, message: Message, rows: Sequence[int], attempt: int) -> EmittedRows:
        return _LineBatch.of([message]).emit_words(partition, attempt, units, rows)

    return Replayer(source, emit, lambda message, row: bytes(message.value).split(b"\n")[row])
