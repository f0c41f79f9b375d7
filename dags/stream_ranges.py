"""One DAG for each job of streams.toml that has queries: its runs answer them anew over a range of the stream.

Backfill it over days, or trigger it with `begin` and `end`. It reads the topic beside the stream, which may be running
or not, and changes nothing of it.
"""

from datetime import datetime

from airflow.sdk import DAG, CronDataIntervalTimetable, Param

from springline.airflow.operators.reprocess import StreamRangeOperator
from springline.airflow.retry_args import PATIENT
from springline.persistence.model.dataset import Strategy
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.windows.queryable import queryable_jobs

for name, job in queryable_jobs(StreamSettings().declarations).items():
    with DAG(
        f"stream_range_{name}",
        schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
        start_date=datetime(2013, 1, 1),
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
        doc_md=f"{__doc__}\n\nReads the topic `{job.topic}`, makes `streams/{name}/ranges/…`.",
        tags=["springline", "stream"],
    ):
        StreamRangeOperator(
            task_id="answer",
            job=name,
            queries="{{ params.queries }}",
            begin="{{ params.begin }}",
            end="{{ params.end }}",
            strategy="{{ params.strategy }}",
        )
