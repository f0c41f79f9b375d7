"""The query of a stage while it runs: begun again where Spark did not reach the Python worker that plans its rounds."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from springline.spark_jobs.streaming.errors import StreamError

logger = logging.getLogger("springline.stream")

# Spark gives the planning worker 10 s to start, which cannot be set; on a busy machine its imports take longer.
_UNREACHED = "Python worker failed to connect back"
_TRIES = 5


class StageQuery:
    """What `begin` starts, at once and again; beginning it again is safe, since rounds are planned in our own log."""

    def __init__(self, begin: Callable[[], StreamingQuery]) -> None:
        self._begin = begin
        self._query = begin()
        self._begun = 1

    @property
    def is_busy(self) -> bool:
        """Whether a round is under way."""
        return bool(self._query.status["isTriggerActive"])

    def check(self) -> None:
        """Raise `StreamError` if it has ended, with the reason; what Spark did not reach is begun again first."""
        if self._query.isActive:
            return
        error = self._query.exception()
        if error is None:
            raise StreamError(f"{self._query.name} ended by itself")
        if _UNREACHED not in str(error) or self._begun == _TRIES:
            raise StreamError(_said(error))
        self._begun += 1
        logger.warning("%s: %s; try %d of %d", self._query.name, _UNREACHED, self._begun, _TRIES)
        self._query = self._begin()

    def stop(self) -> None:
        """End it."""
        self._query.stop()


def _said(error: StreamingQueryException) -> str:
    """The innermost words of what ended a query: the last line that names an error of ours, else its first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("springline.") and ": " in line]
    return ours[-1].partition(": ")[2] if ours else (lines[0] if lines else "a query failed")
