"""Runs a workload that loads the classes of streams and batches, in a Spark whose JVM archives them on exit."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from springline.spark_jobs.jvm.java import use_java

_ROWS = 1_000


class _RowReader(SimpleDataSourceStreamReader):
    """Reads a fixed number of rows, once."""

    def initialOffset(self) -> dict[str, int]:
        return {"row": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        rows = range(start["row"], _ROWS)
        return iter([(row,) for row in rows]), {"row": _ROWS}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[int]]:
        return iter([(row,) for row in range(start["row"], end["row"])])


class _RowSource(DataSource):
    """A Python data source for streaming, like those of jobs."""

    @classmethod
    def name(cls) -> str:
        return "springline-rows"

    def schema(self) -> str:
        return "row int"

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:
        return _RowReader()


def run_workload(archive: Path, home: Path) -> None:
    """Load the classes that jobs load in the JVM of a session, and archive them; exits with the JVM's exit status."""
    use_java(home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(prefix="springline-classes-") as scratch:
        conf: dict[str, bool | float | int | str | None] = {
            "spark.driver.extraJavaOptions": f'-XX:+UseSerialGC "-XX:ArchiveClassesAtExit={archive}"',
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": scratch,
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        }
        session = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
        rows = session.range(_ROWS).selectExpr("id", "id % 7 AS day", "cast(id AS string) AS name")
        rows.createOrReplaceTempView("rows")
        counts = session.sql("SELECT day, count(*) AS many, max(name) AS name FROM rows GROUP BY day ORDER BY day")
        counts.write.parquet(f"{scratch}/counted")
        counts.write.csv(f"{scratch}/text", header=True)
        text = session.read.csv(f"{scratch}/text", header=True, inferSchema=True)
        session.read.parquet(f"{scratch}/counted").join(text, "day").toArrow()
        session.dataSource.register(_RowSource)
        writer = session.readStream.format(_RowSource.name()).load().writeStream.format("noop")
        writer = writer.option("checkpointLocation", f"{scratch}/checkpoint").trigger(availableNow=True)
        writer.start().awaitTermination()
        gateway = session.sparkContext._gateway
        session.stop()
        assert gateway is not None
        gateway.shutdown()
        gateway.proc.stdin.close()  # makes the JVM exit
        sys.exit(gateway.proc.wait())


if __name__ == "__main__":
    run_workload(Path(sys.argv[1]), Path(sys.argv[2]))
