"""Failed roots, with their content: read from the end of a job's dead-letter queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from springline.spark_jobs.streaming.errors import MissingStampError
from springline.spark_jobs.streaming.runtime.encoding import CONTENT, HEADERS, TIMESTAMP
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.message_log import MessageLog
from springline.spark_jobs.streaming.runtime.stamps import HEADER as STAMP
from springline.spark_jobs.streaming.runtime.stamps import MAX_STAGE_UNITS, Stamp
from springline.spark_jobs.streaming.tracking.config import FIRST_PROCESSOR
from springline.spark_jobs.streaming.tracking.errors import UnknownFailureError

_HEADERS = msgspec.msgpack.Decoder(tuple[tuple[str, bytes | None], ...])
_REACH = 4_096  # offsets from the end of a partition


@dataclass(frozen=True)
class Failure:
    """A record that was not used: its topic and position, why and when it failed, and its bytes.

    `record` is its position in the dead-letter queue, `UNIT:OFFSET`. `sender` is the sender index of the stage that
    wrote it; None if it has no valid stamp. `key`, `headers` and `timestamp` (in seconds since 1970; 0: unknown) are
    those of its message. `content_note` says if `content` is not bytes of that as they came. A `derived` failure is no
    source record, but what a stage has made of some.
    """

    record: str
    topic: str
    partition: int
    offset: int
    reason: str
    failed_at: float
    content: bytes
    sender: int | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: float = 0.0
    content_note: str = ""

    @property
    def derived(self) -> bool:
        """Whether a stage downstream of the source wrote it; one without a valid stamp is taken for a record."""
        return self.sender is not None and self.sender >= FIRST_PROCESSOR

    def as_json(self) -> dict[str, Any]:
        """Return plain values; bytes that are not UTF-8 are escaped."""
        texts = {"content": _text(self.content), "key": _text(self.key)}
        return {
            **asdict(self), **texts, "derived": self.derived,
            "headers": [(name, _text(value)) for name, value in self.headers],
        }  # fmt: skip


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
            message.key,
            _HEADERS.decode(headers[HEADERS]) if HEADERS in headers else (),
            int(headers.get(TIMESTAMP, b"0")) / 1000,
            headers.get(CONTENT, b"").decode(),
        )
    except (KeyError, ValueError, msgspec.MsgspecError):
        return None


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="backslashreplace")


def _sender_index(headers: Mapping[str, bytes]) -> int | None:
    """Return the sender index of the stage that wrote a dead letter; None without a valid stamp."""
    try:
        return Stamp.decode(headers.get(STAMP, b"")).unit // MAX_STAGE_UNITS
    except MissingStampError:
        return None
