"""A DAG of the tests: its task commits what it makes, then fails, and succeeds when it is tried again."""

from datetime import datetime, timedelta

from airflow.sdk import DAG, Param

from springline.airflow.operators.dataset import DatasetOperator
from springline.spark_jobs.operations import load_operations


class FailsOnce(DatasetOperator):
    """Fails its first try after the dataset was committed."""

    def execute(self, context):
        result = super().execute(context)
        if context["ti"].try_number == 1:
            raise RuntimeError("the process dies after its commit")
        return result


with DAG(
    "trying",
    schedule=None,
    start_date=datetime(2013, 1, 1),
    params={"ds": Param("", type="string"), "strategy": "async_store"},
    default_args={"retries": 1, "retry_delay": timedelta(seconds=1)},
):
    FailsOnce.of(load_operations(["springline.spark_jobs.etl"]).get("etl.parse"), task_id="parse")
