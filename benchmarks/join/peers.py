"""The same join by others: DuckDB's on tables in memory, Spark's join of two streams from Kafka to Kafka."""

from __future__ import annotations

import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass

import duckdb

from benchmarks.join.inputs import fields_of
from benchmarks.join.job import PARTITIONS, Case, feed
from benchmarks.streams.broker import Place
from benchmarks.streams.running_job import cpu_of
from benchmarks.streams.spark_peer import rows_of, session_of, started
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka

_BATCHES = 6


@dataclass(frozen=True)
class Peer:
    """Tuples a second, tuples a second of CPU, pairs that were found."""

    rate: float
    per_cpu: float
    pairs: int


def with_duckdb(case: Case) -> Peer:
    """All rows at once, on one thread, the pairs as a table in memory."""
    tables = {"l": case.tables[0], "r": case.tables[-1]}
    with duckdb.connect(config={"threads": 1}) as connection:
        for name, table in tables.items():
            connection.register(name, table)
        started_at, spent = time.monotonic(), time.process_time()
        pairs = len(connection.sql(case.peer).to_arrow_table())
        seconds, cpu = time.monotonic() - started_at, time.process_time() - spent
    return Peer(case.rows / seconds, case.rows / cpu, pairs)


def with_pyspark(where: Place, case: Case) -> Peer:
    """Spark's join of two streams with all of their history as state (RocksDB); the first batch is not timed.

    In a process of its own: a JVM that has been started takes no more jars. Its rows are CSV lines, many a message.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        return alone.submit(_with_pyspark, where, case).result()


def _with_pyspark(where: Place, case: Case) -> Peer:
    from pyspark.sql import functions as f

    session = session_of(where)
    name = f"peer-{os.getpid()}"
    topics = [f"{name}-left", f"{name}-right"]
    lines = [
        ["\n".join(",".join(map(str, row.values())) for row in table.slice(first, case.size).to_pylist()).encode()
         for first in range(0, table.num_rows, case.size)]
        for table in case.tables
    ]  # fmt: skip
    feed(where, topics, lines)
    left, right = (
        rows_of(session, where, topic, fields_of(table), len(own) // _BATCHES).alias(alias)
        for topic, alias, table, own in zip(topics, "lr", case.tables, lines, strict=True)
    )
    joined = left.join(right, f.expr(case.on)).select(f.to_json(f.struct(*case.shown)).alias("value"))
    query = started(joined, where, f"{name}-out", PARTITIONS)
    marks: list[tuple[float, float]] = []
    while query.isActive:
        batch_count = len([each for each in query.recentProgress if each["numInputRows"]])
        if batch_count >= len(marks) + 1:
            marks.append((time.monotonic(), cpu_of(os.getppid())))
        time.sleep(0.01)
    query.awaitTermination()
    batches = [each for each in query.recentProgress if each["numInputRows"]]
    ended = time.monotonic(), cpu_of(os.getppid())
    session.stop()
    with closing(Kafka(Cluster(where.kafka))) as log:
        pairs = sum(extent.high for extent in log.offset_bounds(f"{name}-out").values())
    rows = case.rows * (len(batches) - 1) / len(batches)
    return Peer(rows / (ended[0] - marks[0][0]), rows / (ended[1] - marks[0][1]), pairs)
