"""Starts the Spark query that runs a stage."""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.spark.stage_planner import WatchedFiles
from springline.spark_jobs.streaming.spark.unit_source import FORMAT, UnitSource

_ASYNCHRONOUS = {  # for many short batches: Spark writes its progress asynchronously
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": "10000",
    "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
}


def start_query(
    session: SparkSession,
    stage: Stage,
    cluster: Cluster,
    watched_files: WatchedFiles,
    checkpoint: Path,
    *,
    units: int,
    tasks: int,
    seconds: float,
    latest: bool = False,
) -> StreamingQuery:
    """Start a stage of `units` units as a Spark query, which continues from the rounds log and the states.

    A shift has `tasks` tasks and lasts `seconds` seconds; with 0 seconds it is one round. `checkpoint` is the folder of
    Spark's own checkpoint on the driver; it is deleted first, since it contains nothing that the rounds log does not.
    """
    shutil.rmtree(checkpoint, ignore_errors=True)
    session.dataSource.register(UnitSource)
    options = {
        "stage": stage.encode(),
        "cluster": cluster.encode(),
        "watched": watched_files.encode(),
        "units": str(units),
        "tasks": str(tasks),
        "seconds": str(seconds),
        "latest": str(latest).lower(),
    }
    reader = session.readStream.format(FORMAT).options(**options).load()
    writer = reader.writeStream.queryName(stage.id).format("noop").options(**({} if seconds else _ASYNCHRONOUS))
    return writer.option("checkpointLocation", str(checkpoint)).start()
