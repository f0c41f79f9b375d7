"""The unit log on the real Kafka: gaps, fencing, what is written once, and what is not there any more."""

from __future__ import annotations

import threading
import time
import uuid

import pytest
from confluent_kafka import Producer

from springline.spark_jobs.streaming.errors import (
    FencedError,
    LogUnavailableError,
    MessagesLostError,
    UnknownTopicError,
)
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from springline.spark_jobs.streaming.runtime.stamps import Stamp
from springline.spark_jobs.streaming.runtime.topic_union import union_name
from tests.support.servers.servers import Running
from tests.support.streams.stream_job import add_partitions, read_committed


@pytest.fixture
def topic(log: Kafka) -> str:
    """A topic of one unit of its own."""
    name = f"t-{uuid.uuid4().hex}"
    log.create({name: 1})
    return name


def sent(log: Kafka, topic: str, *values: bytes) -> None:
    """Send messages, and wait until they have arrived."""
    with log.record_sender() as sending:
        for value in values:
            sending.send(OutgoingRecord(topic, 0, value, {"n": value}))


def values(log: Kafka, topic: str) -> list[bytes]:
    """All that can be fetched."""
    extent = log.offset_bounds(topic)[0]
    return [bytes(message.value) for message in log.fetch(topic, 0, extent.low, extent.high)]


def test_what_was_sent_is_fetched_with_headers_and_times(log: Kafka, topic: str) -> None:
    """In order, from any offset to any other."""
    sent(log, topic, b"a", b"b", b"c")
    messages = list(log.fetch(topic, 0, 1, 3))
    assert [(m.offset, bytes(m.value), m.headers["n"]) for m in messages] == [(1, b"b", b"b"), (2, b"c", b"c")]
    assert all(message.timestamp > 1_700_000_000 for message in messages)
    assert [bytes(m.value) for m in log.fetch(topic, 0, 0, 2)] == [b"a", b"b"]


def test_topics_may_be_read_as_one(log: Kafka, topic: str) -> None:
    """Even units are those of the first topic, odd ones those of the other; one that is not there is empty."""
    other = f"t-{uuid.uuid4().hex}"
    log.create({other: 2})
    sent(log, topic, b"a")
    sent(log, other, b"b", b"c")
    name = union_name([topic, other])
    assert {unit: extent.high for unit, extent in log.offset_bounds(name).items()} == {0: 1, 1: 2, 2: 0, 3: 0}
    assert log.offsets_for_time(name, 0.0) == {0: 0, 1: 0, 2: 0, 3: 0}
    assert [bytes(m.value) for m in log.fetch(name, 0, 0, 1)] == [b"a"]
    assert [bytes(m.value) for m in log.fetch(name, 1, 0, 2)] == [b"b", b"c"]
    assert [bytes(m.value) for m in log.follow(name, 1, 1, 5.0)] == [b"c"]


def test_a_message_ends_the_wait_for_it_again_and_again(log: Kafka, topic: str) -> None:
    """Soon, also right after the wait before; with a topic beside it that has fewer partitions."""
    other = f"t-{uuid.uuid4().hex}"
    log.create({other: 2})
    name = union_name([topic, other])
    for number in range(4):
        ends = {partition: bounds.high for partition, bounds in log.offset_bounds(name).items()}
        assert not log.await_messages(name, ends, 1.0)
        sender = threading.Timer(0.3, sent, (log, topic if number % 2 else other, b"x"))
        sender.start()
        began = time.monotonic()
        assert log.await_messages(name, ends, 10.0)
        assert time.monotonic() - began < 2.0, number
        sender.join()


def test_deleted_messages_end_a_wait_for_those_who_read_them_to_say(log: Kafka, topic: str) -> None:
    """And what is there already needs no wait."""
    sent(log, topic, b"a", b"b")
    assert log.await_messages(topic, {0: 1}, 10.0)
    log.delete(topic, {0: 2})
    assert log.await_messages(topic, {0: 0}, 10.0)


def test_offsets_with_gaps_and_aborted_messages_are_passed_over(log: Kafka, topic: str, kafka: Running) -> None:
    """Markers of transactions take offsets too; what was aborted is never seen, nor what is not committed yet."""
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": topic})
    producer.init_transactions(20)
    for value, commit in ((b"a", True), (b"gone", False), (b"b", True)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.commit_transaction(20) if commit else (producer.flush(20), producer.abort_transaction(20))
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(20)
    assert values(log, topic) == [b"a", b"b"]
    assert [bytes(message.value) for message in log.fetch(topic, 0, 0, 3)] == [b"a"]  # up to an offset that is a gap
    producer.abort_transaction(20)


def test_a_round_is_published_once_whoever_tries(log: Kafka, topic: str, kafka: Running) -> None:
    """By another process, after it, and by the first one again, which was fenced off meanwhile."""
    other = Kafka(Cluster(kafka.address), timeout=20)

    def letter(number: int) -> OutgoingRecord:
        return OutgoingRecord(topic, 0, f"round {number}".encode(), Stamp(1, 0, number, 0).header())

    log.publish("w", (1, 1), [letter(1)], [(topic, 0, 0)])
    other.publish("w", (1, 1), [letter(1)], [(topic, 0, 0)])
    other.publish("w", (1, 2), [letter(2)], [(topic, 0, 0)])
    log.publish("w", (1, 2), [letter(2)], [(topic, 0, 0)])
    log.publish("w", (1, 3), [letter(3)], [(topic, 0, 0)])
    other.close()
    assert [value for value, _ in read_committed(kafka.address, topic)] == [b"round 1", b"round 2", b"round 3"]


def test_each_sender_of_a_topic_has_rounds_of_its_own(log: Kafka, topic: str, kafka: Running) -> None:
    """Dead letters of two stages: one is far behind the other in rounds, and all of both are there, once."""
    for sender, number in ((0, 50_000), (4_096, 3_000), (4_096, 3_000), (0, 50_001)):
        value = f"{sender} in {number}".encode()
        letter = OutgoingRecord(topic, 0, value, Stamp(1, sender, number, 0).header())
        writer = Kafka(Cluster(kafka.address), timeout=20)  # that remembers nothing
        writer.publish(f"{topic}-{sender}", (1, number), [letter], [(topic, 0, sender)])
        writer.close()
    values = [value for value, _ in read_committed(kafka.address, topic)]
    assert values == [b"0 in 50000", b"4096 in 3000", b"0 in 50001"]


def test_whoever_opens_a_log_later_fences_the_first_one_off(log: Kafka, topic: str) -> None:
    """The first one's next line is refused. Each append returns the offset of its last line."""
    first = log.appender(topic, topic)
    assert first.append([b"1", b"2"]) == 1
    second = log.appender(topic, topic)
    assert second.append([b"3"]) == 3  # the end of the first transaction has an offset too
    with pytest.raises(FencedError, match="another driver of this job has fenced it"):
        first.append([b"4"])
    assert values(log, topic) == [b"1", b"2", b"3"]


def test_messages_that_were_deleted_are_an_error_that_names_unit_and_offset(log: Kafka, topic: str) -> None:
    """They are never passed over."""
    sent(log, topic, b"a", b"b", b"c")
    log.delete(topic, {0: 2})
    assert log.offset_bounds(topic)[0].low == 2
    with pytest.raises(MessagesLostError, match=rf"{topic}\[0\]: messages from offset 0 on"):
        list(log.fetch(topic, 0, 0, 3))


def test_a_time_is_found_as_the_first_message_of_then_or_later(log: Kafka, topic: str, kafka: Running) -> None:
    """Behind the last one where there is none, in a unit without messages too; milliseconds are not rounded down."""
    producer = Producer({"bootstrap.servers": kafka.address})
    for at in (1_000_000, 1_000_500, 1_002_000):
        producer.produce(topic, b"x", partition=0, timestamp=at)
    producer.flush(20)
    offsets_by_time = {
        at: log.offsets_for_time(topic, at)[0] for at in (0.0, 1_000.0, 1_000.4999, 1_000.5001, 1_002.0, 1_002.001)
    }
    assert offsets_by_time == {0.0: 0, 1_000.0: 0, 1_000.4999: 1, 1_000.5001: 2, 1_002.0: 2, 1_002.001: 3}
    log.create({f"{topic}-empty": 2})
    assert log.offsets_for_time(f"{topic}-empty", 0.0) == {0: 0, 1: 0}


def test_a_topic_that_is_not_there_is_named(log: Kafka) -> None:
    """With the address of the broker."""
    with pytest.raises(UnknownTopicError, match=r"nowhere does not exist at 127\.0\.0\.1"):
        log.offset_bounds("nowhere")
    with pytest.raises(UnknownTopicError, match="nowhere does not exist"):
        log.offsets_for_time("nowhere", 0.0)


def test_a_broker_that_does_not_answer_is_named() -> None:
    """After the patience that was asked for."""
    with pytest.raises(LogUnavailableError, match=r"127\.0\.0\.1:1"):
        Kafka(Cluster("127.0.0.1:1"), timeout=2).offset_bounds("any")


def test_a_topic_that_is_recreated_is_empty_and_has_another_id_and_one_that_grows_keeps_it(
    log: Kafka, topic: str, kafka: Running
) -> None:
    """That distinguishes them, whatever offsets they hold; to remove one that is not there is no error."""
    sent(log, topic, b"a", b"b")
    first = log.ids(topic)
    add_partitions(kafka.address, topic, 3)
    until = time.monotonic() + 30
    while len(log.offset_bounds(topic)) < 3 and time.monotonic() < until:
        time.sleep(0.1)
    assert len(log.offset_bounds(topic)) == 3 and log.ids(topic) == first and topic in log.all_topics()
    log.remove([topic, f"{topic}-nowhere"])
    log.create({topic: 1})
    ids = log.ids(topic)
    assert ids.keys() == {topic} and ids != first
    sent(log, topic, b"c")
    assert values(log, topic) == [b"c"]
