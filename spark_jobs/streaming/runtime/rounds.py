"""Rounds: the planner's decision for all units of a stage; Spark's offset, and a line of the rounds log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from springline.spark_jobs.streaming.errors import MessagesLostError, TopicReplacedError

TICK_SECONDS = 1.0  # least time between rounds without messages, in which timers of steps are due
IDLE_SECONDS = 10.0  # most time between rounds: a stage in which nothing happens shows that its tasks are alive


@dataclass(frozen=True)
class RoundPlan:
    """A round of a stage: the offset range [from, to) of every unit, also empty ones, the clock, and the broadcasts.

    `broadcast_hashes` maps a name (queries, ring, table, settings, code) to the hash of its value. With
    `starts_incarnation`, it is the start of an incarnation: each unit begins at its start offset, with the state of
    that number, which is empty for number 0 and a savepoint's otherwise. `lag` is the number of offsets that were
    available and not admitted, `lagging_units` the units with such offsets. `new_units` begin with this round and have
    no state before it. `topics` are the ids of the topics of the offsets, by name. `last_busy_clock` is the clock of
    the newest round in which any unit had messages; `quiet_seconds` of such a round is the number of seconds since the
    one before. `poison` has, by unit, the offsets of the messages that it skips, with the reason: empty when planned,
    and later decided by a unit.
    """

    incarnation: int
    number: int
    clock: float
    ranges: Mapping[int, tuple[int, int]]
    broadcast_hashes: Mapping[str, str] = field(default_factory=dict)
    starts_incarnation: bool = False
    lag: int = 0
    lagging_units: tuple[int, ...] = ()
    new_units: tuple[int, ...] = ()
    topics: Mapping[str, str] = field(default_factory=dict)
    last_busy_clock: float = 0.0
    quiet_seconds: float = 0.0
    poison: Mapping[int, Mapping[int, str]] = field(default_factory=dict)

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


@dataclass(frozen=True)
class PoisonMessages:
    """A line of the rounds log: the messages that a unit skips in a round, as offsets with the reason.

    The unit decides it once, after the round has failed too often: every later attempt skips the same messages.
    """

    round_id: tuple[int, int]
    unit: int
    messages: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class OffsetBounds:
    """The offsets [low, high) that a unit's log holds."""

    low: int
    high: int


def initial_plan(
    starts: Mapping[int, int],
    round_id: tuple[int, int] = (1, 0),
    clock: float = 0.0,
    topics: Mapping[str, str] | None = None,
) -> RoundPlan:
    """Return the start of an incarnation: each unit at an offset of these topics, with the state of that round id."""
    return RoundPlan(
        *round_id,
        clock,
        {unit: (offset, offset) for unit, offset in starts.items()},
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
    """Return for each unit the offset of its first message, or with `latest` its end offset."""
    return {unit: (bounds.high if latest else bounds.low) for unit, bounds in offset_bounds.items()}


def consumer_lag(last: RoundPlan, offset_bounds: Mapping[int, OffsetBounds]) -> dict[int, int]:
    """Return for each unit the number of available offsets that are not admitted yet."""
    return {
        unit: bounds.high - (last.ranges[unit][1] if unit in last.ranges else bounds.low)
        for unit, bounds in offset_bounds.items()
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
    the messages of each unit; a unit that is not in it takes all. A new unit begins with its first available message.
    Raises `MessagesLostError`, naming `log`, if the next offset of a unit was deleted or truncated;
    `TopicReplacedError` if `topics` differ from those that the last round read.
    """
    check_topics(last, topics or {})
    ranges: dict[int, tuple[int, int]] = {}
    for unit in sorted(offset_bounds):
        bounds = offset_bounds[unit]
        start = last.ranges[unit][1] if unit in last.ranges else bounds.low
        if not bounds.low <= start <= bounds.high:
            raise MessagesLostError(
                f"{log}[{unit}]: round {last.number + 1} resumes at offset {start}, but available are "
                f"{bounds.low} to {bounds.high}"
            )
        ranges[unit] = (start, min(bounds.high, start + max(max_messages.get(unit, bounds.high), 0)))
    if missing := sorted(set(last.ranges) - set(offset_bounds)):
        raise MessagesLostError(f"{log}: the partitions {missing} no longer exist")
    clock = max(last.clock, now)
    lag_by_unit = {unit: extent.high - ranges[unit][1] for unit, extent in sorted(offset_bounds.items())}
    lag = sum(lag_by_unit.values())
    lagging_units = tuple(unit for unit, count in lag_by_unit.items() if count)
    has_messages = any(to > start for start, to in ranges.values())
    plan = RoundPlan(
        last.incarnation, last.number + 1, clock, ranges, dict(broadcast_hashes), lag=lag, lagging_units=lagging_units,
        new_units=tuple(sorted(set(ranges) - set(last.ranges))), topics=topics or {},
        last_busy_clock=clock if has_messages else last.last_busy_clock,
        quiet_seconds=clock - last.last_busy_clock if has_messages else 0.0,
    )  # fmt: skip
    is_idle = (
        not plan.messages
        and dict(broadcast_hashes) == dict(last.broadcast_hashes)
        and clock < (last.clock + TICK_SECONDS if due_clock is None else due_clock)
    )
    return None if is_idle else plan
