"""The units of a stage as a streaming data source for Spark.

Four Python processes import this module before a stage runs, of which two need only its name and schema: so the planner
and the worker are imported where they are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from springline.spark_jobs.streaming.runtime.thread_dump import dump_stacks_on_signal

if TYPE_CHECKING:
    from springline.spark_jobs.streaming.runtime.worker.task_loop import TaskLoop
    from springline.spark_jobs.streaming.spark.stage_planner import StagePlanner

FORMAT = "springline-units"
OPTION = "launch"
_SCHEMA = "unit int"  # the stream has no rows


class UnitSource(DataSource):
    """The units of a stage as a stream without rows; its option is a `StageLaunch`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return _SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return UnitReader(self.options[OPTION])


@dataclass
class TaskAssignment(InputPartition):
    """The units that one task runs, one after another, in each round of a task loop."""

    task_loop: TaskLoop
    units: tuple[int, ...]


class UnitReader(DataSourceStreamReader):
    """Plans rounds on the driver, and runs them on executors, one task loop per batch; Spark's offset is the start of a
    task loop.

    The position to continue from is never read from that offset, but from the rounds log.
    """

    def __init__(self, launch: str) -> None:
        self._launch = launch
        dump_stacks_on_signal()

    def initialOffset(self) -> dict[str, Any]:
        return self._planner.begin()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._planner.first() or start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        task_loop = self._planner.task_loop(end)
        units = task_loop.units
        tasks = min(self._planner.tasks, len(units))
        return [TaskAssignment(task_loop, tuple(units[task::tasks])) for task in range(tasks)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        from springline.spark_jobs.streaming.spark.worker import run

        assert isinstance(partition, TaskAssignment)
        run(self._launch, partition.task_loop, partition.units)
        return iter(())

    @cached_property
    def _planner(self) -> StagePlanner:
        from springline.spark_jobs.streaming.spark.stage_launch import StageLaunch
        from springline.spark_jobs.streaming.spark.stage_planner import StagePlanner

        return StagePlanner(StageLaunch.decode(self._launch))
