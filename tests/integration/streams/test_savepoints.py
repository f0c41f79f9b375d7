"""Savepoints on the real Kafka: made while a job runs, and gone back to."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable

import pytest

from springline.persistence.private_files import default_cache_folder
from springline.spark_jobs.streaming.examples.netflow import Flows
from tests.support.streams.stream_job import StreamJob, expected

FLOWS = Flows(200_000, seed=5, sips=200, types=5, rate=10_000)


@pytest.mark.nightly("starts a job twice")
def test_a_job_that_rewinds_emits_again_what_came_after(make_job: Callable[..., StreamJob]) -> None:
    """After a savepoint, also when the cache is lost with all states, since it is in the under-store."""
    job = make_job(FLOWS)
    job.start()
    job.await_round(10)
    before = job.counted()
    assert "savepoint early created" in job.run("savepoint", "early")
    job.await_rows(FLOWS.rows)
    job.stop()
    assert "early" in job.run("savepoints")
    shutil.rmtree(job.state)
    shutil.rmtree(default_cache_folder(job.home))
    assert "incarnation 2" in job.run("rewind", "--to", "early")
    job.start()
    everything = expected(FLOWS)
    last = _last(everything)
    job.await_(lambda _: _last(job.results(2)) == last, patience=240)
    job.stop()
    assert job.results() == everything
    repeated_results = job.results(2)
    assert (
        repeated_results <= everything
        and 0 < sum(int(line.split()[3]) for line in repeated_results) <= FLOWS.rows - before
    )


def _last(lines: Counter[str]) -> set[str]:
    """The results of the newest window."""
    newest = max((line.split()[0] for line in lines), default="")
    return {line for line in lines if line.startswith(newest)}
