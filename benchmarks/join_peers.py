"""The same join by others: DuckDB's on tables in memory, Spark's join of two streams from Kafka to Kafka."""

from __future__ import annotations

import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import duckdb

from benchmarks.broker import Place
from benchmarks.join_job import PARTITIONS, Case, feed
from benchmarks.running_job import cpu_of
from services.jars import Jars
from spark_jobs.streaming.kafka import Cluster, Kafka

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
        begun, spent = time.monotonic(), time.process_time()
        pairs = len(connection.sql(case.peer).to_arrow_table())
        seconds, cpu = time.monotonic() - begun, time.process_time() - spent
    return Peer(case.rows / seconds, case.rows / cpu, pairs)


def with_pyspark(where: Place, case: Case) -> Peer:
    """Spark's join of two streams with all of their history as state (RocksDB); the first batch is not timed.

    In a process of its own: a JVM that has been started takes no more jars. Its rows are CSV lines, many a message.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        return alone.submit(_with_pyspark, where, case).result()


def _with_pyspark(where: Place, case: Case) -> Peer:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    jars = [str(jar) for jar in sorted(Jars(where.settings).folder("spark-kafka").glob("*.jar"))]
    conf = {
        "spark.jars": ",".join(jars),
        "spark.driver.extraClassPath": ":".join(jars),
        "spark.driver.memory": "3g",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.streaming.stateStore.providerClass":
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    }  # fmt: skip
    session = SparkSession.builder.appName("peer").master("local[2]").config(map=dict(conf)).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    name = f"peer-{os.getpid()}"
    topics = [f"{name}-left", f"{name}-right"]
    lines = [
        ["\n".join(",".join(map(str, row.values())) for row in table.slice(first, case.size).to_pylist()).encode()
         for first in range(0, table.num_rows, case.size)]
        for table in case.tables
    ]  # fmt: skip
    feed(where, topics, lines)
    with closing(Kafka(Cluster(where.kafka))) as log:
        log.create({f"{name}-out": PARTITIONS})

    def side(topic: str, alias: str, table: Any, messages: int) -> Any:
        kinds = {"int64": "bigint", "double": "double", "string": "string"}
        schema = ", ".join(f"{field.name} {kinds[str(field.type)]}" for field in table.schema)
        return (
            session.readStream.format("kafka").option("kafka.bootstrap.servers", where.kafka)
            .option("subscribe", topic).option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(max(messages // _BATCHES, 1))).load()
            .select(f.explode(f.split(f.col("value").cast("string"), "\n")).alias("line"))
            .select(f.from_csv("line", schema).alias("r")).select("r.*").alias(alias)
        )  # fmt: skip

    sides = [
        side(topic, alias, table, len(own))
        for topic, alias, table, own in zip(topics, "lr", case.tables, lines, strict=True)
    ]
    query = (
        sides[0].join(sides[1], f.expr(case.on)).select(f.to_json(f.struct(*case.shown)).alias("value"))
        .writeStream.format("kafka").option("kafka.bootstrap.servers", where.kafka).option("topic", f"{name}-out")
        .option("checkpointLocation", str(where.folder / name)).outputMode("append")
        .trigger(availableNow=True).start()
    )  # fmt: skip
    marks: list[tuple[float, float]] = []
    while query.isActive:
        done = len([each for each in query.recentProgress if each["numInputRows"]])
        if done >= len(marks) + 1:
            marks.append((time.monotonic(), cpu_of(os.getppid())))
        time.sleep(0.01)
    query.awaitTermination()
    batches = [each for each in query.recentProgress if each["numInputRows"]]
    ended = time.monotonic(), cpu_of(os.getppid())
    session.stop()
    with closing(Kafka(Cluster(where.kafka))) as log:
        pairs = sum(extent.high for extent in log.extents(f"{name}-out").values())
    rows = case.rows * (len(batches) - 1) / len(batches)
    return Peer(rows / (ended[0] - marks[0][0]), rows / (ended[1] - marks[0][1]), pairs)
