"""The same join by others: DuckDB's on tables in memory and on topics, Spark's join of two streams on topics."""

from __future__ import annotations

import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from benchmarks.join.inputs import fields_of
from benchmarks.join.job import PARTITIONS, Case, feed
from benchmarks.streams.broker import Place
from benchmarks.streams.cpu import CpuTime, cpu_time
from benchmarks.streams.spark_peer import rows_of, session_of, started
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.json_lines import encode_large
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord

_BATCHES = 6
_PAIRS = 10_000  # in a message of DuckDB's


@dataclass(frozen=True)
class Peer:
    """Tuples a second, tuples a second of CPU, pairs, and the CPU seconds of a tuple by parts."""

    rate: float
    per_cpu: float
    pairs: int
    cpu_parts: CpuTime | None = None


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


def with_duckdb_on_topics(where: Place, case: Case) -> Peer:
    """The same work: the same messages read from topics and decoded, joined, the pairs sent to a topic as JSON.

    All of it at once on one thread, so without state, rounds, or what makes a stream exactly once. CPU is that of this
    process and of the broker.
    """
    name = f"same-{case.name.replace(' ', '-')}-{os.getpid()}"
    topics = case.topics(name)
    feed(where, topics, case.messages())
    with closing(Kafka(Cluster(where.kafka))) as log:
        log.create({name: PARTITIONS})
        started_at, spent = time.monotonic(), cpu_time()
        tables = [_read(log, topic) for topic in topics]
        with duckdb.connect(config={"threads": 1}) as connection:
            connection.register("l", tables[0])
            connection.register("r", tables[-1])
            pairs = connection.sql(case.peer).to_arrow_table()
        with log.record_sender() as sender:
            for number, batch in enumerate(pairs.to_batches(max_chunksize=_PAIRS)):
                sender.send(OutgoingRecord(name, number % PARTITIONS, encode_large(batch)))
        seconds, cpu = time.monotonic() - started_at, cpu_time().since(spent)
    return Peer(case.rows / seconds, case.rows / cpu.total, len(pairs), cpu.per_row(case.rows))


def _read(log: Kafka, topic: str) -> pa.Table:
    """Return the rows of all messages of a topic."""
    values = [
        message.value
        for unit, bounds in sorted(log.offset_bounds(topic).items())
        for message in log.fetch(topic, unit, bounds.low, bounds.high)
    ]
    return pa.concat_tables(pa.ipc.open_stream(value).read_all() for value in values)


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
            marks.append((time.monotonic(), cpu_time(os.getppid()).total))
        time.sleep(0.01)
    query.awaitTermination()
    batches = [each for each in query.recentProgress if each["numInputRows"]]
    ended = time.monotonic(), cpu_time(os.getppid()).total
    session.stop()
    with closing(Kafka(Cluster(where.kafka))) as log:
        pairs = sum(extent.high for extent in log.offset_bounds(f"{name}-out").values())
    rows = case.rows * (len(batches) - 1) / len(batches)
    return Peer(rows / (ended[0] - marks[0][0]), rows / (ended[1] - marks[0][1]), pairs)
