"""The listener: a DAG run's beginning and end are noted in the catalog, and missing pools are made."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from airflow.jobs.job import Job
from airflow.listeners.listener import get_listener_manager
from airflow.models.pool import Pool
from airflow.utils.session import create_session
from airflow.utils.sqlalchemy import is_lock_not_available_error
from psycopg.errors import LockNotAvailable
from sqlalchemy import delete, select
from sqlalchemy.exc import OperationalError

from springline.airflow.listener import RunListener
from springline.airflow.pools import MAINTENANCE, PERSISTER, POOLS
from springline.persistence.catalog.schema import dag_run as dag_runs
from springline.persistence.model.dataset import Origin
from springline.testing.lines import lines_of
from springline.testing.lines import make_dataset as make


def run_of(task_type, clear_number=0):
    """A DAG run as the scheduler hands it to listeners."""
    dag = SimpleNamespace(tasks=[SimpleNamespace(task_type=task_type)])
    return SimpleNamespace(dag_id="etl", run_id="r1", clear_number=clear_number, get_dag=lambda: dag)


def listener_on(platform):
    """A listener that opens this platform's catalog."""

    @contextmanager
    def open_catalog(actor):
        yield platform.catalog

    return RunListener(open_catalog)


def rows(platform):
    """What the catalog knows of DAG runs."""
    query = select(dag_runs.c.dag_id, dag_runs.c.run_id, dag_runs.c.outcome, dag_runs.c.ended_at.is_not(None))
    with platform.catalog.read_transaction() as connection:
        return [tuple(row) for row in connection.execute(query)]


def test_a_run_sees_what_was_committed_when_it_began(platform):
    """What others commit after the run's beginning does not change what it reads."""
    make(platform, "a", lines=["old"])
    listener_on(platform).on_dag_run_running(run_of("DatasetOperator"), "")
    make(platform, "a", lines=["new"])
    assert lines_of(platform, "a", Origin("etl", "r1", "t")) == ["old"]
    assert lines_of(platform, "a") == ["new"]


def test_the_end_of_a_run_that_makes_datasets_is_noted_with_its_outcome(platform):
    """From then on the run holds no generation back; the persister's own runs are not noted."""
    listener = listener_on(platform)
    listener.on_dag_run_running(run_of("DatasetOperator"), "")
    listener.on_dag_run_failed(run_of("DatasetOperator"), "")
    for dag_run in (run_of("DatasetOperator", clear_number=1), run_of("PersisterOperator", clear_number=2)):
        listener.on_dag_run_running(dag_run, "")
        listener.on_dag_run_success(dag_run, "")
    assert rows(platform) == [("etl", "r1", "failed", True), ("etl", "r1#1", "success", True)]


# ---- pools


@pytest.fixture
def no_pools(root):
    """Airflow has none of the platform's pools."""
    names = [pool.name for pool in POOLS]
    with create_session() as session:
        session.execute(delete(Pool).where(Pool.pool.in_(names)))


def slots():
    """By name, the slots of the platform's pools as Airflow has them."""
    names = [pool.name for pool in POOLS]
    with create_session() as session:
        return dict(session.execute(select(Pool.pool, Pool.slots).where(Pool.pool.in_(names))).all())


def test_a_part_of_airflow_that_starts_makes_the_pools(no_pools):
    """By the hook that Airflow calls: nothing has to be set up by hand in an Airflow of one's own."""
    manager = get_listener_manager()
    if not any(isinstance(each, RunListener) for each in manager.pm.get_plugins()):
        manager.add_listener(RunListener())
    Job()
    assert slots() == {"persister": 1, "maintenance": 2}


def test_a_pool_that_somebody_resized_stays_so(no_pools):
    """Only what is missing is made, and not by the process of a task, which has no database of Airflow's."""
    RunListener().on_starting(SimpleNamespace())
    assert slots() == {}
    with create_session() as session:
        session.add(Pool(pool=MAINTENANCE.name, slots=9, description="", include_deferred=False))
    RunListener().on_starting(Job())
    assert slots() == {PERSISTER.name: PERSISTER.slots, MAINTENANCE.name: 9}


def test_a_scheduler_that_finds_the_pools_locked_tries_again(no_pools):
    """Airflow knows that error of PostgreSQL by its code, which psycopg 3 has under another name."""
    RunListener().on_starting(Job())
    assert is_lock_not_available_error(OperationalError("SELECT", {}, LockNotAvailable("could not obtain lock")))
