"""States of windowed statistics on the real Kafka and Spark, when they are lost with the messages that made them."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from springline.persistence.private_files import default_cache_folder
from springline.spark_jobs.streaming.examples.netflow import Flows
from tests.support.streams.stream_job import StreamJob, expected

FLOWS = Flows(200_000, seed=20130101, sips=200, types=5, rate=10_000, disorder=0.05)


def test_a_state_comes_back_from_the_under_store_when_its_messages_are_gone(
    make_job: Callable[..., StreamJob],
) -> None:
    """It was saved as a dataset, in the under-store; the results go on as if nothing had happened."""
    job = make_job(FLOWS, SPRINGLINE_STREAM_CHECKPOINT_INTERVAL="1000")
    job.start()
    job.await_round(5)
    job.stop()  # which saves
    shutil.rmtree(job.state)
    shutil.rmtree(default_cache_folder(job.home))
    job.start()
    job.await_rows(FLOWS.rows)
    job.stop()
    assert job.results() == expected(FLOWS)
