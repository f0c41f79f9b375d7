"""The queue tells since when and why something waits: who is at work, what pauses, or what keeps the persister."""

from __future__ import annotations

import pytest
from airflow.models.dag import DagModel
from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from sqlalchemy import delete, update

from springline.airflow.api import PREFIX, dag_runs
from springline.airflow.api.persister import no_claim_reason
from springline.airflow.pools import PERSISTER, create_missing_pools
from springline.persistence.model.dataset import Origin, Strategy, TransferMethod
from springline.persistence.platform import Platform
from springline.testing.lines import make_dataset as make


@pytest.fixture
def platform(api_platform: Platform) -> Platform:
    """The one that the API finds, with a dataset that waits."""
    make(api_platform, "a", lines=["x"], strategy=Strategy.ASYNC_STORE, origin=Origin("etl", "r1", "a"))
    return api_platform


def because(client: TestClient) -> str:
    """What the queue says."""
    return str(client.get(f"{PREFIX}/api/v1/queue").json()["wait_reason"])


def test_the_queue_tells_who_persists_what_and_what_has_failed(ulla: TestClient, platform: Platform) -> None:
    """And since when the oldest waits that could be persisted."""
    (queued_dataset,) = platform.claims.list_claimable(9)
    assert ulla.get(f"{PREFIX}/api/v1/queue").json()["oldest_seconds"] >= 0
    lease = platform.claims.claim(queued_dataset, "persister here:1", TransferMethod.DATA, None)
    assert lease is not None
    assert because(ulla) == "persister here:1 is persisting a@1"
    platform.claims.release(lease, "the under-store is away", pause=40)
    body = ulla.get(f"{PREFIX}/api/v1/queue").json()
    assert body["oldest_seconds"] is None and body["depth"] == 1
    assert body["wait_reason"].startswith("the last attempt to persist a@1 failed, the next one starts in ")
    assert body["wait_reason"].endswith("s: the under-store is away")


def test_nothing_is_said_of_an_empty_queue(ulla: TestClient, api_platform: Platform) -> None:
    """Whatever the persister does."""
    body = ulla.get(f"{PREFIX}/api/v1/queue").json()
    assert (body["depth"], body["oldest_seconds"], body["wait_reason"]) == (0, None, "")


def test_a_name_that_one_may_not_read_is_not_told_as_a_reason(
    vera: TestClient, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither of what is sent nor of what has failed."""
    monkeypatch.setattr(
        "springline.airflow.api.access.ReadAccess.may_read", lambda self, dataset: dataset.origin.dag_id != "etl"
    )
    (queued_dataset,) = platform.claims.list_claimable(9)
    platform.claims.claim(queued_dataset, "persister here:1", TransferMethod.DATA, None)
    reason = because(vera)
    assert reason.startswith("persister here:1 is persisting ") and "a@1" not in reason


def test_the_queue_tells_what_keeps_the_persister_from_it(
    ulla: TestClient, platform: Platform, persister_dag: str
) -> None:
    """From a DAG that is paused to a task that waits for its slot, each with what is to be done."""
    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id == persister_dag).values(is_paused=True))
    assert because(ulla) == "the DAG persister is paused"
    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id == persister_dag).values(is_paused=False))
        session.execute(delete(Pool).where(Pool.pool == PERSISTER.name))
    assert "Airflow has no pool persister: restart its scheduler, or run airflow pools set persister 1 " in because(
        ulla
    )
    create_missing_pools()
    assert because(ulla).startswith("the DAG persister has no run yet")
    with create_session() as session:
        dag_runs.start(persister_dag, {}, "ulla", session, by_page=False)
    for state, reason in {
        None: "has not scheduled the task",
        "scheduled": "waits for a slot of the pool persister",
        "queued": "executor has not started it yet",
        "running": "has not claimed a dataset yet",
        "deferred": "triggerer polls the queue every few seconds",
        "up_for_retry": "failed, and will be retried",
    }.items():
        with create_session() as session:
            session.execute(update(TaskInstance).where(TaskInstance.dag_id == persister_dag).values(state=state))
        assert reason in because(ulla), state


def test_a_persister_that_airflow_does_not_know_is_named(root: object) -> None:
    """An Airflow whose DAG folder lacks it, say."""
    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id == "persister").values(is_stale=True))
        assert no_claim_reason(session) == "Airflow has not parsed the DAG persister yet"
        session.rollback()
