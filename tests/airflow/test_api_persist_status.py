"""Why a dataset is not persisted, and what would make it safe: one answer for each case, in the words of the queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from fastapi.testclient import TestClient

from springline.airflow.api import PREFIX
from springline.persistence.model.dataset import Origin, Strategy, TransferMethod
from springline.persistence.platform import Platform
from springline.testing.lines import make_dataset as make
from tests.support.datasets.states import end_pauses, expire_leases

ROOT = f"{PREFIX}/api/v1"
ETL, OTHER = Origin("etl", "day 1", "clean"), Origin("other", "day 1", "count")


@pytest.fixture
def platform(api_platform: Platform) -> Platform:
    """The one that the API finds, with two datasets in the queue: `a`, and `b` that was made of it."""
    make(api_platform, "a", "load", strategy=Strategy.ASYNC_STORE, origin=ETL)
    make(api_platform, "b", "shout", ["a"], strategy=Strategy.ASYNC_STORE, origin=ETL)
    return api_platform


def why(client: TestClient, path: str, **asked: Any) -> dict[str, Any]:
    """The explanation of a dataset."""
    body: dict[str, Any] = client.get(f"{ROOT}/queue/explain", params={"path": path, **asked}).json()
    return body


def test_a_dataset_in_the_queue_says_its_place_and_why_nobody_takes_it(ulla: TestClient, platform: Platform) -> None:
    """The one at the head cannot be moved there; another one can, by those who may change its DAG."""
    first, second = why(ulla, "a"), why(ulla, "b")
    assert (first["state"], first["position"], first["can_expedite"]) == ("queued", 1, False)
    assert first["sentence"].startswith("it is the 1st in the queue")
    assert (second["position"], second["can_expedite"], second["refusal"]) == (2, True, "")
    assert "persister" in second["wait_reason"]


@pytest.mark.usefixtures("platform")
def test_who_may_only_read_is_told_why_he_may_not_move_it(vera: TestClient) -> None:
    """The reason that the action would be refused with."""
    assert why(vera, "b")["refusal"] == "you may not change the DAG etl"


def test_what_is_sent_says_how_far_it_is(ulla: TestClient, platform: Platform) -> None:
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
    reply = why(ulla, "a")
    assert reply["state"] == "copying" and reply["sentence"].startswith("persister here:1 is sending it since ")
    assert reply["sentence"].endswith(f"{size // 2} B of {size} B")
    expire_leases(platform)
    assert ulla.get(f"{ROOT}/queue").json()["sending"] == []
    stalled = why(ulla, "a")
    assert stalled["state"] == "stalled" and stalled["sentence"].startswith("persister here:1, which claimed it, ")


def test_what_failed_says_how_often_why_and_when_it_is_tried_again(ulla: TestClient, platform: Platform) -> None:
    """It is listed apart from the queue; after the pause it is in the queue again, with the error."""
    lease = platform.claims.claim(platform.catalog.resolve("a").ref, "one", TransferMethod.DATA, None)
    assert lease is not None
    platform.claims.release(lease, "the disk is full", pause=40)
    (retry,) = ulla.get(f"{ROOT}/queue").json()["retries"]
    assert (retry["path"], retry["attempts"], retry["error"]) == ("a", 1, "the disk is full")
    assert 0 < retry["retry_in"] <= 40
    reply = why(ulla, "a")
    assert reply["state"] == "retrying" and reply["can_expedite"]
    assert reply["sentence"].startswith(
        "1 attempt failed, the last one with: the disk is full; the next one starts in "
    )
    end_pauses(platform)
    reply = why(ulla, "a")
    assert reply["state"] == "queued" and reply["sentence"].endswith("; its last attempt failed: the disk is full")


def test_what_is_not_to_be_persisted_says_so(ulla: TestClient, platform: Platform) -> None:
    """By its strategy, or by its writer; it can be persisted all the same."""
    make(platform, "c", lines=["x"], strategy=Strategy.CACHE_ONLY, origin=ETL)
    reply = why(ulla, "c")
    assert (reply["state"], reply["can_expedite"]) == ("not requested", True)
    assert reply["sentence"] == "its strategy is cache_only, so nothing persists it"
    assert ulla.post(f"{ROOT}/datasets/c/persist", json={}).json()["executed"]
    assert why(ulla, "c")["state"] == "queued" and "moved to the head" in why(ulla, "c")["sentence"]


def test_what_is_persisted_is_said_to_be(ulla: TestClient, platform: Platform) -> None:
    """It is not in the queue, and cannot be moved to its head."""
    make(platform, "c", "load", strategy=Strategy.CACHE_THROUGH, origin=ETL)
    reply = why(ulla, "c")
    assert (reply["state"], reply["position"], reply["can_expedite"]) == ("persisted", 0, False)
    assert reply["sentence"] == "a verified copy is in the under-store"


def test_an_under_store_that_is_away_is_the_reason_for_everything(ulla: TestClient, platform: Platform) -> None:
    """Also of what only the catalog says that it is persisted."""
    make(platform, "c", "load", strategy=Strategy.CACHE_THROUGH, origin=ETL)
    platform.under.root.rename(platform.under.root.with_name("away"))  # type: ignore[attr-defined]
    assert "the catalog has a copy of it, but the under-store does not answer" in why(ulla, "c")["sentence"]
    queued = why(ulla, "b")
    assert "nothing is persisted now: the under-store does not answer" in queued["sentence"]
    assert queued["wait_reason"] == ""


def test_an_older_generation_and_one_that_is_no_more_are_explained(ulla: TestClient, platform: Platform) -> None:
    """And what was never written is not found."""
    make(platform, "b", "shout", ["a"], strategy=Strategy.ASYNC_STORE, origin=ETL)
    assert (why(ulla, "b")["generation"], why(ulla, "b", generation=1)["generation"]) == (2, 1)
    assert ulla.get(f"{ROOT}/queue/explain", params={"path": "none"}).status_code == 404
    assert ulla.get(f"{ROOT}/queue/explain", params={"path": "../a"}).status_code == 422


def test_what_one_may_not_read_is_in_no_list_and_in_no_reason(
    vera: TestClient, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what is sent, nor what failed, nor what one asks for by its name."""
    make(platform, "c", "shout", ["b"], strategy=Strategy.ASYNC_STORE, origin=OTHER)
    monkeypatch.setattr(
        SimpleAuthManager, "is_authorized_dag", lambda self, **asked: getattr(asked["details"], "id", "") == "other"
    )
    sent = platform.claims.claim(platform.catalog.resolve("a").ref, "one", TransferMethod.DATA, None)
    failed = platform.claims.claim(platform.catalog.resolve("b").ref, "two", TransferMethod.DATA, None)
    assert sent and failed
    platform.claims.release(failed, "etl: a@1 is missing", pause=40)
    body = vera.get(f"{ROOT}/queue").json()
    assert (body["sending"], body["retries"], [row["path"] for row in body["entries"]]) == ([], [], ["c"])
    assert vera.get(f"{ROOT}/queue/explain", params={"path": "a"}).status_code == 403
    assert why(vera, "c")["state"] == "queued"
    (row,) = vera.get(f"{ROOT}/at-risk").json()["exposed_datasets"]
    assert row["path"] == "c" and "a@1" not in str(row) and "b@1" not in str(row)


# ---- what would make it safe


@pytest.fixture
def remedy(ulla: TestClient, platform: Platform) -> Callable[[str], dict[str, Any]]:
    """What the page of risks advises for a dataset."""

    def advise(path: str) -> dict[str, Any]:
        rows = {row["path"]: row for row in ulla.get(f"{ROOT}/at-risk").json()["exposed_datasets"]}
        advice: dict[str, Any] = rows[path]["remedy"]
        return advice

    return advise


def test_each_dataset_at_risk_says_what_would_make_it_safe(
    remedy: Callable[[str], dict[str, Any]], platform: Platform
) -> None:
    """To wait, to persist it now, to make its operation idempotent or to prove it."""
    first, second = remedy("a"), remedy("b")
    assert first["sentence"].startswith("Wait: it is the 1st in the queue") and not first["can_expedite"]
    assert first["alternative"] == "Or make its operation load idempotent."
    assert (
        second["sentence"].startswith("Persist it now, or wait: it is the 2nd in the queue") and second["can_expedite"]
    )
    assert second["alternative"] == "Or persist a@1, from which it can be recomputed."
    make(platform, "c", "load", strategy=Strategy.CACHE_THROUGH, origin=ETL)
    make(platform, "d", "shout", ["c"], strategy=Strategy.CACHE_ONLY, origin=ETL)
    reply = remedy("d")
    assert reply["sentence"] == "Persist it now: its strategy is cache_only, so nothing persists it."
    assert reply["alternative"] == "Run `springline operation prove shout`."


def test_the_page_of_risks_says_why_nothing_is_persisted(ulla: TestClient, platform: Platform) -> None:
    """As long as something could be; not while something is sent."""
    assert "persister" in ulla.get(f"{ROOT}/at-risk").json()["wait_reason"]
    platform.claims.claim(platform.catalog.resolve("a").ref, "one", TransferMethod.DATA, None)
    body = ulla.get(f"{ROOT}/at-risk").json()
    assert body["wait_reason"] == "" and body["datasets"] == 2
    assert {row["path"]: row["dependents"] for row in body["exposed_datasets"]} == {"a": 1, "b": 0}


@pytest.mark.usefixtures("platform")
def test_nothing_is_advised_where_nothing_is_at_risk(ulla: TestClient, platform: Platform) -> None:
    """And what was never measured is counted, as long as there is anything."""
    assert ulla.get(f"{ROOT}/at-risk").json()["unmeasured"] == 0
    assert platform.persister.drain(timeout=5).persisted == 2
    body = ulla.get(f"{ROOT}/at-risk").json()
    assert (body["datasets"], body["bytes"], body["exposed_datasets"], body["wait_reason"]) == (0, 0, [], "")
