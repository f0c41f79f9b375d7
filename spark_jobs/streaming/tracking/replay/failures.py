"""Roots that were given up, with their content: read back from the end of a job's dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from springline.spark_jobs.streaming.errors import MissingStampError
from springline.spark_jobs.streaming.runtime.message_log import Log
from springline.spark_jobs.streaming.runtime.stamps import HEADER, PLACE, Stamp
from springline.spark_jobs.streaming.runtime.step import Message
from springline.spark_jobs.streaming.tracking.config import FIRST
from springline.spark_jobs.streaming.tracking.errors import UnknownFailureError

_REACH = 4_096  # offsets from the end of a unit


@dataclass(frozen=True)
class Failure:
    """A record that was not used: the topic it is in and where, why, when that was told, its bytes.

    `letter` is its place among the dead letters, `UNIT:OFFSET`. What is `derived` is no record, but what a stage had
    made of some.
    """

    letter: str
    topic: str
    partition: int
    offset: int
    reason: str
    at: float
    content: bytes
    derived: bool = False

    def as_json(self) -> dict[str, Any]:
        """Plain values; bytes that are no UTF-8 are shown as such."""
        return {**asdict(self), "content": self.content.decode(errors="backslashreplace")}


def newest_failures(log: Log, topic: str, last: int) -> list[Failure]:
    """The newest so many, the newest last; those far from the end of the topic are not looked for."""
    found = sorted(_all(log, topic), key=lambda each: each.at)
    return found[-last:]


def failure_at(log: Log, topic: str, letter: str) -> Failure:
    """The one whose place among the dead letters is `letter`; raises `UnknownFailureError`."""
    unit, _, place = letter.partition(":")
    if unit.isdecimal() and place.isdecimal():
        extent, offset = log.extents(topic).get(int(unit)), int(place)
        if extent is not None and extent.low <= offset < extent.high:
            for message in log.fetch(topic, int(unit), offset, offset + 1):
                if (found := _failure(int(unit), message)) is not None:
                    return found
    raise UnknownFailureError(f"{topic}: there is no letter {letter}; `stream dead-letters` lists those that there are")


def failures_within(
    log: Log, topic: str, source: str, begin: Mapping[int, int], end: Mapping[int, int]
) -> Iterator[Failure]:
    """All of the topic `source` whose offsets are in [begin, end), by partition; none of partitions without an end.

    Where a partition has no beginning it begins at 0. The whole topic of dead letters, `topic`, is read.
    """
    for each in _all(log, topic, None):
        if each.topic == source and begin.get(each.partition, 0) <= each.offset < end.get(each.partition, 0):
            yield each


def _all(log: Log, topic: str, reach: int | None = _REACH) -> Iterator[Failure]:
    for unit, extent in log.extents(topic).items():
        first = extent.low if reach is None else max(extent.low, extent.high - reach)
        for message in log.fetch(topic, unit, first, extent.high):
            if (found := _failure(unit, message)) is not None:
                yield found


def _failure(unit: int, message: Message) -> Failure | None:
    """What a letter says; None of one that no stage of ours has written."""
    headers = message.headers
    try:
        return Failure(
            f"{unit}:{message.offset}",
            headers["topic"].decode(),
            int(headers["partition"]),
            int(headers["offset"]),
            headers["reason"].decode(),
            message.timestamp,
            bytes(message.value),
            _is_derived(headers),
        )
    except (KeyError, ValueError):
        return None


def _is_derived(headers: Mapping[str, bytes]) -> bool:
    """Whether a stage behind the source has told a letter; what has no stamp of ours is taken for a record."""
    try:
        return Stamp.decode(headers.get(HEADER, b"")).unit // PLACE >= FIRST
    except MissingStampError:
        return False
