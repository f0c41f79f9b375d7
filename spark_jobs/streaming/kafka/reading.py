"""Ways of reading from Kafka: messages between two offsets, and whatever comes from an offset on.

Offsets may have gaps where a transaction ended or was aborted. When nothing has come for a moment, a consumer of its
own looks whether there is one before the end that is asked for: the broker soon tells it that no more are there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, TopicPartition

from springline.spark_jobs.streaming.errors import LogUnavailableError, MessagesLostError, UnknownTopicError
from springline.spark_jobs.streaming.kafka.cluster import MAX_BYTES, Cluster
from springline.spark_jobs.streaming.runtime.rounds import Extent
from springline.spark_jobs.streaming.runtime.step import Message

_AT_ONCE = 256  # messages taken from the client's queue in one call
_WAIT = 0.02  # seconds without messages, after which an end behind a gap is looked for
_WAITS = 500  # milliseconds until the broker says that there are no more messages
_WAITS_SHORT = 5  # where an end behind a gap is looked for: it is seen by that
_READERS = 64  # consumers that a process keeps
_GONE = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}
NOT_THERE = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}


@dataclass
class _Reader:
    """A consumer of one unit, and the offset that it goes on at; None: unknown."""

    consumer: Consumer
    at: int | None = None


class Readers:
    """The consumers of a process, one a unit, kept from one reading to the next. Not to be shared by threads.

    `extents` tells what a topic holds.
    """

    def __init__(self, cluster: Cluster, patience: float, extents: Callable[[str], Mapping[int, Extent]]) -> None:
        self._cluster = cluster
        self._patience = patience
        self._extents = extents
        self._readers: dict[tuple[str, int], _Reader] = {}
        self._looking: Consumer | None = None  # for ends behind gaps

    def fetch(self, topic: str, unit: int, start: int, to: int) -> Iterator[Message]:
        """The messages of a unit at the offsets [start, to), as they come.

        Raises `MessagesLostError`, `UnknownTopicError`, `LogUnavailableError`.
        """
        reader = self._reading(topic, unit, start)
        reader.at = None
        yield from self._fetched(reader, TopicPartition(topic, unit), start, to)
        self._keep(topic, unit, reader)  # not if it was left on the way: where it is then is not known

    def follow(self, topic: str, unit: int, start: int, seconds: float) -> Sequence[Message]:
        """Messages from an offset on, once there are any, within so many seconds; see `Log`."""
        reader = self._reading(topic, unit, start)
        found: list[Message] = []
        until = time.monotonic() + seconds
        while not found and (left := until - time.monotonic()) > 0:
            message = reader.consumer.poll(left)
            while message is not None:
                offset = message.offset() or 0
                if (error := message.error()) is not None:
                    self._end_told(error, offset, f"{topic}[{unit}]", start)
                elif offset >= start:
                    found.append(_message(message))
                message = reader.consumer.poll(0)
        reader.at = found[-1].offset + 1 if found else start
        self._keep(topic, unit, reader)
        return found

    def close(self) -> None:
        """Let go of all consumers."""
        for reader in self._readers.values():
            reader.consumer.close()
        if self._looking is not None:
            self._looking.close()
            self._looking = None
        self._readers.clear()

    def _reading(self, topic: str, unit: int, start: int) -> _Reader:
        """The consumer of a unit, at an offset; not kept until it is given back."""
        reader = self._readers.pop((topic, unit), None) or _Reader(self._consumer(_WAITS))
        if reader.at != start:
            reader.consumer.assign([TopicPartition(topic, unit, start)])
        return reader

    def _keep(self, topic: str, unit: int, reader: _Reader) -> None:
        self._readers[topic, unit] = reader
        while len(self._readers) > _READERS:
            self._readers.pop(next(iter(self._readers))).consumer.close()

    def _fetched(self, reader: _Reader, place: TopicPartition, start: int, to: int) -> Iterator[Message]:
        where, at, last_seen = f"{place.topic}[{place.partition}]", start, time.monotonic()
        consumer = reader.consumer
        try:
            while at < to:
                found = consumer.consume(min(_AT_ONCE, to - at), _WAIT)
                for message in found:
                    offset = message.offset() or 0
                    if (error := message.error()) is not None:
                        at = max(at, self._end_told(error, offset, where, at))
                        continue
                    if offset < at:
                        continue
                    if offset >= to:  # the offsets before it were gaps
                        return
                    at = offset + 1
                    yield _message(message)
                if found:
                    last_seen = time.monotonic()
                elif time.monotonic() - last_seen > self._patience:
                    raise self._missing(place, at, to)
                elif consumer is reader.consumer:
                    consumer = self._looking or self._consumer(_WAITS_SHORT)
                    self._looking = None
                    consumer.assign([TopicPartition(place.topic, place.partition, at)])
        finally:
            if consumer is not reader.consumer:
                consumer.unassign()
                self._looking = consumer
        reader.at = to

    def _missing(self, place: TopicPartition, at: int, to: int) -> LogUnavailableError | MessagesLostError:
        """Why no messages come, though there were some up to `to` once."""
        where, extent = f"{place.topic}[{place.partition}]", self._extents(place.topic)[place.partition]
        if extent.high < to:
            return MessagesLostError(
                f"{where}: the messages at offsets {at} to {to - 1} are not there any more, and the log holds "
                f"{extent.low} to {extent.high}"
            )
        return LogUnavailableError(f"{where}: no message at offset {at} (of {to}) within {self._patience:g} s")

    def _end_told(self, error: KafkaError, offset: int, where: str, at: int) -> int:
        """How far the log is known to have no more messages; 0 where the error tells nothing of that."""
        if error.code() == KafkaError._PARTITION_EOF:
            return offset
        if error.code() in _GONE:
            raise MessagesLostError(f"{where}: the messages from offset {at} on are not there any more ({error.str()})")
        if error.code() in NOT_THERE:
            raise UnknownTopicError(f"{where} is not there at {self._cluster.servers}")
        if error.fatal():
            raise LogUnavailableError(f"{where}, offset {at}: {error.str()}")
        return 0  # the client tries again

    def _consumer(self, waits: int) -> Consumer:
        return Consumer(
            self._cluster.config(
                group_id="springline", enable_auto_commit=False, auto_offset_reset="error", enable_partition_eof=True,
                isolation_level="read_committed", fetch_message_max_bytes=MAX_BYTES, fetch_max_bytes=64 << 20,
                receive_message_max_bytes=100 << 20, queued_max_messages_kbytes=8192, fetch_wait_max_ms=waits,
                fetch_queue_backoff_ms=1, check_crcs=False,
            )
        )  # fmt: skip


def _message(message: Any) -> Message:
    headers = cast("dict[str, bytes]", dict(message.headers() or ()))
    return Message(message.offset(), message.value() or b"", message.timestamp()[1] / 1000, headers)
