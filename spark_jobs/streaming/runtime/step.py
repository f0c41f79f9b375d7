"""The step of a stage: `state[n], output[n] = step(state[n-1], round n, the unit's messages in round n)`, a pure
function.

A step does not depend on Spark or Kafka, so that it runs in a plain test with lists of messages. It is deterministic to
the byte: it reads no clock, no random source, and nothing outside its input; its output does not depend on how its
messages were divided into rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from springline.spark_jobs.streaming.runtime.message import Message, MessageBatch, batches_of


@dataclass(frozen=True)
class State:
    """What a unit keeps from round to round; a step returns a new state and changes nothing in place.

    Args:
        scalars: JSON values by name.
        runs: Arrow record batches by name, oldest first; a batch that is the same object as in the previous state is
            reused and not written again.

    Example:
        >>> State({"total": 3}).scalars.get("total", 0)
        3
    """

    scalars: Mapping[str, Any] = field(default_factory=dict)
    runs: Mapping[str, tuple[pa.RecordBatch, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Round:
    """What the planner decided once for all units of a stage, as far as a step may see it.

    Args:
        incarnation: of the job; each rewind starts the next one.
        number: of the round in its incarnation.
        clock: seconds since 1970; it never decreases.
        broadcast_values: inputs that may change while the job runs, by name: the registry of queries, the ring, the
            routing table.
        quiet_seconds: if the round has messages, the number of seconds before it without messages in any unit of the
            stage.

    Example:
        >>> Round(0, 7, clock=1_767_225_600.0).broadcast_values
        {}
    """

    incarnation: int
    number: int
    clock: float
    broadcast_values: Mapping[str, Any] = field(default_factory=dict)
    quiet_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class EndedRound:
    """A completed round of a unit upstream, and the watermark that it sent with it, if any.

    `starts` are the first offsets that it has read, by partition of its own topic, without those of which it read none.
    """

    unit: int
    round: int
    watermark: float | None = None
    starts: Mapping[int, int] = field(default_factory=dict)


TopicReader = Callable[[str, int, int, int], Iterable[Message]]


def no_topic_reader(topic: str, unit: int, start: int, to: int) -> Iterable[Message]:
    """Raise `LookupError`: the default for steps that read only their own topic."""
    raise LookupError(f"{topic}[{unit}] from {start} to {to}: this step may read no other topics")


@dataclass(frozen=True)
class Input:
    """Everything that a step may read in addition to its state.

    Attributes:
        stage: the name of the stage.
        unit: the number of the unit.
        round: the round's number, its clock (seconds since 1970), and the inputs that may change.
        messages: those of `ranges`, one partition after another; they can be iterated once.
        ranges: the offsets [start, to) of the round, by partition; those of all partitions that the unit reads, also of
            those without messages.
        watermarks: of each unit upstream that has sent one, in seconds of event time.
        idle_units: the units upstream that currently do not hold back the watermark.
        clocks: of the last completed round of each unit upstream, in seconds since 1970.
        ended_rounds: the rounds of units upstream whose end is in this range.
        upstream_units: all units upstream, including those that have not completed a round yet.
        read_topic: reads messages of another topic at [start, to); the topic must be append-only, so that every attempt
            reads the same.
        lagging: the partitions that held more messages when the round was planned, for later rounds.

    Example:
        >>> given = Input("watch", 0, None, [Message(0, b"3"), Message(1, b"4")])
        >>> sum(int(bytes(message.value)) for message in given.messages)
        7
    """

    stage: str
    unit: int
    round: Round
    messages: Iterable[Message]
    ranges: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    watermarks: Mapping[int, float] = field(default_factory=dict)
    idle_units: frozenset[int] = frozenset()
    clocks: Mapping[int, float] = field(default_factory=dict)
    ended_rounds: Sequence[EndedRound] = ()
    upstream_units: frozenset[int] = frozenset()
    read_topic: TopicReader = no_topic_reader
    lagging: frozenset[int] = frozenset()

    @property
    def batches(self) -> Iterator[MessageBatch]:
        """The messages as arrays, each batch of one partition; they replace `messages` for steps that read many."""
        return batches_of(self.messages)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Something that could not be processed: its position, its bytes, and the reason.

    Args:
        offset: of its message.
        value: its bytes.
        reason: why, as text.
        partition: of the message; None: it belongs to no message alone, and the number of its unit stands there.
        topic: of the message; empty: the one that the stage reads.
        origin: the message without its value, for its key, headers and timestamp; None: there is none.

    Example:
        >>> DeadLetter.of(Message(7, b"tall", partition=3), "could not convert string to float: 'tall'").partition
        3
    """

    offset: int
    value: bytes
    reason: str
    partition: int | None = None
    topic: str = ""
    origin: Message | None = field(default=None, compare=False, repr=False)

    @staticmethod
    def of(message: Message, reason: str, value: bytes | None = None, topic: str = "") -> DeadLetter:
        """Return that of a message which the unit has read, or of a part of it, `value`."""
        content = bytes(message.value) if value is None else value
        origin = msgspec.structs.replace(message, value=b"")
        return DeadLetter(message.offset, content, reason, message.partition, topic, origin)


@dataclass(frozen=True)
class Output:
    """The output of a step.

    Args:
        state: the new state of the unit.
        buffers: batches for the units of the next stage, by unit, in order.
        results: batches for the topic of results, where each row becomes a line of JSON.
        watermark: the event time, in seconds, that later buffers of this unit will not go below.
        idle: whether this unit does not hold back the watermark downstream.
        dead_letters: what could not be processed.
        counts: numbers by name, which the heartbeat sums up.
        acks: batches for the ackers, by unit.
        feedback: batches for the feedback topic within the job, only in rounds that have some.
        gauges: JSON values by name, which the heartbeat shows as they are now.
        feedback_needed_from: for a step that reads feedback again, the first offset per unit that it may still read; of
            units that are not listed, all offsets are needed.
        timer: the clock at which the unit needs a round though no messages have come, such as the end of a time-out;
            None: it waits for messages alone. By default a second later, which is also the least; after ten seconds a
            round comes in any case.

    Example:
        >>> Output(State({"total": 3}), counts={"rows": 2}).idle
        False
    """

    state: State
    buffers: Mapping[int, Sequence[pa.RecordBatch]] = field(default_factory=dict)
    results: Sequence[pa.RecordBatch] = ()
    watermark: float | None = None
    idle: bool = False
    dead_letters: Sequence[DeadLetter] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    acks: Mapping[int, Sequence[pa.RecordBatch]] = field(default_factory=dict)
    feedback: Sequence[pa.RecordBatch] = ()
    gauges: Mapping[str, Any] = field(default_factory=dict)
    feedback_needed_from: Mapping[int, int] = field(default_factory=dict)
    timer: float | None = 0.0


Step: TypeAlias = Callable[[State, Input], Output]
"""What a stage runs in each round of each unit: a pure function of the state and what has come."""
