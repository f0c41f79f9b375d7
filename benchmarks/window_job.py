"""A job of windowed statistics over a topic that is full, timed from its warm-up to its end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from confluent_kafka.admin import AdminClient

from benchmarks.broker import Place
from benchmarks.window_queries import ONE
from spark_jobs.streaming.application import run_job
from spark_jobs.streaming.folder import JobFolder
from spark_jobs.streaming.inputs.feeding import send
from spark_jobs.streaming.inputs.flights import Due
from spark_jobs.streaming.inputs.flows import Flows, declared
from spark_jobs.streaming.kafka import Cluster, Kafka
from spark_jobs.streaming.settings import StreamSettings
from spark_jobs.streaming.unitlog.report import Report
from spark_jobs.streaming.unitlog.versions import Versions
from spark_jobs.streaming.windows.job import WindowsJob
from spark_jobs.streaming.windows.stream import Form

SIZE = 5_000  # rows in a message, the paper's best
_PATIENCE = 300.0


@dataclass(frozen=True)
class Case:
    """A topic's content, and how a job reads it: with which queries, on how many units of each stage.

    `content` names the rows where other cases have the same.
    """

    name: str
    form: Form
    flows: Flows
    size: int = SIZE
    queries: Mapping[str, str] = field(default_factory=lambda: {"flows": ONE})
    units: int = 2
    content: str = ""

    @property
    def topic(self) -> str:
        """A name that nobody else's rows have."""
        return f"{self.content or self.name}-{self.form}-{self.size}-{self.units}".replace(" ", "-").replace(",", "")


@dataclass(frozen=True)
class Measured:
    """Rows a second once it is warm; at the end the bytes of all reducers' states, and of JVM and workers in memory."""

    rate: float
    state_bytes: int
    memory: int


def feed(where: Place, case: Case) -> None:
    """Fill the case's topic."""
    with closing(Kafka(Cluster(where.kafka))) as log:
        log.create({case.topic: case.units})
        send(log, case.topic, (Due(0.0, value) for value in case.flows.messages(case.form, size=case.size)))


def forget(where: Place, case: Case) -> None:
    """Delete the case's topic: what lies in memory is read at its speed, what does not at the disk's."""
    admin = AdminClient({"bootstrap.servers": where.kafka})
    for done in admin.delete_topics([case.topic]).values():
        done.result()


def measure(where: Place, case: Case, *, warm: float, turn: int = 0) -> Measured:
    """Run a job over the case's topic; a share `warm` of the rows goes before the clock starts."""
    name = f"w{abs(hash((case.name, case.topic))) % 10**8}_{turn}_{os.getpid()}"
    per_round = max(1, min(1_600_000, case.flows.rows // 6) // case.size)
    job = WindowsJob(name, case.topic, declared(case.form), case.queries, reducers=case.units, admitted=per_round)
    settings = StreamSettings(
        home=where.folder / name, kafka=where.kafka, stream_state=where.folder / "state", stream_master="local[4,4]"
    )
    watch = _Watch(case, warm, settings.folder(name), where.folder / "state" / name)
    watch.start()
    run_job(job, settings)
    return watch.measured()


def _held(process: psutil.Process) -> int:
    """Bytes in memory, those that are shared counted in parts."""
    with suppress(psutil.Error):
        return int(process.memory_full_info().pss)
    return 0


class _Watch(threading.Thread):
    """Notes when a share `warm` of the rows, and when all of them, were through; then lets the job stop."""

    def __init__(self, case: Case, warm: float, folder: JobFolder, state: Path) -> None:
        super().__init__(daemon=True)
        self._rows = case.flows.rows
        self._units = case.units
        self._warm = warm
        self._folder = folder
        self._state = state
        self._marks: list[tuple[float, int]] = []
        self._memory = 0

    def run(self) -> None:
        until = time.monotonic() + _PATIENCE
        last: int | None = None
        while time.monotonic() < until and not (last is not None and self._taken(last)):
            reports = self._mapped()
            mapped = sum(report.counts.get("rows", 0) for report in reports)
            if not self._marks and mapped >= self._rows * self._warm:
                self._marks.append((time.monotonic(), mapped))
            if last is None and mapped >= self._rows:
                last = max(report.round for report in reports)
            time.sleep(0.005)
        self._marks.append((time.monotonic(), mapped))
        self._memory = sum(_held(process) for process in psutil.Process().children(recursive=True))
        self._folder.ask_to_stop()

    def measured(self) -> Measured:
        """What was seen; raises RuntimeError if the job did not come to its end."""
        (begun, before), (ended, after) = self._marks
        if after < self._rows:
            raise RuntimeError(f"the job did not come to its end: {after:,} of {self._rows:,} rows were mapped")
        folders = [self._state / "reduce" / str(unit) for unit in range(self._units)]
        state = sum(report.state_bytes for folder in folders if (report := Report.read(folder)))
        return Measured((after - before) / (ended - begun), state, self._memory)

    def _mapped(self) -> list[Report]:
        found = (Report.read(self._state / "map" / str(unit)) for unit in range(self._units))
        return [report for report in found if report is not None]

    def _taken(self, last: int) -> bool:
        """Whether every reducer has taken the last round with rows of every mapper."""
        for unit in range(self._units):
            versions = Versions(self._state / "reduce" / str(unit))
            newest = versions.newest()
            notes = versions.notes(*newest) if newest else None
            taken = (notes or {}).get("taken", {})
            if len(taken) < self._units or any(told[0] < last or not told[2] for told in taken.values()):
                return False
        return True
