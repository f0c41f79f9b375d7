"""The DAGs of the stream jobs of `streams.toml`: one supervises the job, one recomputes ranges of its results."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, CronDataIntervalTimetable, Param

from springline.airflow.dags.calling_file import as_of_caller
from springline.airflow.dags.ids import dag_of
from springline.airflow.operators.reprocess import StreamRangeOperator
from springline.airflow.operators.stream import StreamOperator
from springline.airflow.pools import MAINTENANCE, TOP_PRIORITY
from springline.airflow.retry_args import RETRY_ARGS
from springline.persistence.model.dataset import Strategy
from springline.spark_jobs.streaming.jobs import read_jobs
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.windows.queryable import is_queryable, queryable_jobs

_START = datetime(2013, 1, 1, tzinfo=UTC)


def stream_dags() -> dict[str, DAG]:
    """Return a DAG `stream_JOB` for each job of `streams.toml`, by its id; a DAG run lasts as long as the stream.

    Ending the run stops the stream.

    Example:
        >>> from springline.airflow import stream_dags
        >>> streams = stream_dags()
    """
    dags = {}
    for name, job in read_jobs(StreamSettings().declarations).items():
        has_queries = is_queryable(job)
        with DAG(
            dag_of(name),
            schedule=None,
            start_date=_START,
            max_active_runs=1,
            # A stream that must be restarted shall not wait for a slot that a backfill occupies.
            default_args={"retries": 3, "retry_delay": timedelta(seconds=10), "pool": MAINTENANCE.name, **TOP_PRIORITY},
            params={"queries": Param({}, type="object", description="Queries to register or alter: SQL by name")}
            if has_queries
            else {},
            render_template_as_native_obj=True,
            doc_md="Supervises the stream: the DAG run lasts as long as the stream; ending it stops the stream.\n\n"
            f"Reads the topic `{job.topic}`, writes `{job.results}`.",
            tags=["springline", "stream"],
        ) as dag:
            StreamOperator(task_id="supervise", job=name, queries="{{ params.queries }}" if has_queries else {})
        dags[dag.dag_id] = as_of_caller(dag)
    return dags


def stream_range_dags() -> dict[str, DAG]:
    """Return a DAG `stream_range_JOB` for each job of `streams.toml` that has queries, by its id.

    Its runs recompute the results of the queries for a range of event time: backfill it over days, or trigger it with
    `begin` and `end`. It reads the topic independently of the stream, which may be running or not, and changes none of
    its state.

    Example:
        >>> from springline.airflow import stream_range_dags
        >>> ranges = stream_range_dags()
    """
    dags = {}
    for name, job in queryable_jobs(StreamSettings().declarations).items():
        with DAG(
            f"stream_range_{name}",
            schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
            start_date=_START,
            catchup=False,
            max_active_runs=1,
            default_args=RETRY_ARGS,
            params={
                "queries": Param(
                    {},
                    type="object",
                    description="Queries to recompute: SQL by name; empty: the registered queries of the job",
                ),
                "begin": Param("", type="string", description="Start of the range; empty: the run's data interval"),
                "end": Param("", type="string", description="End of the range; empty: the run's data interval"),
                "strategy": Param(
                    Strategy.ASYNC_AND_SYNC.value,
                    enum=[strategy.value for strategy in Strategy],
                    description="When the results are persisted",
                ),
            },
            render_template_as_native_obj=True,
            doc_md="Recomputes the results of the stream's queries for a range of "
            "event time: backfill it over days, or "
            "trigger it with `begin` and `end`. It reads the topic independently of the stream, which may be running "
            f"or not.\n\nReads the topic `{job.topic}`, writes `streams/{name}/ranges/…`.",
            tags=["springline", "stream"],
        ) as dag:
            StreamRangeOperator(
                task_id="recompute",
                job=name,
                queries="{{ params.queries }}",
                begin="{{ params.begin }}",
                end="{{ params.end }}",
                strategy="{{ params.strategy }}",
            )
        dags[dag.dag_id] = as_of_caller(dag)
    return dags
