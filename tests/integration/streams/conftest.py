"""The real Kafka for tests: its log, and jobs on it that may be harmed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from springline.spark_jobs.streaming.examples.netflow import Flows
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from tests.support.joins.join_job import JoinJob
from tests.support.servers.servers import Running
from tests.support.streams.application import Application
from tests.support.streams.stream_job import StreamJob
from tests.support.streams.word_job import WordJob


@pytest.fixture
def log(kafka: Running) -> Iterator[Kafka]:
    """A log of this test's own connections."""
    log = Kafka(Cluster(kafka.address), timeout=20)
    yield log
    log.close()


def ended(create: Callable[..., Application]) -> Iterator[Callable[..., Any]]:
    """Makes jobs by `create`, which is given their number; ends whatever lives of them after the test."""
    jobs: list[Application] = []

    def make(*values: Any, **settings: Any) -> Application:
        jobs.append(create(len(jobs), *values, **settings))
        return jobs[-1]

    yield make
    for job in jobs:
        job.close()


@pytest.fixture
def make_job(kafka: Running, tmp_path: Path) -> Iterator[Callable[..., StreamJob]]:
    """Makes a job whose topic holds rows, so many a message."""

    def create(
        number: int, flows: Flows, *, size: int = 1_000, admitted: int = 3, partitions: int = 2, **settings: str
    ) -> StreamJob:
        job = StreamJob(kafka, tmp_path / f"home-{number}", admitted=admitted, **settings)
        job.feed(flows, size=size, partitions=partitions)
        return job

    yield from ended(create)


@pytest.fixture
def make_words(kafka: Running, tmp_path: Path) -> Iterator[Callable[..., WordJob]]:
    """Makes a tracked word count."""
    yield from ended(lambda number, **settings: WordJob(kafka, tmp_path / f"words-{number}", **settings))


@pytest.fixture
def make_join(kafka: Running, tmp_path: Path) -> Iterator[Callable[..., JoinJob]]:
    """Makes a join."""
    yield from ended(lambda number, **settings: JoinJob(kafka, tmp_path / f"join-{number}", **settings))
