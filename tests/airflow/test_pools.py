"""The platform's pools: made by the parts of Airflow as they start, where they are missing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from airflow.jobs.job import Job
from airflow.models.pool import Pool
from airflow.utils.session import create_session
from airflow.utils.sqlalchemy import is_lock_not_available_error
from psycopg.errors import LockNotAvailable
from sqlalchemy import delete, select
from sqlalchemy.exc import OperationalError

from springline.airflow.listener import RunListener
from springline.airflow.pools import MAINTENANCE, PERSISTER, POOLS


@pytest.fixture(autouse=True)
def _no_pools(root):
    names = [pool.name for pool in POOLS]
    with create_session() as session:
        session.execute(delete(Pool).where(Pool.pool.in_(names)))


def slots():
    """By name, the slots of the platform's pools as Airflow has them."""
    names = [pool.name for pool in POOLS]
    with create_session() as session:
        return dict(session.execute(select(Pool.pool, Pool.slots).where(Pool.pool.in_(names))).all())


def test_a_part_of_airflow_that_starts_makes_the_pools():
    """By the hook that Airflow calls: nothing has to be set up by hand in an Airflow of one's own."""
    from airflow.listeners.listener import get_listener_manager

    manager = get_listener_manager()
    if not any(isinstance(each, RunListener) for each in manager.pm.get_plugins()):
        manager.add_listener(RunListener())
    Job()
    assert slots() == {"persister": 1, "maintenance": 2}


def test_a_pool_that_somebody_resized_stays_so():
    """Only what is missing is made."""
    with create_session() as session:
        session.add(Pool(pool=MAINTENANCE.name, slots=9, description="", include_deferred=False))
    RunListener().on_starting(Job())
    assert slots() == {PERSISTER.name: PERSISTER.slots, MAINTENANCE.name: 9}


def test_a_task_that_starts_makes_no_pools():
    """Its process has no database of Airflow's."""
    RunListener().on_starting(SimpleNamespace())
    assert slots() == {}


def test_a_scheduler_that_finds_the_pools_locked_tries_again():
    """Airflow knows that error of PostgreSQL by its code, which psycopg 3 has under another name."""
    RunListener().on_starting(Job())
    assert is_lock_not_available_error(OperationalError("SELECT", {}, LockNotAvailable("could not obtain lock")))
