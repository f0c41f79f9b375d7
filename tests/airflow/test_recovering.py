"""Bringing one dataset back: the preview, the DAG run that is started, and the task that does it."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.sdk.exceptions import AirflowFailException
from airflow.utils.session import create_session
from fastapi.testclient import TestClient

from springline.airflow.api import PREFIX
from springline.airflow.operators.recover import RecoverOperator
from springline.persistence.model.dataset import CacheState, Origin, Ref, Strategy
from springline.persistence.platform import Platform
from springline.testing.lines import lines_of
from springline.testing.lines import make_dataset as make

PLACE = f"{PREFIX}/api/v1/datasets/etl/clean/recover"
ETL = Origin("etl", "day 1", "clean")


@pytest.fixture(autouse=True)
def platform(api_platform: Platform, recover_dag: str) -> Platform:
    """The platform that the API finds: `raw` is persisted, `clean` was made of it, `salted` nothing brings back."""
    make(api_platform, "etl/raw", "load", origin=ETL, strategy=Strategy.CACHE_THROUGH)
    make(api_platform, "etl/clean", "shout", ["etl/raw"], origin=ETL)
    make(api_platform, "etl/salted", "salt", ["etl/clean"], origin=ETL)
    return api_platform


def runs() -> list[DagRun]:
    """The DAG runs of `recover`, the oldest first."""
    with create_session() as session:
        dag_runs = session.query(DagRun).filter(DagRun.dag_id == "recover").order_by(DagRun.id).all()
        session.expunge_all()
    return list(dag_runs)


def lose(platform: Platform, path: str) -> None:
    """The bytes of a dataset go from the cache, and the catalog has not noticed."""
    shutil.rmtree(platform.cache.uri(platform.catalog.resolve(path).cache_location).removeprefix("file://"))


# ---- asked for over HTTP


def test_the_cost_is_shown_and_nothing_is_started(ulla: TestClient, platform: Platform) -> None:
    """The steps, with the seconds that they are predicted to take."""
    lose(platform, "etl/clean")
    platform.maintenance.scan()
    before = len(runs())
    body = ulla.post(PLACE, json={"dry_run": True}).json()
    assert body == {
        "path": "etl/clean", "generation": 1, "action": "recover", "allowed": True, "executed": False, "dag_id": "",
        "run_id": "",
        "message": "etl/clean@1 will be restored in about 10 ms: "
        "run shout on etl/raw@1 to recompute etl/clean@1 (10 ms: as in its first run)",
    }  # fmt: skip
    assert len(runs()) == before


def test_a_dag_run_is_started_and_who_asked_is_noted(ulla: TestClient, platform: Platform) -> None:
    """In the DAG run and in the dataset's history; Airflow will run it as one that was triggered by hand."""
    body = ulla.post(PLACE, json={"generation": 1}).json()
    run = runs()[-1]
    assert (body["executed"], body["dag_id"], body["run_id"]) == (True, "recover", run.run_id)
    assert run.conf == {"datasets": ["etl/clean@1"], "requested_by": "ulla"}
    assert (run.state, run.run_type, run.triggering_user_name) == ("queued", "manual", "ulla")
    last = platform.catalog.history(Ref("etl/clean", 1))[-1]
    assert (last.event, last.actor) == ("recovery_requested", "ulla") and run.run_id in last.reason


def test_what_nothing_brings_back_starts_nothing(ulla: TestClient, platform: Platform) -> None:
    """The reason is given, dry run or not."""
    place, before = PLACE.replace("clean", "salted"), len(runs())
    dry = ulla.post(place, json={"dry_run": True}).json()
    assert dry["allowed"] is False and "salt (version 1), which made etl/salted@1, is not idempotent" in dry["message"]
    refused = ulla.post(place, json={})
    assert (refused.status_code, refused.json()["detail"]) == (409, dry["message"])
    assert len(runs()) == before


def test_a_dag_that_would_not_run_is_reported_at_once(ulla: TestClient, recover_dag: str) -> None:
    """A DAG run of a paused DAG would wait for ever."""
    with create_session() as session:
        session.get(DagModel, recover_dag).is_paused = True
    try:
        assert ulla.post(PLACE, json={"dry_run": True}).json()["message"] == "the DAG recover is paused"
        assert ulla.post(PLACE, json={}).status_code == 409
    finally:
        with create_session() as session:
            session.get(DagModel, recover_dag).is_paused = False


def test_it_takes_the_right_to_change_the_dataset_and_to_trigger_the_dag(
    vera: TestClient, ulla: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may only read may not even try; nor who may not trigger `recover`, or not read what would be shown."""
    before = len(runs())
    answer = vera.post(PLACE, json={"dry_run": True})
    assert (answer.status_code, answer.json()["detail"]) == (403, "you may not change the DAG etl")
    for refused, right in (
        (("POST", "recover"), "trigger the DAG recover"),
        (("PUT", "etl"), "change the DAG etl"),
        (("GET", "etl"), "read the DAG etl"),
    ):
        monkeypatch.setattr(
            SimpleAuthManager, "is_authorized_dag",
            lambda self, refused=refused, **asked: (asked["method"], getattr(asked["details"], "id", "")) != refused,
        )  # fmt: skip
        answer = ulla.post(PLACE, json={})
        assert (answer.status_code, answer.json()["detail"]) == (403, f"you may not {right}")
    assert len(runs()) == before


def test_what_one_may_not_read_has_no_name_in_what_it_takes(
    ulla: TestClient, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it has to be run again too."""
    make(platform, "secret/a", "load", origin=Origin("secret", "day 1", "a"), strategy=Strategy.CACHE_THROUGH)
    make(platform, "secret/b", "shout", ["secret/a"], origin=Origin("secret", "day 1", "b"))
    make(platform, "etl/clean", "count", ["secret/b"], origin=ETL)
    for path in ("secret/b", "etl/clean"):
        lose(platform, path)
    platform.maintenance.scan()
    monkeypatch.setattr(
        SimpleAuthManager, "is_authorized_dag", lambda self, **asked: getattr(asked["details"], "id", "") != "secret"
    )
    answer = ulla.post(PLACE, json={"dry_run": True})
    assert answer.json()["message"].count("run ") == 2 and "secret" not in answer.text


# ---- done by the task


def recover(platform: Platform, *datasets: str) -> list[dict[str, Any]]:
    """Run the task of a DAG run that Ulla triggered."""

    def open_as(actor: str) -> Any:
        platform.catalog.actor = actor
        return nullcontext(platform)

    context = {"params": {"datasets": datasets}, "dag_run": SimpleNamespace(triggering_user_name="ulla")}
    return RecoverOperator(task_id="restore", open_platform=open_as).execute(context)


def test_a_lost_dataset_comes_back_in_the_name_of_who_asked(platform: Platform) -> None:
    """The others that were lost stay so; their loss had not been noticed."""
    expected = lines_of(platform, "etl/clean")
    lose(platform, "etl/clean")
    (result,) = recover(platform, "etl/clean")
    assert result["dataset"] == "etl/clean@1" and [step.split(" on ")[0] for step in result["steps"]] == ["run shout"]
    assert lines_of(platform, "etl/clean") == expected
    events = [(moment.event, moment.actor) for moment in platform.catalog.history(Ref("etl/clean", 1))]
    assert events[-2:] == [(event, "recover task, requested by ulla") for event in ("lost", "restored")]


def test_damaged_bytes_are_detected_and_recomputed(platform: Platform) -> None:
    """Though as many as before."""
    folder = platform.cache.uri(platform.catalog.resolve("etl/clean").cache_location).removeprefix("file://")
    (part,) = (path for path in Path(folder).iterdir() if path.name[0] not in "._")
    expected = part.read_text()
    part.write_text(expected.replace("LINE 7\n", "LINE 8\n"))
    recover(platform, "etl/clean")
    assert "LINE 7" in lines_of(platform, "etl/clean")


def test_what_is_whole_is_left_alone(platform: Platform) -> None:
    """And that is reported."""
    before = platform.catalog.resolve("etl/clean")
    assert recover(platform, "etl/clean@1")[0]["summary"] == "it was intact"
    assert platform.catalog.resolve("etl/clean").cache_location == before.cache_location


@pytest.mark.parametrize(
    ("name", "expected_message"),
    [
        ("etl/salted", r"etl/salted@1 \(salt"),
        ("etl/clean@7", "etl/clean@7 is not in the catalog"),
        ("../x", "not allowed"),
        ("etl/x@y", "not of the form path@generation"),
        ("etl/gone", "etl/gone@1 is abandoned"),
    ],
)
def test_what_no_retry_can_repair_fails_after_the_others_came_back(
    platform: Platform, name: str, expected_message: str
) -> None:
    """With the reason."""
    lose(platform, "etl/clean")
    lose(platform, "etl/salted")
    with pytest.raises(ZeroDivisionError), platform.store.write("etl/gone", strategy=Strategy.ASYNC_STORE):
        raise ZeroDivisionError
    with pytest.raises(AirflowFailException, match=expected_message):
        recover(platform, name, "etl/clean")
    assert platform.catalog.resolve("etl/clean").cache is CacheState.PRESENT
