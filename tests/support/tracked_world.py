"""A tracked topology as one process without Kafka and Spark, which may die, and in which tuples and acks are lost."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

from springline.spark_jobs.streaming.job import topics_of_stages
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import TrackedJob
from springline.spark_jobs.streaming.runtime.atomic_files import read_json, write_json
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.driver.recovery import recover
from springline.spark_jobs.streaming.runtime.history import Content
from springline.spark_jobs.streaming.runtime.report import Report
from springline.spark_jobs.streaming.runtime.rounds import Plan
from springline.spark_jobs.streaming.runtime.stage import Stage, place_stages
from springline.spark_jobs.streaming.runtime.step import Step
from springline.spark_jobs.streaming.runtime.worker.unit import Units
from springline.spark_jobs.streaming.tracking.config import LOW, PACE, RING
from springline.spark_jobs.streaming.tracking.monitor import dealt_with, lows_of
from springline.spark_jobs.streaming.tracking.ring import Epochs
from tests.support.memory_log import Killed, MemoryLog

Wrap = Callable[[Stage, Step], Step]


class TrackedWorld:
    """A tracked job with its driver, workers and oversight; a `turn` is a round of each that has work.

    The ackers are its last stage; what feeds, finishes and counts is for word counts.
    """

    def __init__(
        self, job: TrackedJob, folder: Path, partitions: int = 2, wrap: Wrap = lambda stage, step: step
    ) -> None:
        self.job = job
        self.partitions = partitions
        self.folder = JobFolder(folder / "job")
        self.folder.path.mkdir(parents=True)
        self.stages = place_stages(job.name, job.stages(partitions), folder / "states")
        self.log = MemoryLog({job.topic: partitions, **topics_of_stages(job, partitions)})
        self.clock = 1.0
        self.step_seconds = 0.1
        self.wrap = wrap
        self._gauges: list[Mapping[str, Any] | None] = []
        self._dealt = 0
        job.prepare(self.folder)
        write_json(self.folder.path / PACE, {"still": False})
        self.start()

    def start(self) -> None:
        """A driver and workers without memory."""
        self.log.dies_in = None
        for stage in self.stages:
            self._recover(stage)
        self.planners = {
            stage.name: Planner(stage, self.log, lambda: self.clock, lambda stage=stage: self._contents(stage))
            for stage in self.stages
        }
        self.units = {stage.name: self._units(stage) for stage in self.stages}
        self.last: dict[str, Plan] = {}

    def _recover(self, stage: Stage) -> None:
        """As ever, with the steps of this world."""
        plain = Stage.make_step
        wrapped = lambda this: self.wrap(this, plain(this))  # noqa: E731
        with patch.object(Stage, "make_step", wrapped):
            recover(stage, self.log, lambda stage, unit, until: None)

    def feed(self, *messages: str) -> None:
        """Messages, to the partitions in turn."""
        for number, message in enumerate(messages):
            self.log.put(self.job.topic, number % self.partitions, message.encode())

    def turn(self) -> None:
        """A round of each stage, and a look at how tracking is."""
        self.clock += self.step_seconds
        for stage in self.stages:
            planner = self.planners[stage.name]
            last = self.last.get(stage.name) or planner.begin()
            if (plan := planner.after(last)) is not None:
                for unit in sorted(plan.ranges):
                    self.units[stage.name].run(plan, planner.contents_of(plan), unit)
                self.last[stage.name] = plan
        self.oversee()

    def turn_dying(self, calls: int | None, *, loses_states: bool = False) -> None:
        """A turn in which the process dies after so many calls of the log, if there are more; then another begins."""
        self.log.dies_in = calls
        try:
            self.turn()
        except Killed:
            if loses_states:
                shutil.rmtree(self.stages[0].state, ignore_errors=True)
            self.start()
        self.log.dies_in = None

    def finish(self, turns: int = 1_200) -> None:
        """Go on until nothing is in flight, and counts are told; fails after so many turns."""
        for _ in range(turns):
            self.turn()
            if self.told("completed") and self.is_through():
                break
        else:
            raise AssertionError(f"still in flight: {self._gauges}")
        for _ in range(20):
            self.clock += 1.0
            self.turn()

    def is_through(self) -> bool:
        """Whether all that was fed is registered, and nothing is unfinished."""
        lows = read_json(self.folder.path / LOW)["lows"]
        return all(
            lows.get(str(unit), 0) >= extent.high or not extent.high
            for unit, extent in self.log.extents(self.job.topic).items()
        )

    def oversee(self) -> None:
        """The marks, as the application's oversight would make them."""
        stage = self.stages[-1]
        reports = [Report.read(stage.folder(unit)) for unit in range(self.stages[-1].units)]
        gauges = [report and report.gauges for report in reports]
        before = read_json(self.folder.path / LOW)["lows"]
        ackers = self.epochs.circle.ackers
        lows = lows_of(before, gauges, self._gauges, ackers, self._dealt)
        write_json(self.folder.path / LOW, {"lows": lows})
        self._gauges = gauges
        own = [stage for stage in self.stages if stage.own]
        self._dealt = sum(dealt_with(Report.read(stage.folder(unit))) for stage in own for unit in range(stage.units))

    @property
    def epochs(self) -> Epochs:
        """The rings so far."""
        return Epochs.from_json(read_json(self.folder.path / RING))

    def change_ring(self, epochs: Epochs) -> None:
        """Go on with another ring."""
        write_json(self.folder.path / RING, epochs.as_json())

    def told(self, name: str) -> int:
        """A total of all ackers."""
        return sum(each[name] for each in self._gauges if each)

    def counts(self) -> Counter[str]:
        """The newest count of each word, as told."""
        found: Counter[str] = Counter()
        for unit in self.log.topics[self.job.results]:
            for message in unit:
                for line in bytes(message.value).splitlines():
                    row = json.loads(line)
                    found[row["word"]] = row["count"]
        return found

    def dead(self) -> list[tuple[int, int, str]]:
        """Partition, offset and reason of each dead letter."""
        letters = [message for unit in self.log.topics[self.job.dead] for message in unit]
        told = [letter.headers for letter in letters]
        return sorted((int(each["partition"]), int(each["offset"]), each["reason"].decode()) for each in told)

    def _contents(self, stage: Any) -> dict[str, Content]:
        return {name: Content.of(read_json(self.folder.path / file)) for name, file in stage.contents.items()}

    def _units(self, stage: Stage) -> Units:
        units = Units(stage, self.log)
        units.step.step = self.wrap(stage, units.step.step)
        return units
