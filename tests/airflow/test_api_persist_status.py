"""Why a dataset is not persisted, and what would make it safe: one answer for each case, in the words of the queue."""

from __future__ import annotations

from typing import Any

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
from springline.persistence.model.dataset import Strategy, TransferMethod
from springline.persistence.platform import Platform
from springline.testing.lines import make_dataset as make
from tests.support.airflow.two_dags import ETL, OTHER, allow_only
from tests.support.datasets.states import end_pauses, expire_leases

ROOT = f"{PREFIX}/api/v1"


@pytest.fixture
def platform(api_platform: Platform) -> Platform:
    """The one that the API finds, with two datasets in the queue: `a`, and `b` that was made of it."""
    make(api_platform, "a", "load", strategy=Strategy.ASYNC_STORE, origin=ETL)
    make(api_platform, "b", "shout", ["a"], strategy=Strategy.ASYNC_STORE, origin=ETL)
    return api_platform


def persist_status(client: TestClient, path: str, **asked: Any) -> dict[str, Any]:
    """The explanation of a dataset."""
    body: dict[str, Any] = client.get(f"{ROOT}/queue/explain", params={"path": path, **asked}).json()
    return body


def test_a_dataset_in_the_queue_says_its_place_and_why_no_worker_takes_it(ulla, vera, platform):
    """The one at the head cannot be moved there; another one can, by those who may change its DAG."""
    first, second = persist_status(ulla, "a"), persist_status(ulla, "b")
    assert (first["state"], first["position"], first["can_expedite"]) == ("queued", 1, False)
    assert first["sentence"].startswith("it is the 1st in the queue")
    assert (second["position"], second["can_expedite"], second["refusal"]) == (2, True, "")
    assert persist_status(vera, "b")["refusal"] == "you may not change the DAG etl"
    assert "persister" in second["wait_reason"]


def test_what_is_sent_says_how_far_it_is(ulla, platform):
    """The worker reports its progress when it renews its lease; a worker that does not is named."""
    size = platform.catalog.resolve("a").bytes
    lease = platform.claims.claim(platform.catalog.resolve("a").ref, "persister here:1", TransferMethod.DATA, 3.5)
    assert lease is not None and platform.claims.renew(lease, size // 2)
    body = ulla.get(f"{ROOT}/queue").json()
    (sending,) = body["sending"]
    assert {key: sending[key] for key in ("path", "bytes", "sent_bytes", "predicted_seconds", "attempts")} == {
        "path": "a", "bytes": size, "sent_bytes": size // 2, "predicted_seconds": 3.5, "attempts": 1,
    }  # fmt: skip
    assert sending["seconds"] >= 0 and not sending["is_blocking"]
    assert [row["path"] for row in body["entries"]] == ["b"] and body["depth"] == 2
    assert wait_reason(ulla) == "persister here:1 is persisting a@1"
    reply = persist_status(ulla, "a")
    assert reply["state"] == "copying" and reply["sentence"].startswith("persister here:1 is sending it since ")
    assert reply["sentence"].endswith(f"{size // 2} B of {size} B")
    expire_leases(platform)
    assert ulla.get(f"{ROOT}/queue").json()["sending"] == []
    stalled = persist_status(ulla, "a")
    assert stalled["state"] == "stalled" and stalled["sentence"].startswith("persister here:1, which claimed it, ")


def test_what_failed_says_how_often_why_and_when_it_is_tried_again(ulla, api_platform):
    """It is listed apart from the queue, which has nothing else; after the pause it is in the queue again."""
    platform = api_platform
    dataset = make(platform, "a", "load", strategy=Strategy.ASYNC_STORE, origin=ETL)
    assert ulla.get(f"{ROOT}/queue").json()["oldest_seconds"] >= 0
    lease = platform.claims.claim(dataset.ref, "one", TransferMethod.DATA, None)
    assert lease is not None
    platform.claims.release(lease, "the disk is full", pause=40)
    body = ulla.get(f"{ROOT}/queue").json()
    assert body["oldest_seconds"] is None and body["depth"] == 1
    assert body["wait_reason"].startswith("the last attempt to persist a@1 failed, the next one starts in ")
    assert body["wait_reason"].endswith("s: the disk is full")
    (retry,) = body["retries"]
    assert (retry["path"], retry["attempts"], retry["error"]) == ("a", 1, "the disk is full")
    assert 0 < retry["retry_in"] <= 40
    reply = persist_status(ulla, "a")
    assert reply["state"] == "retrying" and reply["can_expedite"]
    assert "1 attempt failed, the last one with: the disk is full; the next one starts in " in reply["sentence"]
    end_pauses(platform)
    reply = persist_status(ulla, "a")
    assert reply["state"] == "queued" and reply["sentence"].endswith("; its last attempt failed: the disk is full")


def test_an_older_generation_and_one_that_is_no_more_are_explained(ulla, platform):
    """And what was never written is not found."""
    make(platform, "b", "shout", ["a"], strategy=Strategy.ASYNC_STORE, origin=ETL)
    assert (persist_status(ulla, "b")["generation"], persist_status(ulla, "b", generation=1)["generation"]) == (2, 1)
    assert ulla.get(f"{ROOT}/queue/explain", params={"path": "none"}).status_code == 404
    assert ulla.get(f"{ROOT}/queue/explain", params={"path": "../a"}).status_code == 422


def test_what_one_may_not_read_is_in_no_list_and_in_no_reason(vera, platform, monkeypatch):
    """Neither what is sent, nor what failed, nor what one asks for by its name."""
    make(platform, "c", "shout", ["b"], strategy=Strategy.ASYNC_STORE, origin=OTHER)
    allow_only(monkeypatch, "other")
    sent = platform.claims.claim(platform.catalog.resolve("a").ref, "one", TransferMethod.DATA, None)
    failed = platform.claims.claim(platform.catalog.resolve("b").ref, "two", TransferMethod.DATA, None)
    assert sent and failed
    platform.claims.release(failed, "etl: a@1 is missing", pause=40)
    body = vera.get(f"{ROOT}/queue").json()
    assert (body["sending"], body["retries"], [row["path"] for row in body["entries"]]) == ([], [], ["c"])
    assert body["wait_reason"].startswith("one is persisting ") and "a@1" not in body["wait_reason"]
    assert vera.get(f"{ROOT}/queue/explain", params={"path": "a"}).status_code == 403
    assert persist_status(vera, "c")["state"] == "queued"
    (row,) = vera.get(f"{ROOT}/at-risk").json()["exposed_datasets"]
    assert row["path"] == "c" and "a@1" not in str(row) and "b@1" not in str(row)


# ---- what would make it safe


def remedies(client: TestClient) -> dict[str, dict[str, Any]]:
    """By path, what the page of risks advises for a dataset."""
    return {row["path"]: row["remedy"] for row in client.get(f"{ROOT}/at-risk").json()["exposed_datasets"]}


def test_each_dataset_at_risk_says_what_would_make_it_safe(ulla, platform):
    """To wait, to persist it now, to make its operation idempotent or to prove it."""
    first, second = (remedies(ulla)[path] for path in "ab")
    assert first["sentence"].startswith("Wait: it is the 1st in the queue") and not first["can_expedite"]
    assert first["alternative"] == "Or make its operation load idempotent."
    assert second["sentence"].startswith("Persist it now, or wait: it is the 2nd in the queue")
    assert second["can_expedite"]
    assert second["alternative"] == "Or persist a@1, from which it can be recomputed."
    make(platform, "c", "load", strategy=Strategy.CACHE_THROUGH, origin=ETL)
    make(platform, "d", "shout", ["c"], strategy=Strategy.CACHE_ONLY, origin=ETL)
    reply = remedies(ulla)["d"]
    assert reply["sentence"] == "Persist it now: its strategy is cache_only, so nothing persists it."
    assert reply["alternative"] == "Run `springline operation prove shout`."


def test_the_page_of_risks_says_why_nothing_is_persisted(ulla, platform):
    """As long as something could be; not while something is sent."""
    assert "persister" in ulla.get(f"{ROOT}/at-risk").json()["wait_reason"]
    platform.claims.claim(platform.catalog.resolve("a").ref, "one", TransferMethod.DATA, None)
    body = ulla.get(f"{ROOT}/at-risk").json()
    assert body["wait_reason"] == "" and body["datasets"] == 2
    assert {row["path"]: row["dependents"] for row in body["exposed_datasets"]} == {"a": 1, "b": 0}


def test_nothing_is_advised_where_nothing_is_at_risk(ulla, platform):
    """Nor is anything said of an empty queue; what was never measured is counted."""
    assert ulla.get(f"{ROOT}/at-risk").json()["unmeasured"] == 0
    assert platform.persister.drain(timeout=5).persisted == 2
    body = ulla.get(f"{ROOT}/at-risk").json()
    assert (body["datasets"], body["bytes"], body["exposed_datasets"], body["wait_reason"]) == (0, 0, [], "")
    body = ulla.get(f"{ROOT}/queue").json()
    assert (body["depth"], body["entries"], body["oldest_seconds"], body["wait_reason"]) == (0, [], None, "")


# ---- why nothing is persisted


def wait_reason(client: TestClient) -> str:
    """What the queue says."""
    return str(client.get(f"{ROOT}/queue").json()["wait_reason"])


def change(model: type, condition: Any, **values: object) -> None:
    """Change rows of Airflow's database."""
    with create_session() as session:
        session.execute(update(model).where(condition).values(**values))


def test_the_queue_shows_what_keeps_the_persister_from_it(ulla, platform, read_dags):
    """From a DAG that is paused, or not known, to a task that waits for its slot, each with what is to be done."""
    dag = DagModel.dag_id == "persister"
    change(DagModel, dag, is_paused=True)
    assert wait_reason(ulla) == "the DAG persister is paused"
    change(DagModel, dag, is_paused=False)
    with create_session() as session:
        session.execute(delete(Pool).where(Pool.pool == PERSISTER.name))
    remedy = "Airflow has no pool persister: restart its scheduler, or run airflow pools set persister 1 "
    assert remedy in wait_reason(ulla)
    create_missing_pools()
    assert wait_reason(ulla).startswith("the DAG persister has no run yet")
    with create_session() as session:
        dag_runs.start("persister", {}, "ulla", session, by_page=False)
    for state, reason in {
        None: "has not scheduled the task",
        "scheduled": "waits for a slot of the pool persister",
        "queued": "executor has not started it yet",
        "running": "has not claimed a dataset yet",
        "deferred": "triggerer polls the queue every few seconds",
        "up_for_retry": "failed, and will be retried",
    }.items():
        change(TaskInstance, TaskInstance.dag_id == "persister", state=state)
        assert reason in wait_reason(ulla), state
    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id == "persister").values(is_stale=True))
        assert no_claim_reason(session) == "Airflow has not parsed the DAG persister yet"
        session.rollback()
