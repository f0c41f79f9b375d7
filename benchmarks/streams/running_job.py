"""A job over a topic that is full, run in this process and timed from its warm-up to its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psutil

from benchmarks.streams.cpu import PARTS, CpuTime, cpu_time
from benchmarks.streams.job_reports import JobReports
from springline.spark_jobs.streaming.application.application import run_job
from springline.spark_jobs.streaming.job import Job
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.report import UnitReport
from springline.spark_jobs.streaming.settings import StreamSettings

_PATIENCE = 300.0
_POLL = 0.01


@dataclass(frozen=True)
class Step:
    """A stage on the way of the rows, and how many units it has."""

    stage: str
    units: int


@dataclass(frozen=True)
class Pause:
    """After so many rows, once they are through the last stage: until it is over, what is to be done then."""

    rows: int
    over: Callable[[], bool]
    then: Callable[[], None]


@dataclass(frozen=True)
class Measured:
    """What was seen of a job.

    Rows a second once it is warm; at the end the bytes of the last stage's states, and of JVM and workers in memory;
    acks that its ackers took a second until the last root was complete, and seconds from the last row to that. And
    for a row that was through while the clock ran, microseconds of CPU: of broker, JVM, workers and this process
    together, in `cpu_parts` the seconds of each of them, and microseconds of each unit of the last stage. `rounds` are
    the rounds of the last stage in that time.
    """

    rate: float
    state_bytes: int
    memory: int
    acks: float = 0.0
    lag_seconds: float = 0.0
    cpu: float = 0.0
    cpu_of_units: Sequence[float] = ()
    cpu_parts: CpuTime = field(default_factory=lambda: CpuTime(dict.fromkeys(PARTS, 0.0)))
    rounds: int = 0


def run_timed(
    job: Job,
    settings: StreamSettings,
    path: Sequence[Step],
    rows: int,
    warm: float,
    ackers: int = 0,
    roots: int = 0,
    answered: Callable[[UnitReport], bool] = lambda report: True,
    pause: Pause | None = None,
) -> Measured:
    """Run a job until so many rows are through the first and the last stage of `path`, every unit of the last has
    `answered`, and, with ackers, until so many roots are complete. Before the clock starts, a share `warm` of the rows
    goes, with a pause if one is given, and every unit of the last stage takes a round of each of the first, unless
    half of the other rows have gone by then.

    Raises RuntimeError if it does not come to its end.
    """
    watch = _Watch(
        settings.folder(job.name), settings.kafka_bootstrap_servers, path, rows, warm, ackers, roots, answered, pause
    )
    watch.start()
    run_job(job, settings)
    return watch.measured()


def memory_of(process: psutil.Process) -> int:
    """Bytes in memory, those that are shared counted in parts."""
    with suppress(psutil.Error):
        return int(process.memory_full_info().pss)
    return 0


@dataclass(frozen=True)
class _Mark:
    """A moment: rows through the first stage, acks taken, CPU seconds, also of the last units, the last round."""

    at: float
    rows: int
    acks: int
    cpu: CpuTime
    cpu_of_units: Sequence[float]
    round: int


class _Watch(threading.Thread):
    """Notes when a share `warm` of the rows, and when all of them, were through; then lets the job stop."""

    def __init__(
        self,
        folder: JobFolder,
        kafka: str,
        path: Sequence[Step],
        rows: int,
        warm: float,
        ackers: int,
        roots: int,
        answered: Callable[[UnitReport], bool],
        pause: Pause | None,
    ) -> None:
        super().__init__(daemon=True)
        self._folder = folder
        self._job_reports = JobReports(folder.path.name, kafka)
        self._first, self._last = path[0], path[-1]
        self._rows, self._warm = rows, warm
        self._ackers, self._roots = ackers, roots
        self._answered = answered
        self._pause = pause
        self._marks: list[_Mark] = []
        self._complete, self._acks = 0.0, 0
        self._memory = 0

    def run(self) -> None:
        until = time.monotonic() + _PATIENCE
        last: int | None = None
        while time.monotonic() < until and not (last is not None and self._has_processed(last)):
            reports = self._reports(self._first)
            row_count = sum(report.totals.counts.get("rows", 0) for report in reports)
            if self._pause is not None and row_count >= self._pause.rows:
                self._rest(self._pause, max(report.round.number for report in reports), until)
                self._pause = None
            if not self._marks and self._is_warm(row_count):
                self._mark(row_count, reports)
            if last is None and row_count >= self._rows:
                last = max(report.round.number for report in reports)
            time.sleep(_POLL)
        self._mark(row_count, self._reports(self._last))
        while self._ackers and time.monotonic() < until and self._total("completed") < self._roots:
            time.sleep(_POLL)
        self._complete = time.time()
        self._acks = self._count("acks") if self._ackers else 0
        self._memory = sum(memory_of(process) for process in psutil.Process().children(recursive=True))
        self._folder.request_stop()

    def _rest(self, pause: Pause, last: int, until: float) -> None:
        """Wait until all that came before the pause has been taken, and the pause is over."""
        while time.monotonic() < until and not (self._has_processed(last) and pause.over()):
            time.sleep(_POLL)
        pause.then()

    def measured(self) -> Measured:
        """What was seen; raises RuntimeError if the job did not come to its end."""
        start, ended = self._marks[0], self._marks[-1]
        if start.rows >= self._rows:
            raise RuntimeError(f"all {self._rows:,} rows were through before the last stage was warm: send more")
        if ended.rows < self._rows:
            raise RuntimeError(f"the job did not come to its end: {ended.rows:,} of {self._rows:,} rows were through")
        if self._ackers and self._total("completed") < self._roots:
            raise RuntimeError(f"{self._total('completed'):,} of {self._roots:,} roots are complete")
        state = sum(report.state.bytes for report in self._reports(self._last))
        seconds = ended.at - start.at
        acks = (self._acks - start.acks) / (self._complete - start.at)
        rows = ended.rows - start.rows
        of_units = [
            (after - before) * 1e6 / rows
            for before, after in zip(start.cpu_of_units, ended.cpu_of_units, strict=True)
        ]  # fmt: skip
        cpu = ended.cpu.since(start.cpu).per_row(rows)
        return Measured(
            rows / seconds, state, self._memory, acks, self._complete - ended.at, cpu.total * 1e6, of_units, cpu,
            ended.round - start.round,
        )  # fmt: skip

    def _mark(self, rows: int, reported: Sequence[UnitReport]) -> None:
        """Note the moment of which units have `reported`: this thread may learn of it later."""
        acks = self._count("acks") if self._ackers else 0
        reports = self._reports(self._last)
        spent = {report.unit: report.totals.cpu for report in reports}
        of_units = [spent.get(unit, 0.0) for unit in range(self._last.units)]
        last = max((report.round.number for report in reports), default=0)
        at = max((report.round.ended_at for report in reported), default=time.time())
        self._marks.append(_Mark(at, rows, acks, cpu_time(), of_units, last))

    def _reports(self, step: Step) -> list[UnitReport]:
        return [report for _, report in sorted(self._job_reports.reports(step.stage).items())]

    def _count(self, name: str) -> int:
        return sum(report.totals.counts.get(name, 0) for report in self._reports(Step("acker", self._ackers)))

    def _total(self, name: str) -> int:
        values: list[Any] = [report.round.gauges.get(name, 0) for report in self._reports(Step("acker", self._ackers))]
        return sum(values)

    def _is_warm(self, rows: int) -> bool:
        """Whether the clock may start: once units of the last stage have had a round, all that they use is compiled."""
        if rows < self._rows * self._warm:
            return False
        return rows >= self._rows * (1 + self._warm) / 2 or self._has_taken(1)

    def _has_processed(self, last: int) -> bool:
        """Whether every unit of the last stage has taken the last round with rows of every unit of the first."""
        return self._has_taken(last) and all(map(self._answered, self._reports(self._last)))

    def _has_taken(self, round_number: int) -> bool:
        """Whether every unit of the last stage has taken a round of every unit of the first as a whole."""
        reports = self._reports(self._last)
        for report in reports:
            first = [report.round.positions.get(sender) for sender in range(self._first.units)]
            if any(each is None or each.round < round_number or not each.round_ended for each in first):
                return False
        return len(reports) == self._last.units
