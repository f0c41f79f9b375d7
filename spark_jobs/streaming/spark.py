"""The one place that speaks to Spark: a streaming data source that runs the units of a stage, and a query for it."""

from __future__ import annotations

import gc
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.streaming.kafka import Cluster, Kafka
from spark_jobs.streaming.unitlog.planner import Content, Planner
from spark_jobs.streaming.unitlog.rounds import Plan
from spark_jobs.streaming.unitlog.stage import Stage
from spark_jobs.streaming.unitlog.unit import Units

FORMAT = "springline-units"
_SCHEMA = "unit int"  # of rows that there are none of
_ASYNCHRONOUS = {
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": "10000",
    "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
}
_LOOK_SECONDS = 0.005  # between two looks for messages, while there are some
_REST_SECONDS = 0.03  # and when none have come for a while
_BUSY_SECONDS = 2.0  # since the last messages
_WAIT_SECONDS = 0.2  # a planner looks for so long before it says that there is nothing
_FROZEN_AT = 3  # task of a worker at which its objects are taken out of garbage collection

_units: dict[tuple[str, str], Units] = {}  # of this worker process, by stage and cluster
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
    """The units of a stage as a stream without rows; options: stage, cluster, watched (JSON), tasks, latest."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return _SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return UnitReader(dict(self.options))


@dataclass
class _Share(InputPartition):
    """The units that one task runs, one after another."""

    plan: Plan
    contents: Mapping[str, Any]
    units: tuple[int, ...]


class UnitReader(DataSourceStreamReader):
    """Plans rounds on the driver; runs them on executors."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._stage_text = options["stage"]
        self._cluster_text = options["cluster"]
        self._tasks = int(options["tasks"])
        self._latest = options.get("latest") == "true"
        self._planner: Planner | None = None
        self._watching = _Watching(Watched(**json.loads(options["watched"])))
        self._busy_until = 0.0

    def initialOffset(self) -> dict[str, Any]:
        return self._planning().begin().as_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        last = Plan.from_json(start)
        until = time.monotonic() + _WAIT_SECONDS
        while not self._watching.held():
            plan = self._planning().after(last)
            now = time.monotonic()
            if plan is not None:
                self._busy_until = now + _BUSY_SECONDS if plan.messages else self._busy_until
                return plan.as_json()
            if now > until:
                break
            time.sleep(_LOOK_SECONDS if now < self._busy_until else _REST_SECONDS)
        return start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        plan = Plan.from_json(end)
        contents = self._planning().contents_of(plan)
        units = sorted(plan.ranges)
        tasks = min(self._tasks, len(units)) or 1
        return [_Share(plan, contents, tuple(units[task::tasks])) for task in range(tasks)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        assert isinstance(partition, _Share)
        _spare_the_collector()
        units = _units_here(self._stage_text, self._cluster_text)
        for unit in partition.units:
            units.run(partition.plan, partition.contents, unit)
        return iter(())

    def _planning(self) -> Planner:
        if self._planner is None:
            stage = Stage.from_json(self._stage_text)
            log = Kafka(Cluster.from_json(self._cluster_text))
            self._planner = Planner(stage, log, time.time, self._watching.contents, latest=self._latest)
        return self._planner


def start(
    session: SparkSession,
    stage: Stage,
    cluster: Cluster,
    watched: Watched,
    *,
    tasks: int,
    latest: bool = False,
) -> StreamingQuery:
    """Start a stage as a query of its own, going on where the rounds log and the states are.

    Spark's own log of rounds is begun anew: it could not tell more than ours.
    """
    shutil.rmtree(stage.checkpoint, ignore_errors=True)
    session.dataSource.register(UnitSource)
    options = {
        "stage": stage.as_json(),
        "cluster": cluster.as_json(),
        "watched": json.dumps(asdict(watched)),
        "tasks": str(tasks),
        "latest": str(latest).lower(),
    }
    reading = session.readStream.format(FORMAT).options(**options).load()
    writing = reading.writeStream.queryName(stage.id).format("noop").options(**_ASYNCHRONOUS)
    return writing.option("checkpointLocation", str(stage.checkpoint)).start()


def _units_here(stage: str, cluster: str) -> Units:
    if (stage, cluster) not in _units:
        log = Kafka(Cluster.from_json(cluster))
        log.connect()
        _units[stage, cluster] = Units(Stage.from_json(stage), log)
    return _units[stage, cluster]


def _spare_the_collector() -> None:
    """PySpark collects garbage after every task, which takes 50 ms with Arrow and numba loaded, unless frozen."""
    global _tasks
    _tasks += 1
    if _tasks == _FROZEN_AT:
        gc.collect()
        gc.freeze()
