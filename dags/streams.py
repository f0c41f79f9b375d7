"""One DAG for each job of streams.toml: its run lives as long as the stream; ending the run stops the stream."""

from datetime import datetime, timedelta

from airflow.sdk import DAG, Param

from springline.airflow.operators.stream import StreamOperator, dag_of
from springline.airflow.pools import FIRST, UPKEEP
from springline.spark_jobs.streaming.jobs import read_jobs
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.windows.queryable import is_queryable

for name, job in read_jobs(StreamSettings().declarations).items():
    with DAG(
        dag_of(name),
        schedule=None,
        start_date=datetime(2013, 1, 1),
        max_active_runs=1,
        # A stream that has to be started again is not to wait for a slot behind a backfill.
        default_args={"retries": 3, "retry_delay": timedelta(seconds=10), "pool": UPKEEP.name, **FIRST},
        params={"queries": Param({}, type="object", description="Queries to register or to change, SQL by name")}
        if is_queryable(job)
        else {},
        render_template_as_native_obj=True,
        doc_md=f"{__doc__}\n\nReads the topic `{job.topic}`, writes `{job.results}`.",
        tags=["springline", "stream"],
    ):
        queries = "{{ params.queries }}" if is_queryable(job) else {}
        StreamOperator(task_id="supervise", job=name, queries=queries)
