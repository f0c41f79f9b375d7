"""Back-pressure on the real Kafka and Spark: a stage that is slowed down throttles those before it, step by step.

In one application by values, in two over a channel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from springline.spark_jobs.streaming.application.status import JobStatus
from springline.spark_jobs.streaming.backpressure.config import DEFAULT_CONFIG, ChannelKind, update_config
from springline.spark_jobs.streaming.backpressure.control_topic import control_topic
from tests.support.servers.servers import Running
from tests.support.streams.relay_app import RelayApp

OFFERED, SIZE = 2e6, 20_000  # bytes a second, bytes of a message
SLOW = 0.3e6  # bytes a second that the slow stage can do
BOUND = 8e6  # bytes: without back-pressure they would wait before the slow stage after 5 s


@pytest.fixture
def relay(kafka: Running, tmp_path: Path) -> Iterator[RelayApp]:
    """A relay that runs in one application."""
    yield from running(RelayApp(kafka, tmp_path / "relay"))


@pytest.fixture
def crossing(kafka: Running, zookeeper: Running, tmp_path: Path) -> Iterator[RelayApp]:
    """A relay that runs in two applications: `count` and `keep` are apart."""
    yield from running(RelayApp(kafka, tmp_path / "relay", apart=True, SPRINGLINE_ZOOKEEPER=zookeeper.address))


def running(app: RelayApp) -> Iterator[RelayApp]:
    """One that works, until the test has ended."""
    app.await_(lambda status: status.is_ready, patience=240)
    yield app
    app.close()


def has_control_topic(app: RelayApp) -> bool:
    """Whether its signals have ever travelled over Kafka."""
    with app.kafka.log() as log:
        return control_topic(app.name) in log.all_topics()


def throttled(status: JobStatus, *stages: str) -> bool:
    """Whether these stages are throttled."""
    stages_by_name = status.backpressure.get("stages", {})
    return all(stages_by_name.get(stage, {}).get("throttled_by") for stage in stages)


def is_drained_and_free(relay: RelayApp, status: JobStatus) -> bool:
    """Whether all came out, and no stage is throttled."""
    stages = status.backpressure["stages"].values()
    return all(stage["rate"] is None for stage in stages) and relay.numbers().total() >= relay.fed


def test_a_slow_stage_throttles_the_source_and_a_kill_then_loses_nothing(relay: RelayApp) -> None:
    """The rest waits in the source's topic; when the stage is quick again, so are all, and each message came once."""
    relay.feed(OFFERED, SIZE)
    relay.await_(lambda status: status.stages["count"]["counts"].get("messages", 0) > 200, patience=120)
    relay.slow_down(SLOW)
    relay.await_(lambda status: throttled(status, "take", "parse"), patience=120)
    by = [(each["downstream"], each["upstream"]) for stage in relay.stages().values() for each in stage["throttled_by"]]
    assert set(by) == {("parse", "take"), ("count", "parse")}
    assert not has_control_topic(relay)

    def far_behind(status: JobStatus) -> bool:
        stages = status.backpressure["stages"]
        assert all(stages[name]["not_admitted"] < BOUND for name in ("parse", "count", "keep")), stages
        return bool(stages["take"]["queue"] > BOUND)

    relay.await_(far_behind, patience=120)
    relay.kill_all()
    relay.speed_up()
    relay.finish_feeding()
    free = relay.await_(lambda status: status.is_ready and is_drained_and_free(relay, status), patience=400)
    assert free.error == ""
    relay.stop()
    assert relay.numbers() == Counter(range(relay.fed))


@pytest.mark.nightly("two applications are throttled twice")
def test_signals_by_zookeeper_end_with_their_leases_when_it_dies_and_come_again(
    crossing: RelayApp, zookeeper: Running
) -> None:
    """No stage stays throttled by a signal that cannot be revoked; the channel is chosen while the job runs."""
    crossing.feed(OFFERED, SIZE)
    crossing.await_(lambda status: status.stages["count"]["counts"].get("messages", 0) > 200, patience=120)
    assert has_control_topic(crossing)
    update_config(crossing.folder, DEFAULT_CONFIG, signal_channel=ChannelKind.ZOOKEEPER)
    crossing.slow_down(SLOW)
    crossing.await_(lambda status: throttled(status, "take", "parse"), patience=120)
    zookeeper.kill("server")
    crossing.await_(lambda status: not throttled(status, "take") and "ZooKeeper" in status.error, patience=120)
    zookeeper.restart_stopped()
    crossing.await_(lambda status: throttled(status, "take", "parse"), patience=120)
    crossing.speed_up()
    crossing.finish_feeding()
    crossing.await_(lambda status: is_drained_and_free(crossing, status), patience=400)
    crossing.stop()
    assert crossing.numbers() == Counter(range(crossing.fed))
