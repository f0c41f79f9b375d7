"""A join over topics that are full, timed, with the CPU that all of it takes, and that of its busiest unit."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from benchmarks.join.inputs import fields_of
from benchmarks.streams.broker import Place
from benchmarks.streams.job_reports import JobReports
from benchmarks.streams.running_job import Measured, Pause, Step, run_timed
from springline.spark_jobs.streaming.backpressure.config import DEFAULT_CONFIG, BackpressureConfig
from springline.spark_jobs.streaming.examples.datagen import send
from springline.spark_jobs.streaming.examples.flights import TimedMessage
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.job import JoinJob
from springline.spark_jobs.streaming.join.rebalance import read_explanation, units_of_gauges
from springline.spark_jobs.streaming.join.router import RelationSource
from springline.spark_jobs.streaming.join.routing.controller import RebalanceConfig
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.report import UnitReport

PARTITIONS = 2  # of each topic
TASKS = 2  # that run the units
_ROUNDS = 40  # in which a topic is read, about
_EVERY = 0.5  # seconds between two looks of the controller
_IDLE_SECONDS = 3.0  # seconds without anything to do, after which the controller is done
_WARM = 0.3


@dataclass(frozen=True)
class Case:
    """Two tables, or one with itself, as topics in Arrow, and what joins them.

    `size` is the rows of a message of the larger table; the smaller one has as many messages, so that both come alike.
    """

    name: str
    tables: Sequence[pa.Table] = field(repr=False)
    on: str
    shown: Sequence[str]
    size: int = 5_000

    @property
    def rows(self) -> int:
        """That are read: a table that is joined with itself is read once."""
        return sum(table.num_rows for table in self.tables)

    @property
    def peer(self) -> str:
        """The join in SQL over tables `l` and `r`."""
        return f"SELECT {', '.join(self.shown)} FROM l JOIN r ON {self.on}"

    def topics(self, name: str) -> tuple[str, ...]:
        """Of a job's tables."""
        return tuple(f"{name}.in-{side}" for side in ("left", "right")[: len(self.tables)])

    def job(self, name: str, control: RebalanceConfig, every: float, tasks: int = TASKS) -> JoinJob:
        """The join as a job, with so many tasks."""
        topics = self.topics(name)
        left, right = (
            RelationSource(topic, Relation(alias, fields_of(table)), "arrow")
            for topic, alias, table in zip(
                (topics[0], topics[-1]), "lr", (self.tables[0], self.tables[-1]), strict=True
            )
        )
        condition = Condition.of(left.relation, right.relation, self.on, list(self.shown))
        readers = min(tasks, PARTITIONS * len(topics))
        admitted = max(len(topics) * self.many // readers // _ROUNDS, 1)
        return JoinJob(
            name,
            left,
            right,
            condition,
            control,
            control.units,
            tasks,
            rebalance_interval=every,
            max_messages_per_round=admitted,
            # More tasks than cores would be made level by ever smaller rounds.
            backpressure=DEFAULT_CONFIG if tasks == TASKS else BackpressureConfig("off"),
        )

    def messages(self) -> list[list[bytes]]:
        """The messages of each table."""
        by_topic = []
        for table in self.tables:
            ends = np.linspace(0, table.num_rows, self.many + 1).astype(int).tolist()
            by_topic.append([message_of(table.slice(first, end - first)) for first, end in itertools.pairwise(ends)])
        return by_topic

    @property
    def many(self) -> int:
        """Messages of each table."""
        return -(-max(len(table) for table in self.tables) // self.size)


def message_of(rows: pa.Table) -> bytes:
    """Rows as the bytes of an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return bytes(sink.getvalue())


def feed(where: Place, topics: Sequence[str], messages: Sequence[Sequence[bytes]]) -> None:
    """Send messages to topics, which are made where they are not there."""
    with closing(Kafka(Cluster(where.kafka))) as log:
        log.create(dict.fromkeys(topics, PARTITIONS))
        for topic, own in zip(topics, messages, strict=True):
            send(log, topic, (TimedMessage(0.0, value) for value in own))


@dataclass(frozen=True)
class Joined:
    """What was measured of a join: as a job; pairs emitted; tuples stored by unit, moved, and sent to tasks."""

    measured: Measured
    pairs: int
    stored: Mapping[int, int]
    moved: int
    sent: int


def measure(where: Place, case: Case, control: RebalanceConfig, *, turn: int = 0, tasks: int = TASKS) -> Joined:
    """Run the join: a tenth of the rows, until nothing is to be moved any more, then all others; three tenths of the
    rows go before the clock starts.
    """
    name = f"{case.name}_{control.strategy}_{turn}_{os.getpid()}".lower().replace(" ", "_").replace("-", "_")
    settings = where.stream_settings(name)
    topics, messages = case.topics(name), case.messages()
    early = case.many // 10
    feed(where, topics, [own[:early] for own in messages])
    later = [own[early:] for own in messages]
    is_idle = _Stillness(settings.folder(name))
    hold_file = settings.folder(name).hold_file

    def feed_later() -> None:
        hold_file.touch()  # else the job would be as slow as this process is to send
        feed(where, topics, later)
        hold_file.unlink()

    pause = Pause(case.rows * early // case.many - len(topics), is_idle, feed_later)
    path = (Step("route", tasks), Step("join", tasks))
    job = case.job(name, control, _EVERY, tasks)
    measured = run_timed(job, settings, path, case.rows, _WARM, answered=_answered, pause=pause)
    with closing(JobReports(name, where.kafka)) as job_reports:
        present_reports = [report for _, report in sorted(job_reports.reports("join").items())]
    where.forget(name)
    units = units_of_gauges(report.round.gauges for report in present_reports)
    return Joined(
        measured,
        sum(report.totals.counts.get("pairs", 0) for report in present_reports),
        {unit: sum(own["stored"].values()) for unit, own in units.items()},
        sum(report.totals.counts.get("imported", 0) for report in present_reports),
        sum(report.totals.counts.get("rows", 0) for report in present_reports),
    )


def _answered(report: UnitReport) -> bool:
    """Whether a task has nothing left to answer."""
    pending = report.round.gauges["pending"]
    return not (pending["rounds"] or pending["probes"])


class _Stillness:
    """Whether a join's controller has had nothing to do for a second, and nothing is under way."""

    def __init__(self, folder: JobFolder) -> None:
        self._folder = folder
        self._since, self._epoch = 0.0, -1

    def __call__(self) -> bool:
        explanation = read_explanation(self._folder)
        if explanation is None or explanation["epoch"] != self._epoch or explanation["migrations"]:
            self._since, self._epoch = time.monotonic(), -1 if explanation is None else explanation["epoch"]
        return time.monotonic() - self._since > _IDLE_SECONDS
