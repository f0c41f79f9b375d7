"""What comparisons with Spark's own streams share: a session with its Kafka source, rows of CSV, results as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from benchmarks.streams.broker import Place
from springline.services.packages.jars import Jars
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.sql.operations import Type

if TYPE_CHECKING:  # a JVM is started only in the process that runs the peer
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_KINDS: Mapping[str, str] = {"int": "bigint", "float": "double", "timestamp(s)": "double", "text": "string"}


def session_of(where: Place) -> SparkSession:
    """A Spark on two cores with its own Kafka source and RocksDB for states."""
    from pyspark.sql import SparkSession

    jars = [str(jar) for jar in sorted(Jars(where.settings).folder("spark-kafka").glob("*.jar"))]
    conf = {
        "spark.jars": ",".join(jars),
        "spark.driver.extraClassPath": ":".join(jars),
        "spark.driver.memory": "3g",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.providerClass":
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    }  # fmt: skip
    session = SparkSession.builder.appName("peer").master("local[2]").config(map=dict(conf)).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def rows_of(
    session: SparkSession, where: Place, topic: str, fields: Mapping[str, Type], messages: int
) -> DataFrame:  # fmt: skip
    """The rows of a topic of CSV lines, many a message; so many messages in a batch."""
    from pyspark.sql import functions as f

    schema = ", ".join(f"{name} {_KINDS[kind]}" for name, kind in fields.items())
    return (
        session.readStream.format("kafka").option("kafka.bootstrap.servers", where.kafka)
        .option("subscribe", topic).option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(max(messages, 1))).load()
        .select(f.explode(f.split(f.col("value").cast("string"), "\n")).alias("line")).where("line != ''")
        .select(f.from_csv("line", schema).alias("r")).select("r.*")
    )  # fmt: skip


def started(rows: DataFrame, where: Place, topic: str, units: int) -> StreamingQuery:
    """A query that writes rows with a `value` to a topic of so many units, which is made, and ends with its input."""
    with closing(Kafka(Cluster(where.kafka))) as log:
        log.create({topic: units})
    return (
        rows.writeStream.format("kafka").option("kafka.bootstrap.servers", where.kafka).option("topic", topic)
        .option("checkpointLocation", str(where.folder / topic)).outputMode("append")
        .trigger(availableNow=True).start()
    )  # fmt: skip
