"""Signals over the real Kafka and the real ZooKeeper: what every channel does, and what an outage does to it."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Collection, Iterator

import pytest

from springline.spark_jobs.streaming.backpressure.channel import Channel
from springline.spark_jobs.streaming.backpressure.control_topic import ControlTopic, control_topic
from springline.spark_jobs.streaming.backpressure.signals import Signal
from springline.spark_jobs.streaming.backpressure.zookeeper import (
    _SESSION_SECONDS,
    MESSAGES,
    STATES,
    ZooKeeperChannel,
)
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from tests.support.servers.servers import Running
from tests.support.streams.channel_suite import PATIENCE, ChannelSuite, received, received_last, signal
from tests.support.waiting import until

Open = Callable[[Collection[str]], Channel]


@pytest.fixture
def job() -> str:
    """A job of its own."""
    return f"j{uuid.uuid4().hex}"


@pytest.fixture
def opened() -> Iterator[list[Channel]]:
    """Ends that are closed after the test."""
    ends: list[Channel] = []
    yield ends
    for end in ends:
        end.close()


def troubled(end: Channel) -> str:
    """What an end says is wrong, once it has noticed."""
    return until(lambda: end.last_error, seconds=PATIENCE, every=0.01)


def outlasting(open_end: Open, server: Running, process: str) -> str:
    """Signals come again once a server that was killed is back; what was wrong while it was away."""
    here, there = open_end(["count"]), open_end(["parse"])
    here.send([signal(1)])
    received(there, "parse")
    server.kill(process)
    began = time.monotonic()
    for number in range(2, 6):
        here.send([signal(number)])
    assert time.monotonic() - began < 1.0
    last_error = troubled(here)
    server.restart_stopped()
    last = signal(6)
    here.send([last])
    assert received_last(there, last)[-1] == last
    return last_error


def outlasting_a_partition(open_end: Open, server: Running, process: str, seconds: float = 0.0) -> None:
    """No caller waits for a server that answers nothing; when it answers again, the newest signal comes.

    The partition lasts so many seconds, and at least until it is noticed.
    """
    here, there = open_end(["count"]), open_end(["parse"])
    here.send([signal(1)])
    received(there, "parse")
    with server.cut_off(process):
        began = time.monotonic()
        for number in range(2, 6):
            here.send([signal(number)])
            there.receive("parse")
        assert time.monotonic() - began < 1.0
        troubled(here)
        time.sleep(max(0.0, began + seconds - time.monotonic()))
    last = signal(6)
    here.send([last])
    assert received_last(there, last)[-1] == last


class TestControlTopic(ChannelSuite):
    """Over Kafka."""

    @pytest.fixture
    def open_end(self, kafka: Running, job: str, opened: list[Channel]) -> Open:
        def open_end(stages: Collection[str]) -> Channel:
            opened.append(ControlTopic(Cluster(kafka.address), job, stages))
            return opened[-1]

        return open_end

    def test_signals_go_on_when_the_broker_was_killed(self, open_end: Open, kafka: Running) -> None:
        """Sending does not wait for it; of what was asked meanwhile the newest comes."""
        error = outlasting(open_end, kafka, "broker")
        assert "could not be sent" in error or "signals:" in error

    def test_signals_go_on_after_a_partition(self, open_end: Open, kafka: Running) -> None:
        """Requests time out meanwhile."""
        outlasting_a_partition(open_end, kafka, "broker")

    def test_a_control_topic_that_was_deleted_is_recreated(self, open_end: Open, kafka: Running, job: str) -> None:
        """By whoever needs it next."""
        here, there = open_end(["count"]), open_end(["parse"])
        here.send([signal(1)])
        received(there, "parse")
        with kafka.log() as log:
            log._admin.delete_topics([control_topic(job)])[control_topic(job)].result()
        numbers = itertools.count(2)

        def one_came() -> list[Signal]:
            here.send([signal(next(numbers))])  # those that are sent until both have noticed may be lost
            return there.receive("parse")

        until(one_came, seconds=PATIENCE, every=0.2)

    def test_an_end_that_is_opened_later_knows_what_is_asked(self, open_end: Open) -> None:
        """As long as its lease may last; so a controller that was started again is not blind."""
        here = open_end(["count"])
        sent = signal(1)
        here.send([sent])
        assert received(open_end(["parse"]), "parse") == [sent]

    def test_other_messages_on_the_topic_are_passed_over(self, open_end: Open, kafka: Running, job: str) -> None:
        """They throttle no stage, and break nothing."""
        here, there = open_end(["count"]), open_end(["parse"])
        here.send([signal(1)])
        received(there, "parse")
        with kafka.log() as log, log.record_sender() as sending:
            sending.send(OutgoingRecord(control_topic(job), 0, b"not a signal"))
        here.send([signal(2)])
        assert received(there, "parse")[0].sequence == 2


class TestZooKeeper(ChannelSuite):
    """Over ZooKeeper."""

    @pytest.fixture
    def open_end(self, zookeeper: Running, job: str, opened: list[Channel]) -> Open:
        def open_end(stages: Collection[str]) -> Channel:
            opened.append(ZooKeeperChannel(zookeeper.address, job, stages))
            return opened[-1]

        return open_end

    def test_signals_go_on_when_the_server_was_killed(self, open_end: Open, zookeeper: Running) -> None:
        """Sending does not wait for it; of what was asked meanwhile the newest comes."""
        assert "ZooKeeper" in outlasting(open_end, zookeeper, "server")

    def test_signals_go_on_after_a_partition(self, open_end: Open, zookeeper: Running) -> None:
        """The session is over meanwhile."""
        outlasting_a_partition(open_end, zookeeper, "server", _SESSION_SECONDS + 2.5)  # 2 s is a tick of the server

    def test_messages_are_deleted_and_the_state_is_reported(self, open_end: Open, zookeeper: Running, job: str) -> None:
        """The patent's nodes: nothing is left at /taskmessage, what is asked of a stage is at /taskstate."""
        from kazoo.client import KazooClient

        here, there = open_end(["count", "keep"]), open_end(["parse"])
        here.send([signal(1), signal(1, downstream="keep", level=3)])
        received(there, "parse", 2)
        client = KazooClient(zookeeper.address)
        client.start()
        path = f"/{job}/{STATES}/parse"

        def state() -> bytes:
            return client.get(path)[0] if client.exists(path) else b""

        until(lambda: b"keep" in state() and b"count" in state(), seconds=PATIENCE)
        assert client.get_children(f"/{job}/{MESSAGES}/parse") == []
        client.stop()
        client.close()


@pytest.mark.parametrize("kind", ["kafka", "zookeeper"])
def test_a_server_that_cannot_be_reached_is_reported_and_throttles_no_stage(kind: str) -> None:
    """Opening, sending, asking and closing return; a stage without signals is free when leases end."""
    end: Channel
    if kind == "kafka":
        end = ControlTopic(Cluster("127.0.0.1:1"), "job", ["parse"])
    else:
        end = ZooKeeperChannel("127.0.0.1:1", "job", ["parse"])
    end.send([signal(1)])
    assert end.receive("parse") == []
    assert "signals:" in troubled(end)
    began = time.monotonic()
    end.close()
    assert time.monotonic() - began < 20
