"""Persists what the workflow made, most valuable first; waits without a process while there is nothing to do."""

from datetime import datetime, timedelta

from airflow.sdk import DAG

from springline_airflow.persisting import PersisterOperator

with DAG(
    "persister",
    schedule="@continuous",
    start_date=datetime(2013, 1, 1),
    max_active_runs=1,
    default_args={"retries": 10, "retry_delay": timedelta(seconds=5)},
    doc_md=__doc__,
    tags=["springline"],
):
    PersisterOperator(task_id="persist")
