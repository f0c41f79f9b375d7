"""The DAGs that manage datasets: the persister, manual recovery, and maintenance.

A file in Airflow's DAG folder calls them; each returns one DAG, which Airflow shows as that file's:

    from springline.airflow import maintenance_dag, persister_dag, recover_dag

    persister, maintenance, recover = persister_dag(), maintenance_dag(), recover_dag()
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param

from springline.airflow.dags.calling_file import as_of_caller
from springline.airflow.operators.persister import MaintenanceOperator, PersisterOperator
from springline.airflow.operators.recover import DAG_ID as RECOVER
from springline.airflow.operators.recover import RecoverOperator
from springline.airflow.pools import MAINTENANCE, PERSISTER, TOP_PRIORITY
from springline.airflow.retry_args import RETRY_ARGS

_START = datetime(2013, 1, 1, tzinfo=UTC)


def persister_dag() -> DAG:
    """Return the DAG `persister`, which persists datasets in the background; it is active from the start.

    Its task has a separate pool and top priority: it never waits for a slot that the tasks whose datasets it protects
    occupy.

    Example:
        >>> from springline.airflow import persister_dag
        >>> persister = persister_dag()
    """
    with DAG(
        "persister",
        schedule="@continuous",
        start_date=_START,
        is_paused_upon_creation=False,  # data written before somebody unpauses it would be only in the cache
        max_active_runs=1,
        default_args={"retries": 10, "retry_delay": timedelta(seconds=5), "pool": PERSISTER.name, **TOP_PRIORITY},
        doc_md="Persists queued datasets, highest score first; deferred while the queue is empty.",
        tags=["springline"],
    ) as dag:
        PersisterOperator(task_id="persist")
    return as_of_caller(dag)


def maintenance_dag() -> DAG:
    """Return the DAG `maintenance`: every five minutes it recovers lost data, frees cache space, and retires.

    Retiring deletes superseded generations. The task `alert` evaluates the alert rules; it fails if their file is
    invalid.

    Example:
        >>> from springline.airflow import maintenance_dag
        >>> maintenance = maintenance_dag()
    """
    with DAG(
        "maintenance",
        schedule="*/5 * * * *",
        start_date=_START,
        catchup=False,
        is_paused_upon_creation=False,  # nothing else detects a loss before the data is read
        max_active_runs=1,
        default_args={"retries": 1, "retry_delay": timedelta(seconds=10), "pool": MAINTENANCE.name, **TOP_PRIORITY},
        doc_md="Recovers lost datasets, evicts datasets to free the cache, and "
        "retires superseded generations. The task "
        "`alert` evaluates the alert rules; it fails if their file is invalid.",
        tags=["springline"],
    ) as dag:
        MaintenanceOperator(task_id="recover", action="recover")
        evict = MaintenanceOperator(task_id="evict", action="evict")
        retire = MaintenanceOperator(task_id="retire", action="retire")
        MaintenanceOperator(task_id="alert", action="alert")
        evict >> retire
    return as_of_caller(dag)


def recover_dag() -> DAG:
    """Return the DAG `recover`, which restores datasets to the cache on a user's request.

    The pages of the lineage and of a dataset trigger it; it can also be triggered manually, with `datasets`.

    Example:
        >>> from springline.airflow import recover_dag
        >>> recover = recover_dag()
    """
    with DAG(
        RECOVER,
        schedule=None,
        start_date=_START,
        is_paused_upon_creation=False,  # it does nothing until somebody triggers it
        max_active_runs=4,
        default_args={**RETRY_ARGS, "pool": MAINTENANCE.name, **TOP_PRIORITY},
        params={
            "datasets": Param(
                type="array",
                items={"type": "string", "minLength": 1, "maxLength": 1010},
                minItems=1,
                maxItems=500,
                description="Dataset paths, one per line, such as etl/2013-01-05/clean; a generation other than the "
                "newest as etl/2013-01-05/clean@3",
            ),
        },
        doc_md="Restores datasets to the cache: copied from the under-store, or recomputed by their operations. "
        "A dataset that is in the cache is checked, and restored if its files are damaged.",
        tags=["springline"],
    ) as dag:
        RecoverOperator(task_id="restore")
    return as_of_caller(dag)
