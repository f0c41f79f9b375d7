"""Windowed statistics on the real Kafka and Spark: each row is counted once, whatever is killed on the way."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_jobs.streaming.inputs.flows import Flows
from tests.support.servers import Running
from tests.support.stream_job import StreamJob, expected

SEED = 20130101
FLOWS = Flows(300_000, seed=SEED, sips=200, types=5, rate=10_000, disorder=0.05)


@pytest.fixture
def job(kafka: Running, tmp_path: Path) -> Iterator[StreamJob]:
    """The job on a topic with all rows."""
    job = StreamJob(kafka, tmp_path / "home", admitted=3)
    job.feed(FLOWS, size=1_000)
    yield job
    job.close()


def test_nothing_is_lost_or_doubled_by_faults(job: StreamJob, kafka: Running) -> None:
    """A worker, the driver, its JVM and the broker are killed, the states and the checkpoints deleted."""
    drawn = random.Random(SEED)

    def break_broker() -> None:
        kafka.kill("broker")
        kafka.mend()

    faults: list[Callable[[], None]] = [
        lambda: job.kill("worker"),
        lambda: job.kill("jvm"),
        break_broker,
        lambda: job.kill("driver"),
        lambda: shutil.rmtree(job.state / job.name),
        lambda: shutil.rmtree(job.state / job.name / "checkpoints"),
    ]
    drawn.shuffle(faults)
    job.start()
    number = 0
    for fault in faults:
        number += drawn.randint(2, 8)
        job.await_round(number)
        fault()
    job.await_rows(FLOWS.rows)
    job.stop()
    assert job.results() == expected(FLOWS)
