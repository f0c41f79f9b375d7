"""A job of windowed statistics over a topic that is full, timed from its warm-up to its end."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

from confluent_kafka.admin import AdminClient

from benchmarks.streams.broker import Place
from benchmarks.streams.running_job import Measured, Step, run_timed
from benchmarks.windows.queries import ONE
from benchmarks.windows.records import messages_of, stream_of
from springline.spark_jobs.streaming.examples.datagen import send
from springline.spark_jobs.streaming.examples.flights import TimedMessage
from springline.spark_jobs.streaming.examples.netflow import Flows
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.tracking.config import Delivery, TrackingConfig
from springline.spark_jobs.streaming.windows.job import WindowsJob

SIZE = 5_000  # rows in a message, the paper's best


@dataclass(frozen=True)
class Case:
    """A topic's content, and how a job reads it: with which queries, on how many units of each stage.

    `content` names the rows where other cases have the same.
    """

    name: str
    form: str
    flows: Flows
    size: int = SIZE
    queries: Mapping[str, str] = field(default_factory=lambda: {"flows": ONE})
    units: int = 2
    content: str = ""
    tracked: bool = False

    @property
    def topic(self) -> str:
        """A name that no other rows have."""
        return f"{self.content or self.name}-{self.form}-{self.size}-{self.units}".replace(" ", "-").replace(",", "")


def feed(where: Place, case: Case) -> None:
    """Fill the case's topic."""
    with closing(Kafka(Cluster(where.kafka))) as log:
        log.create({case.topic: case.units})
        send(log, case.topic, (TimedMessage(0.0, value) for value in messages_of(case.flows, case.form, case.size)))


def forget(where: Place, case: Case) -> None:
    """Delete the case's topic: what lies in memory is read at its speed, what does not at the disk's."""
    admin = AdminClient(Cluster(where.kafka).config())
    for deletion in admin.delete_topics([case.topic]).values():
        deletion.result()


def measure(where: Place, case: Case, *, warm: float, turn: int = 0) -> Measured:
    """Run a job over the case's topic; a share `warm` of the rows goes before the clock starts."""
    name = f"w{abs(hash((case.name, case.topic, case.tracked))) % 10**8}_{turn}_{os.getpid()}"
    per_round = max(1, min(1_600_000, case.flows.rows // 20) // case.size)
    job = WindowsJob(
        name,
        case.topic,
        stream_of(case.form),
        case.queries,
        parallelism=case.units,
        max_messages_per_round=per_round,
    )
    if case.tracked:
        job = replace(job, tracking=TrackingConfig(name, delivery=Delivery.AT_MOST_ONCE))
    settings = where.stream_settings(name)
    path = (Step("map", case.units), Step("reduce", case.units))
    measured = run_timed(job, settings, path, case.flows.rows, warm)
    where.forget(name)
    return measured
