"""The fault of the demo on the real Kafka: cache and stream are harmed, and it is known when they are healed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from springline.airflow.operators.maintenance import recover
from springline.persistence.model.dataset import Strategy
from springline.persistence.platform import Platform
from springline.services.demo.fault_injection import delete_folder, group_of, wipe_cache
from springline.services.demo.recovery_report import RecoveryMonitor
from springline.services.demo.streams import DemoFeed, DemoFeeder
from springline.services.errors import ServiceError
from springline.spark_jobs.streaming.application.supervision import kill_application
from springline.spark_jobs.streaming.examples.datagen import SampleSource
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.testing.lines import make_dataset as make
from tests.support.servers.servers import Running
from tests.support.streams.application import Application
from tests.support.waiting import until

DECLARED = """
[flights]
topic = "flights"
[flights.stream]
time = "time"
fields = [["time", "timestamp"]]
[words]
kind = "wordcount"
topic = "lines"
emit_interval = 0.5
[words.tracking]
"""
LINES = DemoFeed("lines", SampleSource.LINES, 4_000, 50, 400.0, always_send=True)


@pytest.fixture
def application(kafka: Running, tmp_path: Path) -> Iterator[Application]:
    """The demo's stream of words, with the cache of the platform."""
    own = {"SPRINGLINE_CACHE_URI": f"file://{tmp_path}/cache", "SPRINGLINE_STREAM_TASKS_PER_STAGE": "1"}
    application = Application(
        kafka, tmp_path / "home", "words", DECLARED, SPRINGLINE_STREAM_CHECKPOINT_INTERVAL="1", **own
    )
    yield application
    application.close()
    kafka.forget_topics()


@pytest.mark.nightly("jobs of the demo, started, killed and restored")
def test_what_the_fault_of_the_demo_takes_comes_back_and_is_seen_to(
    kafka: Running, application: Application, open_at: Callable[..., Platform]
) -> None:
    """A dataset is recomputed, the stream goes on from its saved states, and every word is counted once."""
    platform = open_at(home=application.home)
    persisted = make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    alone = make(platform, "b", "shout", ["a"], strategy=Strategy.ASYNC_STORE)
    settings = StreamSettings(
        home=application.home,
        kafka_bootstrap_servers=kafka.address,
        streams_file=application.home / "streams.toml",
        stream_state_dir=application.state,
    )
    with closing(Kafka(settings.cluster)) as log:
        log.create({"flights.results": 1})
        feeding = DemoFeeder(settings, (LINES,))
        application.start()
        application.await_(lambda status: status.is_ready and status.tracking["completed"] > 0, patience=240)
        until(lambda: platform.catalog.find(prefix="streams/words/"), seconds=120)
        damage = RecoveryMonitor(settings, log, platform.catalog, [alone.ref])
        damage.begin()
        status = application.status()
        assert group_of(status) == status.pid
        kill_application(status, application.folder)
        assert not application.folder.is_running()
        delete_folder(application.state / "words")
        assert wipe_cache(platform.cache) >= 2
        assert damage.poll(all_sent=False) == {
            "cache": "its loss has not been detected yet",
            "stream words": "it is dead",
        }
        with pytest.raises(ServiceError, match="not recovered, and no progress for 0 s:\n  cache: its loss has not"):
            damage.check_timeout(0)
        recover(platform)
        assert platform.catalog.get(alone.ref).in_cache and not platform.catalog.get(persisted.ref).in_cache
        application.start()
        until(lambda: damage.poll(all_sent=not feeding.is_sending) and damage.is_healed, seconds=240, every=0.5)
        how = {each.thing: each.how for each in damage.recovered_items()}
    assert how["cache"].endswith("1 of the other 1 are recomputed")
    assert "restarted by its DAG" in how["stream words"] and "0 states" not in how["stream words"]
    assert how["lines of words"] == "all completed; 0 failed"
    assert how["counts of words"] == "every word is counted exactly once"
