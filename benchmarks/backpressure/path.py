"""A relay job on Kafka and Spark under one mode of back-pressure, while the capacity of its slow stage changes."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.backpressure.backpressure_simulation import COUNT, OFFERED, STAGES, Scenario
from benchmarks.backpressure.relay_job import RelayJob, allow, numbered
from benchmarks.backpressure.simulator import GRID, Trace
from benchmarks.streams.broker import Place
from benchmarks.streams.job_reports import JobReports
from benchmarks.streams.running_job import memory_of
from springline.spark_jobs.streaming.application.application import run_job
from springline.spark_jobs.streaming.backpressure.accounting import StageAccounting
from springline.spark_jobs.streaming.backpressure.config import BackpressureConfig
from springline.spark_jobs.streaming.job import make_stages
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.settings import StreamSettings

SIZE = 20_000  # bytes of a message
_TURN = 0.05  # seconds between two looks, and between two sendings
_WARM = 10.0  # seconds without bound before the clock starts
_CALM = 5.0  # seconds at the first capacity
_PATIENCE = 180.0
_STAGE_OF = dict(zip(STAGES, ("take", "parse", "count", "keep"), strict=True))  # what the relay calls them


@dataclass(frozen=True)
class Course:
    """What was seen: the trace, messages sent, lost and doubled, and most bytes of JVM and workers in memory."""

    trace: Trace
    sent: int
    lost: int
    doubled: int
    memory: int


def course(where: Place, scenario: Scenario, mode: str, *, offered: float = OFFERED) -> Course:
    """Run a scenario; raises RuntimeError where the job does not come to work, or to its end."""
    name = f"{scenario.name}_{mode}_{os.getpid()}".replace("-", "_").replace(" ", "_")
    topic, settings = f"{name}.in", where.stream_settings(name)
    slow = where.folder / f"{name}.capacity"
    job = RelayJob(name, topic, str(slow), backpressure=BackpressureConfig(mode))
    with closing(Kafka(Cluster(where.kafka))) as log:
        log.create({topic: 1})
    watch = _Watch(settings, job, scenario, slow, where.kafka, topic, offered)
    watch.start()
    run_job(job, settings)
    watch.join()
    numbers = Counter[int]()
    for at, seconds, number in _results(where.kafka, job.results):
        numbers[number] += 1
        if 0 <= at - watch.started_at <= scenario.seconds:
            watch.trace.latencies.setdefault(COUNT, []).append((seconds, SIZE))
    where.forget(name)
    if watch.error:
        raise RuntimeError(f"{scenario.name}, {mode}: {watch.error}")
    doubled = sum(many - 1 for many in numbers.values())
    return Course(watch.trace, watch.sent, watch.sent - len(numbers), doubled, watch.memory)


@dataclass(eq=False)  # a thread is itself alone
class _Watch(threading.Thread):
    """Feeds the job, changes the capacity, and notes what its units have reported; then stops it."""

    settings: StreamSettings
    job: RelayJob
    scenario: Scenario
    slow: Path
    kafka: str
    topic: str
    offered: float
    trace: Trace = field(default_factory=Trace)
    started_at: float = 0.0
    sent: int = 0
    memory: int = 0
    error: str = ""

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self._reports = JobReports(self.job.name, self.kafka)

    def run(self) -> None:
        context = multiprocessing.get_context("spawn")
        over, sent = context.Event(), context.Value("q", 0)
        feeder = context.Process(target=_feed, args=(self.kafka, self.topic, self.offered, over, sent))
        points = self.scenario.points().tolist()
        feeder.start()
        try:
            self._warm_up(points[0])
            self._apply_capacities(points)
            over.set()
            feeder.join()
            self.slow.unlink()
            self.sent = sent.value
            self._await(lambda: self._applied_messages() >= self.sent, "not all came through")
        except RuntimeError as error:
            self.error = str(error)
        finally:
            over.set()
            feeder.join()
            self.settings.folder(self.job.name).request_stop()

    def _warm_up(self, capacity: float) -> None:
        """Without a bound at first, so that nothing is left of what waited for the start."""
        self._await(lambda: self._applied_messages() > 0, "it does not come to work")
        time.sleep(_WARM)
        counting = StageAccounting(self.settings.folder(self.job.name).path, self._stages, 1, self._reports)
        self._await(
            lambda: all(each.queue < self.offered / 4 for each in counting.count(time.time()).values()),
            "it lags at first",
        )
        allow(self.slow, capacity)
        time.sleep(_CALM)

    def _apply_capacities(self, points: Sequence[float]) -> None:
        """Change the capacity as the scenario does, and look."""
        counting = StageAccounting(self.settings.folder(self.job.name).path, self._stages, 1, self._reports)
        self.started_at = time.time()
        while (at := time.time() - self.started_at) < self.scenario.seconds:
            allow(self.slow, points[min(int(at / GRID), len(points) - 1)])
            counts_by_stage = counting.count(self.started_at + at)
            for stage, own in _STAGE_OF.items():
                counted = counts_by_stage[own]
                self.trace.at.setdefault(stage, []).append(at)
                self.trace.waiting.setdefault(stage, []).append(max(sum(counted.sent.values()) - counted.admitted, 0))
                self.trace.queue.setdefault(stage, []).append(counted.queue)
                self.trace.applied.setdefault(stage, []).append((at, counted.applied))
                self.trace.admitted.setdefault(stage, []).append((at, counted.admitted))
            if int(at) > int(at - _TURN):
                workers = psutil.Process().children(recursive=True)
                self.memory = max(self.memory, sum(memory_of(each) for each in workers))
            time.sleep(_TURN)

    @property
    def _stages(self) -> Sequence[Stage]:
        return make_stages(self.job, self.settings)

    def _applied_messages(self) -> int:
        """Messages that the slow stage has applied."""
        slow = next(stage for stage in self._stages if stage.name == _STAGE_OF[COUNT])
        return sum(report.totals.counts.get("messages", 0) for report in self._reports.reports(slow.name).values())

    def _await(self, holds: Any, failure: str) -> None:
        until = time.monotonic() + _PATIENCE
        while not holds():
            if time.monotonic() > until:
                raise RuntimeError(f"{failure} within {_PATIENCE:g} s")
            time.sleep(_TURN)


def _feed(kafka: str, topic: str, offered: float, over: Any, sent: Any) -> None:
    """Send numbered messages at a rate, until it is over."""
    started_at = time.monotonic()
    with closing(Kafka(Cluster(kafka))) as log:
        while not over.wait(_TURN):
            end = int((time.monotonic() - started_at) * offered / SIZE)
            with log.record_sender() as sending:
                for number in range(sent.value, end):
                    sending.send(OutgoingRecord(topic, 0, numbered(number, SIZE)))
            sent.value = end


def _results(kafka: str, topic: str) -> Iterator[tuple[float, float, int]]:
    """When each message was through, seconds from its admission to that, and its number."""
    with closing(Kafka(Cluster(kafka))) as log:
        for unit, extent in log.offset_bounds(topic).items():
            for message in log.fetch(topic, unit, extent.low, extent.high):
                for line in bytes(message.value).splitlines():
                    row = json.loads(line)
                    yield row["at"], row["seconds"], row["number"]
