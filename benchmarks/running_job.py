"""A job over a topic that is full, run in this process and timed from its warm-up to its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from spark_jobs.streaming.application import run_job
from spark_jobs.streaming.folder import JobFolder
from spark_jobs.streaming.parts import Job
from spark_jobs.streaming.settings import StreamSettings
from spark_jobs.streaming.unitlog.report import Report
from spark_jobs.streaming.unitlog.versions import Versions

_PATIENCE = 300.0


@dataclass(frozen=True)
class Step:
    """A stage on the way of the rows, and how many units it has."""

    stage: str
    units: int


@dataclass(frozen=True)
class Measured:
    """What was seen of a job.

    Rows a second once it is warm; at the end the bytes of the last stage's states, and of JVM and workers in memory;
    acks that its ackers took a second until the last root was complete, and seconds from the last row to that.
    """

    rate: float
    state_bytes: int
    memory: int
    acks: float = 0.0
    behind: float = 0.0


def run_timed(
    job: Job, settings: StreamSettings, path: Sequence[Step], rows: int, warm: float, ackers: int = 0, roots: int = 0
) -> Measured:
    """Run a job until so many rows are through the first and the last stage of `path`, and, with ackers, until so many
    roots are complete; a share `warm` of the rows goes before the clock starts.

    Raises RuntimeError if it does not come to its end.
    """
    watch = _Watch(settings.folder(job.name), settings.state_folder / job.name, path, rows, warm, ackers, roots)
    watch.start()
    run_job(job, settings)
    return watch.measured()


def _held(process: psutil.Process) -> int:
    """Bytes in memory, those that are shared counted in parts."""
    with suppress(psutil.Error):
        return int(process.memory_full_info().pss)
    return 0


@dataclass(frozen=True)
class _Mark:
    """A moment: rows through the first stage, acks taken."""

    at: float
    rows: int
    acks: int


class _Watch(threading.Thread):
    """Notes when a share `warm` of the rows, and when all of them, were through; then lets the job stop."""

    def __init__(
        self, folder: JobFolder, state: Path, path: Sequence[Step], rows: int, warm: float, ackers: int, roots: int
    ) -> None:
        super().__init__(daemon=True)
        self._folder, self._state = folder, state
        self._first, self._last = path[0], path[-1]
        self._rows, self._warm = rows, warm
        self._ackers, self._roots = ackers, roots
        self._marks: list[_Mark] = []
        self._complete, self._acks = 0.0, 0
        self._memory = 0

    def run(self) -> None:
        until = time.monotonic() + _PATIENCE
        last: int | None = None
        while time.monotonic() < until and not (last is not None and self._taken(last)):
            reports = self._reports(self._first)
            through = sum(report.counts.get("rows", 0) for report in reports)
            if not self._marks and through >= self._rows * self._warm:
                self._mark(through)
            if last is None and through >= self._rows:
                last = max(report.round for report in reports)
            time.sleep(0.005)
        self._mark(through)
        while self._ackers and time.monotonic() < until and self._told("completed") < self._roots:
            time.sleep(0.005)
        self._complete = time.monotonic()
        self._acks = self._count("acks") if self._ackers else 0
        self._memory = sum(_held(process) for process in psutil.Process().children(recursive=True))
        self._folder.ask_to_stop()

    def measured(self) -> Measured:
        """What was seen; raises RuntimeError if the job did not come to its end."""
        begun, ended = self._marks
        if ended.rows < self._rows:
            raise RuntimeError(f"the job did not come to its end: {ended.rows:,} of {self._rows:,} rows were through")
        if self._ackers and self._told("completed") < self._roots:
            raise RuntimeError(f"{self._told('completed'):,} of {self._roots:,} roots are complete")
        state = sum(report.state_bytes for report in self._reports(self._last))
        seconds = ended.at - begun.at
        acks = (self._acks - begun.acks) / (self._complete - begun.at)
        return Measured((ended.rows - begun.rows) / seconds, state, self._memory, acks, self._complete - ended.at)

    def _mark(self, rows: int) -> None:
        self._marks.append(_Mark(time.monotonic(), rows, self._count("acks") if self._ackers else 0))

    def _reports(self, step: Step) -> list[Report]:
        found = (Report.read(self._state / step.stage / str(unit)) for unit in range(step.units))
        return [report for report in found if report is not None]

    def _count(self, name: str) -> int:
        return sum(report.counts.get(name, 0) for report in self._reports(Step("acker", self._ackers)))

    def _told(self, name: str) -> int:
        told: list[Any] = [report.gauges.get(name, 0) for report in self._reports(Step("acker", self._ackers))]
        return sum(told)

    def _taken(self, last: int) -> bool:
        """Whether every unit of the last stage has taken the last round with rows of every unit of the first."""
        for unit in range(self._last.units):
            versions = Versions(self._state / self._last.stage / str(unit))
            newest = versions.newest()
            notes = versions.notes(*newest) if newest else None
            taken = (notes or {}).get("taken", {})
            first = [taken.get(str(sender)) for sender in range(self._first.units)]
            if any(told is None or told[0] < last or not told[2] for told in first):
                return False
        return True
