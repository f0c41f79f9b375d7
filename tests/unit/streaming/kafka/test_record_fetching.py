"""Record batches are fetched as they are needed, whatever brokers answer; the broker is a stand-in."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import SimpleNamespace

import pytest

from springline.spark_jobs.streaming.errors import (
    CorruptBatchError,
    LogUnavailableError,
    MessagesLostError,
    UnknownTopicError,
    UnsupportedClusterError,
)
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.fetcher import RecordFetcher
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.message import Message, MessageBatch
from springline.spark_jobs.streaming.runtime.rounds import OffsetBounds
from tests.support.decoding.record_batches import Written, batch
from tests.support.streams.fake_broker import Answer, FakeBroker, Reply

END = 40  # offset after the last record
SIZE = 10  # records of a batch
BATCHES = [batch([Written(at, b"%d" % at) for at in range(first, first + SIZE)]) for first in range(0, END, SIZE)]


def whole_log(partition: int, offset: int) -> Answer:
    """All batches from an offset on."""
    return Answer(b"".join(BATCHES[offset // SIZE :]), end=END)


def one_batch(partition: int, offset: int) -> Answer:
    """The batch with an offset, and the beginning of the next one."""
    return Answer(b"".join(BATCHES[offset // SIZE :])[: len(BATCHES[0]) + 100], end=END)


@contextmanager
def fetcher_of(broker: FakeBroker, timeout: float = 10.0, high: int = END, **options: str) -> Iterator[RecordFetcher]:
    """A fetcher of the broker's cluster."""
    cluster = Cluster("{}:{}".format(*broker.address), options)
    with closing(RecordFetcher(cluster, timeout, lambda topic: {0: OffsetBounds(0, high)})) as fetcher:
        yield fetcher


def read(fetcher: RecordFetcher, start: int, to: int, partition: int = 0) -> list[int]:
    """The offsets of the messages, whose values are their offsets."""
    messages = [
        message
        for messages in fetcher.fetch("rows", partition, start, to, number=7)
        for message in messages
    ]  # fmt: skip
    assert all(message.partition == 7 and message.value == b"%d" % message.offset for message in messages)
    return [message.offset for message in messages]


def after(failure: Reply, times: int = 1, then: Callable[[int, int], Reply] = whole_log) -> Callable[[int, int], Reply]:
    """An answer some times, and afterwards the log."""
    left = [failure] * times
    return lambda partition, offset: left.pop() if left else then(partition, offset)


def test_what_was_read_ahead_is_not_fetched_again() -> None:
    """One fetch for reads that go on; another one for a read that jumps back."""
    with FakeBroker(whole_log).serving() as broker, fetcher_of(broker) as fetcher:
        for start, to in ((3, 5), (5, 17), (17, 17), (17, 30), (35, END)):
            assert read(fetcher, start, to) == list(range(start, to))
        assert broker.fetches == [(0, 3)]
        assert read(fetcher, 0, 12) == list(range(12))
        assert broker.fetches == [(0, 3), (0, 0)]
        assert broker.connections == 1


def test_the_next_fetch_is_sent_before_the_messages_of_the_last_one_are_used() -> None:
    """A batch that the limit of a response has cut comes whole with the next one."""
    with FakeBroker(one_batch).serving() as broker, fetcher_of(broker) as fetcher:
        assert read(fetcher, 0, 35) == list(range(35))
        assert broker.fetches == [(0, 0), (0, 10), (0, 20), (0, 30)]
        assert read(fetcher, 35, END) == list(range(35, END))
        assert len(broker.fetches) == 4


def test_reads_that_take_turns_get_their_own_answers() -> None:
    """Over one connection, on which each has sent a fetch ahead; one is abandoned."""
    with FakeBroker(one_batch).serving() as broker, fetcher_of(broker) as fetcher:
        first = fetcher.fetch("rows", 0, 0, END, number=7)
        second = fetcher.fetch("rows", 1, 10, END, number=7)
        assert next(first).offsets[0] == 0
        assert next(second).offsets[0] == 10
        assert next(first).offsets[0] == 10
        second.close()  # type: ignore[attr-defined]
        assert [int(each.offsets[0]) for each in first] == [20, 30]
        assert read(fetcher, 20, END, partition=1) == list(range(20, END))
        assert broker.connections == 1


@pytest.mark.parametrize(
    "failure", [None, Answer(error=6), Answer(error=5), Answer(throttled=True), Answer(error=74), Answer(error=3)]
)
def test_what_passes_is_waited_for(failure: Reply) -> None:
    """A connection that is closed, another leader, none, a quota, a log that the broker is about to load."""
    with FakeBroker(after(failure, 2)).serving() as broker, fetcher_of(broker) as fetcher:
        assert read(fetcher, 0, END) == list(range(END))


def test_a_partition_is_read_from_its_new_leader() -> None:
    """Which the old one names."""
    with FakeBroker(whole_log).serving() as new:
        old = FakeBroker(lambda partition, offset: Answer(error=6), brokers=[])
        old.brokers = [old, new]

        def moved(partition: int, offset: int) -> Answer:
            old.leaders = {0: 1}
            return Answer(error=6)

        old.answer = moved
        with old.serving(), fetcher_of(old) as fetcher:
            assert read(fetcher, 0, END) == list(range(END))
        assert (len(old.fetches), len(new.fetches)) == (1, 1)


def test_a_partition_without_a_leader_is_waited_for() -> None:
    """Until it has one."""
    with FakeBroker(whole_log, leaders={0: -1}).serving() as broker, fetcher_of(broker) as fetcher:
        threading.Timer(0.3, lambda: broker.leaders.update({0: 0})).start()
        assert read(fetcher, 0, END) == list(range(END))


def test_a_broker_that_is_away_is_waited_for_and_named() -> None:
    """With what the network says."""
    with FakeBroker(whole_log).serving() as broker:
        pass
    with fetcher_of(broker, 0.2) as fetcher, pytest.raises(LogUnavailableError, match=r"rows\[0\], offset 3.* refused"):
        read(fetcher, 3, 9)


@pytest.mark.parametrize(
    ("answer", "high", "error", "reason"),
    [
        (Answer(error=1), END, MessagesLostError, r"rows\[0\]: messages from offset 5 on are no longer available"),
        (Answer(end=7), 7, MessagesLostError, r"offsets 5 to 9 are no longer available; available: 0 to 7"),
        (Answer(end=7), 10, LogUnavailableError, r"rows\[0\]: no message at offset 5 \(of 10\) within 0.2 s"),
        (Answer(error=29), END, LogUnavailableError, "TOPIC_AUTHORIZATION_FAILED"),
        (Answer(error=-1), END, LogUnavailableError, "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_messages_that_are_not_there_are_an_error(
    answer: Answer, high: int, error: type[Exception], reason: str
) -> None:
    """A log that became shorter is not one that does not answer: in the first case waiting does not help."""
    broker = FakeBroker(lambda partition, offset: answer)
    with broker.serving(), fetcher_of(broker, 0.2, high) as fetcher, pytest.raises(error, match=reason):
        read(fetcher, 5, 10)


def test_offsets_without_records_are_passed_over() -> None:
    """At the end of a range, if later messages are committed."""
    with FakeBroker(lambda partition, offset: Answer(end=END)).serving() as broker, fetcher_of(broker) as fetcher:
        assert read(fetcher, 5, 10) == []


def test_a_topic_or_a_partition_that_is_not_there_is_named() -> None:
    """With the addresses of the brokers."""
    with FakeBroker(whole_log).serving() as broker, fetcher_of(broker) as fetcher:
        with pytest.raises(UnknownTopicError, match=r"nowhere does not exist at 127\.0\.0\.1"):
            list(fetcher.fetch("nowhere", 0, 0, 1, number=0))
        with pytest.raises(UnknownTopicError, match=r"rows has no partition 5 at 127\.0\.0\.1"):
            read(fetcher, 0, 1, partition=5)


def test_an_old_broker_and_foreign_security_are_left_to_another_reader() -> None:
    """With the reason."""
    with FakeBroker(whole_log, fetch_versions=(0, 10)).serving() as broker, fetcher_of(broker) as fetcher:
        with pytest.raises(UnsupportedClusterError, match=r"older than Kafka 2\.3"):
            read(fetcher, 0, 1)
        for options, reason in (
            ({"security.protocol": "sasl_ssl"}, "GSSAPI"),
            ({"security.protocol": "ssl", "ssl.engine.location": "x"}, r"ssl\.engine\.location"),
            ({"security.protocol": "odd"}, "ODD"),
        ):
            with fetcher_of(broker, **options) as other, pytest.raises(UnsupportedClusterError, match=reason):
                read(other, 0, 1)


def test_a_port_of_something_else_is_an_error_soon() -> None:
    """It says so."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                connection.sendall(b"SSH-2.0-Other\r\n")

        threading.Thread(target=serve, daemon=True).start()
        broker = FakeBroker(whole_log, address=server.getsockname()[:2])
        with fetcher_of(broker, 0.3) as fetcher, pytest.raises(LogUnavailableError, match="this is no port of Kafka"):
            read(fetcher, 0, 1)


def test_a_damaged_batch_is_fetched_again_and_then_named() -> None:
    """With its place: it may have been damaged on the way, or on the broker's disk."""
    broken = Answer(BATCHES[0][:-1] + b"?", end=END)
    with FakeBroker(after(broken, 2)).serving() as broker, fetcher_of(broker) as fetcher:
        assert read(fetcher, 0, END) == list(range(END))
    with FakeBroker(lambda partition, offset: broken).serving() as broker, fetcher_of(broker) as fetcher:
        with pytest.raises(CorruptBatchError, match=r"rows\[0\], from offset 3 on: the batch at offset 0 has a wrong"):
            read(fetcher, 3, END)
        assert len(broker.fetches) == 3


def test_what_cannot_be_read_in_batches_is_read_message_by_message(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """From where the batches end; a topic is tried once, and the log says why."""
    asked: list[tuple[int, int]] = []

    class Fetcher:
        def fetch(self, topic: str, partition: int, start: int, to: int, *, number: int) -> Iterator[MessageBatch]:
            asked.append((start, to))
            yield MessageBatch.of([Message(at, b"", partition=number) for at in range(start, start + 2)])
            raise UnsupportedClusterError("it has messages of the format v1")

    def read_messages(topic: str, partition: int, start: int, to: int, *, number: int) -> Iterator[Message]:
        asked.append((start, to))
        yield from (Message(at, b"", partition=number) for at in range(start, to))

    with closing(Kafka(Cluster("nowhere:1"))) as log:
        monkeypatch.setattr(log, "_readers", SimpleNamespace(fetch=read_messages, close=lambda: None))
        monkeypatch.setitem(log.__dict__, "_fetcher", Fetcher())
        for start, to in ((3, 9), (9, 12)):
            assert [message.offset for message in log.fetch("rows", 0, start, to)] == list(range(start, to))
        log.__dict__.pop("_fetcher")
        reason = "rows is read message by message: it has messages of the format v1"
        assert (log.slow_reading("rows"), log.slow_reading("more+rows"), log.slow_reading("more")) == (
            reason,
            reason,
            "",
        )
    assert asked == [(3, 9), (5, 9), (9, 12)]
    (warning,) = caplog.messages
    assert warning == "rows is read message by message, which is slower: it has messages of the format v1"


def test_addresses_of_a_cluster() -> None:
    """As librdkafka takes them."""
    cluster = Cluster("a:1, PLAINTEXT://b:2,c,[::1]:3")
    assert cluster.addresses == [("a", 1), ("b", 2), ("c", 9092), ("::1", 3)]
