"""Keeps catalog and stores true to each other: recovers what was lost, keeps room in the cache, retires the old.

The task `alert` judges the rules of alerts; it fails where their file is wrong.
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG

from springline.airflow.operators.persister import MaintenanceOperator
from springline.airflow.pools import FIRST, UPKEEP

with DAG(
    "maintenance",
    schedule="*/5 * * * *",
    start_date=datetime(2013, 1, 1),
    catchup=False,
    is_paused_upon_creation=False,  # nobody else notices a loss before it is read
    max_active_runs=1,
    default_args={"retries": 1, "retry_delay": timedelta(seconds=10), "pool": UPKEEP.name, **FIRST},
    doc_md=__doc__,
    tags=["springline"],
):
    MaintenanceOperator(task_id="recover", action="recover")
    evict = MaintenanceOperator(task_id="evict", action="evict")
    retire = MaintenanceOperator(task_id="retire", action="retire")
    MaintenanceOperator(task_id="alert", action="alert")
    evict >> retire
