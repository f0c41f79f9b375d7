"""Reads from Kafka by librdkafka: new messages from an offset on, and messages between two offsets where record
batches cannot be read (`fetcher.py`).

For messages between two offsets there is a seeker, a consumer that has no partition between two reads: a fetch that
waits for new messages would hold up the next place for as long. Offsets may have gaps where a transaction was committed
or aborted, so the broker soon reports the end of the partition to a seeker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from springline.spark_jobs.streaming.errors import LogUnavailableError, MessagesLostError, UnknownTopicError
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.runtime.message import NO_HEADERS, Headers, Message
from springline.spark_jobs.streaming.runtime.message_log import MAX_RECORD_BYTES
from springline.spark_jobs.streaming.runtime.rounds import OffsetBounds

_AT_ONCE = 256  # messages taken from the client's queue per call
_WAIT = 0.02  # seconds that a call waits for messages
_WAITS = (
    5_000  # milliseconds until the broker reports that there are no more messages; until then no other fetch begins
)
_WAITS_NEXT = 800  # the same for the consumer of `await_messages`
_WAITS_SHORT = 5  # the same for seekers
_MAX_CONSUMERS = 64  # consumers of one partition cached per process
_OFFSET_ERRORS = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}
UNKNOWN_TOPIC_ERRORS = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}


class _PartitionConsumer(NamedTuple):
    """A consumer of one partition, and its position."""

    consumer: Consumer
    position: int


class ConsumerPool:
    """The consumers of a process, cached between reads. Not thread-safe.

    `read_bounds` returns the offsets that a topic holds.
    """

    def __init__(
        self, cluster: Cluster, timeout: float, read_bounds: Callable[[str], Mapping[int, OffsetBounds]]
    ) -> None:
        self._cluster = cluster
        self._timeout = timeout
        self._read_bounds = read_bounds
        self._readers: dict[tuple[str, int], _PartitionConsumer] = {}  # of `follow`; used last at the end
        self._seekers: list[Consumer] = []  # those without a partition
        self._followed: tuple[Consumer, dict[str, int]] | None = None  # of `follow_topics`, and its positions
        self._waiting: tuple[Consumer, Mapping[tuple[str, int], int]] | None = None  # of `await_messages`, the same

    def fetch(self, topic: str, partition: int, start: int, to: int, *, number: int) -> Iterator[Message]:
        """Yield the messages of a partition at the offsets [start, to) as they arrive; they say `number` of it.

        Raises `MessagesLostError`, `UnknownTopicError`, `LogUnavailableError`.
        """
        where, position, last_message_at = f"{topic}[{partition}]", start, time.monotonic()
        seeker = self._seekers.pop() if self._seekers else self._consumer(_WAITS_SHORT)
        seeker.assign([TopicPartition(topic, partition, start)])
        try:
            while position < to:
                messages = seeker.consume(min(_AT_ONCE, to - position), _WAIT)
                for message in messages:
                    offset = message.offset() or 0
                    if (error := message.error()) is not None:
                        position = max(position, self._end_of_partition(error, offset, where, position))
                        continue
                    if offset < position:
                        continue
                    if offset >= to:  # the offsets before it were gaps
                        return
                    position = offset + 1
                    yield _message(message, number)
                if messages:
                    last_message_at = time.monotonic()
                elif time.monotonic() - last_message_at > self._timeout:
                    raise missing_error(where, self._read_bounds(topic)[partition], (position, to), self._timeout)
        finally:
            seeker.unassign()
            self._seekers.append(seeker)

    def follow(self, topic: str, partition: int, start: int, seconds: float) -> Sequence[Message]:
        """Return messages from an offset on, waiting up to `seconds` for the first; see `MessageLog`."""
        reader = self._readers.pop((topic, partition), None)  # not cached until it is kept again
        if reader is not None and reader.position != start:
            reader.consumer.close()
            reader = None
        if reader is None:
            reader = _PartitionConsumer(self._consumer(_WAITS), start)
            reader.consumer.assign([TopicPartition(topic, partition, start)])
        messages = self._poll(reader.consumer, {(topic, partition): start}, seconds)[topic, partition]
        position = messages[-1].offset + 1 if messages else start
        self._readers[topic, partition] = _PartitionConsumer(reader.consumer, position)
        while len(self._readers) > _MAX_CONSUMERS:
            self._readers.pop(next(iter(self._readers))).consumer.close()
        return messages

    def follow_topics(self, starts: Mapping[str, int], seconds: float) -> dict[str, list[Message]]:
        """Return messages of topics of one partition from these offsets on, waiting up to `seconds` for the first.

        One consumer serves all of them; raises as `follow` does.
        """
        if self._followed is None:
            self._followed = (self._consumer(_WAITS), {})
        consumer, positions = self._followed
        if positions != starts:
            consumer.assign([TopicPartition(topic, 0, start) for topic, start in starts.items()])
        self._followed = (consumer, {})  # unknown, if an error is raised
        messages = self._poll(consumer, {(topic, 0): start for topic, start in starts.items()}, seconds)
        by_topic = {topic: messages[topic, 0] for topic in starts}
        positions = {topic: each[-1].offset + 1 if each else starts[topic] for topic, each in by_topic.items()}
        self._followed = (consumer, positions)
        return by_topic

    def await_messages(self, starts: Mapping[tuple[str, int], int], seconds: float) -> bool:
        """Wait up to `seconds` for a message of one of these partitions at its offset or later; see `MessageLog`.

        One consumer serves all of them. What it fetches is read again by others, so it fetches as little as it can.
        """
        if self._waiting is None:
            self._waiting = (
                self._consumer(_WAITS_NEXT, fetch_message_max_bytes=1, queued_max_messages_kbytes=1),
                {},
            )
        consumer, positions = self._waiting
        if positions != starts:
            consumer.assign([TopicPartition(topic, partition, start) for (topic, partition), start in starts.items()])
        try:
            has_messages = any(self._poll(consumer, starts, seconds).values())
        except (MessagesLostError, UnknownTopicError):  # which is for those to say who read them
            has_messages = True
        if has_messages:
            consumer.unassign()
        self._waiting = (consumer, {} if has_messages else dict(starts))
        return has_messages

    def close(self) -> None:
        """Close all consumers."""
        if self._waiting is not None:
            self._waiting[0].close()
            self._waiting = None
        if self._followed is not None:
            self._followed[0].close()
            self._followed = None
        for consumer in (*(reader.consumer for reader in self._readers.values()), *self._seekers):
            consumer.close()
        self._readers.clear()
        self._seekers.clear()

    def _poll(
        self, consumer: Consumer, starts: Mapping[tuple[str, int], int], seconds: float
    ) -> dict[tuple[str, int], list[Message]]:
        """Return the messages of these partitions from these offsets on, waiting up to `seconds` for the first."""
        messages: dict[tuple[str, int], list[Message]] = {place: [] for place in starts}
        until = time.monotonic() + seconds
        left = seconds
        while left >= 0 and not any(messages.values()):
            message = consumer.poll(left)
            while message is not None:
                place, offset = (message.topic() or "", message.partition() or 0), message.offset() or 0
                if (error := message.error()) is not None:
                    self._end_of_partition(error, offset, f"{place[0]}[{place[1]}]", starts.get(place, 0))
                elif offset >= starts[place]:
                    messages[place].append(_message(message, place[1]))
                message = consumer.poll(0)
            left = until - time.monotonic()
        return messages

    def _end_of_partition(self, error: KafkaError, offset: int, where: str, position: int) -> int:
        """Return the offset up to which there are no more messages; 0 if the error does not say."""
        if error.code() == KafkaError._PARTITION_EOF:
            return offset
        if error.code() in _OFFSET_ERRORS:
            raise MessagesLostError(
                f"{where}: messages from offset {position} on are no longer available ({error.str()})"
            )
        if error.code() in UNKNOWN_TOPIC_ERRORS:
            raise UnknownTopicError(f"{where} does not exist at {self._cluster.servers}")
        if error.fatal():
            raise LogUnavailableError(f"{where}, offset {position}: {error.str()}")
        return 0  # the client retries

    def _consumer(
        self,
        waits: int,
        *,
        fetch_message_max_bytes: int = MAX_RECORD_BYTES,
        queued_max_messages_kbytes: int = 8192,
    ) -> Consumer:
        return Consumer(
            self._cluster.config(
                group_id="springline", enable_auto_commit=False, auto_offset_reset="error", enable_partition_eof=True,
                isolation_level="read_committed", fetch_message_max_bytes=fetch_message_max_bytes,
                fetch_max_bytes=64 << 20, receive_message_max_bytes=100 << 20,
                queued_max_messages_kbytes=queued_max_messages_kbytes, fetch_wait_max_ms=waits,
                fetch_queue_backoff_ms=1, check_crcs=False,
            )
        )  # fmt: skip


def missing_error(
    where: str, bounds: OffsetBounds, missing: tuple[int, int], timeout: float
) -> LogUnavailableError | MessagesLostError:
    """Return the error for messages at the offsets [start, to) that are missing although `to` was once the end."""
    start, to = missing
    if bounds.high < to:
        return MessagesLostError(
            f"{where}: the messages at offsets {start} to {to - 1} are no longer available; available: {bounds.low} to "
            f"{bounds.high}"
        )
    return LogUnavailableError(f"{where}: no message at offset {start} (of {to}) within {timeout:g} s")


def _message(message: Any, partition: int) -> Message:
    headers, value = message.headers(), message.value()
    return Message(
        message.offset(), value or b"", message.timestamp()[1] / 1000, Headers(headers) if headers else NO_HEADERS,
        message.key(), value is None, partition,
    )  # fmt: skip
