"""The interface of the log that the runtime reads and writes: Kafka, or in-memory lists in tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from springline.spark_jobs.streaming.errors import RecordRefusedError
from springline.spark_jobs.streaming.runtime.message import Message, header_pairs
from springline.spark_jobs.streaming.runtime.rounds import OffsetBounds

RoundId = tuple[int, int]  # incarnation and round; later rounds compare greater
NO_ROUND: RoundId = (0, 0)  # before every round
MAX_RECORD_BYTES = 16 << 20  # of a record with its key, its headers and what Kafka adds
_HEADER_BYTES = 10  # that Kafka adds to a header, at most: the lengths of its name and value
_RECORD_BYTES = 128  # that Kafka adds to a record that is sent alone, at most: the batch's header, lengths, times
WriterPosition = tuple[
    str, int, int
]  # where a writer publishes: a topic, its partition, and the sender's number in stamps there


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as it is created: its number of partitions, and which messages it retains.

    Messages are retained until they are deleted, or for `retention_seconds`, about; `compacted`: only the newest one of
    each key. With `log_append_time` the broker sets the times of messages, not their writer.

    Example:
        >>> TopicSpec("pairs.results", partitions=2).compacted
        False
    """

    name: str
    partitions: int = 1
    compacted: bool = False
    retention_seconds: float | None = None
    log_append_time: bool = False


@dataclass(frozen=True, slots=True)
class OutgoingRecord:
    """A message to be sent: topic and partition, its bytes, its headers, its key.

    `timestamp` is in seconds since 1970; 0: now. With `is_null` it has no value.
    """

    topic: str
    partition: int
    value: bytes
    headers: Mapping[str, bytes] = field(default_factory=dict)
    key: bytes | None = None
    timestamp: float = 0.0
    is_null: bool = False

    @property
    def size(self) -> int:
        """Bytes that it takes in its topic, at most; compared with `MAX_RECORD_BYTES`."""
        pairs = header_pairs(self.headers)
        headers = sum(len(name.encode()) + len(value or b"") + _HEADER_BYTES for name, value in pairs)
        return len(self.value) + len(self.key or b"") + headers + _RECORD_BYTES

    def check_size(self, limit: int = MAX_RECORD_BYTES) -> None:
        """Raise `RecordRefusedError` if it takes more than `limit` bytes."""
        if self.size > limit:
            raise RecordRefusedError(
                f"{self.topic}[{self.partition}]: a record of {self.size:,} bytes; at most {limit:,} can be sent"
            )


class Appender(Protocol):
    """The single writer of a log of one partition; opening the log again fences this one."""

    def append(self, values: Sequence[bytes]) -> int:
        """Append all values or none, and return the offset of the last.

        Raises `FencedError` if another writer has opened the log since.
        """


class RecordSender(Protocol):
    """Sends messages to partitions."""

    def send(self, record: OutgoingRecord) -> None:
        """Send a message; its delivery is guaranteed once the context of `MessageLog.record_sender` ends.

        Raises `RecordRefusedError`.
        """


class MessageLog(Protocol):
    """Topics with one log per partition; offsets ascend and may have gaps."""

    def offset_bounds(self, topic: str) -> Mapping[int, OffsetBounds]:
        """Return the offsets that each partition holds; raises `UnknownTopicError`, `LogUnavailableError`."""

    def ids(self, *topics: str) -> Mapping[str, str]:
        """Return the ids of topics by name; of a topic union, those of all its topics. A recreated topic has a new id.

        Raises as `offset_bounds` does.
        """

    def offsets_for_time(self, topic: str, seconds: float) -> Mapping[int, int]:
        """Return per partition the offset of the first message appended at `seconds` (since 1970) or later, else the
        end offset.

        Raises as `offset_bounds` does.
        """

    def fetch(self, topic: str, partition: int, start: int, to: int) -> Iterable[Message]:
        """Return the messages at offsets [start, to), to be read once; `batches_of` returns them as arrays.

        Reading them raises `MessagesLostError`, `LogUnavailableError`, `CorruptBatchError`.
        """

    def slow_reading(self, topic: str) -> str:
        """Return why a topic that was read here is read message by message; empty: it is read in batches."""

    def follow(self, topic: str, partition: int, start: int, seconds: float) -> Sequence[Message]:
        """Return the available messages from offset `start` on, or wait up to `seconds` for the first.

        Raises as `fetch` does, except that a long wait for messages is no error.
        """

    def await_messages(self, topic: str, starts: Mapping[int, int], seconds: float) -> bool:
        """Wait up to `seconds` until a partition has messages at its offset in `starts` or later; return whether one
        may have them.

        Raises `LogUnavailableError`.
        """

    def record_sender(self) -> AbstractContextManager[RecordSender]:
        """Send messages in order; its end returns once all are delivered, or raises `LogUnavailableError`,
        or `RecordRefusedError`.
        """

    def publish(
        self, writer: str, round_id: RoundId, records: Iterable[OutgoingRecord], positions: Sequence[WriterPosition]
    ) -> None:
        """Write the output of a round atomically and exactly once, from whichever attempt is first.

        A round that is not later than the last one that `writer` wrote to one of `positions` is dropped. The header
        `stamps.HEADER` of each record contains the round and the sender, since other senders may write to the same
        partition. Raises `RecordRefusedError`.
        """

    def appender(self, writer: str, topic: str) -> Appender:
        """Open a log of one partition for writing, and fence the previous writer with the same name `writer`."""
