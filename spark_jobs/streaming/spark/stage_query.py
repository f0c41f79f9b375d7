"""The Spark query of a stage; it starts again if Spark could not connect to the Python worker that plans its rounds."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.spark.stage_launch import StageLaunch
from springline.spark_jobs.streaming.spark.unit_source import FORMAT, OPTION, UnitSource

logger = logging.getLogger("springline.stream")

# Spark gives the planning worker 10 s to start, which cannot be set; on a busy machine its imports take longer.
_CONNECT_FAILURE = "Python worker failed to connect back"
_MAX_ATTEMPTS = 5


_ASYNCHRONOUS = {  # for many short batches: Spark writes its progress asynchronously
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": "10000",
    "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
}


def start_query(session: SparkSession, launch: StageLaunch, checkpoint: Path) -> StreamingQuery:
    """Start a stage as a Spark query, which continues from the rounds log and the states.

    `checkpoint` is the folder of Spark's own checkpoint on the driver; it is deleted first, since it contains nothing
    that the rounds log does not.
    """
    shutil.rmtree(checkpoint, ignore_errors=True)
    session.dataSource.register(UnitSource)
    reader = session.readStream.format(FORMAT).option(OPTION, launch.encode()).load()
    options = {} if launch.seconds else _ASYNCHRONOUS
    writer = reader.writeStream.queryName(launch.stage.id).format("noop").options(**options)
    return writer.option("checkpointLocation", str(checkpoint)).start()


class StageQuery:
    """A query created by `start`; restarting it is safe, since rounds are planned in the rounds log."""

    def __init__(self, start: Callable[[], StreamingQuery]) -> None:
        self._start = start
        self._query = start()
        self._attempts = 1

    @property
    def is_busy(self) -> bool:
        """Whether a batch is in progress."""
        return bool(self._query.status["isTriggerActive"])

    def check(self) -> None:
        """Raise `StreamError` with the reason if the query has ended; after a connect failure, restart it first."""
        if self._query.isActive:
            return
        error = self._query.exception()
        if error is None:
            raise StreamError(f"{self._query.name} ended by itself")
        if _CONNECT_FAILURE not in str(error) or self._attempts == _MAX_ATTEMPTS:
            raise StreamError(_failure_message(error))
        self._attempts += 1
        logger.warning("%s: %s; attempt %d of %d", self._query.name, _CONNECT_FAILURE, self._attempts, _MAX_ATTEMPTS)
        self._query = self._start()

    def stop(self) -> None:
        """Stop the query."""
        self._query.stop()


def _failure_message(error: StreamingQueryException) -> str:
    """Return the message of the innermost error: the last line with an error of Springline, else the first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("springline.") and ": " in line]
    return ours[-1].partition(": ")[2] if ours else (lines[0] if lines else "a query failed")
