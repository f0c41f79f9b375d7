"""Does what streams and batches load classes for, in a Spark whose JVM archives them as it ends."""

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


class _Reader(SimpleDataSourceStreamReader):
    """Some rows, once."""

    def initialOffset(self) -> dict[str, int]:
        return {"row": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        rows = range(start["row"], _ROWS)
        return iter([(row,) for row in rows]), {"row": _ROWS}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[int]]:
        return iter([(row,) for row in range(start["row"], end["row"])])


class _Rows(DataSource):
    """A stream from Python, as those of jobs are."""

    @classmethod
    def name(cls) -> str:
        return "springline-rows"

    def schema(self) -> str:
        return "row int"

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:
        return _Reader()


def run_workload(archive: Path, home: Path) -> None:
    """Let the JVM of a session load what jobs load, and archive it; exits with its status."""
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
        counted = session.sql("SELECT day, count(*) AS many, max(name) AS name FROM rows GROUP BY day ORDER BY day")
        counted.write.parquet(f"{scratch}/counted")
        counted.write.csv(f"{scratch}/text", header=True)
        text = session.read.csv(f"{scratch}/text", header=True, inferSchema=True)
        session.read.parquet(f"{scratch}/counted").join(text, "day").toArrow()
        session.dataSource.register(_Rows)
        writing = session.readStream.format(_Rows.name()).load().writeStream.format("noop")
        writing = writing.option("checkpointLocation", f"{scratch}/checkpoint").trigger(availableNow=True)
        writing.start().awaitTermination()
        gateway = session.sparkContext._gateway
        session.stop()
        assert gateway is not None
        gateway.shutdown()
        gateway.proc.stdin.close()  # at which it ends
        sys.exit(gateway.proc.wait())


if __name__ == "__main__":
    run_workload(Path(sys.argv[1]), Path(sys.argv[2]))
