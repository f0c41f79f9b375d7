"""The DAGs that look after datasets: the persister, recovery by hand, maintenance.

A file in Airflow's folder of DAGs calls them; each gives one DAG, which Airflow shows as that file's:

    from springline.airflow import maintenance_dag, persister_dag, recover_dag

    persister, maintenance, recover = persister_dag(), maintenance_dag(), recover_dag()
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.sdk import DAG, Param

from springline.airflow.dags.calling_file import as_of_caller
from springline.airflow.operators.persister import MaintenanceOperator, PersisterOperator
from springline.airflow.operators.recover import DAG_ID as RECOVER
from springline.airflow.operators.recover import RecoverOperator
from springline.airflow.pools import FIRST, PERSISTER, UPKEEP
from springline.airflow.retry_args import PATIENT

_START = datetime(2013, 1, 1)


def persister_dag() -> DAG:
    """The DAG `persister`, without which nothing is persisted behind the job's back; it runs from the start.

    Its task has a pool of its own and goes before all others: it never waits behind the tasks whose datasets it
    protects.

    Example:
        >>> from springline.airflow import persister_dag
        >>> persister = persister_dag()
    """
    with DAG(
        "persister",
        schedule="@continuous",
        start_date=_START,
        is_paused_upon_creation=False,  # what is made before somebody unpaused it would be in the cache alone
        max_active_runs=1,
        default_args={"retries": 10, "retry_delay": timedelta(seconds=5), "pool": PERSISTER.name, **FIRST},
        doc_md="Persists what the workflows made, most valuable first; waits without a process while there is nothing "
        "to do.",
        tags=["springline"],
    ) as dag:
        PersisterOperator(task_id="persist")
    return as_of_caller(dag)


def maintenance_dag() -> DAG:
    """The DAG `maintenance`: every five minutes it recovers what was lost, keeps room in the cache, retires the old.

    Its task `alert` judges the rules of alerts; it fails where their file is wrong.

    Example:
        >>> from springline.airflow import maintenance_dag
        >>> maintenance = maintenance_dag()
    """
    with DAG(
        "maintenance",
        schedule="*/5 * * * *",
        start_date=_START,
        catchup=False,
        is_paused_upon_creation=False,  # nobody else notices a loss before it is read
        max_active_runs=1,
        default_args={"retries": 1, "retry_delay": timedelta(seconds=10), "pool": UPKEEP.name, **FIRST},
        doc_md="Keeps catalog and stores true to each other: recovers what was lost, keeps room in the cache, retires "
        "the old. The task `alert` judges the rules of alerts; it fails where their file is wrong.",
        tags=["springline"],
    ) as dag:
        MaintenanceOperator(task_id="recover", action="recover")
        evict = MaintenanceOperator(task_id="evict", action="evict")
        retire = MaintenanceOperator(task_id="retire", action="retire")
        MaintenanceOperator(task_id="alert", action="alert")
        evict >> retire
    return as_of_caller(dag)


def recover_dag() -> DAG:
    """The DAG `recover`, which brings one dataset back to the cache when a person asks for it.

    The dataset's page triggers it, and it may be triggered by hand, with `path` and perhaps `generation`.

    Example:
        >>> from springline.airflow import recover_dag
        >>> recover = recover_dag()
    """
    with DAG(
        RECOVER,
        schedule=None,
        start_date=_START,
        is_paused_upon_creation=False,  # it does nothing until somebody asks
        max_active_runs=4,
        default_args={**PATIENT, "pool": UPKEEP.name, **FIRST},
        params={
            "path": Param(
                type="string", minLength=1, maxLength=1000, description="The dataset, such as etl/2013-01-05/clean"
            ),
            "generation": Param(
                None, type=["null", "integer"], minimum=1, maximum=999_999_999, description="None given: the newest"
            ),
        },
        doc_md="Brings one dataset back to the cache: copied from the under-store, or made again by its operations. "
        "A dataset that is in the cache is looked at there, and brought back if its bytes are not whole.",
        tags=["springline"],
    ) as dag:
        RecoverOperator(task_id="bring_back")
    return as_of_caller(dag)
