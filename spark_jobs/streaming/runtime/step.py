"""What a step is: `state[n], output[n] = step(state[n-1], round n, the unit's messages in round n)`, and nothing else.

A step is free of Spark and Kafka, so that it runs in a plain test with lists of messages. It is deterministic to
the byte: it reads no clock, no random source, and nothing that its input does not hold; what it emits does not
depend on how its messages were cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a unit's log: a buffer of rows, in the form that its topic has.

    Attributes:
        offset: its place in the partition; offsets ascend and may have gaps.
        value: the bytes.
        timestamp: when it was appended, in seconds since 1970.
        headers: bytes by name.

    Example:
        >>> bytes(Message(7, b"3.5").value)
        b'3.5'
    """

    offset: int
    value: bytes | memoryview
    timestamp: float = 0.0
    headers: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """What a unit remembers from round to round; a step makes a new one and changes nothing in place.

    Args:
        scalars: JSON values by name.
        runs: Arrow record batches by name, the oldest first; a run that is the same object as in the state before is
            kept as it is and not written again.

    Example:
        >>> State({"total": 3}).scalars.get("total", 0)
        3
    """

    scalars: Mapping[str, Any] = field(default_factory=dict)
    runs: Mapping[str, tuple[pa.RecordBatch, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Round:
    """What the planner decided once for all units of a stage, as far as a step may look at it.

    Args:
        incarnation: of the job; it grows when a savepoint is gone back to.
        number: of the round in its incarnation.
        clock: seconds since 1970; it never goes back.
        versions: what may change while the job runs, by name: the registry of queries, the ring, the routing table.
        quiet: for how many seconds no unit of the stage had any messages before this round, if some has some in it.

    Example:
        >>> Round(0, 7, clock=1_767_225_600.0).versions
        {}
    """

    incarnation: int
    number: int
    clock: float
    versions: Mapping[str, Any] = field(default_factory=dict)
    quiet: float = 0.0


@dataclass(frozen=True, slots=True)
class Ended:
    """A round of a unit upstream that has come to its end: the offsets [start, to) that it had read of its own log.

    `watermark` is what it told with this round, if anything, `units` how many units of its stage had that round.
    """

    unit: int
    round: int
    start: int
    to: int
    watermark: float | None = None
    units: int = 0


Source = Callable[[str, int, int, int], Iterable[Message]]


def no_source(topic: str, unit: int, start: int, to: int) -> Iterable[Message]:
    """Of a step that reads no topic but its own."""
    raise LookupError(f"{topic}[{unit}] from {start} to {to}: this step was given no other topics")


@dataclass(frozen=True)
class Input:
    """All that a step may look at besides its state.

    Attributes:
        stage: the name of the stage.
        unit: the number of the unit: the partition that it reads.
        round: the round's number, its clock (seconds since 1970), and the versions of what may change meanwhile.
        messages: those at offsets [start, to) of the unit's log; they can be gone through once.
        watermarks: of each unit upstream that has told one, in seconds of event time.
        idle: the units upstream that hold nobody back now.
        clocks: of the last round of each unit upstream that has ended one, in seconds since 1970.
        ended: the rounds of units upstream that end here.
        upstream: all units upstream that are known of, those too that have not ended a round yet.
        start: the first offset of the round.
        to: the offset behind the last.
        source: reads another topic's messages at [start, to) again: of a topic that is only appended to, the same at
            every attempt.
        left: whether the log held more when the round was planned, for later rounds.

    Example:
        >>> given = Input("watch", 0, None, [Message(0, b"3"), Message(1, b"4")])
        >>> sum(int(bytes(message.value)) for message in given.messages)
        7
    """

    stage: str
    unit: int
    round: Round
    messages: Iterable[Message]
    watermarks: Mapping[int, float] = field(default_factory=dict)
    idle: frozenset[int] = frozenset()
    clocks: Mapping[int, float] = field(default_factory=dict)
    ended: Sequence[Ended] = ()
    upstream: frozenset[int] = frozenset()
    start: int = 0
    to: int = 0
    source: Source = no_source
    left: bool = False


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Something that could not be used: where it was, its bytes, and why, in words.

    Args:
        offset: of the message that it was in.
        value: its bytes.
        reason: why, in words.
        partition: of the message; None: the one that the unit reads.
        topic: of the message; empty: the one that the stage reads.

    Example:
        >>> DeadLetter(7, b"tall", "could not convert string to float: 'tall'").offset
        7
    """

    offset: int
    value: bytes
    reason: str
    partition: int | None = None
    topic: str = ""


@dataclass(frozen=True)
class Output:
    """What a step made of its input.

    Args:
        state: what the unit remembers from now on.
        buffers: batches for the units of the next stage, by unit, in their order.
        results: batches for the topic of results, each row a line of JSON there.
        watermark: the event time, in seconds, that later buffers of this unit will not go below.
        idle: whether nobody is to wait for this unit.
        dead: what could not be used.
        counts: are added up in the heartbeat, by name.
        acks: batches for the ackers, by unit.
        tells: batches for a topic of the job's own, only in rounds that have some.
        gauges: JSON values that the heartbeat tells as they are now, by name.
        needs: from which offset on the step may still read what each unit has told, where it reads that again; of a
            unit that is not named, all of it.

    Example:
        >>> Output(State({"total": 3}), counts={"rows": 2}).idle
        False
    """

    state: State
    buffers: Mapping[int, Sequence[pa.RecordBatch]] = field(default_factory=dict)
    results: Sequence[pa.RecordBatch] = ()
    watermark: float | None = None
    idle: bool = False
    dead: Sequence[DeadLetter] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    acks: Mapping[int, Sequence[pa.RecordBatch]] = field(default_factory=dict)
    tells: Sequence[pa.RecordBatch] = ()
    gauges: Mapping[str, Any] = field(default_factory=dict)
    needs: Mapping[int, int] = field(default_factory=dict)


Step: TypeAlias = Callable[[State, Input], Output]
"""What a stage runs in each round of each unit: a pure function of the state and what has come."""
