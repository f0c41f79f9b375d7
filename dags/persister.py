"""Persists what the workflow made, most valuable first; waits without a process while there is nothing to do.

Its task has a pool of its own and goes before all others: it never waits behind the tasks whose datasets it protects.
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG

from springline.airflow.operators.persister import PersisterOperator
from springline.airflow.pools import FIRST, PERSISTER

with DAG(
    "persister",
    schedule="@continuous",
    start_date=datetime(2013, 1, 1),
    is_paused_upon_creation=False,  # what is made before somebody unpaused it would be in the cache alone
    max_active_runs=1,
    default_args={"retries": 10, "retry_delay": timedelta(seconds=5), "pool": PERSISTER.name, **FIRST},
    doc_md=__doc__,
    tags=["springline"],
):
    PersisterOperator(task_id="persist")
