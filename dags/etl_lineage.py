"""The daily example workflow: load, clean, check, count; its tasks and edges are derived from the registry.

The DAG exists only if SPRINGLINE_OPERATIONS names its operations, springline.spark_jobs.etl.
"""

from datetime import UTC, datetime

from airflow.sdk import DAG, Param

from springline import Strategy
from springline.airflow import RETRY_ARGS, DailyUntil, dataset_tasks
from springline.spark_jobs.settings import JobSettings

if "springline.spark_jobs.etl" in JobSettings().operations:
    with DAG(
        "etl_lineage",
        schedule=DailyUntil("2013-12-31"),
        start_date=datetime(2013, 1, 1, tzinfo=UTC),
        catchup=False,
        params={
            "strategy": Param(
                Strategy.ASYNC_AND_SYNC.value,
                enum=[strategy.value for strategy in Strategy],
                description="When the datasets are persisted",
            ),
            "quality": Param(
                "quarantine",
                enum=["pass", "quarantine", "stop"],
                description="What the quality gate does with rows that break a rule",
            ),
            "ds": Param(
                None,
                type=["null", "string"],
                pattern=r"^(\d{4}-\d{2}-\d{2})?$",
                description="Date, such as 2013-01-05; empty: the start of the run's data interval",
            ),
        },
        default_args=RETRY_ARGS,
        doc_md=__doc__,
        tags=["springline"],
    ):
        dataset_tasks(prefix="etl.")
