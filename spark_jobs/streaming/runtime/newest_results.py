"""Reads the newest results of a job from the end of its topic of results.

Rows are ordered by round, since all units of a stage complete the same rounds; within a round by the end of their
window, then by unit. How far back is read depends on the number of requested rows, up to `MAX_OFFSETS` offsets of each
unit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from springline.spark_jobs.streaming.runtime.message_log import MessageLog, RoundId
from springline.spark_jobs.streaming.runtime.rounds import OffsetBounds
from springline.spark_jobs.streaming.runtime.stamps import stamp_of

MAX_OFFSETS = 4096  # offsets from the end of a unit
_FIRST_OFFSETS = 64  # offsets that are read first
_GROWTH = 4  # factor of the next step


@dataclass(frozen=True)
class ResultMessage:
    """One message of results: the round that emitted it, its unit, its sequence number in the round, its lines."""

    round_id: RoundId
    unit: int
    sequence: int
    lines: tuple[bytes, ...]

    @property
    def sort_key(self) -> tuple[Any, ...]:
        """Later messages compare greater; within a round, windows of rows come before windows of time."""
        end = json.loads(self.lines[-1]).get("window_end", 0)
        return (self.round_id, isinstance(end, str), end, self.unit, self.sequence)


def newest_rows(log: MessageLog, topic: str, last: int, query: str = "") -> list[dict[str, Any]]:
    """Return the newest `last` rows of a query, or of all queries, over all units; the newest is last.

    Rows more than `MAX_OFFSETS` offsets before the end of a unit are not found. Raises `UnknownTopicError` before the
    first start of the job, and `LogUnavailableError`.
    """
    messages = [
        message
        for unit, bounds in log.offset_bounds(topic).items()
        for message in _tail_messages(log, topic, unit, bounds, last, query)
    ]
    return [json.loads(line) for line in last_lines(messages, last)]


def last_lines(messages: list[ResultMessage], last: int) -> list[bytes]:
    """Return the last `last` lines of messages in the order of their sort keys."""
    lines: list[bytes] = []
    for message in sorted(messages, key=lambda each: each.sort_key, reverse=True):
        if len(lines) >= last:
            break
        lines += message.lines[: -(last - len(lines)) - 1 : -1]
    return lines[::-1]


def _tail_messages(
    log: MessageLog, topic: str, unit: int, bounds: OffsetBounds, last: int, query: str
) -> list[ResultMessage]:
    """Return messages from the end of a unit that contain its newest `last` rows, if they are within `MAX_OFFSETS`."""
    messages: list[ResultMessage] = []
    position, step, first = bounds.high, _FIRST_OFFSETS, max(bounds.low, bounds.high - MAX_OFFSETS)
    while position > first and not has_enough_rows(messages, last):
        to, position = position, max(first, position - step)
        messages = [*_fetch_results(log, topic, unit, position, to, query), *messages]
        step *= _GROWTH
    return messages


def has_enough_rows(messages: list[ResultMessage], last: int) -> bool:
    """Return whether the complete rounds contain enough rows; the first round may be an earlier one."""
    return sum(len(message.lines) for message in messages if message.round_id > messages[0].round_id) >= last


def _fetch_results(log: MessageLog, topic: str, unit: int, start: int, to: int, query: str) -> Iterator[ResultMessage]:
    for message in log.fetch(topic, unit, start, to):
        lines = tuple(line for line in bytes(message.value).split(b"\n") if line)
        stamp = stamp_of(message)  # a message without a stamp is not a result
        if stamp is not None and lines and (not query or message.headers.get("query", b"").decode() == query):
            yield ResultMessage((stamp.incarnation, stamp.round), unit, stamp.sequence, lines)
