"""A tracked topology as one process without Kafka and Spark, which may die, and in which tuples and acks are lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from springline.spark_jobs.streaming.jobs import TrackedJob
from springline.spark_jobs.streaming.runtime.atomic_files import read_json, write_json
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.step import Step
from springline.spark_jobs.streaming.runtime.worker.unit import StageWorker
from springline.spark_jobs.streaming.tracking.config import CLOCK, LOW_WATERMARKS, RING
from springline.spark_jobs.streaming.tracking.monitor import handled_count, low_watermarks
from springline.spark_jobs.streaming.tracking.ring import RingHistory
from springline.testing.job_run import TURN_SECONDS, JobRun

Wrap = Callable[[Stage, Step], Step]


class TrackedSimulation(JobRun):
    """A tracked job with its driver, workers and oversight; a `turn` is a round of each that has work.

    The ackers are its last stage; what finishes and counts is for word counts.
    """

    job: TrackedJob

    def __init__(
        self, job: TrackedJob, folder: Path, partitions: int = 2, wrap: Wrap = lambda stage, step: step
    ) -> None:
        self.step_seconds = TURN_SECONDS
        self.wrap = wrap
        self._gauges: list[Mapping[str, Any] | None] = []
        self._dealt = 0
        super().__init__(job, folder, partitions, clock=1.0)
        write_json(self.folder.path / CLOCK, {"paused": False})

    def _make_units(self, stage: Stage) -> StageWorker:
        units = super()._make_units(stage)
        units.step.step = self.wrap(stage, units.step.step)
        return units

    def turn(self, seconds: float | None = None) -> bool:
        """A round of each stage, and a look at how tracking is."""
        worked = super().turn(self.step_seconds if seconds is None else seconds)
        self.oversee()
        return worked

    def finish(self, turns: int = 1_200) -> None:
        """Go on until nothing is in flight, and counts are emitted; fails after so many turns."""
        for _ in range(turns):
            self.turn()
            if self.total("completed") and self.is_complete():
                break
        else:
            raise AssertionError(f"still in flight: {self._gauges}")
        for _ in range(20):
            self.clock += 1.0
            self.turn()

    def is_complete(self) -> bool:
        """Whether all that was fed is registered, and nothing is unfinished."""
        low_marks = read_json(self.folder.path / LOW_WATERMARKS)["low_watermarks"]
        return all(
            low_marks.get(str(unit), 0) >= extent.high or not extent.high
            for unit, extent in self.log.offset_bounds(self.job.topic).items()
        )

    def oversee(self) -> None:
        """The marks, as the application's oversight would make them."""
        stage = self.stages[-1]
        reports = [self.reports.reports(stage.name).get(unit) for unit in range(self.stages[-1].units)]
        gauges = [report and report.round.gauges for report in reports]
        before = read_json(self.folder.path / LOW_WATERMARKS)["low_watermarks"]
        ackers = self.epochs.ring.ackers
        low_marks = low_watermarks(before, gauges, self._gauges, ackers, self._dealt)
        write_json(self.folder.path / LOW_WATERMARKS, {"low_watermarks": low_marks})
        self._gauges = gauges
        own = [stage for stage in self.stages if stage.reads_feedback]
        self._dealt = sum(
            handled_count(report) for stage in own for report in self.reports.reports(stage.name).values()
        )

    @property
    def epochs(self) -> RingHistory:
        """The rings so far."""
        return RingHistory.from_json(read_json(self.folder.path / RING), RING)

    def change_ring(self, epochs: RingHistory) -> None:
        """Go on with another ring."""
        write_json(self.folder.path / RING, epochs.as_json())

    def total(self, name: str) -> int:
        """A total of all ackers."""
        return sum(each[name] for each in self._gauges if each)

    def counts(self) -> Counter[str]:
        """The newest count of each word, as emitted."""
        word_counts: Counter[str] = Counter()
        for row in self.results():
            word_counts[row["word"]] = row["count"]
        return word_counts

    def dead(self) -> list[tuple[int, int, str]]:
        """Partition, offset and reason of each dead letter."""
        return sorted((each.partition or 0, each.offset, each.reason) for each in self.dead_letters())
