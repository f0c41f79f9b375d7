"""The units of a stage as a streaming data source of Spark's.

Four processes of Python import this before a stage runs, of which two only want to know what it is called and which
rows it has: what plans and what runs is imported where it does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from springline.spark_jobs.streaming.runtime.thread_dump import tell_stacks_when_asked

if TYPE_CHECKING:
    from springline.spark_jobs.streaming.runtime.worker.task_loop import Shift
    from springline.spark_jobs.streaming.spark.stage_planner import StagePlanner

FORMAT = "springline-units"
_SCHEMA = "unit int"  # of rows that there are none of


class UnitSource(DataSource):
    """The units of a stage as a stream without rows; see `spark.start` for its options."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return _SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return UnitReader(dict(self.options))


@dataclass
class Share(InputPartition):
    """The units that one task runs, one after another, in each round of a shift."""

    shift: Shift
    units: tuple[int, ...]


class UnitReader(DataSourceStreamReader):
    """Plans rounds on the driver; runs them on executors, a shift in a batch. Spark's offset is a shift's first round.

    Where to go on is never read from that: the planner knows better.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options
        tell_stacks_when_asked()

    def initialOffset(self) -> dict[str, Any]:
        return self._planner.begin()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._planner.first() or start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        shift = self._planner.shift(end)
        units = sorted(shift.first.ranges)
        tasks = min(int(self._options["tasks"]), len(units)) or 1
        return [Share(shift, tuple(units[task::tasks])) for task in range(tasks)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        from springline.spark_jobs.streaming.spark.worker import run

        assert isinstance(partition, Share)
        run(self._options["stage"], self._options["cluster"], partition.shift, partition.units)
        return iter(())

    @cached_property
    def _planner(self) -> StagePlanner:
        from springline.spark_jobs.streaming.spark.stage_planner import StagePlanner

        return StagePlanner(self._options)
