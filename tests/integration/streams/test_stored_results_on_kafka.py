"""Results of a real stream in the catalog: kept by the application while it is killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from springline.persistence.engine.runner import NoRunner
from springline.persistence.platform import open_platform
from springline.persistence.settings import Settings
from springline.spark_jobs.streaming.examples.netflow import Flows
from springline.spark_jobs.streaming.jobs import read_job
from springline.spark_jobs.streaming.windows.sink.query import query_results
from tests.support.servers.servers import Running
from tests.support.streams.stream_job import StreamJob, expected

FLOWS = Flows(200_000, seed=20130101, sips=100, types=5, rate=10_000, disorder=0.05)
LINE = "strftime(window_start, '%Y-%m-%dT%H:%M:%S') || ' ' || sip || ' ' || type || ' ' || rows || ' ' || bytes"


@pytest.fixture
def job(kafka: Running, tmp_path: Path) -> Iterator[StreamJob]:
    """A job that keeps its results every second, on a topic with all rows."""
    job = StreamJob(
        kafka,
        tmp_path / "home",
        admitted=3,
        SPRINGLINE_STREAM_SINK_INTERVAL="1",
        SPRINGLINE_STREAM_CHECKPOINT_INTERVAL="0",
    )
    file = job.home / "streams.toml"
    file.write_text(file.read_text().replace("max_messages", 'sink = "parquet"\nmax_messages', 1))
    job.feed(FLOWS, size=1_000)
    yield job
    job.close()


def test_results_in_the_catalog_are_those_of_the_stream(job: StreamJob) -> None:
    """Each once, though the driver is killed."""
    job.start()
    job.await_round(4)
    job.kill("driver")
    job.await_rows(FLOWS.rows)
    job.stop()
    declared = read_job(job.home / "streams.toml", job.name)
    with closing(open_platform(Settings(home=job.home), runner=NoRunner(), actor="test")) as platform:
        stored_results = query_results(platform, declared, f"SELECT {LINE} AS line FROM sums")
        assert Counter(stored_results.column("line").to_pylist()) == job.results() == expected(FLOWS)
        assert len(platform.catalog.find(prefix=f"streams/{job.name}/results/")) > 1
