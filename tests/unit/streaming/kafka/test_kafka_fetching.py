"""What fetching from Kafka reports where no messages come; the client is a stand-in that has none."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition

from springline.spark_jobs.streaming.errors import LogUnavailableError, MessagesLostError
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.consumer import ConsumerPool
from springline.spark_jobs.streaming.runtime.rounds import OffsetBounds


class Silent:
    """A consumer to which nothing comes."""

    def assign(self, places: list[TopicPartition]) -> None: ...

    def unassign(self) -> None: ...

    def consume(self, count: int, seconds: float) -> list[object]:
        return []


def silent(monkeypatch: pytest.MonkeyPatch, high: int) -> ConsumerPool:
    """Readers of a log of one unit that ends at an offset, and sends nothing."""
    readers = ConsumerPool(Cluster("nowhere"), 0.0, lambda topic: {0: OffsetBounds(0, high)})
    monkeypatch.setattr(readers, "_consumer", lambda *waits: Silent())
    return readers


def test_a_log_that_became_shorter_is_not_one_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first case waiting does not help: what was there is gone."""
    expected = r"rows\[0\]: the messages at offsets 5 to 9 are no longer available; available: 0 to 7"
    with pytest.raises(MessagesLostError, match=expected):
        list(silent(monkeypatch, 7).fetch("rows", 0, 5, 10, number=0))
    with pytest.raises(LogUnavailableError, match=r"rows\[0\]: no message at offset 5 \(of 10\)"):
        list(silent(monkeypatch, 10).fetch("rows", 0, 5, 10, number=0))


class Recorded(Silent):
    """What is assigned to it, and what comes to it."""

    def __init__(self) -> None:
        self.assigned: dict[str, int] = {}
        self.messages: list[object] = []
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True

    def assign(self, places: list[TopicPartition]) -> None:
        self.assigned = {place.topic: place.offset for place in places}

    def unassign(self) -> None:
        self.assigned = {}

    def poll(self, seconds: float) -> object | None:
        return self.messages.pop(0) if self.messages else None


class Record:
    """A message of a topic."""

    def __init__(self, topic: str, offset: int) -> None:
        self._topic, self._offset = topic, offset

    def topic(self) -> str:
        return self._topic

    def offset(self) -> int:
        return self._offset

    def partition(self) -> int:
        return 0

    def error(self) -> None: ...

    def headers(self) -> None: ...

    def key(self) -> None: ...

    def value(self) -> bytes:
        return b""

    def timestamp(self) -> tuple[int, int]:
        return (1, 0)


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> tuple[ConsumerPool, list[Recorded]]:
    """A pool, and the consumers that it creates."""
    pool, created = ConsumerPool(Cluster("nowhere"), 0.0, lambda topic: {0: OffsetBounds(0, 9)}), list[Recorded]()

    def make(*waits: int, **limits: int) -> Recorded:
        created.append(Recorded())
        return created[-1]

    monkeypatch.setattr(pool, "_consumer", make)
    return pool, created


def test_messages_of_any_of_several_partitions_end_the_wait(clients: tuple[ConsumerPool, list[Recorded]]) -> None:
    """Those before the offsets do not; and what comes later is left to others."""
    pool, created = clients
    starts = {("a", 0): 3, ("b", 0): 5}
    assert not pool.await_messages(starts, 0.0)
    (waiting,) = created
    assert waiting.assigned == {"a": 3, "b": 5}
    waiting.messages = [Record("b", 4)]
    assert not pool.await_messages(starts, 0.0)
    waiting.messages = [Record("b", 5)]
    assert pool.await_messages(starts, 0.0)
    assert (waiting.assigned, len(created)) == ({}, 1)
    assert not pool.await_messages({("a", 0): 3, ("b", 0): 6}, 0.0)
    assert waiting.assigned == {"a": 3, "b": 6}


class Endless(Recorded):
    """A consumer of a topic that has a message at every offset."""

    def consume(self, count: int, seconds: float) -> list[object]:
        ((topic, offset),) = self.assigned.items()
        self.assigned[topic] += count
        return [Record(topic, offset + number) for number in range(count)]


def test_reads_share_a_seeker_unless_they_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two reads a seeker has no partition: a fetch that waits for new messages would hold up the next place."""
    pool, created = ConsumerPool(Cluster("nowhere"), 0.0, lambda topic: {0: OffsetBounds(0, 99)}), list[Endless]()

    def make(*waits: int) -> Endless:
        created.append(Endless())
        return created[-1]

    monkeypatch.setattr(pool, "_consumer", make)
    for start, to in ((3, 5), (7, 9), (9, 11)):
        assert [message.offset for message in pool.fetch("rows", 0, start, to, number=0)] == list(range(start, to))
    (seeker,) = created
    assert seeker.assigned == {}
    reading = iter(pool.fetch("rows", 0, 45, 50, number=0))
    assert next(reading).offset == 45
    assert [message.offset for message in pool.fetch("rows", 0, 20, 21, number=0)] == [20]
    assert [message.offset for message in reading] == [46, 47, 48, 49]
    assert len(created) == 2
