"""The newest results of a job, read back from the end of its topic of results.

Rows are told in order: by round, since all units of a stage end the same rounds; within a round by the end of their
window, then by unit. How far back is read follows from how many rows are wanted, up to `REACH` offsets of each unit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from springline.spark_jobs.streaming.runtime.message_log import Log, Order
from springline.spark_jobs.streaming.runtime.rounds import Extent
from springline.spark_jobs.streaming.runtime.stamps import stamp_of

REACH = 4096  # offsets from the end of a unit
_STEP = 64  # offsets that are read first
_FASTER = 4  # times as many at the next step


@dataclass(frozen=True)
class Told:
    """One message of results: the round that told it, the unit, its place in that unit's round, its lines."""

    order: Order
    unit: int
    sequence: int
    lines: tuple[bytes, ...]

    @property
    def place(self) -> tuple[Any, ...]:
        """What comes later is greater; windows of rows come before windows of time."""
        end = json.loads(self.lines[-1]).get("window_end", 0)
        return (self.order, isinstance(end, str), end, self.unit, self.sequence)


def newest(log: Log, topic: str, last: int, query: str = "") -> list[dict[str, Any]]:
    """The newest `last` rows of a query, or of all, over all units; the newest is the last one.

    What lies more than `REACH` offsets before the end of a unit is not looked for. Raises `UnknownTopicError` before
    the job first started, and `LogUnavailableError`.
    """
    found = [
        told for unit, extent in log.extents(topic).items() for told in _tail(log, topic, unit, extent, last, query)
    ]
    return [json.loads(line) for line in last_lines(found, last)]


def last_lines(found: list[Told], last: int) -> list[bytes]:
    """The last lines of messages in the order of their places."""
    chosen: list[bytes] = []
    for told in sorted(found, key=lambda each: each.place, reverse=True):
        if len(chosen) >= last:
            break
        chosen += told.lines[: -(last - len(chosen)) - 1 : -1]
    return chosen[::-1]


def _tail(log: Log, topic: str, unit: int, extent: Extent, last: int, query: str) -> list[Told]:
    """Messages from the end of a unit that hold its newest `last` rows, if there are so many within reach."""
    found: list[Told] = []
    at, step, least = extent.high, _STEP, max(extent.low, extent.high - REACH)
    while at > least and not _enough(found, last):
        to, at = at, max(least, at - step)
        found = [*_fetched(log, topic, unit, at, to, query), *found]
        step *= _FASTER
    return found


def _enough(found: list[Told], last: int) -> bool:
    """Whether those rounds that are there as a whole hold enough rows; the first one may have begun earlier."""
    return sum(len(told.lines) for told in found if told.order > found[0].order) >= last


def _fetched(log: Log, topic: str, unit: int, start: int, to: int, query: str) -> Iterator[Told]:
    for message in log.fetch(topic, unit, start, to):
        lines = tuple(line for line in bytes(message.value).split(b"\n") if line)
        stamp = stamp_of(message)  # what has none is somebody else's
        if stamp is not None and lines and (not query or message.headers.get("query", b"").decode() == query):
            yield Told((stamp.incarnation, stamp.round), unit, stamp.sequence, lines)
