"""Rounds: the planner's decision for all units of a stage; Spark's offset, and a line of the rounds log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from springline.spark_jobs.streaming.errors import MessagesLostError, TopicReplacedError

Poison: TypeAlias = Mapping[int, Mapping[int, str]]
"""The messages that a round skips: by partition, the offsets with the reason."""

TICK_SECONDS = 1.0  # least time between rounds without messages, in which timers of steps are due
IDLE_SECONDS = 10.0  # most time between rounds: a stage in which nothing happens shows that its tasks are alive


@dataclass(frozen=True)
class RoundPlan:
    """A round of a stage: the offset range [from, to) of every partition, also empty ones, the clock, the broadcasts.

    Unit u of the `units` of the stage reads the partitions u, u + units, u + 2 units, …: a topic between stages has as
    many partitions as the stage has units, any other topic has as many as it likes. `broadcast_hashes` maps a name
    (queries, ring, table, settings, code) to the hash of its value. With `starts_incarnation`, it is the start of an
    incarnation: each partition is read from its start offset on, with the states of that number, which are empty for
    number 0 and a savepoint's otherwise. `lag` is the number of offsets that were available and not admitted, `lagging`
    the partitions with such offsets. `topics` are the ids of the topics of the offsets, by name. `last_busy_clock` is
    the clock of the newest round that had messages; `quiet_seconds` of such a round is the number of seconds since the
    one before. `poison` has, by partition, the offsets of the messages that are skipped, with the reason: empty when
    planned, and later decided by the unit that reads them.
    """

    incarnation: int
    number: int
    clock: float
    ranges: Mapping[int, tuple[int, int]]
    units: int = 1
    broadcast_hashes: Mapping[str, str] = field(default_factory=dict)
    starts_incarnation: bool = False
    lag: int = 0
    lagging: tuple[int, ...] = ()
    topics: Mapping[str, str] = field(default_factory=dict)
    last_busy_clock: float = 0.0
    quiet_seconds: float = 0.0
    poison: Poison = field(default_factory=dict)

    @property
    def round_id(self) -> tuple[int, int]:
        """Incarnation and number; later rounds compare greater."""
        return (self.incarnation, self.number)

    @property
    def previous_round_id(self) -> tuple[int, int]:
        """Incarnation and number of the previous round."""
        return (self.incarnation, self.number - 1)

    @property
    def messages(self) -> int:
        """Total length of all ranges; there may be fewer messages, since offsets have gaps."""
        return sum(to - start for start, to in self.ranges.values())

    def ranges_of(self, unit: int) -> dict[int, tuple[int, int]]:
        """Return the offset ranges of the partitions that a unit reads, in their order.

        >>> RoundPlan(1, 7, 0.0, {0: (5, 9), 1: (0, 2), 2: (3, 3)}, units=2).ranges_of(0)
        {0: (5, 9), 2: (3, 3)}
        """
        return {partition: each for partition, each in sorted(self.ranges.items()) if partition % self.units == unit}

    def poison_of(self, unit: int) -> Poison:
        """Return the messages that a unit skips."""
        return {partition: each for partition, each in self.poison.items() if partition % self.units == unit}


@dataclass(frozen=True)
class PoisonMessages:
    """A line of the rounds log: the messages that a unit skips in a round.

    The unit decides it once, after the round has failed too often: every later attempt skips the same messages.
    """

    round_id: tuple[int, int]
    unit: int
    messages: Poison


@dataclass(frozen=True, slots=True)
class OffsetBounds:
    """The offsets [low, high) that a partition holds."""

    low: int
    high: int


def initial_plan(
    starts: Mapping[int, int],
    round_id: tuple[int, int] = (1, 0),
    clock: float = 0.0,
    topics: Mapping[str, str] | None = None,
    *,
    units: int,
) -> RoundPlan:
    """Return the start of an incarnation: each partition at an offset of these topics, with states of that round id."""
    return RoundPlan(
        *round_id,
        clock,
        {partition: (offset, offset) for partition, offset in starts.items()},
        units,
        starts_incarnation=True,
        topics=topics or {},
    )


def check_topics(last: RoundPlan, topics: Mapping[str, str]) -> None:
    """Check that the offsets of `last` belong to the current topics; raises `TopicReplacedError`."""
    if last.topics and sorted(last.topics) != sorted(topics):
        before, now = (" and ".join(sorted(names)) for names in (last.topics, topics))
        raise TopicReplacedError(f"round {last.number} read the topic {before}, but the job now reads {now}")
    for name, topic_id in last.topics.items():
        if topics[name] != topic_id:
            raise TopicReplacedError(
                f"{name} was deleted and recreated after round {last.number}: earlier offsets are not valid in "
                "this topic"
            )


def start_offsets(offset_bounds: Mapping[int, OffsetBounds], *, latest: bool = False) -> dict[int, int]:
    """Return for each partition the offset of its first message, or with `latest` its end offset."""
    return {partition: (bounds.high if latest else bounds.low) for partition, bounds in offset_bounds.items()}


def consumer_lag(last: RoundPlan, offset_bounds: Mapping[int, OffsetBounds]) -> dict[int, int]:
    """Return for each partition the number of available offsets that are not admitted yet."""
    return {
        partition: bounds.high - (last.ranges[partition][1] if partition in last.ranges else bounds.low)
        for partition, bounds in offset_bounds.items()
    }


def next_round(
    last: RoundPlan,
    offset_bounds: Mapping[int, OffsetBounds],
    max_messages: Mapping[int, int],
    now: float,
    broadcast_hashes: Mapping[str, str],
    *,
    log: str,
    topics: Mapping[str, str] | None = None,
    due_clock: float | None = None,
) -> RoundPlan | None:
    """Return the round after `last`, or None while there is nothing to process and the clock is before `due_clock`.

    `due_clock` is when a round is needed though there are no messages, by default a tick later. `max_messages` limits
    the messages of each partition; all are taken of one that is not in it. A new partition begins with its first
    available message. Raises `MessagesLostError`, naming `log`, if the next offset of one was deleted or truncated;
    `TopicReplacedError` if `topics` differ from those that the last round read.
    """
    check_topics(last, topics or {})
    ranges: dict[int, tuple[int, int]] = {}
    for partition in sorted(offset_bounds):
        bounds = offset_bounds[partition]
        start = last.ranges[partition][1] if partition in last.ranges else bounds.low
        if not bounds.low <= start <= bounds.high:
            raise MessagesLostError(
                f"{log}[{partition}]: round {last.number + 1} resumes at offset {start}, but available are "
                f"{bounds.low} to {bounds.high}"
            )
        ranges[partition] = (start, min(bounds.high, start + max(max_messages.get(partition, bounds.high), 0)))
    if missing := sorted(set(last.ranges) - set(offset_bounds)):
        raise MessagesLostError(f"{log}: the partitions {missing} no longer exist")
    clock = max(last.clock, now)
    lags = {partition: extent.high - ranges[partition][1] for partition, extent in sorted(offset_bounds.items())}
    has_messages = any(to > start for start, to in ranges.values())
    plan = RoundPlan(
        last.incarnation, last.number + 1, clock, ranges, last.units, dict(broadcast_hashes), lag=sum(lags.values()),
        lagging=tuple(partition for partition, lag in lags.items() if lag), topics=topics or {},
        last_busy_clock=clock if has_messages else last.last_busy_clock,
        quiet_seconds=clock - last.last_busy_clock if has_messages else 0.0,
    )  # fmt: skip
    is_idle = (
        not plan.messages
        and dict(broadcast_hashes) == dict(last.broadcast_hashes)
        and clock < (last.clock + TICK_SECONDS if due_clock is None else due_clock)
    )
    return None if is_idle else plan
