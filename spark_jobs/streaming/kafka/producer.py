"""Writes to Kafka: messages with confirmed delivery, one transaction per round, a log with a single writer.

While messages wait for a batch in flight, librdkafka polls without a pause whether they can be sent, which takes a core
away from the broker. So messages are buffered until they are flushed, and flushed before more than one batch of a
partition
is queued.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException, Producer

from springline.spark_jobs.streaming.errors import FencedError, LogUnavailableError, RecordRefusedError, StreamError
from springline.spark_jobs.streaming.runtime.message import header_pairs
from springline.spark_jobs.streaming.runtime.message_log import MAX_RECORD_BYTES, OutgoingRecord

FENCED_ERRORS = {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}
_TRANSIENT_ERRORS = {  # of a broker that is restarting, of a topic that is being created
    KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN, KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH,
    KafkaError._NOENT,  # no leader yet
}  # fmt: skip
_TOO_LARGE_ERRORS = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}

_BATCH_BYTES = 4 << 20  # bytes of a partition that are sent together
_OVERHEAD_BYTES = 512  # bytes of a message in addition to its value, at most
PRODUCER_CONFIG = {
    "linger_ms": 500, "batch_size": _BATCH_BYTES, "batch_num_messages": 1_000_000,
    "queue_buffering_max_messages": 1_000_000,
    "queue_buffering_max_kbytes": 262_144,
}  # fmt: skip


class _BatchedProducer:
    """Passes messages to a producer in batches per partition; the last ones are sent by its flush."""

    def __init__(self, producer: Producer, timeout: float, on_success: Callable[[Any], None] | None = None) -> None:
        self._producer = producer
        self._timeout = timeout
        self._buffered_bytes = Counter[tuple[str, int]]()
        self._undelivered: tuple[KafkaError, Any] | None = None  # the first one, with its message

        # A function that calls nothing if there is an error, and no method: once a producer is fenced, the client holds
        # an error while it calls this, and each call that Python checks would raise a SystemError instead.
        def on_delivery(error: KafkaError | None, message: Any) -> None:
            if error is None:
                if on_success is not None:
                    on_success(message)
            elif self._undelivered is None:
                self._undelivered = (error, message)

        self._on_delivery = on_delivery

    @property
    def failure(self) -> StreamError | None:
        """Why the first of the messages was not delivered that were not."""
        if self._undelivered is None:
            return None
        error, message = self._undelivered
        return _delivery_error(error, message.topic(), message.partition(), message.key(), message.value())

    def add(self, record: OutgoingRecord) -> None:
        """Queue a message; raises `RecordRefusedError` if it is too large."""
        record.check_size()
        place, size = (record.topic, record.partition), len(record.value) + _OVERHEAD_BYTES
        if self._buffered_bytes[place] and self._buffered_bytes[place] + size > _BATCH_BYTES:
            self.flush()
        headers: list[tuple[str, str | bytes | None]] = list(header_pairs(record.headers))
        value = None if record.is_null else record.value
        while True:
            try:
                self._producer.produce(
                    record.topic, value, key=record.key, partition=record.partition, headers=headers,
                    timestamp=round(record.timestamp * 1000), on_delivery=self._on_delivery,
                )  # fmt: skip
                break
            except BufferError:  # the queue of the producer is full
                self.flush()
            except KafkaException as error:
                if error.args[0].code() not in _TOO_LARGE_ERRORS:
                    raise
                raise _delivery_error(
                    error.args[0], record.topic, record.partition, record.key, record.value
                ) from error
        self._buffered_bytes[place] += size

    def flush(self) -> int:
        """Wait until all messages are delivered; returns how many are not, within the timeout."""
        self._buffered_bytes.clear()
        try:
            return self._producer.flush(self._timeout)
        except SystemError:  # the client has logged a fatal error, and lost it; the next call to it says it again
            return self._producer.flush(self._timeout)


def _delivery_error(
    error: KafkaError, topic: str, partition: int, key: bytes | None, value: bytes | None
) -> StreamError:
    """Return the error for a message that was not delivered, with its place and the remedy."""
    size = len(key or b"") + len(value or b"")
    what = f"{topic}[{partition}]: a record of {size:,} bytes"
    if error.code() in _TOO_LARGE_ERRORS:
        return RecordRefusedError(
            f"{what} is larger than the topic takes ({error.str()}); set max.message.bytes of {topic} to "
            f"{MAX_RECORD_BYTES}, and message.max.bytes of the client if it is set"
        )
    if error.code() == KafkaError.INVALID_RECORD:
        remedy = "; it has no key, which a topic with cleanup.policy=compact requires" if key is None else ""
        return RecordRefusedError(f"{what} is refused by the topic ({error.str()}){remedy}")
    return LogUnavailableError(f"{what} could not be sent: {error.str()}")


class KafkaSender:
    """Sends messages with an idempotent producer; `finish` waits for delivery, and raises for failed messages."""

    def __init__(self, producer: Producer, timeout: float) -> None:
        self._timeout = timeout
        self._batches = _BatchedProducer(producer, timeout)

    def send(self, record: OutgoingRecord) -> None:
        self._batches.add(record)

    def finish(self) -> None:
        """Wait until all messages are delivered; raises `LogUnavailableError`, `RecordRefusedError`."""
        undelivered = self._batches.flush()
        if (failure := self._batches.failure) is not None:
            raise failure
        if undelivered:
            raise LogUnavailableError(f"{undelivered} messages not delivered within {self._timeout:g} s")


class KafkaAppender:
    """The single writer of a log of one partition."""

    def __init__(self, producer: Producer, writer: str, topic: str, timeout: float) -> None:
        self._producer = producer
        self._writer = writer
        self._topic = topic
        self._timeout = timeout

    def append(self, values: Sequence[bytes]) -> int:
        """Append all values or none, and return the offset of the last.

        Raises `FencedError` if another writer has opened the log since, `RecordRefusedError`, `LogUnavailableError`.
        """
        try:
            return write_transaction(
                self._producer, [OutgoingRecord(self._topic, 0, value) for value in values], self._timeout
            )
        except KafkaException as error:
            if error.args[0].code() in FENCED_ERRORS:
                raise FencedError(f"{self._writer}: another driver of this job has fenced it") from error
            raise LogUnavailableError(f"{self._topic}: {error.args[0]}") from error


def write_transaction(producer: Producer, records: Iterable[OutgoingRecord], timeout: float) -> int:
    """Write all records or none, and return their greatest offset.

    Raises `KafkaException`, and `RecordRefusedError` if that is due to one of the records.
    """
    offsets = [-1]
    batches = _BatchedProducer(producer, timeout, lambda message: offsets.append(message.offset()))
    producer.begin_transaction()
    try:
        for record in records:
            batches.add(record)
        batches.flush()  # after which all offsets are known
        call_with_retries(lambda: producer.commit_transaction(timeout), timeout)
    except (KafkaException, RecordRefusedError) as error:
        if isinstance(error, RecordRefusedError) or error.args[0].txn_requires_abort():
            with suppress(KafkaException):
                producer.abort_transaction(timeout)
        if isinstance(failure := batches.failure, RecordRefusedError):
            raise failure from error
        raise
    return max(offsets)


def call_with_retries(call: Callable[[], Any], timeout: float) -> Any:
    """Retry a call for up to `timeout` seconds while the error of Kafka is transient; raises `KafkaException`."""
    until = time.monotonic() + timeout
    while True:
        try:
            return call()
        except KafkaException as error:
            kafka_error = cast("KafkaError", error.args[0])
            if (
                not (kafka_error.retriable() or kafka_error.code() in _TRANSIENT_ERRORS)
                or kafka_error.fatal()
                or time.monotonic() > until
            ):
                raise
            time.sleep(0.1)
