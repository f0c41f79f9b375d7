"""A range of a stream as an Airflow task: its queries answered anew over the DAG run's data interval."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from springline.airflow.platform_context import opened_log, without_runner
from springline.airflow.runs import origin_of
from springline.persistence.model.dataset import Dataset, Strategy
from springline.persistence.platform import Platform
from springline.spark_jobs.streaming.errors import InvalidRangeError, MessagesLostError
from springline.spark_jobs.streaming.runtime.message_log import Log
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.windows.queryable import queryable_job_of
from springline.spark_jobs.streaming.windows.registry_file import read_registry


class StreamRangeOperator(BaseOperator):
    """Answers a job's queries over a range of event time, and commits the results as one generation.

    The range is [begin, end) where they are given, else the data interval of the DAG run; the queries are those given,
    else all that the job has. A retry adopts what its failed try committed. What it returns (and thus its XCom) tells
    which generation was made, what was read for it, and what could not be used.
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
        open_log: Callable[[], AbstractContextManager[Log]] = opened_log,
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
        """Make the generation, or find that a failed try made it."""
        from springline.spark_jobs.streaming.windows.sink.reprocess import (  # takes numba with it
            Span,
            asked_of,
            write_range,
        )

        settings = StreamSettings()
        job = queryable_job_of(settings.declarations, self.job)
        queries = self.queries if isinstance(self.queries, Mapping) else {}
        origin = origin_of(context["dag_run"], self.task_id)
        begin, end = self.begin or context.get("data_interval_start"), self.end or context.get("data_interval_end")
        if not begin or not end:
            raise AirflowFailException(
                f"{self.job}: no range. This DAG run has no data interval: give the parameters `begin` and `end`."
            )
        with self._open_platform(f"task {origin.dag_id}.{self.task_id}") as platform, self._open_log() as log:
            try:
                asked = asked_of(job, read_registry(settings.folder(job.name)), queries)
                made = write_range(
                    platform,
                    job,
                    asked,
                    log,
                    Span.of(str(begin), str(end)),
                    origin=origin,
                    strategy=Strategy(self.strategy),
                )
            except (InvalidQueryError, InvalidRangeError, MessagesLostError) as hopeless:
                raise AirflowFailException(str(hopeless)) from hopeless
        told = _described(made)
        self.log.info("Made %(dataset)s: %(rows)s rows, %(bytes)s bytes, %(status)s.", told)
        return told


def _described(dataset: Dataset) -> dict[str, Any]:
    """What a person wants to know of it from the page of its DAG run, in plain values."""
    return {
        "dataset": str(dataset.ref),
        "status": str(dataset.status()),
        "rows": dataset.rows,
        "bytes": dataset.bytes,
        **(dataset.report or {}),
    }
