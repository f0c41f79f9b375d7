"""Failed roots, with their content: read from the end of a job's dead-letter queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from springline.spark_jobs.streaming.errors import MissingStampError
from springline.spark_jobs.streaming.runtime.message_log import MessageLog
from springline.spark_jobs.streaming.runtime.stamps import HEADER, MAX_STAGE_UNITS, Stamp
from springline.spark_jobs.streaming.runtime.step import Message
from springline.spark_jobs.streaming.tracking.config import FIRST_PROCESSOR
from springline.spark_jobs.streaming.tracking.errors import UnknownFailureError

_REACH = 4_096  # offsets from the end of a partition


@dataclass(frozen=True)
class Failure:
    """A record that was not used: its topic and position, why and when it failed, and its bytes.

    `record` is its position in the dead-letter queue, `UNIT:OFFSET`. `sender` is the sender index of the stage that
    wrote it; None if it has no valid stamp. A `derived` failure is no source record, but what a stage has made of some.
    """

    record: str
    topic: str
    partition: int
    offset: int
    reason: str
    failed_at: float
    content: bytes
    sender: int | None = None

    @property
    def derived(self) -> bool:
        """Whether a stage downstream of the source wrote it; one without a valid stamp is taken for a record."""
        return self.sender is not None and self.sender >= FIRST_PROCESSOR

    def as_json(self) -> dict[str, Any]:
        """Return plain values; bytes that are not UTF-8 are escaped."""
        return {**asdict(self), "derived": self.derived, "content": self.content.decode(errors="backslashreplace")}


def newest_failures(log: MessageLog, topic: str, last: int) -> list[Failure]:
    """Return the newest `last` failures, the newest last; only the end of the topic is searched."""
    failures = sorted(_read_failures(log, topic), key=lambda each: each.failed_at)
    return failures[-last:]


def failure_at(log: MessageLog, topic: str, record: str) -> Failure:
    """Return the failure at position `record` of the dead-letter queue; raises `UnknownFailureError`."""
    unit, _, place = record.partition(":")
    if unit.isdecimal() and place.isdecimal():
        extent, offset = log.offset_bounds(topic).get(int(unit)), int(place)
        if extent is not None and extent.low <= offset < extent.high:
            for message in log.fetch(topic, int(unit), offset, offset + 1):
                if (failure := _parse_failure(int(unit), message)) is not None:
                    return failure
    raise UnknownFailureError(f"{topic}: there is no dead letter {record}; `stream dead-letters` lists them")


def failures_within(
    log: MessageLog, topic: str, source: str, begin: Mapping[int, int], end: Mapping[int, int]
) -> Iterator[Failure]:
    """Yield the failures of the topic `source` whose offsets are in [begin, end), by partition.

    A partition without a beginning begins at 0; of one without an end there are none. The whole dead-letter topic,
    `topic`, is read.
    """
    for each in _read_failures(log, topic, None):
        if each.topic == source and begin.get(each.partition, 0) <= each.offset < end.get(each.partition, 0):
            yield each


def _read_failures(log: MessageLog, topic: str, max_offsets: int | None = _REACH) -> Iterator[Failure]:
    for unit, extent in log.offset_bounds(topic).items():
        first = extent.low if max_offsets is None else max(extent.low, extent.high - max_offsets)
        for message in log.fetch(topic, unit, first, extent.high):
            if (failure := _parse_failure(unit, message)) is not None:
                yield failure


def _parse_failure(unit: int, message: Message) -> Failure | None:
    """Parse a dead letter; None if no stage of ours has written it."""
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
            _sender_index(headers),
        )
    except (KeyError, ValueError):
        return None


def _sender_index(headers: Mapping[str, bytes]) -> int | None:
    """Return the sender index of the stage that wrote a dead letter; None without a valid stamp."""
    try:
        return Stamp.decode(headers.get(HEADER, b"")).unit // MAX_STAGE_UNITS
    except MissingStampError:
        return None
