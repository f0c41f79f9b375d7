"""Topics as lists in memory, instead of Kafka: offsets with gaps, fencing, and a crash at a chosen call."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter

import msgspec

from springline.spark_jobs.streaming.errors import FencedError, MessagesLostError
from springline.spark_jobs.streaming.runtime.message import Headers, Message, header_pairs
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord, RoundId, WriterPosition
from springline.spark_jobs.streaming.runtime.rounds import OffsetBounds
from springline.spark_jobs.streaming.runtime.stamps import HEADER, Stamp
from springline.spark_jobs.streaming.runtime.topic_union import partition_of, topics_of, union_partitions

_OFFSET = attrgetter("offset")


class KilledError(Exception):
    """A simulated crash of the process that uses a `MemoryLog`, at the call that `MemoryLog.calls_until_death` sets.

    Example:
        >>> from springline.testing import KilledError, MemoryLog
        >>> log = MemoryLog({"lines": 1})
        >>> log.calls_until_death = 0
        >>> try:
        ...     list(log.fetch("lines", 0, 0, 1))
        ... except KilledError:
        ...     "dead"
        'dead'
    """


class MemoryLog:
    """Topics as lists of messages; every second message is followed by a gap in the offsets, as by a commit marker.

    It replaces Kafka in `StageRun` and `JobRun`, and can be passed to a `Tracker` as its `log`. As on Kafka, a topic to
    read can be the union of several topics, such as `orders+items`.

    Args:
        topics: number of partitions of each topic, by name.

    Attributes:
        topics: the messages, by topic and partition: `log.topics["lines"][0]`.
        log_start_offsets: the first available offset of each partition, by (topic, partition).
        calls_until_death: number of calls after which each further one raises `KilledError`; None: no limit.

    Raises:
        MessagesLostError: from `fetch` and `follow`, if the requested messages were deleted.
        RecordRefusedError: from `send` and `publish`, if a record is larger than Kafka takes.
        KilledError: from any call, when `calls_until_death` is used up.

    Example:
        >>> from springline.testing import MemoryLog
        >>> log = MemoryLog({"lines": 2})
        >>> log.put("lines", 0, b"to be")
        >>> log.put("lines", 0, b"or not to be")
        >>> [(message.offset, message.value) for message in log.fetch("lines", 0, 0, 10)]
        [(0, b'to be'), (2, b'or not to be')]
    """

    def __init__(self, topics: Mapping[str, int]) -> None:
        self.topics: dict[str, list[list[Message]]] = {
            name: [[] for _ in range(partitions)] for name, partitions in topics.items()
        }
        self.log_start_offsets: dict[tuple[str, int], int] = defaultdict(int)
        self.calls_until_death: int | None = None
        self._log_end_offsets: dict[tuple[str, int], int] = defaultdict(int)
        self._creation_counts: dict[str, int] = defaultdict(int)  # how often a topic was recreated
        self._owners: dict[str, object] = {}
        self._written: dict[tuple[str, int], _WrittenRounds] = {}

    def add_partition(self, topic: str) -> int:
        """Add a partition to a topic; returns its number."""
        self.topics[topic].append([])
        return len(self.topics[topic]) - 1

    def recreate_topic(self, topic: str) -> None:
        """Delete a topic and recreate it with the same number of partitions."""
        self._creation_counts[topic] += 1
        for partition in range(len(self.topics[topic])):
            self.topics[topic][partition] = []
            self.log_start_offsets[topic, partition] = self._log_end_offsets[topic, partition] = 0

    def put(
        self, topic: str, partition: int, value: bytes | None, timestamp: float = 1.0, *,
        key: bytes | None = None, headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> None:  # fmt: skip
        """Append a message as a producer outside the job would, at a time in seconds since 1970; None: no value."""
        record = OutgoingRecord(topic, partition, value or b"", Headers(headers), key, is_null=value is None)
        self._append(record, timestamp)

    def offset_bounds(self, topic: str) -> dict[int, OffsetBounds]:
        """Return the first offset of each partition of a topic, and the offset after its last message."""
        return union_partitions([self._offset_bounds(part) for part in topics_of(topic)], OffsetBounds(0, 0))

    def ids(self, *topics: str) -> dict[str, str]:
        return {part: f"{part} {self._creation_counts[part]}" for topic in topics for part in topics_of(topic)}

    def _offset_bounds(self, topic: str) -> dict[int, OffsetBounds]:
        return {
            partition: OffsetBounds(self.log_start_offsets[topic, partition], self._log_end_offsets[topic, partition])
            for partition in range(len(self.topics[topic]))
        }

    def offsets_for_time(self, topic: str, seconds: float) -> dict[int, int]:
        return {
            partition: next((m.offset for m in self.topics[topic][partition] if m.timestamp >= seconds), extent.high)
            for partition, extent in self.offset_bounds(topic).items()
        }

    def slow_reading(self, topic: str) -> str:
        """Return an empty text: its messages are objects anyway."""
        return ""

    def fetch(self, topic: str, partition: int, start: int, to: int) -> Iterator[Message]:
        """Yield the messages of a partition at offsets [start, to)."""
        self._count_call()
        number, (topic, partition) = partition, partition_of(topic, partition)
        if start >= to:
            return
        if start < self.log_start_offsets[topic, partition]:
            raise MessagesLostError(f"{topic}[{partition}]: messages from offset {start} on are no longer available")
        messages = self.topics[topic][partition]
        first = bisect_left(messages, start, key=_OFFSET)
        for message in messages[first : bisect_left(messages, to, first, key=_OFFSET)]:
            yield message if message.partition == number else msgspec.structs.replace(message, partition=number)

    def follow(self, topic: str, partition: int, start: int, seconds: float) -> list[Message]:
        messages = list(self.fetch(topic, partition, start, self._log_end_offsets[topic, partition]))
        if not messages:
            time.sleep(min(seconds, 0.001))
        return messages

    def await_messages(self, topic: str, starts: Mapping[int, int], seconds: float) -> bool:
        has_messages = any(bounds.high > starts.get(each, 0) for each, bounds in self.offset_bounds(topic).items())
        if not has_messages:
            time.sleep(min(seconds, 0.001))
        return has_messages

    @contextmanager
    def record_sender(self) -> Iterator[MemoryLog]:
        yield self
        self._count_call()

    def send(self, record: OutgoingRecord) -> None:
        self._count_call()
        record.check_size()
        self._append(record)

    def publish(
        self, writer: str, round_id: RoundId, records: Iterable[OutgoingRecord], positions: Sequence[WriterPosition]
    ) -> None:
        self._count_call()
        round_ids = [
            self._newest_rounds(topic, partition).get(sender, (0, 0)) for topic, partition, sender in positions
        ]
        if round_id > max(round_ids, default=(0, 0)):
            for record in (pending := list(records)):
                record.check_size()
            for record in pending:
                self._append(record)
        self._count_call()

    def appender(self, writer: str, topic: str) -> _Appender:
        self._owners[writer] = appender = _Appender(self, writer, topic)
        return appender

    def is_owner(self, writer: str, appender: object) -> bool:
        """Return whether `appender` still owns the writer's log, that is, no other one has opened it since."""
        return self._owners[writer] is appender

    def delete(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the messages of each partition before an offset, as Kafka's retention would."""
        for partition, offset in before.items():
            self.topics[topic][partition] = [
                message for message in self.topics[topic][partition] if message.offset >= offset
            ]
            self.log_start_offsets[topic, partition] = max(offset, self.log_start_offsets[topic, partition])

    def truncate(self, topic: str) -> None:
        """Make the current messages of a topic unreadable, as Kafka's retention would."""
        for partition in range(len(self.topics[topic])):
            self.log_start_offsets[topic, partition] = self._log_end_offsets[topic, partition]

    def _newest_rounds(self, topic: str, partition: int) -> Mapping[int, RoundId]:
        """Return the newest round of each sender among the messages of a partition."""
        messages = self.topics[topic][partition]
        written = self._written.get((topic, partition))
        if written is None or written.messages is not messages or len(messages) < written.count:
            written = self._written[topic, partition] = _WrittenRounds(messages)
        return written.catch_up()

    def _append(self, record: OutgoingRecord, timestamp: float = 1.0) -> None:
        place = (record.topic, record.partition)
        messages = self.topics[record.topic][record.partition]
        offset, headers = self._log_end_offsets[place], Headers(header_pairs(record.headers))
        timestamp = record.timestamp or timestamp
        messages.append(Message(offset, record.value, timestamp, headers, record.key, record.is_null, record.partition))
        self._log_end_offsets[place] += 1 + len(messages) % 2

    def _count_call(self) -> None:
        if self.calls_until_death is not None:
            self.calls_until_death -= 1
            if self.calls_until_death < 0:
                raise KilledError


class _WrittenRounds:
    """The newest round of each sender among the first `count` messages of a partition."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages
        self.count = 0
        self._newest: dict[int, RoundId] = {}

    def catch_up(self) -> Mapping[int, RoundId]:
        """Return it for all messages."""
        for message in self.messages[self.count :]:
            if HEADER in message.headers:
                stamp = Stamp.decode(message.headers[HEADER])
                newest = self._newest.get(stamp.unit, (0, 0))
                self._newest[stamp.unit] = max(newest, (stamp.incarnation, stamp.round))
        self.count = len(self.messages)
        return self._newest


class _Appender:
    def __init__(self, log: MemoryLog, writer: str, topic: str) -> None:
        self._log, self._writer, self._topic = log, writer, topic

    def append(self, values: Sequence[bytes]) -> int:
        self._log._count_call()
        if not self._log.is_owner(self._writer, self):
            raise FencedError(f"{self._writer}: another driver of this job has fenced it")
        for value in values:
            self._log.put(self._topic, 0, value)
        self._log._count_call()
        return self._log.topics[self._topic][0][-1].offset
