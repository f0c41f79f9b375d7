"""A join over topics that are full, timed, with the CPU that all of it takes, and that of its busiest unit."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import pyarrow as pa

from benchmarks.broker import Place
from benchmarks.join_inputs import fields_of
from benchmarks.running_job import Measured, Step, run_timed
from spark_jobs.streaming.inputs.feeding import send
from spark_jobs.streaming.inputs.flights import Due
from spark_jobs.streaming.join.condition import Condition
from spark_jobs.streaming.join.job import JoinJob
from spark_jobs.streaming.join.predicate import Relation
from spark_jobs.streaming.join.reading import Source
from spark_jobs.streaming.join.routing.controller import Control
from spark_jobs.streaming.kafka import Cluster, Kafka
from spark_jobs.streaming.settings import StreamSettings
from spark_jobs.streaming.unitlog.report import Report

_PARTITIONS = 2
_ROUNDS = 40  # in which a topic is read, about


@dataclass(frozen=True)
class Case:
    """Two tables, or one with itself, as topics in Arrow, `size` rows a message, and what joins them.

    `peer` is the same in SQL over tables `l` and `r`; `shown` are the columns of a pair.
    """

    name: str
    tables: Sequence[pa.Table] = field(repr=False)
    on: str
    shown: Sequence[str]
    size: int = 5_000

    @property
    def topics(self) -> tuple[str, ...]:
        """Of the left and of the right side."""
        names = [f"{self.name}-{side}".replace(" ", "-").replace(",", "") for side in ("left", "right")]
        return (names[0], names[len(self.tables) - 1])

    @property
    def rows(self) -> int:
        """That are read: a table that is joined with itself is read once."""
        return sum(table.num_rows for table in self.tables)

    @property
    def peer(self) -> str:
        """The join in SQL over tables `l` and `r`."""
        return f"SELECT {', '.join(self.shown)} FROM l JOIN r ON {self.on}"

    def job(self, name: str, control: Control, every: float) -> JoinJob:
        """The join as a job."""
        sides = [
            Source(topic, Relation(alias, fields_of(table)), "arrow")
            for topic, alias, table in zip(self.topics, "lr", (self.tables[0], self.tables[-1]), strict=True)
        ]
        condition = Condition.of(sides[0].relation, sides[1].relation, self.on, list(self.shown))
        messages = max(table.num_rows for table in self.tables) // self.size // _PARTITIONS
        return JoinJob(
            name, sides[0], sides[1], condition, control, control.units, every=every, admitted=max(messages // _ROUNDS, 1)
        )  # fmt: skip


def feed(where: Place, case: Case) -> None:
    """Fill the case's topics."""
    with closing(Kafka(Cluster(where.kafka))) as log:
        for topic, table in zip(case.topics, case.tables, strict=False):
            log.create({topic: _PARTITIONS})
            send(log, topic, (Due(0.0, value) for value in _messages(table, case.size)))


def _messages(table: pa.Table, size: int) -> list[bytes]:
    found = []
    for first in range(0, table.num_rows, size):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.slice(first, size).combine_chunks())
        found.append(sink.getvalue().to_pybytes())
    return found


@dataclass(frozen=True)
class Joined:
    """What was seen of a join: as a job, the pairs that it told, and its tuples and pieces by unit."""

    measured: Measured
    pairs: int
    stored: Mapping[int, int]
    moved: int
    sent: int


def measure(where: Place, case: Case, control: Control, *, warm: float, every: float, turn: int = 0) -> Joined:
    """Run the join; a share `warm` of the rows goes before the clock starts."""
    name = f"j{control.strategy.replace('-', '')}_{turn}_{os.getpid()}"
    job = case.job(name, control, every)
    settings = StreamSettings(
        home=where.folder / name, kafka=where.kafka, stream_state=where.folder / "state", stream_master="local[8,4]"
    )
    routers = _PARTITIONS * len(case.tables)
    path = (Step("route", routers), Step("join", control.units))
    found = run_timed(job, settings, path, case.rows, warm, answered=_answered)
    reports = [Report.read(settings.state_folder / name / "join" / str(unit)) for unit in range(control.units)]
    joined = Joined(
        found,
        sum(report.counts.get("pairs", 0) for report in reports if report),
        {report.unit: sum(report.gauges["stored"].values()) for report in reports if report},
        sum(report.counts.get("taken in", 0) for report in reports if report),
        sum(report.counts.get("rows", 0) for report in reports if report),
    )
    where.forget(name)
    return joined


def _answered(report: Report) -> bool:
    """Whether a unit has nothing left to answer."""
    pending = report.gauges["pending"]
    return not (pending["rounds"] or pending["probes"])
