"""What the digest of a table adds to its write, by the number of columns."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from benchmarks.report import Goal, Report
from springline.spark_jobs.parquet_io import write_table
from springline.spark_jobs.session import SparkSessions
from springline.spark_jobs.settings import JobSettings

_ROWS = 20_000


def run(size: str) -> Report:
    """Write tables of 100, 400 and 1,000 columns with and without a digest, in turn."""
    rounds = 5 if size == "full" else 3
    folder = Path(tempfile.mkdtemp(prefix="springline-bench-"))
    try:
        with closing(SparkSessions(JobSettings(spark_remote=""))) as sessions:
            rows = [measure(sessions.get(), folder, columns, rounds) for columns in (100, 400, 1_000)]
    finally:
        shutil.rmtree(folder)
    ratio = rows[-1]["ratio"]
    goal = Goal("1,000 columns: write with the digest", f"{ratio}", "of a plain write: at most 1.5", ratio <= 1.5)
    notes = [f"{_ROWS:,} rows; medians of {rounds} writes after one that is not counted."]
    return Report("wide_tables", size, rows, [goal], notes)


def measure(spark: Any, folder: Path, columns: int, rounds: int) -> dict[str, Any]:
    """Return the seconds of both kinds of writes of a table whose columns are whole numbers, floats, text and nulls."""
    source = folder / f"source-{columns}"
    spark.range(_ROWS).select(*map(_column, range(columns))).write.parquet(str(source))
    table = spark.read.parquet(str(source))
    writes: dict[str, Callable[[str], object]] = {
        "plain": lambda uri: table.write.parquet(uri),
        "digest": lambda uri: write_table(table, uri, digits=9),
    }
    seconds: dict[str, list[float]] = {name: [] for name in writes}
    for number in range(rounds + 1):
        for name, write in writes.items():
            began = time.perf_counter()
            write(str(folder / f"{name}-{columns}-{number}"))
            seconds[name].append(time.perf_counter() - began)
    plain, digest = (statistics.median(seconds[name][1:]) for name in writes)
    return {
        "columns": columns, "plain_seconds": round(plain, 2), "digest_seconds": round(digest, 2),
        "ratio": round(digest / plain, 2),
    }  # fmt: skip


def _column(number: int) -> Column:
    product = F.col("id") * (number + 7)
    kinds = [
        product,
        product / 13.0,
        F.concat(F.lit("v"), (F.col("id") % (number + 3)).cast("string")),
        F.when(F.col("id") % 5 != 0, F.col("id") % 100),
    ]
    return kinds[number % 4].alias(f"c{number}")
