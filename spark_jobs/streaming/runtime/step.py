"""What a step is: `state[n], output[n] = step(state[n-1], round n, the unit's messages in round n)`, and nothing else.

A step is free of Spark and Kafka, so that it runs in a plain test with lists of messages. It is deterministic to
the byte: it reads no clock, no random source, and nothing that its input does not hold; what it emits does not
depend on how its messages were cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a unit's log: a buffer of rows, in the form that its topic has.

    `timestamp` is when it was appended, in seconds since 1970.
    """

    offset: int
    value: bytes | memoryview
    timestamp: float = 0.0
    headers: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """What a unit remembers from round to round; a step makes a new one and changes nothing in place.

    `scalars` are JSON values. `runs` are Arrow record batches by name, the oldest first; a run that is the same
    object as in the state before is kept as it is and not written again.
    """

    scalars: Mapping[str, Any] = field(default_factory=dict)
    runs: Mapping[str, tuple[pa.RecordBatch, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Round:
    """What the planner decided once for all units of a stage, as far as a step may look at it.

    `clock` is in seconds since 1970 and never goes back. `versions` holds what may change while the job runs, by
    name: the registry of queries, the ring, the routing table, settings. `quiet` is for how many seconds no unit of the
    stage had any messages before this round, if some unit has messages in it.
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

    `messages` can be gone through once; they are at offsets [start, to) of the unit's log. With `left`, that held more
    when the round was planned, for later rounds. `watermarks` has the watermark (seconds of event time) of each unit
    upstream that has told one, `idle` those that hold nobody back now, `clocks` the clock of the last round of each
    that has ended, `ended` their rounds that end here. `upstream` are all units upstream that are known of, those too
    that have not ended a round yet. `source` reads another topic's messages at [start, to) again: of
    one that is only appended to, that is the same at every attempt.
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

    `topic` and `partition` are those of the message that it was in, where they are not the topic that the stage reads
    and the unit that tells of it.
    """

    offset: int
    value: bytes
    reason: str
    partition: int | None = None
    topic: str = ""


@dataclass(frozen=True)
class Output:
    """What a step made of its input.

    `buffers` go to the units of the next stage, in their order, `acks` to those of the ackers. `results` go to the
    result topic; `tells` to a topic of the job's own, only in rounds that have some. `watermark` is what later
    buffers of this unit will not go below; `idle`: nobody is to wait for it. `counts` are added up in the heartbeat,
    `gauges` (JSON values) are told there as they are now. `needs`: from which offset on the step may still read what
    each unit has told, where it reads that again; of a unit that is not named, all of it.
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


Step = Callable[[State, Input], Output]
