"""A stage on Spark: the query that reads its units."""

from __future__ import annotations

import shutil

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.spark.stage_planner import Watched
from springline.spark_jobs.streaming.spark.unit_source import FORMAT, UnitSource

_ASYNCHRONOUS = {  # for many short batches: what Spark writes of each is not waited for
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": "10000",
    "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
}


def start(
    session: SparkSession,
    stage: Stage,
    cluster: Cluster,
    watched: Watched,
    *,
    units: int,
    tasks: int,
    seconds: float,
    latest: bool = False,
) -> StreamingQuery:
    """Start a stage of so many `units` as a query of its own, going on where the rounds log and the states are.

    A shift lasts so many `seconds`, and has so many `tasks`; with 0 seconds it is one round. Spark's own log of rounds
    is begun anew: it could not tell more than ours.
    """
    shutil.rmtree(stage.checkpoint, ignore_errors=True)
    session.dataSource.register(UnitSource)
    options = {
        "stage": stage.encode(),
        "cluster": cluster.encode(),
        "watched": watched.encode(),
        "units": str(units),
        "tasks": str(tasks),
        "seconds": str(seconds),
        "latest": str(latest).lower(),
    }
    reading = session.readStream.format(FORMAT).options(**options).load()
    writing = reading.writeStream.queryName(stage.id).format("noop").options(**({} if seconds else _ASYNCHRONOUS))
    return writing.option("checkpointLocation", str(stage.checkpoint)).start()
