"""A DAG of the tests: the first five operations of the example workflow, whose tasks are retried after a second."""

from datetime import datetime, timedelta

from airflow.sdk import DAG, Param

from springline import Strategy
from springline.airflow.operators.dataset import DatasetOperator
from springline.airflow.task_factory import edges_of
from springline.spark_jobs.operations import load_operations

registry = load_operations(["springline.spark_jobs.etl"])

with DAG(
    "loading",
    schedule=None,
    start_date=datetime(2013, 1, 1),
    max_active_runs=1,
    params={
        "ds": Param("", type="string"),
        "strategy": Param(Strategy.ASYNC_AND_SYNC.value, type="string"),
    },
    # As many seconds in all as RETRY_ARGS, in smaller steps: a test does not wait for a retry.
    default_args={"retries": 120, "retry_delay": timedelta(seconds=1), "max_retry_delay": timedelta(seconds=2)},
):
    tasks = {
        f"etl.{task_id}": DatasetOperator.of(registry.get(f"etl.{task_id}"), task_id=task_id)
        for task_id in ("load_flights", "load_weather", "parse", "clean", "enrich")
    }
    for name, makers in edges_of(registry, tasks).items():
        for maker in makers:
            tasks[maker] >> tasks[name]
