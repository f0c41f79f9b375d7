"""The DAGs of stream jobs, for each that `streams.toml` declares: one that supervises it, one that answers anew."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.sdk import DAG, CronDataIntervalTimetable, Param

from springline.airflow.dags.calling_file import as_of_caller
from springline.airflow.dags.ids import dag_of
from springline.airflow.operators.reprocess import StreamRangeOperator
from springline.airflow.operators.stream import StreamOperator
from springline.airflow.pools import FIRST, UPKEEP
from springline.airflow.retry_args import PATIENT
from springline.persistence.model.dataset import Strategy
from springline.spark_jobs.streaming.jobs import read_jobs
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.windows.queryable import is_queryable, queryable_jobs

_START = datetime(2013, 1, 1)


def stream_dags() -> dict[str, DAG]:
    """A DAG `stream_JOB` for each job of `streams.toml`, by its id: a run lives as long as the stream.

    Ending the run stops the stream.

    Example:
        >>> from springline.airflow import stream_dags
        >>> streams = stream_dags()
    """
    made = {}
    for name, job in read_jobs(StreamSettings().declarations).items():
        has_queries = is_queryable(job)
        with DAG(
            dag_of(name),
            schedule=None,
            start_date=_START,
            max_active_runs=1,
            # A stream that has to be started again is not to wait for a slot behind a backfill.
            default_args={"retries": 3, "retry_delay": timedelta(seconds=10), "pool": UPKEEP.name, **FIRST},
            params={"queries": Param({}, type="object", description="Queries to register or to change, SQL by name")}
            if has_queries
            else {},
            render_template_as_native_obj=True,
            doc_md="Its run lives as long as the stream; ending the run stops the stream.\n\n"
            f"Reads the topic `{job.topic}`, writes `{job.results}`.",
            tags=["springline", "stream"],
        ) as dag:
            StreamOperator(task_id="supervise", job=name, queries="{{ params.queries }}" if has_queries else {})
        made[dag.dag_id] = as_of_caller(dag)
    return made


def stream_range_dags() -> dict[str, DAG]:
    """A DAG `stream_range_JOB` for each job of `streams.toml` that has queries, by its id.

    Its runs answer the queries anew over a range of the stream: backfill it over days, or trigger it with `begin` and
    `end`. It reads the topic beside the stream, which may be running or not, and changes nothing of it.

    Example:
        >>> from springline.airflow import stream_range_dags
        >>> ranges = stream_range_dags()
    """
    made = {}
    for name, job in queryable_jobs(StreamSettings().declarations).items():
        with DAG(
            f"stream_range_{name}",
            schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
            start_date=_START,
            catchup=False,
            max_active_runs=1,
            default_args=PATIENT,
            params={
                "queries": Param(
                    {}, type="object", description="Queries to answer, SQL by name; none: those that the job has"
                ),
                "begin": Param("", type="string", description="Where the range begins; empty: the run's data interval"),
                "end": Param("", type="string", description="Where the range ends; empty: the run's data interval"),
                "strategy": Param(
                    Strategy.ASYNC_AND_SYNC.value,
                    enum=[strategy.value for strategy in Strategy],
                    description="When the results are persisted",
                ),
            },
            render_template_as_native_obj=True,
            doc_md="Its runs answer the queries of the stream anew over a range of it: backfill it over days, or "
            "trigger it with `begin` and `end`. It reads the topic beside the stream, which may be running or not, and "
            f"changes nothing of it.\n\nReads the topic `{job.topic}`, makes `streams/{name}/ranges/…`.",
            tags=["springline", "stream"],
        ) as dag:
            StreamRangeOperator(
                task_id="answer",
                job=name,
                queries="{{ params.queries }}",
                begin="{{ params.begin }}",
                end="{{ params.end }}",
                strategy="{{ params.strategy }}",
            )
        made[dag.dag_id] = as_of_caller(dag)
    return made
