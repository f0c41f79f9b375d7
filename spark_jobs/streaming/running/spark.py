"""A stage on Spark: a streaming data source that runs its units, and the query that reads it."""

from __future__ import annotations

import gc
import json
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.streaming.query import StreamingQuery

from persistence.monitoring.logs import start_logging
from persistence.monitoring.settings import MonitoringSettings
from spark_jobs.streaming.backpressure.pacing import Pacing
from spark_jobs.streaming.kafka.cluster import Cluster
from spark_jobs.streaming.kafka.log import Kafka
from spark_jobs.streaming.running.stacks import tell_stacks_when_asked
from spark_jobs.streaming.unitlog.planner import Content, Planner
from spark_jobs.streaming.unitlog.rounds import Plan
from spark_jobs.streaming.unitlog.shifts import Shift, Shifts, work
from spark_jobs.streaming.unitlog.stage import Stage
from spark_jobs.streaming.unitlog.unit import Units

FORMAT = "springline-units"
_SCHEMA = "unit int"  # of rows that there are none of
_ASYNCHRONOUS = {  # for many short batches: what Spark writes of each is not waited for
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": "10000",
    "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
}
_WAIT_SECONDS = 0.2  # a planner looks for so long before it says that there is nothing
_FROZEN_AT = 3  # task of a worker at which its objects are taken out of garbage collection

_units: dict[tuple[str, str], tuple[Units, Kafka]] = {}  # of this worker process, by stage and cluster
_tasks = 0


@dataclass(frozen=True)
class Watched:
    """Files that a planner looks at: what rounds are to name, and some in whose presence nothing is planned."""

    contents: Mapping[str, str]
    holds: Sequence[str]


class _Watching:
    """Looks at the watched files, and reads those again that were replaced."""

    def __init__(self, watched: Watched) -> None:
        self._paths = {name: Path(path) for name, path in watched.contents.items()}
        self._holds = [Path(hold) for hold in watched.holds]
        self._read: dict[str, tuple[tuple[int, int], Content]] = {}

    def contents(self) -> dict[str, Content]:
        """The contents as they are now."""
        return {name: self._content(name, path) for name, path in self._paths.items()}

    def held(self) -> bool:
        """Whether nothing is to be planned."""
        return any(hold.exists() for hold in self._holds)

    def _content(self, name: str, path: Path) -> Content:
        status = path.stat()
        known = (status.st_ino, status.st_mtime_ns)
        if name not in self._read or self._read[name][0] != known:
            self._read[name] = (known, Content.of(json.loads(path.read_bytes())))
        return self._read[name][1]


class UnitSource(DataSource):
    """The units of a stage as a stream without rows; see `start` for its options."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return _SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return UnitReader(dict(self.options))


@dataclass
class _Share(InputPartition):
    """The units that one task runs, one after another, in each round of a shift."""

    shift: Shift
    units: tuple[int, ...]


class UnitReader(DataSourceStreamReader):
    """Plans rounds on the driver; runs them on executors, a shift in a batch. Spark's offset is a shift's first round.

    Where to go on is never read from that: the planner knows better.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._stage = options["stage"]
        self._cluster = options["cluster"]
        self._tasks = int(options["tasks"])
        self._latest = options["latest"] == "true"
        self._seconds = float(options["seconds"])
        self._watching = _Watching(Watched(**json.loads(options["watched"])))
        tell_stacks_when_asked()

    def initialOffset(self) -> dict[str, Any]:
        return self._planner.begin().as_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        first = self._shifts.first(_WAIT_SECONDS)
        return start if first is None else first.as_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        shift = self._shifts.begin(Plan.from_json(end))
        units = sorted(shift.first.ranges)
        tasks = min(self._tasks, len(units)) or 1
        return [_Share(shift, tuple(units[task::tasks])) for task in range(tasks)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        assert isinstance(partition, _Share)
        _spare_the_collector()
        units, log = _units_here(self._stage, self._cluster)
        work(units, log, partition.shift, partition.units)
        return iter(())

    @cached_property
    def _planner(self) -> Planner:
        log = Kafka(Cluster.from_json(self._cluster))
        stage = Stage.from_json(self._stage)
        contents, pacing = self._watching.contents, Pacing(stage)
        return Planner(stage, log, time.time, contents, latest=self._latest, admitting=pacing)

    @cached_property
    def _shifts(self) -> Shifts:
        return Shifts(self._planner, self._watching.held, self._seconds)


def start(
    session: SparkSession,
    stage: Stage,
    cluster: Cluster,
    watched: Watched,
    *,
    tasks: int,
    seconds: float,
    latest: bool = False,
) -> StreamingQuery:
    """Start a stage as a query of its own, going on where the rounds log and the states are.

    A shift lasts so many `seconds`, and has so many `tasks`; with 0 seconds it is one round. Spark's own log of rounds
    is begun anew: it could not tell more than ours.
    """
    shutil.rmtree(stage.checkpoint, ignore_errors=True)
    session.dataSource.register(UnitSource)
    options = {
        "stage": stage.as_json(),
        "cluster": cluster.as_json(),
        "watched": json.dumps(asdict(watched)),
        "tasks": str(tasks),
        "seconds": str(seconds),
        "latest": str(latest).lower(),
    }
    reading = session.readStream.format(FORMAT).options(**options).load()
    writing = reading.writeStream.queryName(stage.id).format("noop").options(**({} if seconds else _ASYNCHRONOUS))
    return writing.option("checkpointLocation", str(stage.checkpoint)).start()


def _units_here(stage: str, cluster: str) -> tuple[Units, Kafka]:
    if (stage, cluster) not in _units:
        tell_stacks_when_asked()
        start_logging(MonitoringSettings(), sys.stderr)  # what a worker prints is the application's, or its executor's
        log = Kafka(Cluster.from_json(cluster))
        log.connect()
        _units[stage, cluster] = (Units(Stage.from_json(stage), log), log)
    return _units[stage, cluster]


def _spare_the_collector() -> None:
    """PySpark collects garbage after every task, which takes 50 ms with Arrow and numba loaded, unless frozen."""
    global _tasks
    _tasks += 1
    if _tasks == _FROZEN_AT:
        gc.collect()
        gc.freeze()
