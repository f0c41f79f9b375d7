"""Topics are read as record batches exactly as another client reads them, whoever wrote them and however."""

from __future__ import annotations

import random
import time
import uuid
from contextlib import closing

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kafka import KafkaProducer

from springline.spark_jobs.streaming.errors import MessagesLostError
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.consumer import ConsumerPool
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.message import Message, header_pairs
from tests.support.servers.servers import Running
from tests.support.streams.java_producer import java_producer
from tests.support.waiting import until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MOST = 16 << 20


def new_topic(kafka: Running, **config: str) -> str:
    """A topic of one partition."""
    name = f"t-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": kafka.address})
    options = {"max.message.bytes": str(MOST)} | {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(name, 1, 1, config=options)])[name].result(30)
    return name


def write(kafka: Running, topic: str, chance: random.Random, codec: str, many: int = 12) -> None:
    """Some batches by librdkafka: plain ones, and transactions that are committed or aborted."""
    options = {"bootstrap.servers": kafka.address, "compression.type": codec, "linger.ms": 1, "message.max.bytes": MOST}
    plain = Producer(options)
    transactional = Producer({**options, "transactional.id": f"{topic}-{codec}"})
    transactional.init_transactions(30)
    for _ in range(many):
        ending = chance.choice(("plain", "commit", "abort"))
        producer = plain if ending == "plain" else transactional
        if ending != "plain":
            producer.begin_transaction()
        for _ in range(chance.choice((1, 3, 200))):
            producer.produce(topic, **record(chance), partition=0)
        producer.flush(30)
        if ending == "commit":
            producer.commit_transaction(30)
        elif ending == "abort":
            producer.abort_transaction(30)


def record(chance: random.Random) -> dict[str, object]:
    """A value, a key, headers and a time; any of the first three may be missing or empty."""
    size = chance.choice((0, 1, 30, 300, 30, 30)) if chance.random() < 0.99 else 200_000
    return {
        "value": None if chance.random() < 0.1 else chance.randbytes(size // 2) + b"a" * (size - size // 2),
        "key": chance.choice((None, b"", b"key %d" % chance.randrange(9))),
        "headers": [("n", chance.choice((None, b"", b"x" * 70)))] * chance.choice((0, 0, 1, 2)),
        "timestamp": chance.choice((1, 1_600_000_000_000, 1_700_000_000_123)),
    }


def shown(messages: list[Message]) -> list[tuple[object, ...]]:
    """All that there is of messages."""
    return [
        (each.offset, bytes(each.value), each.key, header_pairs(each.headers), each.timestamp, each.is_null)
        for each in messages
    ]


def read_by_librdkafka(kafka: Running, topic: str) -> list[tuple[object, ...]]:
    """Read the whole topic by the other reader."""
    with closing(Kafka(Cluster(kafka.address), timeout=20)) as log:
        oracle = ConsumerPool(Cluster(kafka.address), 20.0, log.offset_bounds)
        bounds = log.offset_bounds(topic)[0]
        messages = shown(list(oracle.fetch(topic, 0, bounds.low, bounds.high, number=0)))
        oracle.close()
        return messages


def assert_same(kafka: Running, topic: str, chance: random.Random) -> int:
    """Read the whole topic, and some ranges of it, by both readers; returns the number of messages."""
    expected = read_by_librdkafka(kafka, topic)
    with closing(Kafka(Cluster(kafka.address), timeout=20)) as log:
        bounds = log.offset_bounds(topic)[0]
        assert shown(list(log.fetch(topic, 0, bounds.low, bounds.high))) == expected
        position = bounds.low
        while position < bounds.high:
            to = min(position + chance.choice((1, 7, 100, 500)), bounds.high)
            own = [each for each in expected if position <= each[0] < to]  # type: ignore[operator]
            assert shown(list(log.fetch(topic, 0, position, to))) == own
            position = to
    return len(expected)


@pytest.mark.parametrize("codec", CODECS)
def test_what_librdkafka_has_written(kafka: Running, codec: str) -> None:
    """In every compression, with transactions that were aborted, and up to an open one."""
    chance, topic = random.Random(codec), new_topic(kafka)
    write(kafka, topic, chance, codec)
    assert assert_same(kafka, topic, chance)
    with closing(Kafka(Cluster(kafka.address), timeout=20)) as log:
        bounds = log.offset_bounds(topic)[0]
        log.delete(topic, {0: (bounds.low + bounds.high) // 2})
        with pytest.raises(MessagesLostError, match="no longer available"):
            list(log.fetch(topic, 0, bounds.low, bounds.high))
    assert assert_same(kafka, topic, chance)
    write(kafka, topic, chance, chance.choice(CODECS), 3)
    assert assert_same(kafka, topic, chance)


@pytest.mark.parametrize("codec", CODECS)
def test_what_kafkas_own_client_has_written(kafka: Running, codec: str) -> None:
    """Whose snappy has a form of its own."""
    chance, topic = random.Random(codec), new_topic(kafka)
    with java_producer(kafka.settings, kafka.address, codec, topic) as producer:
        for number in range(6):
            pairs = [
                (chance.choice((None, b"key")), chance.choice((None, b"", b"abc" * 9, b"ab" * 40_000)))
                for _ in range(chance.choice((1, 50)))
            ]
            producer.transaction(topic, pairs, commit=number % 3 != 1)
    assert assert_same(kafka, topic, chance)


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])  # those whose libraries are here
def test_what_kafka_python_has_written(kafka: Running, codec: str) -> None:
    """Plain batches, and transactions that are committed or aborted."""
    chance, topic = random.Random(codec), new_topic(kafka)
    options = {"bootstrap_servers": kafka.address, "linger_ms": 2, "max_request_size": MOST}
    options |= {} if codec == "none" else {"compression_type": codec}
    plain, transactional = KafkaProducer(**options), KafkaProducer(**options, transactional_id=topic)
    transactional.init_transactions()
    for ending in [*("plain", "commit", "abort") * 2, *chance.choices(("plain", "commit", "abort"), k=6)]:
        producer = plain if ending == "plain" else transactional
        if ending != "plain":
            producer.begin_transaction()
        for _ in range(chance.choice((1, 3, 200))):
            parts = record(chance)
            parts["timestamp_ms"] = parts.pop("timestamp")
            if parts["value"] is None and parts["key"] is None:  # which this client refuses
                parts["key"] = b"a"
            parts["headers"] = [(name, value or b"") for name, value in parts["headers"]]  # type: ignore[attr-defined]
            producer.send(topic, **parts, partition=0)
        producer.flush(30)
        if ending == "commit":
            producer.commit_transaction()
        elif ending == "abort":
            producer.abort_transaction()
    plain.close()
    transactional.close()
    assert assert_same(kafka, topic, chance)


def test_a_compacted_topic(kafka: Running) -> None:
    """Its offsets have gaps, whole batches are gone, and others have lost some of their records."""
    chance = random.Random(1)
    topic = new_topic(
        kafka, cleanup_policy="compact", segment_ms="200", min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="500", delete_retention_ms="100",
    )  # fmt: skip
    producer = Producer({"bootstrap.servers": kafka.address, "compression.type": "lz4"})

    def send(count: int) -> None:
        for _ in range(count):
            producer.produce(topic, chance.randbytes(20), key=b"%d" % chance.randrange(40), partition=0)
        producer.flush(30)

    for _ in range(5):
        send(100)
        time.sleep(0.3)

    def is_compacted() -> bool:
        send(1)  # which closes the segment before
        before = read_by_librdkafka(kafka, topic)
        try:
            return assert_same(kafka, topic, chance) < 400
        except AssertionError:
            if read_by_librdkafka(kafka, topic) == before:
                raise
            return False  # the broker compacted it between two readings

    until(is_compacted, seconds=120, every=1.0)
