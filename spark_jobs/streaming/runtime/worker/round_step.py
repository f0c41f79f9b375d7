"""Runs the step of a stage on the messages of a round in a unit: its input, its outcome, or its failure."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from springline.spark_jobs.streaming.errors import RoundError, SchemaUnavailableError
from springline.spark_jobs.streaming.runtime.encoding import (
    encode_buffers,
    encode_feedback,
    encode_results,
    shorten,
)
from springline.spark_jobs.streaming.runtime.message import BatchSource, Message, MessageBatch, batches_of
from springline.spark_jobs.streaming.runtime.message_log import MAX_RECORD_BYTES, OutgoingRecord
from springline.spark_jobs.streaming.runtime.rounds import Poison, RoundPlan
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.stamps import UpstreamPosition, accept, upstream_positions
from springline.spark_jobs.streaming.runtime.state_store import StateSnapshot
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Input, Output, Round, TopicReader
from springline.spark_jobs.streaming.runtime.topic_union import partition_of

logger = logging.getLogger("springline.unit")

# Less than the limit may be sent to the next stage, so that it can add something when it sends a row again.
_SPARE_BYTES = 64 << 10
_PLACES = 3  # partitions named in a message
# Not the fault of a message: the first three end the process.
_UNBLAMED = (KeyboardInterrupt, SystemExit, GeneratorExit, SchemaUnavailableError)


@dataclass(frozen=True)
class UnitRound:
    """A round of a unit, the values that its plan names, and the state before it."""

    plan: RoundPlan
    broadcast_values: Mapping[str, Any]
    unit: int
    previous: StateSnapshot

    @cached_property
    def ranges(self) -> Mapping[int, tuple[int, int]]:
        """The offsets [from, to) that it reads, by partition."""
        return self.plan.ranges_of(self.unit)

    def place(self, topic: str) -> str:
        """Return the offsets in words, for messages of errors; `topic` is the one that the stage reads."""
        places = [
            "{}[{}], offsets {} to {}".format(*partition_of(topic, partition), start, to - 1)
            for partition, (start, to) in self.ranges.items()
            if to > start
        ]
        if len(places) > _PLACES:
            places[_PLACES:] = [f"{len(places) - _PLACES} more partitions"]
        return " and ".join(places) or f"{topic}, unit {self.unit}, no messages"


@dataclass(frozen=True)
class StepOutcome:
    """The output of a step, with its encoded messages: for downstream stages and ackers; results and feedback."""

    output: Output
    records: Sequence[OutgoingRecord]
    published: Sequence[OutgoingRecord]


@dataclass(frozen=True)
class StepResult:
    """The result of a round of a unit after its step has run; `read_bytes` is the size of its messages."""

    unit_round: UnitRound
    outcome: StepOutcome
    positions: Mapping[int, UpstreamPosition]
    newest_timestamp: float
    read_bytes: int

    @property
    def output(self) -> Output:
        """The output of the step."""
        return self.outcome.output

    @cached_property
    def sent_bytes(self) -> dict[str, int]:
        """The total bytes sent to each unit downstream, including this round."""
        counts = Counter(self.unit_round.previous.notes.get("sent", {}))
        for record in self.outcome.records:
            counts[receiver_name(record.topic, record.partition)] += len(record.value)
        return dict(counts)


def receiver_name(topic: str, unit: int) -> str:
    """Return the name of a unit downstream in byte counts."""
    return f"{topic}[{unit}]"


class RoundStep:
    """The step of a stage, for rounds of any of its units; `fetch` is that of the log."""

    def __init__(self, stage: Stage, fetch: TopicReader) -> None:
        self.step = stage.make_step()
        self._stage = stage
        self._fetch = fetch

    def run(self, unit_round: UnitRound, poison: Poison) -> StepResult:
        """Run a round without its poison messages, which become dead letters; raises `RoundError`."""
        prepared = self.prepare(unit_round)
        if not poison:
            return prepared.with_outcome(self.run_step(prepared, prepared.step_input.messages))
        reasons = {
            (partition, offset): reason for partition, offsets in poison.items() for offset, reason in offsets.items()
        }
        remaining = [message for message in prepared.messages if (message.partition, message.offset) not in reasons]
        outcome = self.run_step(prepared, remaining)
        dead_letters = [
            DeadLetter.of(message, reason)
            for message in prepared.messages
            if (reason := reasons.get((message.partition, message.offset))) is not None
        ]
        output = _with_dead_letters(outcome.output, dead_letters, poison_messages=len(dead_letters))
        return prepared.with_outcome(replace(outcome, output=output))

    def reader(self, unit_round: UnitRound) -> MessageReader:
        """Return the reader of a round."""
        return MessageReader(self._stage, self._fetch, unit_round.ranges)

    def prepare(self, unit_round: UnitRound) -> PreparedRound:
        """Prepare the input of the step."""
        stage, plan = self._stage, unit_round.plan
        reader = self.reader(unit_round)
        positions = upstream_positions(unit_round.previous.notes, f"{stage.id}, unit {unit_round.unit}")
        this = Round(plan.incarnation, plan.number, plan.clock, unit_round.broadcast_values, plan.quiet_seconds)
        step_input = Input(
            stage.name,
            unit_round.unit,
            this,
            reader,
            unit_round.ranges,
            upstream_units=frozenset(stage.upstream),
            read_topic=reader.read_topic,
            lagging=frozenset(plan.lagging) & unit_round.ranges.keys(),
        )
        if not stage.stamped:
            return PreparedRound(unit_round, step_input, reader, positions)
        accepted = accept(reader, positions, plan.incarnation, log=f"{stage.topic}[{unit_round.unit}]")
        if accepted.foreign_offsets:
            logger.warning(
                "%s[%s]: %d messages that no stage of this job has sent are skipped, the first at offset %d",
                stage.topic, unit_round.unit, len(accepted.foreign_offsets), accepted.foreign_offsets[0],
            )  # fmt: skip
        step_input = replace(
            step_input, messages=accepted.messages, watermarks=accepted.watermarks, idle_units=accepted.idle_units,
            clocks=accepted.clocks, ended_rounds=accepted.ended_rounds,
        )  # fmt: skip
        read_bytes = sum(len(message.value) for message in accepted.messages)
        return PreparedRound(unit_round, step_input, reader, accepted.positions, read_bytes)

    def run_step(self, prepared: PreparedRound, messages: Iterable[Message]) -> StepOutcome:
        """Run the step on messages, and encode its output; raises `RoundError`, also if a record is too large, and
        `SchemaUnavailableError`.

        A result that is too large becomes a dead letter instead, since the messages that it came from may be those of
        earlier rounds.
        """
        unit_round, stage = prepared.unit_round, self._stage
        try:
            output = self.step(unit_round.previous.state, replace(prepared.step_input, messages=messages))
            encoder_args = (stage, unit_round.unit, unit_round.plan.round_id, output)
            records = tuple(encode_buffers(*encoder_args))
            oversized: list[DeadLetter] = []
            results = tuple(encode_results(*encoder_args, oversized if stage.dead_letters else None))
            feedback = tuple(encode_feedback(*encoder_args))
            for record in (*records, *results, *feedback):
                is_first_send = record.topic == stage.downstream and not stage.reads_feedback
                record.check_size(MAX_RECORD_BYTES - is_first_send * _SPARE_BYTES)
            return StepOutcome(_with_dead_letters(output, oversized), records, (*results, *feedback))
        except BaseException as error:
            if prepared.reader.has_failed or isinstance(error, _UNBLAMED):
                raise
            raise RoundError(unit_round.place(stage.topic), shorten(f"{type(error).__name__}: {error}")) from error


def _with_dead_letters(output: Output, dead_letters: Sequence[DeadLetter], **counts: int) -> Output:
    """Return the output with further dead letters, which it counts, as it does `counts`."""
    if not dead_letters:
        return output
    totals = Counter(output.counts) + Counter(counts) + Counter(dead_letters=len(dead_letters))
    return replace(
        output, dead_letters=(*dead_letters, *output.dead_letters), counts=dict(sorted(totals.items()))
    )  # fmt: skip


@dataclass(frozen=True)
class PreparedRound:
    """The prepared input of a round.

    `read_bytes` is the size of its messages if it is known before the step reads them.
    """

    unit_round: UnitRound
    step_input: Input
    reader: MessageReader
    positions: Mapping[int, UpstreamPosition]
    read_bytes: int | None = None

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """All messages, cached, since those of the source can be read only once."""
        return tuple(self.step_input.messages)

    def with_outcome(self, outcome: StepOutcome) -> StepResult:
        """Return the result of the round with this outcome."""
        read_bytes = self.reader.read_bytes if self.read_bytes is None else self.read_bytes
        return StepResult(self.unit_round, outcome, self.positions, self.reader.newest_timestamp, read_bytes)


class MessageReader(BatchSource):
    """The messages of a round, one partition after another, read on demand; it records the timestamp of the newest
    message, and their bytes.

    `has_failed` is true if the log raised an error while the step was reading.
    """

    def __init__(self, stage: Stage, fetch: TopicReader, ranges: Mapping[int, tuple[int, int]]) -> None:
        self._stage = stage
        self._fetch = fetch
        self._ranges = ranges
        self.newest_timestamp = 0.0
        self.read_bytes = 0
        self.has_failed = False

    def batches(self) -> Iterator[MessageBatch]:
        with self._noting_failure():
            for partition, (start, to) in self._ranges.items():
                for batch in batches_of(self._fetch(self._stage.topic, partition, start, to)):
                    self.newest_timestamp = max(self.newest_timestamp, float(batch.timestamps.max()) / 1000)
                    self.read_bytes += batch.value_bytes
                    yield batch

    def read_topic(self, topic: str, unit: int, start: int, to: int) -> Iterator[Message]:
        """Yield messages of another topic."""
        with self._noting_failure():
            yield from self._fetch(topic, unit, start, to)

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            with self._stage.with_remedy():
                yield
        except Exception:
            self.has_failed = True
            raise
