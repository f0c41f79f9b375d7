"""The unit log on Kafka: its topics, and who reads (`reading.py`) and writes (`writing.py`) them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil
from typing import Any

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from springline.spark_jobs.streaming.errors import LogUnavailableError, UnknownTopicError
from springline.spark_jobs.streaming.kafka.cluster import MAX_BYTES, Cluster
from springline.spark_jobs.streaming.kafka.reading import NOT_THERE, Readers
from springline.spark_jobs.streaming.kafka.topic_union import place_of, together, topics_of, units_in
from springline.spark_jobs.streaming.kafka.writing import (
    FENCED,
    WRITING,
    KafkaAppender,
    Sending,
    retried,
    write_transaction,
)
from springline.spark_jobs.streaming.runtime.message_log import Letter, Order, Place
from springline.spark_jobs.streaming.runtime.rounds import Extent
from springline.spark_jobs.streaming.runtime.stamps import stamp_of
from springline.spark_jobs.streaming.runtime.step import Message

PATIENCE = 100.0  # seconds without an answer: a broker that was killed is back by then, on a busy machine too
_TRANSACTION_SECONDS = 120  # after which a broker ends one by itself: after the patience of who writes it
_DESCRIBED_SECONDS = 10.0  # for one answer about a topic
_TOPIC_SECONDS = 1.0  # after which a topic's id and the number of its partitions are asked again
_LOWS_SECONDS = 1.0  # after which the first offsets are asked again: they move by deletion alone
_MOMENT_SECONDS = 0.02  # until brokers are asked again whether they know a topic
_EMPTY = Extent(0, 0)  # of a partition that is not there yet
_TAIL = 64  # offsets from the end in which the last message of a writer is looked for first


@dataclass
class _Writer:
    """A transactional producer, and the last round that was written in its name."""

    producer: Producer
    last: Order


@dataclass(frozen=True)
class _Topic:
    """A topic as it was at a moment: its id, and its partitions."""

    asked_at: float
    id: str
    units: list[int]


class Kafka:
    """The unit log on Kafka; clients are made when first needed, and kept. Not to be shared by threads.

    What is read may be the sum of several topics (`sums.py`).
    """

    def __init__(self, cluster: Cluster, *, patience: float = PATIENCE) -> None:
        self._cluster = cluster
        self._patience = patience
        self._readers = Readers(cluster, patience, self.extents)
        self._writers: dict[str, _Writer] = {}
        self._topics: dict[str, _Topic] = {}
        self._lows: dict[str, tuple[float, dict[int, int]]] = {}

    def connect(self) -> None:
        """Make what sends, which takes half a second until it can, while something else is done."""
        _ = self._producer

    # ---- what is there

    def create(self, topics: Mapping[str, int], *, dated_here: bool = False, kept_seconds: float | None = None) -> None:
        """Create those topics that are missing, each with so many units; their messages stay until they are deleted.

        When it returns, a broker knows them. With `kept_seconds`, messages are let go after about twice that. With
        `dated_here`, a message has the broker's time, whatever clock its writer has. Raises `LogUnavailableError`.
        """
        if not topics:
            return
        chosen = {"max.message.bytes": str(MAX_BYTES), "retention.ms": "-1"}
        if kept_seconds is not None:
            milliseconds = str(round(kept_seconds * 1000))
            chosen |= {"retention.ms": milliseconds, "segment.ms": milliseconds}
        if dated_here:
            chosen["message.timestamp.type"] = "LogAppendTime"
        wanted = [NewTopic(name, units, 1, config=chosen) for name, units in topics.items()]
        for name, made in self._admin.create_topics(
            wanted, operation_timeout=30, request_timeout=self._patience
        ).items():
            try:
                made.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise LogUnavailableError(
                        f"{name}: could not be created at {self._cluster.servers}: {error}"
                    ) from error
        self._await_topics(topics, there=True)

    def grow(self, topic: str, units: int) -> None:
        """Let a topic have so many units, where it has fewer; raises `UnknownTopicError`, `LogUnavailableError`."""
        if len(self._topic(topic).units) >= units:
            return
        self._topics.pop(topic)
        for done in self._admin.create_partitions(
            [NewPartitions(topic, units)], operation_timeout=30, request_timeout=self._patience
        ).values():
            try:
                done.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.INVALID_PARTITIONS:  # somebody else has done it
                    raise self._unavailable(topic, error) from error

    def all_topics(self) -> frozenset[str]:
        """The names of all topics; raises `LogUnavailableError`."""
        try:
            return frozenset(retried(lambda: self._admin.list_topics(timeout=10).topics, self._patience))
        except KafkaException as error:
            raise self._unavailable("its topics", error) from error

    def remove(self, topics: Iterable[str]) -> None:
        """Delete topics with all that is in them; does nothing where one is not there. Raises `LogUnavailableError`."""
        if not (names := sorted(topics)):
            return
        for name, done in self._admin.delete_topics(
            names, operation_timeout=30, request_timeout=self._patience
        ).items():
            self._topics.pop(name, None)
            self._lows.pop(name, None)
            try:
                done.result()
            except KafkaException as error:
                if error.args[0].code() not in NOT_THERE:
                    raise self._unavailable(name, error) from error
        self._await_topics(names, there=False)

    def _await_topics(self, topics: Iterable[str], *, there: bool) -> None:
        """Wait until a broker knows these topics, or no longer does: it hears of it a moment after the controller."""
        left, until = set(topics), time.monotonic() + self._patience
        while left := left - self._known_to_be(there, left):
            if time.monotonic() > until:
                raise LogUnavailableError(
                    f"{', '.join(sorted(left))}: after {self._patience:g} s, Kafka at {self._cluster.servers} "
                    f"{'does not know of it' if there else 'still knows of it'}"
                )
            time.sleep(_MOMENT_SECONDS)

    def _known_to_be(self, there: bool, topics: Iterable[str]) -> set[str]:
        """Those of the topics about which a broker answers just now that they are there, or are not."""
        asked = self._admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=_DESCRIBED_SECONDS)
        known = set()
        for name, told in asked.items():
            try:
                told.result()
                answer = True
            except KafkaException as error:
                if error.args[0].code() not in NOT_THERE:
                    continue
                answer = False
            if answer == there:
                known.add(name)
        return known

    def extents(self, topic: str) -> Mapping[int, Extent]:
        try:
            parts = [retried(partial(self._extents, part), self._patience) for part in topics_of(topic)]
            return together(parts, _EMPTY)
        except KafkaException as error:
            raise self._unavailable(topic, error) from error

    def ids(self, *topics: str) -> Mapping[str, str]:
        return {part: self._topic(part).id for topic in topics for part in topics_of(topic)}

    def units(self, topic: str) -> int:
        """How many units a topic has, or a sum of some; raises as `extents` does."""
        return units_in([len(self._topic(part).units) for part in topics_of(topic)])

    def offsets_at(self, topic: str, seconds: float) -> Mapping[int, int]:
        try:
            parts = [retried(partial(self._offsets_at, part, seconds), self._patience) for part in topics_of(topic)]
            return together(parts, 0)
        except KafkaException as error:
            raise self._unavailable(topic, error) from error

    def _offsets_at(self, topic: str, seconds: float) -> dict[int, int]:
        highs = {unit: extent.high for unit, extent in self._extents(topic).items()}
        places = [TopicPartition(topic, unit) for unit in highs]
        found = self._offsets(places, OffsetSpec.for_timestamp(ceil(seconds * 1000)))
        return {unit: found[unit] if found[unit] >= 0 else high for unit, high in highs.items()}

    def _extents(self, topic: str) -> dict[int, Extent]:
        places = [TopicPartition(topic, unit) for unit in self._topic(topic).units]
        asked_at, lows = self._lows.get(topic, (float("-inf"), {}))
        if time.monotonic() - asked_at > _LOWS_SECONDS or len(lows) < len(places):
            lows = self._ends(places, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
            self._lows[topic] = (time.monotonic(), lows)
        highs = self._ends(places, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return {unit: Extent(lows[unit], highs[unit]) for unit in sorted(highs)}

    def _ends(self, places: Sequence[TopicPartition], spec: Any) -> dict[int, int]:
        found = self._offsets(places, spec)
        if min(found.values(), default=0) < 0:  # of a broker that has just been started
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, f"no offsets yet: {found}"))
        return found

    def _offsets(self, places: Sequence[TopicPartition], spec: Any) -> dict[int, int]:
        asked = self._admin.list_offsets(
            dict.fromkeys(places, spec),
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=self._patience,
        )
        return {place.partition: told.result().offset for place, told in asked.items()}

    def delete(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the messages of each unit before an offset."""
        self._lows.pop(topic, None)
        wanted = [TopicPartition(topic, unit, offset) for unit, offset in before.items()]
        for done in self._admin.delete_records(wanted, request_timeout=self._patience).values():
            try:
                done.result()
            except KafkaException as error:
                raise self._unavailable(topic, error) from error

    # ---- reading

    def fetch(self, topic: str, unit: int, start: int, to: int) -> Iterator[Message]:
        if start < to:
            yield from self._readers.fetch(*place_of(topic, unit), start, to)

    def follow(self, topic: str, unit: int, start: int, seconds: float) -> Sequence[Message]:
        return self._readers.follow(*place_of(topic, unit), start, seconds)

    # ---- sending

    @contextmanager
    def sending(self) -> Iterator[Sending]:
        sending = Sending(self._producer, self._patience)
        try:
            yield sending
            sending.finish()
        except BaseException:
            self.__dict__.pop("_producer", None)  # what is still queued in it belongs to no round any more
            raise

    def publish(self, writer: str, order: Order, letters: Iterable[Letter], places: Sequence[Place]) -> None:
        chosen = list(letters)
        for last_try in (False, True):
            kept = self._writers.get(writer)
            if kept is None:
                kept = self._writers[writer] = self._opened(writer, places)
            if order <= kept.last:
                return
            try:
                write_transaction(kept.producer, chosen, self._patience)
                kept.last = order
                return
            except KafkaException as error:
                del self._writers[writer]  # whoever opens it anew looks what was written meanwhile
                if last_try or error.args[0].code() not in FENCED:
                    raise self._unavailable(writer, error) from error

    def appender(self, writer: str, topic: str) -> KafkaAppender:
        """Open a log of one unit for writing; see `Log`."""
        return KafkaAppender(self._transactional(writer), writer, topic, self._patience)

    def close(self) -> None:
        """Let go of all clients."""
        self._readers.close()
        self._writers.clear()

    # ---- clients

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient(self._cluster.config())

    @cached_property
    def _producer(self) -> Producer:
        return Producer(
            self._cluster.config(
                enable_idempotence=True, message_max_bytes=MAX_BYTES, delivery_timeout_ms=int(self._patience * 1000),
                **WRITING,
            )
        )  # fmt: skip

    def _transactional(self, writer: str) -> Producer:
        """A producer of a transactional id; who had it before is fenced off, what it left open is aborted."""
        producer = Producer(
            self._cluster.config(
                transactional_id=writer,
                message_max_bytes=MAX_BYTES,
                transaction_timeout_ms=_TRANSACTION_SECONDS * 1000,
                **WRITING,
            )
        )
        try:
            retried(lambda: producer.init_transactions(self._patience), self._patience)
        except KafkaException as error:
            raise self._unavailable(writer, error) from error
        return producer

    def _opened(self, writer: str, places: Sequence[Place]) -> _Writer:
        producer = self._transactional(writer)
        return _Writer(producer, max((self._last_order(*place) for place in places), default=(0, 0)))

    def _last_order(self, topic: str, unit: int, sender: int) -> Order:
        """The order of the last message in a unit that has a stamp of that sender; (0, 0) if there is none."""
        extent = self.extents(topic)[unit]
        at, step = extent.high, _TAIL
        while at > extent.low:
            at, to = max(extent.low, at - step), at
            orders = [order for message in self.fetch(topic, unit, at, to) if (order := _order_of(message, sender))]
            if orders:
                return max(orders)
            step *= 8
        return (0, 0)

    def _topic(self, name: str) -> _Topic:
        known = self._topics.get(name)
        if known is not None and time.monotonic() - known.asked_at < _TOPIC_SECONDS:
            return known
        try:
            found: _Topic = retried(partial(self._described, name), self._patience)
        except KafkaException as error:
            if error.args[0].code() in NOT_THERE:
                raise UnknownTopicError(
                    f"{name} is not there at {self._cluster.servers}: {error.args[0].str()}"
                ) from error
            raise self._unavailable(name, error) from error
        self._topics[name] = found
        return found

    def _described(self, name: str) -> _Topic:
        asked = self._admin.describe_topics(TopicCollection([name]), request_timeout=_DESCRIBED_SECONDS)
        told = asked[name].result()
        return _Topic(time.monotonic(), str(told.topic_id), sorted(each.id for each in told.partitions))

    def _unavailable(self, what: str, error: KafkaException) -> LogUnavailableError:
        return LogUnavailableError(f"{what}, Kafka at {self._cluster.servers}: {error.args[0]}")


def _order_of(message: Message, sender: int) -> Order | None:
    stamp = stamp_of(message)
    return (stamp.incarnation, stamp.round) if stamp is not None and stamp.unit == sender else None
