"""Roots that were given up, with their content: read back from the end of a job's dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from spark_jobs.streaming.tracking.errors import NoFailure
from spark_jobs.streaming.unitlog.log import Log
from spark_jobs.streaming.unitlog.step import Message

_REACH = 4_096  # offsets from the end of a unit


@dataclass(frozen=True)
class Failure:
    """A record that was not used: where it is in the source, why, when that was told, its bytes.

    `letter` is its place among the dead letters, `UNIT:OFFSET`.
    """

    letter: str
    partition: int
    offset: int
    reason: str
    at: float
    content: bytes

    def as_json(self) -> dict[str, Any]:
        """Plain values; bytes that are no UTF-8 are shown as such."""
        return {**asdict(self), "content": self.content.decode(errors="backslashreplace")}


def newest_failures(log: Log, topic: str, last: int) -> list[Failure]:
    """The newest so many, the newest last; those far from the end of the topic are not looked for."""
    found = sorted(_all(log, topic), key=lambda each: each.at)
    return found[-last:]


def failure_at(log: Log, topic: str, letter: str) -> Failure:
    """The one whose place among the dead letters is `letter`; raises `NoFailure`."""
    unit, _, place = letter.partition(":")
    if unit.isdecimal() and place.isdecimal():
        extent, offset = log.extents(topic).get(int(unit)), int(place)
        if extent is not None and extent.low <= offset < extent.high:
            for message in log.fetch(topic, int(unit), offset, offset + 1):
                return _failure(int(unit), message)
    raise NoFailure(f"{topic}: there is no letter {letter}; `tracking failed` lists those that there are")


def failures_within(log: Log, topic: str, begin: Mapping[int, int], end: Mapping[int, int]) -> Iterator[Failure]:
    """All whose offsets in the source are in [begin, end), by partition; none of partitions without an end.

    Where a partition has no beginning it begins at 0. The whole topic is read.
    """
    for each in _all(log, topic, None):
        if begin.get(each.partition, 0) <= each.offset < end.get(each.partition, 0):
            yield each


def _all(log: Log, topic: str, reach: int | None = _REACH) -> Iterator[Failure]:
    for unit, extent in log.extents(topic).items():
        first = extent.low if reach is None else max(extent.low, extent.high - reach)
        for message in log.fetch(topic, unit, first, extent.high):
            yield _failure(unit, message)


def _failure(unit: int, message: Message) -> Failure:
    headers = message.headers
    return Failure(
        f"{unit}:{message.offset}",
        int(headers.get("partition", str(unit).encode())),
        int(headers["offset"]),
        headers["reason"].decode(),
        message.timestamp,
        bytes(message.value),
    )
