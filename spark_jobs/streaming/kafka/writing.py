"""Ways of writing to Kafka: messages that all arrive, transactions of a round, a log that has one writer.

librdkafka asks again and again, without a pause, whether what waits behind a batch on its way may go; that takes a core
away from the broker whose answer it waits for. So messages are held back until they are flushed, and flushed before
more than one batch of a unit waits.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException, Producer

from springline.spark_jobs.streaming.errors import FencedError, LogUnavailableError
from springline.spark_jobs.streaming.runtime.message_log import Letter

FENCED = {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}
_PASSING = {  # of a broker that is being restarted, of a topic that is being made
    KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN, KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH,
    KafkaError._NOENT,  # no leader yet
}  # fmt: skip


_BATCH = 4 << 20  # bytes of a unit that go together
_BESIDE = 512  # bytes that a message takes beside its value, at most
WRITING = {
    "linger_ms": 500, "batch_size": _BATCH, "batch_num_messages": 1_000_000, "queue_buffering_max_messages": 1_000_000,
    "queue_buffering_max_kbytes": 262_144,
}  # fmt: skip


class _Batches:
    """Gives messages to a producer, a batch of each unit at once; what is still held goes with the producer's flush."""

    def __init__(self, producer: Producer, patience: float, told: Callable[[Any, Any], None]) -> None:
        self._producer = producer
        self._patience = patience
        self._told = told
        self._held = Counter[tuple[str, int]]()

    def add(self, letter: Letter) -> None:
        place, size = (letter.topic, letter.unit), len(letter.value) + _BESIDE
        if self._held[place] and self._held[place] + size > _BATCH:
            self.flush()
        headers: list[tuple[str, str | bytes | None]] = list(letter.headers.items())
        while True:
            try:
                self._producer.produce(
                    letter.topic, letter.value, partition=letter.unit, headers=headers, on_delivery=self._told
                )
                break
            except BufferError:  # its queue is full
                self.flush()
        self._held[place] += size

    def flush(self) -> int:
        """Wait until all have arrived; how many have not, within the patience."""
        self._held.clear()
        return self._producer.flush(self._patience)


class Sending:
    """Messages that an idempotent producer was given; `finish` waits for all, and says what did not arrive."""

    def __init__(self, producer: Producer, patience: float) -> None:
        self._patience = patience
        self._failed: list[KafkaError] = []
        self._batches = _Batches(producer, patience, self._told)

    def send(self, letter: Letter) -> None:
        self._batches.add(letter)

    def finish(self) -> None:
        """Raises `LogUnavailableError`."""
        left = self._batches.flush()
        if left or self._failed:
            why = self._failed[0].str() if self._failed else f"{left} messages on their way for {self._patience:g} s"
            raise LogUnavailableError(f"messages could not be sent: {why}")

    def _told(self, error: KafkaError | None, message: object) -> None:
        if error is not None:
            self._failed.append(error)


class KafkaAppender:
    """The one writer of a log of one unit."""

    def __init__(self, producer: Producer, writer: str, topic: str, patience: float) -> None:
        self._producer = producer
        self._writer = writer
        self._topic = topic
        self._patience = patience

    def append(self, values: Sequence[bytes]) -> int:
        """Append all or none; the offset of the last.

        Raises `FencedError` where somebody else has opened the log since, `LogUnavailableError`.
        """
        try:
            return write_transaction(
                self._producer, [Letter(self._topic, 0, value) for value in values], self._patience
            )
        except KafkaException as error:
            if error.args[0].code() in FENCED:
                raise FencedError(f"{self._writer}: another driver of this job has taken over") from error
            raise LogUnavailableError(f"{self._topic}: {error.args[0]}") from error


def write_transaction(producer: Producer, letters: Iterable[Letter], patience: float) -> int:
    """Write all or none; the greatest offset of any of them. Raises `KafkaException`."""
    offsets = [-1]

    def told(error: KafkaError | None, message: Any) -> None:
        if error is None:
            offsets.append(message.offset())

    batches = _Batches(producer, patience, told)
    producer.begin_transaction()
    try:
        for letter in letters:
            batches.add(letter)
        batches.flush()  # which tells where each is
        retried(lambda: producer.commit_transaction(patience), patience)
    except KafkaException as error:
        if error.args[0].txn_requires_abort():
            with suppress(KafkaException):
                producer.abort_transaction(patience)
        raise
    return max(offsets)


def retried(call: Callable[[], Any], patience: float) -> Any:
    """Call again, for so many seconds, while Kafka says that this may help; raises `KafkaException`."""
    until = time.monotonic() + patience
    while True:
        try:
            return call()
        except KafkaException as error:
            told = cast("KafkaError", error.args[0])
            if not (told.retriable() or told.code() in _PASSING) or told.fatal() or time.monotonic() > until:
                raise
            time.sleep(0.1)
