"""Rounds: what the planner decides once, for all units of a stage; Spark's offset, and a line of the rounds log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from springline.spark_jobs.streaming.errors import MessagesLostError, TopicReplacedError

TICK_SECONDS = 1.0  # between two rounds of a stage that gets no messages: time passes all the same


@dataclass(frozen=True)
class Plan:
    """A round of a stage: the offsets [from, to) of every unit, empty ones too, the clock, and what versions hold.

    `versions` maps a name (queries, ring, table, settings, code) to the hash of its content. With `begins` it is where
    an incarnation begins: each unit at the offset that it starts from, with the state of that number, which is empty
    for number 0 and a savepoint's else. `behind` is how many offsets were there and not admitted,
    `left` the units that they are of. Units that are `new` begin with this round, and have no state before it. `topics`
    are the ids of the topics that the offsets are of, by name. `busy` is the clock of the newest round in which any
    unit had messages, and `quiet`, of such a round, how many seconds the one before was earlier. `aside` are the
    messages that a unit leaves out, by their offset with the reason: planned with none, it is what a unit decided.
    """

    incarnation: int
    number: int
    clock: float
    ranges: Mapping[int, tuple[int, int]]
    versions: Mapping[str, str] = field(default_factory=dict)
    begins: bool = False
    behind: int = 0
    left: tuple[int, ...] = ()
    new: tuple[int, ...] = ()
    topics: Mapping[str, str] = field(default_factory=dict)
    busy: float = 0.0
    quiet: float = 0.0
    aside: Mapping[int, Mapping[int, str]] = field(default_factory=dict)

    @property
    def order(self) -> tuple[int, int]:
        """Incarnation and number: what comes later is greater."""
        return (self.incarnation, self.number)

    @property
    def before(self) -> tuple[int, int]:
        """The order of the round before."""
        return (self.incarnation, self.number - 1)

    @property
    def messages(self) -> int:
        """Offsets in all ranges; there may be fewer messages, since offsets have gaps."""
        return sum(to - start for start, to in self.ranges.values())


@dataclass(frozen=True)
class Aside:
    """A line of the rounds log: which messages a unit leaves out in a round, by their offset with the reason.

    The unit decides that once, when the round has failed too often: whoever runs the round again leaves out the same.
    """

    order: tuple[int, int]
    unit: int
    messages: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Extent:
    """What a unit's log holds: offsets [low, high)."""

    low: int
    high: int


def beginning(
    starts: Mapping[int, int],
    order: tuple[int, int] = (1, 0),
    clock: float = 0.0,
    topics: Mapping[str, str] | None = None,
) -> Plan:
    """Where an incarnation begins: each unit at an offset of these topics, with the state of that order."""
    return Plan(*order, clock, {unit: (at, at) for unit, at in starts.items()}, begins=True, topics=topics or {})


def check_topics(last: Plan, topics: Mapping[str, str]) -> None:
    """Make sure that the offsets of `last` are of these topics, as they are now; raises `TopicReplacedError`."""
    if last.topics and sorted(last.topics) != sorted(topics):
        before, now = (" and ".join(sorted(names)) for names in (last.topics, topics))
        raise TopicReplacedError(f"round {last.number} read the topic {before}, and {now} is to be read now")
    for name, known in last.topics.items():
        if topics[name] != known:
            raise TopicReplacedError(
                f"{name} was deleted and made anew after round {last.number}: the offsets of before are not offsets of "
                "this topic"
            )


def starts_of(extents: Mapping[int, Extent], *, latest: bool = False) -> dict[int, int]:
    """The first message that each unit has, or behind the last."""
    return {unit: (extent.high if latest else extent.low) for unit, extent in extents.items()}


def waiting(last: Plan, extents: Mapping[int, Extent]) -> dict[int, int]:
    """How many offsets of each unit are there and not admitted yet."""
    return {
        unit: extent.high - (last.ranges[unit][1] if unit in last.ranges else extent.low)
        for unit, extent in extents.items()
    }


def next_round(
    last: Plan,
    extents: Mapping[int, Extent],
    admitted: Mapping[int, int],
    now: float,
    versions: Mapping[str, str],
    *,
    log: str,
    topics: Mapping[str, str] | None = None,
) -> Plan | None:
    """The round after `last`, or None while there is nothing to do and the clock has not moved on by a tick.

    `admitted` bounds the messages of each unit; one that is not in it takes all. A unit that is new begins with the
    first message that it has. Raises `MessagesLostError`, naming `log`, where a unit would have to read what has been
    deleted, or was truncated; `TopicReplacedError` where `topics` tells of another one than the last round read.
    """
    check_topics(last, topics or {})
    ranges: dict[int, tuple[int, int]] = {}
    for unit in sorted(extents):
        extent = extents[unit]
        start = last.ranges[unit][1] if unit in last.ranges else extent.low
        if not extent.low <= start <= extent.high:
            raise MessagesLostError(
                f"{log}[{unit}]: round {last.number + 1} goes on at offset {start}, and the log holds "
                f"{extent.low} to {extent.high}"
            )
        ranges[unit] = (start, min(extent.high, start + max(admitted.get(unit, extent.high), 0)))
    if gone := sorted(set(last.ranges) - set(extents)):
        raise MessagesLostError(f"{log}: the units {gone} are not there any more")
    clock = max(last.clock, now)
    left = {unit: extent.high - ranges[unit][1] for unit, extent in sorted(extents.items())}
    behind = sum(left.values())
    units = tuple(unit for unit, many in left.items() if many)
    comes = any(to > start for start, to in ranges.values())
    plan = Plan(
        last.incarnation, last.number + 1, clock, ranges, dict(versions), behind=behind, left=units,
        new=tuple(sorted(set(ranges) - set(last.ranges))), topics=topics or {},
        busy=clock if comes else last.busy, quiet=clock - last.busy if comes else 0.0,
    )  # fmt: skip
    idle = not plan.messages and dict(versions) == dict(last.versions) and clock < last.clock + TICK_SECONDS
    return None if idle else plan
