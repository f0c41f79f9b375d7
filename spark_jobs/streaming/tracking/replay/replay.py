"""The stage that sends roots again: reads the ackers' feedback, and reads the records again from the source.

It is a spring like the first stage: it registers what it sends, as another attempt. Failed roots go to the dead-letter
queue with their content, if the source still has it. Tracking records that now belong to another acker are forwarded by
this stage.

The roots of a fold that did not close it registers individually, as the first attempt that they are, and asks the
receivers which of their tuples were applied: so only what was lost is sent again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.errors import MessagesLostError
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.stamps import stamp_of
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Input, Output, State
from springline.spark_jobs.streaming.tracking.ack_output import AckOutput, Acks, add_batches
from springline.spark_jobs.streaming.tracking.folds import Fold
from springline.spark_jobs.streaming.tracking.ids import Ids
from springline.spark_jobs.streaming.tracking.root_id import unpack_root_id
from springline.spark_jobs.streaming.tracking.wire import AckMessage, MessageKind

_Position = tuple[int, int]  # partition and offset
_NEAR = 16  # messages between two requested ones that are read rather than skipped


@dataclass(frozen=True)
class EmittedRows:
    """Output of some rows: batches for the downstream units, and for each row the XOR of the edges that left."""

    buffers: Mapping[int, Sequence[pa.RecordBatch]]
    values: Ids


# Process rows of one message, by number, in an attempt, the first of which is an audit; and return a row as bytes.
Emit = Callable[[int, Message, Sequence[int], int], EmittedRows]
RowOf = Callable[[Message, int], bytes]


@dataclass
class _ReplayOutput:
    """Output of a round."""

    buffers: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    acks: Acks = field(default_factory=dict)
    dead: list[DeadLetter] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


class Replayer:
    """The step: `source` is the topic of the records, `emit` processes them as the first stage does."""

    def __init__(self, source: str, emit: Emit, row_of: RowOf) -> None:
        self._source = source
        self._emit = emit
        self._row_of = row_of

    def __call__(self, state: State, step_input: Input) -> Output:
        """Process one round."""
        ack_output = AckOutput(step_input.round.broadcast_values["ring"])
        output = _ReplayOutput()
        for ack_message in ack_messages(step_input):
            if ack_message.kind is MessageKind.RECORDS:
                add_batches(output.acks, ack_output.records(ack_message.records()))
            elif ack_message.kind is MessageKind.FOLD_RECORDS:
                add_batches(output.acks, ack_output.fold_records(ack_message.folds()))
            elif ack_message.kind is MessageKind.AUDIT_REQUESTS:
                for fold in ack_message.folds():
                    self._audit(output, fold, ack_output, step_input)
            else:
                self._replay_roots(output, ack_message, ack_output, step_input)
        buffers = {to: _combine(batches) for to, batches in output.buffers.items()}
        return Output(
            state, buffers, dead_letters=output.dead, counts=dict(sorted(output.counts.items())),
            acks=output.acks, timer=None,
        )  # fmt: skip

    def _replay_roots(
        self, output: _ReplayOutput, ack_message: AckMessage, ack_output: AckOutput, step_input: Input
    ) -> None:
        pairs = sorted(zip(ack_message.column("attempt").tolist(), ack_message.column("root").tolist(), strict=True))
        for attempt, group in groupby(pairs, key=lambda pair: pair[0]):
            roots = [root for _, root in group]
            names = [unpack_root_id(root) for root in roots]
            messages, missing = self._read_messages(step_input, {(name.partition, name.offset) for name in names})
            values: list[Ids] = []
            for (partition, offset), named in groupby(names, key=lambda name: name[:2]):
                rows = [name.row for name in named]
                message = messages.get((partition, offset))
                if ack_message.kind is MessageKind.FAILED or message is None:
                    if message is not None or (partition, offset) in missing:  # else a gap in the offsets
                        output.dead += self._dead_letters(partition, offset, message, rows, attempt)
                    values.append(np.zeros(len(rows), np.uint64))  # completes it: it is no longer awaited
                    output.counts["failed"] += len(rows)
                else:
                    emitted = self._emit(partition, message, rows, attempt)
                    add_batches(output.buffers, emitted.buffers)
                    values.append(emitted.values)
                    output.counts["retried"] += len(rows)
            if ack_message.kind is MessageKind.REPLAY_REQUESTS:
                sent = ack_output.acks(
                    np.array(roots, np.uint64), np.concatenate(values), attempt, kind=MessageKind.RETRIES
                )
                add_batches(output.acks, sent)

    def _audit(self, output: _ReplayOutput, fold: Fold, ack_output: AckOutput, step_input: Input) -> None:
        """Register the roots of a fold individually, and ask the receivers; its tick is how old it is.

        The ids of a missing message cannot be computed, so nobody can say which of its rows were applied: all of them
        become dead letters.
        """
        offsets, rows = fold.ranges.each_message()
        positions = [(fold.partition, offset) for offset in offsets.tolist()]
        messages, _ = self._read_messages(step_input, set(positions))
        values: list[Ids] = []
        for position, count in zip(positions, rows.tolist(), strict=True):
            message, numbers = messages.get(position), range(count)
            if message is None:
                output.dead += self._dead_letters(*position, None, numbers, 1)
                values.append(np.zeros(count, np.uint64))  # completes them: they are no longer awaited
                output.counts["failed"] += count
            else:
                emitted = self._emit(fold.partition, message, numbers, 1)
                add_batches(output.buffers, emitted.buffers)
                values.append(emitted.values)
                output.counts["audited"] += count
        registered = ack_output.registrations(fold.partition, offsets, rows, np.concatenate(values), age=fold.tick)
        add_batches(output.acks, registered)

    def _read_messages(
        self, step_input: Input, requested: set[_Position]
    ) -> tuple[dict[_Position, Message], set[_Position]]:
        """Read the requested messages that still exist, and the missing positions; neighbours are read together."""
        messages: dict[_Position, Message] = {}
        missing: set[_Position] = set()
        for partition, start, to in _offset_ranges(requested):
            try:
                for message in step_input.read_topic(self._source, partition, start, to):
                    messages[partition, message.offset] = message
            except MessagesLostError:
                missing |= {place for place in requested if place[0] == partition and start <= place[1] < to}
        return messages, missing - set(messages)

    def _dead_letters(
        self, partition: int, offset: int, message: Message | None, rows: Sequence[int], attempt: int
    ) -> Iterator[DeadLetter]:
        for row in rows:
            times = "once" if attempt == 1 else f"{attempt} times"
            reason = f"row {row}: sent {times}, not completed within the timeout"
            if message is None:
                yield DeadLetter(offset, b"", f"{reason}; the source no longer has it", partition, self._source)
            else:
                yield DeadLetter.of(message, reason, self._row_of(message, row), self._source)


def _combine(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Combine neighbours that are of one kind."""
    groups = [list(group) for _, group in groupby(batches, key=lambda batch: batch.schema.metadata)]
    return [batch for group in groups for batch in pa.Table.from_batches(group).combine_chunks().to_batches()]


def _offset_ranges(positions: set[_Position]) -> Iterator[tuple[int, int, int]]:
    """Yield partitions and offsets [start, to) that cover the positions, with small gaps."""
    offset_range: tuple[int, int, int] | None = None
    for partition, offset in sorted(positions):
        if offset_range is not None and offset_range[0] == partition and offset - offset_range[2] < _NEAR:
            offset_range = (partition, offset_range[1], offset + 1)
            continue
        if offset_range is not None:
            yield offset_range
        offset_range = (partition, offset, offset + 1)
    if offset_range is not None:
        yield offset_range


def ack_messages(step_input: Input) -> Iterator[AckMessage]:
    """Yield the feedback of this incarnation of the job; that of earlier ones was undone."""
    for message in step_input.messages:
        stamp = stamp_of(message)  # other producers' messages have none
        if stamp is not None and stamp.incarnation == step_input.round.incarnation:
            yield AckMessage.read(message.value)
