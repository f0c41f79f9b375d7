"""Reads one version of a table of Delta Lake or Iceberg with Spark, by the library of its format in Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from springline.persistence.errors import OperationError
from springline.persistence.lakehouse.table import TableSnapshot, TableSplit, open_table
from springline.persistence.model.table_uri import at_version, split_version
from springline.persistence.settings import Settings
from springline.spark_jobs.errors import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

_NAME = "springline_table"


def pin_version(parameter: str, uri: str, value: str, settings: Settings) -> str:
    """Return the name of the version of a table that is read; raises `ParameterError`, `OperationError`.

    Args:
        parameter: the name of the parameter, for errors.
        uri: of the table, such as `delta:s3://lake/orders`.
        value: of the parameter: a version, as a number or with the URI before it; empty: the newest one.
        settings: for what opens the table.
    """
    if value:
        version = value if value.isdecimal() else value.removeprefix(f"{uri}@")
        if not version.isdecimal():
            raise ParameterError(f"{parameter}={value!r}: give a version of the table {uri}, as a number")
        return at_version(uri, version)
    newest = open_table(uri, settings).version()
    if newest is None:
        raise OperationError(f"the table {uri} does not exist, or has no rows yet")
    return at_version(uri, newest)


def read_table_version(spark: SparkSession, name: str, settings: Settings) -> DataFrame:
    """Read a table at the version that `name` ends with; raises `OperationError` if the table has it no longer."""
    uri, version = split_version(name)
    try:
        snapshot = open_table(uri, settings).snapshot(version)
    except FileNotFoundError as error:
        raise OperationError(f"{error}; the table keeps a version for as long as its own settings say") from error

    class TableVersion(DataSource):
        """The version, with all that opens its files; each reading of a table registers one."""

        @classmethod
        def name(cls) -> str:
            return _NAME

        def schema(self) -> StructType:
            return from_arrow_schema(snapshot.schema)

        def reader(self, schema: StructType) -> DataSourceReader:
            return TableReader(snapshot)

    spark.dataSource.register(TableVersion)
    return spark.read.format(_NAME).load()


class _Partition(InputPartition):  # type: ignore[misc]
    def __init__(self, split: TableSplit | None) -> None:
        super().__init__(0)
        self.split = split


class TableReader(DataSourceReader):  # type: ignore[misc]
    """Reads the splits of a snapshot, one in each task."""

    def __init__(self, snapshot: TableSnapshot) -> None:
        self._snapshot = snapshot

    def partitions(self) -> list[InputPartition]:
        return [_Partition(split) for split in self._snapshot.splits] or [_Partition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if (split := cast(_Partition, partition).split) is not None:
            yield from split.batches()
