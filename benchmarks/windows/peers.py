"""Windowed statistics by others: DuckDB and Polars on the bytes in memory, PySpark and PyFlink from Kafka to Kafka."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from benchmarks.streams.broker import Place
from benchmarks.streams.spark_peer import rows_of, session_of, started
from benchmarks.windows.job import Case
from benchmarks.windows.queries import PEER
from springline.services.packages.jars import Jars
from springline.spark_jobs.streaming.examples.netflow import FIELDS
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka

_FLINK = Path(__file__).parent / "flink"


def with_duckdb(content: bytes, rows: int) -> float:
    """Rows a second of CSV."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm", suffix=".csv") as file:
        file.write(content)
        file.flush()
        kinds = {"int": "BIGINT", "float": "DOUBLE", "timestamp(s)": "DOUBLE", "text": "VARCHAR"}
        columns = {field.name: kinds[field.type] for field in FIELDS}
        read = f"read_csv('{file.name}', header = false, columns = {columns}, auto_detect = false)"
        with duckdb.connect(config={"threads": 2}) as connection:
            started_at = time.monotonic()
            connection.execute(PEER.format(read)).to_arrow_table()
            return rows / (time.monotonic() - started_at)


def with_polars(content: bytes, rows: int) -> float:
    """Rows a second of CSV."""
    kinds: dict[str, Any] = {"int": pl.Int64, "float": pl.Float64, "timestamp(s)": pl.Float64, "text": pl.String}
    schema = {field.name: kinds[field.type] for field in FIELDS}
    started_at = time.monotonic()
    frame = pl.scan_csv(io.BytesIO(content), has_header=False, schema=schema)
    keys = [(pl.col("timestamp") // 60).alias("w"), pl.col("sip"), pl.col("type")]
    frame.group_by(*keys).agg(pl.len(), pl.col("bytes").sum(), pl.col("packets").sum()).collect()
    return rows / (time.monotonic() - started_at)


def with_pyspark(where: Place, case: Case, turn: int) -> float:
    """Rows a second of Spark's Kafka source, its own CSV reader and its own stateful windows, written to Kafka.

    In a process of its own: a JVM that has been started takes no more jars.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        return alone.submit(_with_pyspark, where, case, turn).result()


def _with_pyspark(where: Place, case: Case, turn: int) -> float:
    from pyspark.sql import functions as f

    session = session_of(where)
    fields = {field.name: field.type for field in FIELDS}
    rows = (
        rows_of(session, where, case.topic, fields, case.flows.rows // case.size // 10)
        .select(f.timestamp_seconds("timestamp").alias("time"), "sip", "type", "bytes", "packets")
        .withWatermark("time", "0 seconds").groupBy(f.window("time", "60 seconds"), "sip", "type")
        .agg(f.count("*").alias("n"), f.sum("bytes").alias("b"), f.sum("packets").alias("p"))
        .select(f.to_json(f.struct("*")).alias("value"))
    )  # fmt: skip
    query = started(rows, where, f"peer-{turn}-{os.getpid()}", case.units)
    query.awaitTermination()
    batches = [each for each in query.recentProgress if each["numInputRows"]][1:]
    session.stop()
    spent = sum(each["durationMs"]["triggerExecution"] for each in batches) / 1000
    return float(sum(_messages_of(each) for each in batches) * case.size / spent)


def _messages_of(progress: Any) -> int:
    """The messages of a batch, by its offsets: the number of rows that Spark reports counts what it exploded."""
    (source,) = progress["sources"]
    start, end = (json.loads(source[name] or "{}") for name in ("startOffset", "endOffset"))
    (topic,) = end
    return sum(int(end[topic][unit]) - int(start.get(topic, {}).get(unit, 0)) for unit in end[topic])


def with_pyflink(where: Place, case: Case) -> float:
    """Rows a second of Flink's SQL in event-time windows, from a topic of one row a message to another topic.

    Of many rows a message, which its CSV format does not read: split in SQL, grouped without windows, and thrown away.
    Two runs, of a fifth and of all of the topic; what they differ in is free of the start.
    """
    (jar,) = Jars(where.settings).folder("flink-kafka").glob("*.jar")
    out = f"flink-{case.topic}"
    with closing(Kafka(Cluster(where.kafka))) as log:
        log.create({out: case.units})
        extents = log.offset_bounds(case.topic)
    runs = []
    for share in (0.2, 1.0):
        ends = {unit: int(extent.high * share) for unit, extent in extents.items()}
        setup = {
            "kafka": where.kafka, "topic": case.topic, "out": out, "jar": str(jar), "ends": ends,
            "fields": [[field.name, field.type] for field in FIELDS], "a row a message": case.size == 1,
        }  # fmt: skip
        completed_process = subprocess.run(
            [_flink_python(where), _FLINK / "job.py", json.dumps(setup)], capture_output=True, text=True, timeout=600
        )
        if completed_process.returncode:
            raise RuntimeError(completed_process.stderr[-2000:])
        runs.append((sum(ends.values()) * case.size, float(completed_process.stdout.split()[-1])))
    (few, quick), (many, slow) = runs
    return (many - few) / (slow - quick)


def _flink_python(where: Place) -> Path:
    """The Python of an environment for Flink alone, made once: it pins other versions of what is used here."""
    folder = where.settings.jars_folder.parent / "flink"
    python = folder / "bin" / "python"
    marker = folder / "complete"
    if not marker.exists():
        uv = Path(sys.executable).with_name("uv")
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)
        requirements = _FLINK / "requirements.txt"
        subprocess.run([uv, "pip", "install", "--quiet", "--python", python, "-r", requirements], check=True)
        marker.touch()
    return python
