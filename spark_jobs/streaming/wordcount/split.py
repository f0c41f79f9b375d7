"""The first stage, and the spring: each line is a root, each of its words a tuple for the unit that counts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.spark_jobs.streaming.runtime.step import DeadLetter, Input, Message, Output, State
from springline.spark_jobs.streaming.tracking.ack_output import Ackers, roots_of
from springline.spark_jobs.streaming.tracking.ids import Ids
from springline.spark_jobs.streaming.tracking.replay.replay import Again, Emitted
from springline.spark_jobs.streaming.tracking.root_id import ROWS
from springline.spark_jobs.streaming.wordcount.kernels import count_lines, find_words, name_words, pack

WORDS = pa.schema(
    [
        pa.field("word", pa.binary(), nullable=False),
        pa.field("root", pa.uint64(), nullable=False),
        pa.field("id", pa.uint64(), nullable=False),
    ]
)
ATTEMPT = b"attempt"


class _Words(NamedTuple):
    """Words of a text: where each begins, its length, its line and place in it, its hash."""

    begins: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    of_line: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    hashes: Ids

    def at(self, rows: Any) -> _Words:
        """Some of them: by a mask, numbers, or a slice."""
        return _Words(*(column[rows] for column in self))


@dataclass(frozen=True)
class _Lines:
    """The lines of some messages of one partition, `rows` of each message; `dead` those that are not UTF-8.

    Such a line has no words: its root is through at once.
    """

    text: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    dead: Sequence[DeadLetter] = ()

    @staticmethod
    def of(messages: Sequence[Message]) -> _Lines:
        dead: list[DeadLetter] = []
        values = [_readable(message, dead) for message in messages]
        sizes = np.array([len(value) for value in values], np.int64)
        text = np.frombuffer(b"".join(values), np.uint8)
        ends = np.cumsum(sizes)
        rows = np.zeros(sizes.size, np.int64)
        count_lines(text, ends - sizes, ends, rows)
        offsets = np.array([message.offset for message in messages], np.int64)
        return _Lines(text, ends - sizes, ends, offsets, rows, dead)

    def emitted(self, partition: int, attempt: int, units: int, chosen: Sequence[int] | None = None) -> Emitted:
        """The words of all lines, or of the chosen ones, in an attempt; values of those lines."""
        roots = roots_of(partition, self.offsets, self.rows)
        words = self._words()
        if chosen is not None:
            words = words.at(np.isin(words.of_line, np.asarray(chosen)))
        ids, values = np.empty(words.of_line.size, np.uint64), np.zeros(roots.size, np.uint64)
        name_words(roots, words.of_line, words.places, attempt, ids, values)
        to = words.hashes % np.uint64(units)
        buffers = {}
        for unit in range(units):
            order = np.flatnonzero(to == unit)
            if order.size:
                batch = self._batch(words.at(order), roots[words.of_line[order]], ids[order], attempt)
                buffers[unit] = [batch]
        return Emitted(buffers, values if chosen is None else values[np.asarray(chosen)])

    def _words(self) -> _Words:
        most = self.text.size // 2 + self.rows.size + 1
        begins, of_line, places = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
        lengths, hashes = np.empty(most, np.int64), np.empty(most, np.uint64)
        count = find_words(self.text, self.starts, self.ends, begins, lengths, of_line, places, hashes)
        return _Words(begins, lengths, of_line, places, hashes).at(slice(count))

    def _batch(self, found: _Words, roots: Ids, ids: Ids, attempt: int) -> pa.RecordBatch:
        count = roots.size
        packed, offsets = np.empty(int(found.lengths.sum()), np.uint8), np.empty(count + 1, np.int32)
        pack(self.text, found.begins, found.lengths, packed, offsets)
        words = pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(packed)])
        schema = WORDS.with_metadata({ATTEMPT: str(attempt)})
        return pa.RecordBatch.from_arrays([words, pa.array(roots), pa.array(ids)], schema=schema)


def _readable(message: Message, dead: list[DeadLetter]) -> bytes:
    """A message of the same lines, of which those that are not UTF-8 are blank; they are one dead letter."""
    value = bytes(message.value)
    try:
        value.decode()
        return value
    except UnicodeDecodeError:
        lines = value.split(b"\n")
    odd = [(number, at) for number, line in enumerate(lines) if (at := _odd_byte(line)) is not None]
    content = b"".join(lines[number] + b"\n" for number, _ in odd)
    (number, at), many = odd[0], f"{len(odd)} lines, the first is " if len(odd) > 1 else ""
    dead.append(DeadLetter(message.offset, content, f"{many}line {number + 1}: not UTF-8, at byte {at}"))
    for number, _ in odd:
        lines[number] = b" " * len(lines[number])
    return b"\n".join(lines)


def _odd_byte(line: bytes) -> int | None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


class Split:
    """The step; `units` count words. Without tracking, it is no spring."""

    def __init__(self, units: int, tracked: bool = True) -> None:
        self._units = units
        self._tracked = tracked

    def __call__(self, state: State, given: Input) -> Output:
        """One round."""
        messages: list[Message] = []
        dead: list[DeadLetter] = []
        for message in given.messages:
            if bytes(message.value).count(b"\n") < ROWS:
                messages.append(message)
            else:
                reason = f"a message of more than {ROWS:,} lines: a line's name has no room for its number"
                dead.append(DeadLetter(message.offset, bytes(message.value), reason))
        lines = _Lines.of(messages)
        emitted = lines.emitted(given.unit, 1, self._units)
        dead += lines.dead
        counts = {"rows": int(lines.rows.sum()), "dead": len(dead)}
        output = Output(state, emitted.buffers, dead=dead, counts=counts)
        return self._registered(output, lines, emitted.values, given) if self._tracked else output

    def _registered(self, output: Output, lines: _Lines, values: Ids, given: Input) -> Output:
        ackers = Ackers(given.round.versions["ring"])
        epoch, acks = ackers.telling.epoch, {}
        if given.to > given.start or output.state.scalars.get("epoch") != epoch:  # a new acker hears how far it is
            acks = ackers.registrations(given.unit, lines.offsets, lines.rows, values, given.to)
        return replace(output, state=State({"epoch": epoch}), acks=acks)


def again(source: str, units: int) -> Again:
    """The step that sends lines again."""

    def emit(partition: int, message: Message, rows: Sequence[int], attempt: int) -> Emitted:
        return _Lines.of([message]).emitted(partition, attempt, units, rows)

    return Again(source, emit, lambda message, row: bytes(message.value).split(b"\n")[row])
