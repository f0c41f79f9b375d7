"""The log on Kafka: its topics, and their readers (`fetcher.py`, `consumer.py`) and writers (`producer.py`)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import starmap
from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
    Uuid,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from springline.spark_jobs.streaming.errors import (
    LogUnavailableError,
    RecordRefusedError,
    UnknownTopicError,
    UnsupportedClusterError,
)
from springline.spark_jobs.streaming.kafka.cluster import Cluster, logger
from springline.spark_jobs.streaming.kafka.consumer import UNKNOWN_TOPIC_ERRORS, ConsumerPool
from springline.spark_jobs.streaming.kafka.producer import (
    FENCED_ERRORS,
    PRODUCER_CONFIG,
    KafkaAppender,
    KafkaSender,
    call_with_retries,
    write_transaction,
)
from springline.spark_jobs.streaming.runtime.message import FetchedMessages, Message, MessageBatch, batches_of
from springline.spark_jobs.streaming.runtime.message_log import (
    MAX_RECORD_BYTES,
    NO_ROUND,
    OutgoingRecord,
    RoundId,
    TopicSpec,
    WriterPosition,
)
from springline.spark_jobs.streaming.runtime.rounds import OffsetBounds
from springline.spark_jobs.streaming.runtime.stamps import stamp_of
from springline.spark_jobs.streaming.runtime.topic_union import partition_of, topics_of, union_partitions

if TYPE_CHECKING:
    from springline.spark_jobs.streaming.kafka.fetcher import RecordFetcher

TIMEOUT_SECONDS = 100.0  # without an answer: a killed broker has restarted by then, also on a busy machine
_TRANSACTION_SECONDS = 120  # after which a broker aborts a transaction: longer than the timeout of its writer
_DESCRIBED_SECONDS = 10.0  # for one description of a topic
_TOPIC_SECONDS = 1.0  # for which a topic's id and its number of partitions are cached
_LOW_WATERMARK_SECONDS = 1.0  # for which the first offsets are cached: they move only by deletion
_MOMENT_SECONDS = 0.02  # between two checks whether brokers know a topic
_EMPTY = OffsetBounds(0, 0)  # of a partition that does not exist yet
_COMPACTED = {"cleanup.policy": "compact", "segment.bytes": str(MAX_RECORD_BYTES), "min.cleanable.dirty.ratio": "0.1"}
_TAIL = 64  # offsets from the end in the first search for the last message of a writer


@dataclass
class _TransactionalWriter:
    """A transactional producer, and the last round that it has written."""

    producer: Producer
    last_round_id: RoundId


def _topic_config(spec: TopicSpec) -> dict[str, str]:
    config = {"max.message.bytes": str(MAX_RECORD_BYTES), "retention.ms": "-1"}
    if spec.retention_seconds is not None:
        milliseconds = str(round(spec.retention_seconds * 1000))
        config |= {"retention.ms": milliseconds, "segment.ms": milliseconds}
    if spec.compacted:
        config |= _COMPACTED
    if spec.log_append_time:
        config["message.timestamp.type"] = "LogAppendTime"
    return config


def _topic_id(uuid: Uuid) -> str:
    """Return the id of a topic as Kafka's own tools print it: in base64 for URLs and file names, without slashes."""
    return str(uuid).replace("+", "-").replace("/", "_")


@dataclass(frozen=True)
class _TopicDescription:
    """A topic at a moment: its id, and its partitions."""

    described_at: float
    id: str
    partitions: list[int]


class Kafka:
    """The log on Kafka; clients are created on first use, and cached. Not thread-safe.

    A topic that is read may be a union of several (`runtime.topic_union`).
    """

    def __init__(self, cluster: Cluster, *, timeout: float = TIMEOUT_SECONDS) -> None:
        self._cluster = cluster
        self._timeout = timeout
        self._readers = ConsumerPool(cluster, timeout, self.offset_bounds)
        self._message_wise: dict[str, str] = {}  # topics whose record batches cannot be read, and why
        self._writers: dict[str, _TransactionalWriter] = {}
        self._topics: dict[str, _TopicDescription] = {}
        self._low_watermarks: dict[str, tuple[float, dict[int, int]]] = {}

    def connect(self) -> None:
        """Create the producer in advance, since it takes half a second until it is ready."""
        _ = self._producer

    # ---- what is there

    def create(self, topics: Mapping[str, int] | Iterable[TopicSpec]) -> None:
        """Create missing topics in one call, from their specs or numbers of partitions; then brokers know them.

        Raises `LogUnavailableError`.
        """
        specs = list(starmap(TopicSpec, topics.items()) if isinstance(topics, Mapping) else topics)
        if not specs:
            return
        new_topics = [NewTopic(spec.name, spec.partitions, 1, config=_topic_config(spec)) for spec in specs]
        for name, future in self._admin.create_topics(
            new_topics, operation_timeout=30, request_timeout=self._timeout
        ).items():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise LogUnavailableError(
                        f"{name}: could not be created at {self._cluster.servers}: {error}"
                    ) from error
        self._await_topics([spec.name for spec in specs], there=True)

    def all_topics(self) -> frozenset[str]:
        """Return the names of all topics; raises `LogUnavailableError`."""
        try:
            return frozenset(call_with_retries(lambda: self._admin.list_topics(timeout=10).topics, self._timeout))
        except KafkaException as error:
            raise self._unavailable("its topics", error) from error

    def remove(self, topics: Iterable[str]) -> None:
        """Delete topics with all their messages; ignores those that do not exist. Raises `LogUnavailableError`."""
        if not (names := sorted(topics)):
            return
        for name, future in self._admin.delete_topics(
            names, operation_timeout=30, request_timeout=self._timeout
        ).items():
            self._topics.pop(name, None)
            self._low_watermarks.pop(name, None)
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() not in UNKNOWN_TOPIC_ERRORS:
                    raise self._unavailable(name, error) from error
        self._await_topics(names, there=False)

    def _await_topics(self, topics: Iterable[str], *, there: bool) -> None:
        """Wait until a broker knows these topics, or no longer does: its metadata lags behind the controller's."""
        remaining, until = set(topics), time.monotonic() + self._timeout
        while remaining := remaining - self._confirmed_topics(there, remaining):
            if time.monotonic() > until:
                raise LogUnavailableError(
                    f"{', '.join(sorted(remaining))}: after {self._timeout:g} s, Kafka at {self._cluster.servers} "
                    f"{'does not list it' if there else 'still lists it'}"
                )
            time.sleep(_MOMENT_SECONDS)

    def _confirmed_topics(self, there: bool, topics: Iterable[str]) -> set[str]:
        """Return those of the topics whose existence, or absence, a broker confirms now."""
        futures = self._admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=_DESCRIBED_SECONDS)
        confirmed = set()
        for name, future in futures.items():
            try:
                future.result()
                exists = True
            except KafkaException as error:
                if error.args[0].code() not in UNKNOWN_TOPIC_ERRORS:
                    continue
                exists = False
            if exists == there:
                confirmed.add(name)
        return confirmed

    def offset_bounds(self, topic: str) -> Mapping[int, OffsetBounds]:
        try:
            parts = [call_with_retries(partial(self._offset_bounds, part), self._timeout) for part in topics_of(topic)]
            return union_partitions(parts, _EMPTY)
        except KafkaException as error:
            raise self._unavailable(topic, error) from error

    def ids(self, *topics: str) -> Mapping[str, str]:
        return {part: self._topic(part).id for topic in topics for part in topics_of(topic)}

    def offsets_for_time(self, topic: str, seconds: float) -> Mapping[int, int]:
        try:
            parts = [
                call_with_retries(partial(self._offsets_for_time, part, seconds), self._timeout)
                for part in topics_of(topic)
            ]
            return union_partitions(parts, 0)
        except KafkaException as error:
            raise self._unavailable(topic, error) from error

    def _offsets_for_time(self, topic: str, seconds: float) -> dict[int, int]:
        highs = {partition: bounds.high for partition, bounds in self._offset_bounds(topic).items()}
        partitions = [TopicPartition(topic, partition) for partition in highs]
        offsets = self._offsets(partitions, OffsetSpec.for_timestamp(math.ceil(seconds * 1000)))
        return {partition: offsets[partition] if offsets[partition] >= 0 else high for partition, high in highs.items()}

    def _offset_bounds(self, topic: str) -> dict[int, OffsetBounds]:
        partitions = [TopicPartition(topic, partition) for partition in self._topic(topic).partitions]
        asked_at, low_watermarks = self._low_watermarks.get(topic, (float("-inf"), {}))
        if time.monotonic() - asked_at > _LOW_WATERMARK_SECONDS or len(low_watermarks) < len(partitions):
            low_watermarks = self._end_offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
            self._low_watermarks[topic] = (time.monotonic(), low_watermarks)
        highs = self._end_offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return {partition: OffsetBounds(low_watermarks[partition], highs[partition]) for partition in sorted(highs)}

    def _end_offsets(self, partitions: Sequence[TopicPartition], spec: Any) -> dict[int, int]:
        offsets = self._offsets(partitions, spec)
        if min(offsets.values(), default=0) < 0:  # from a broker that has just started
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, f"no offsets yet: {offsets}"))
        return offsets

    def _offsets(self, partitions: Sequence[TopicPartition], spec: Any) -> dict[int, int]:
        futures = self._admin.list_offsets(
            dict.fromkeys(partitions, spec),
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=self._timeout,
        )
        return {partition.partition: future.result().offset for partition, future in futures.items()}

    def delete(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the messages of each partition before an offset."""
        self._low_watermarks.pop(topic, None)
        positions = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        for future in self._admin.delete_records(positions, request_timeout=self._timeout).values():
            try:
                future.result()
            except KafkaException as error:
                raise self._unavailable(topic, error) from error

    # ---- reading

    def fetch(self, topic: str, partition: int, start: int, to: int) -> Iterable[Message]:
        return FetchedMessages(self._batches(topic, partition, start, to))

    def _batches(self, union: str, number: int, start: int, to: int) -> Iterator[MessageBatch]:
        if start >= to:
            return
        (topic, partition), position = partition_of(union, number), start
        if topic not in self._message_wise:
            try:
                for batch in self._fetcher.fetch(topic, partition, start, to, number=number):
                    position = int(batch.offsets[-1]) + 1
                    yield batch
                return
            except UnsupportedClusterError as error:
                self._message_wise[topic] = str(error)
                logger.warning("%s is read message by message, which is slower: %s", topic, error)
        yield from batches_of(self._readers.fetch(topic, partition, position, to, number=number))

    def slow_reading(self, topic: str) -> str:
        reasons = {part: self._message_wise[part] for part in topics_of(topic) if part in self._message_wise}
        return "; ".join(f"{part} is read message by message: {reason}" for part, reason in reasons.items())

    def follow(self, topic: str, partition: int, start: int, seconds: float) -> Sequence[Message]:
        return self._readers.follow(*partition_of(topic, partition), start, seconds)

    def await_messages(self, topic: str, starts: Mapping[int, int], seconds: float) -> bool:
        places = {partition_of(topic, partition): start for partition, start in starts.items()}
        existing = {part: self._topic(part, math.inf).partitions for part in topics_of(topic)}
        return self._readers.await_messages(
            {place: start for place, start in places.items() if place[1] in existing[place[0]]}, seconds
        )

    def follow_topics(self, starts: Mapping[str, int], seconds: float) -> Mapping[str, Sequence[Message]]:
        """Return the available messages of topics of one partition from these offsets on, or wait up to `seconds` for
        the first of any; raises as `follow` does.
        """
        return self._readers.follow_topics(starts, seconds)

    # ---- sending

    @contextmanager
    def record_sender(self) -> Iterator[KafkaSender]:
        sender = KafkaSender(self._producer, self._timeout)
        try:
            yield sender
            sender.finish()
        except BaseException:
            self.__dict__.pop("_producer", None)  # messages queued in it no longer belong to any round
            raise

    def publish(
        self, writer: str, round_id: RoundId, records: Iterable[OutgoingRecord], positions: Sequence[WriterPosition]
    ) -> None:
        pending = list(records)
        for last_try in (False, True):
            cached = self._writers.get(writer)
            if cached is None:
                cached = self._writers[writer] = self._open_writer(writer, positions)
            if round_id <= cached.last_round_id:
                return
            try:
                write_transaction(cached.producer, pending, self._timeout)
                cached.last_round_id = round_id
                return
            except RecordRefusedError:
                del self._writers[writer]
                raise
            except KafkaException as error:
                del self._writers[writer]  # reopening it reads what was written meanwhile
                if last_try or error.args[0].code() not in FENCED_ERRORS:
                    raise self._unavailable(writer, error) from error

    def appender(self, writer: str, topic: str) -> KafkaAppender:
        """Open a log of one partition for writing; see `MessageLog`."""
        return KafkaAppender(self._transactional(writer), writer, topic, self._timeout)

    def close(self) -> None:
        """Close all clients."""
        self._readers.close()
        if (fetcher := self.__dict__.pop("_fetcher", None)) is not None:
            fetcher.close()
        self._writers.clear()

    # ---- clients

    @cached_property
    def _fetcher(self) -> RecordFetcher:
        from springline.spark_jobs.streaming.kafka.fetcher import RecordFetcher  # whose kernels take a while to load

        return RecordFetcher(self._cluster, self._timeout, self.offset_bounds)

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient(self._cluster.config())

    @cached_property
    def _producer(self) -> Producer:
        return Producer(
            self._cluster.config(
                enable_idempotence=True, message_max_bytes=MAX_RECORD_BYTES,
                delivery_timeout_ms=int(self._timeout * 1000), **PRODUCER_CONFIG,
            )
        )  # fmt: skip

    def _transactional(self, writer: str) -> Producer:
        """Create a producer with a transactional id; its previous owner is fenced, its open transaction aborted."""
        producer = Producer(
            self._cluster.config(
                transactional_id=writer,
                message_max_bytes=MAX_RECORD_BYTES,
                transaction_timeout_ms=_TRANSACTION_SECONDS * 1000,
                **PRODUCER_CONFIG,
            )
        )
        try:
            call_with_retries(lambda: producer.init_transactions(self._timeout), self._timeout)
        except KafkaException as error:
            raise self._unavailable(writer, error) from error
        return producer

    def _open_writer(self, writer: str, positions: Sequence[WriterPosition]) -> _TransactionalWriter:
        producer = self._transactional(writer)
        return _TransactionalWriter(
            producer, max((self._last_round_id(*position) for position in positions), default=NO_ROUND)
        )

    def _last_round_id(self, topic: str, partition: int, sender: int) -> RoundId:
        """Return the round id of the last message of that sender in a partition; `NO_ROUND` if there is none."""
        bounds = self.offset_bounds(topic)[partition]
        start, step = bounds.high, _TAIL
        while start > bounds.low:
            start, end = max(bounds.low, start - step), start
            round_ids = [
                round_id
                for message in self.fetch(topic, partition, start, end)
                if (round_id := _round_id_of(message, sender))
            ]
            if round_ids:
                return max(round_ids)
            step *= 8
        return NO_ROUND

    def _topic(self, name: str, max_age: float = _TOPIC_SECONDS) -> _TopicDescription:
        cached = self._topics.get(name)
        if cached is not None and time.monotonic() - cached.described_at < max_age:
            return cached
        try:
            topic: _TopicDescription = call_with_retries(partial(self._describe, name), self._timeout)
        except KafkaException as error:
            if error.args[0].code() in UNKNOWN_TOPIC_ERRORS:
                raise UnknownTopicError(
                    f"{name} does not exist at {self._cluster.servers}: {error.args[0].str()}"
                ) from error
            raise self._unavailable(name, error) from error
        self._topics[name] = topic
        return topic

    def _describe(self, name: str) -> _TopicDescription:
        futures = self._admin.describe_topics(TopicCollection([name]), request_timeout=_DESCRIBED_SECONDS)
        description = futures[name].result()
        return _TopicDescription(
            time.monotonic(), _topic_id(description.topic_id), sorted(each.id for each in description.partitions)
        )

    def _unavailable(self, what: str, error: KafkaException) -> LogUnavailableError:
        return LogUnavailableError(f"{what}, Kafka at {self._cluster.servers}: {error.args[0]}")


def _round_id_of(message: Message, sender: int) -> RoundId | None:
    stamp = stamp_of(message)
    return (stamp.incarnation, stamp.round) if stamp is not None and stamp.unit == sender else None
