"""A backfill of a stream as an Airflow task: its queries are recomputed over the DAG run's data interval."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from springline.airflow.platform_context import log_session, without_runner
from springline.airflow.runs import origin_of
from springline.persistence.model.dataset import Dataset, Strategy
from springline.persistence.platform import Platform
from springline.spark_jobs.streaming.errors import InvalidRangeError, MessagesLostError
from springline.spark_jobs.streaming.runtime.message_log import MessageLog
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.windows.queryable import queryable_job_of
from springline.spark_jobs.streaming.windows.registry_file import read_registry


class StreamRangeOperator(BaseOperator):
    """Computes a job's queries over a range of event time, and commits the results as one generation.

    The range is [begin, end) if they are given, otherwise the data interval of the DAG run; the queries are those
    given, otherwise all that the job has. A retry adopts what its failed attempt committed. Its return value (XCom)
    names the generation, what was read for it, and what could not be used.
    """

    template_fields: Sequence[str] = ("queries", "begin", "end", "strategy")
    ui_color = "#e8eef4"

    def __init__(
        self,
        *,
        job: str,
        queries: Mapping[str, str] | str | None = None,
        begin: str = "",
        end: str = "",
        strategy: str = Strategy.ASYNC_AND_SYNC.value,
        open_platform: Callable[[str], AbstractContextManager[Platform]] = without_runner,
        open_log: Callable[[], AbstractContextManager[MessageLog]] = log_session,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.queries = queries
        self.begin = begin
        self.end = end
        self.strategy = strategy
        self._open_platform = open_platform
        self._open_log = open_log

    def execute(self, context: Any) -> dict[str, Any]:
        """Write the generation, or adopt it if a failed attempt committed it."""
        from springline.spark_jobs.streaming.windows.sink.reprocess import (  # imports numba
            EventTimeRange,
            registry_for_range,
            write_range,
        )

        settings = StreamSettings()
        job = queryable_job_of(settings.declarations, self.job)
        queries = self.queries if isinstance(self.queries, Mapping) else {}
        origin = origin_of(context["dag_run"], self.task_id)
        begin, end = self.begin or context.get("data_interval_start"), self.end or context.get("data_interval_end")
        if not begin or not end:
            raise AirflowFailException(
                f"{self.job}: no range, since this DAG run has no data interval: set the parameters `begin` and `end`."
            )
        with self._open_platform(f"task {origin.dag_id}.{self.task_id}") as platform, self._open_log() as log:
            try:
                range_queries = registry_for_range(job, read_registry(settings.folder(job.name)), queries)
                dataset = write_range(
                    platform,
                    job,
                    range_queries,
                    log,
                    EventTimeRange.of(str(begin), str(end)),
                    origin=origin,
                    strategy=Strategy(self.strategy),
                )
            except (InvalidQueryError, InvalidRangeError, MessagesLostError) as hopeless:
                raise AirflowFailException(str(hopeless)) from hopeless
        summary = _summarize(dataset)
        self.log.info("Made %(dataset)s: %(rows)s rows, %(bytes)s bytes, %(status)s.", summary)
        return summary


def _summarize(dataset: Dataset) -> dict[str, Any]:
    """Return a summary for the page of the DAG run, in plain values."""
    return {
        "dataset": str(dataset.ref),
        "status": str(dataset.status()),
        "rows": dataset.rows,
        "bytes": dataset.bytes,
        **(dataset.report or {}),
    }
