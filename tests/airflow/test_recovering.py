"""Bringing one dataset back: the preview, the DAG run that is started, and the task that does it."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.sdk.exceptions import AirflowFailException
from airflow.utils.session import create_session

from springline.airflow.api import PREFIX
from springline.airflow.operators.recover import RecoverOperator
from springline.persistence.model.dataset import CacheState, Origin, Ref, Strategy
from springline.persistence.platform import Platform
from springline.testing.lines import lines_of
from springline.testing.lines import make_dataset as make
from tests.support.airflow.two_dags import ETL, lose, refuse, remove_copies
from tests.support.datasets.states import damage

PLACE = f"{PREFIX}/api/v1/datasets/etl/clean/recover"


@pytest.fixture(autouse=True)
def platform(api_platform: Platform, read_dags: None) -> Platform:
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


# ---- asked for over HTTP


def test_the_cost_is_shown_then_a_dag_run_is_started_and_who_asked_is_noted(ulla, platform):
    """In the DAG run and in the dataset's history; Airflow will run it as one that was triggered by hand."""
    lose(platform, "etl/clean")
    before = len(runs())
    body = ulla.post(PLACE, json={"dry_run": True}).json()
    assert body == {
        "path": "etl/clean", "generation": 1, "action": "recover", "allowed": True, "executed": False, "dag_id": "",
        "run_id": "",
        "message": "etl/clean@1 will be restored in about 10 ms: "
        "run shout on etl/raw@1 to recompute etl/clean@1 (10 ms: as in its first run)",
    }  # fmt: skip
    assert len(runs()) == before
    body = ulla.post(PLACE, json={"generation": 1}).json()
    run = runs()[-1]
    assert (body["executed"], body["dag_id"], body["run_id"]) == (True, "recover", run.run_id)
    assert run.conf == {"datasets": ["etl/clean@1"], "requested_by": "ulla"}
    assert (run.state, run.run_type, run.triggering_user_name) == ("queued", "manual", "ulla")
    last = platform.catalog.history(Ref("etl/clean", 1))[-1]
    assert (last.event, last.actor) == ("recovery_requested", "ulla") and run.run_id in last.reason


def test_what_nothing_brings_back_starts_nothing(ulla, platform):
    """The reason is given, dry run or not."""
    place, before = PLACE.replace("clean", "salted"), len(runs())
    dry = ulla.post(place, json={"dry_run": True}).json()
    assert dry["allowed"] is False and "salt (version 1), which made etl/salted@1, is not idempotent" in dry["message"]
    refused = ulla.post(place, json={})
    assert (refused.status_code, refused.json()["detail"]) == (409, dry["message"])
    assert len(runs()) == before


def test_a_dag_that_would_not_run_is_reported_at_once(ulla):
    """A DAG run of a paused DAG would wait for ever."""
    with create_session() as session:
        session.get(DagModel, "recover").is_paused = True
    try:
        assert ulla.post(PLACE, json={"dry_run": True}).json()["message"] == "the DAG recover is paused"
        assert ulla.post(PLACE, json={}).status_code == 409
    finally:
        with create_session() as session:
            session.get(DagModel, "recover").is_paused = False


def test_it_takes_the_right_to_change_the_dataset_and_to_trigger_the_dag(vera, ulla, monkeypatch):
    """Who may only read may not even try; nor who may not trigger `recover`, or not read what would be shown."""
    before = len(runs())
    answer = vera.post(PLACE, json={"dry_run": True})
    assert (answer.status_code, answer.json()["detail"]) == (403, "you may not change the DAG etl")
    for refused, right in (
        (("POST", "recover"), "trigger the DAG recover"),
        (("PUT", "etl"), "change the DAG etl"),
        (("GET", "etl"), "read the DAG etl"),
    ):
        refuse(monkeypatch, *refused)
        answer = ulla.post(PLACE, json={})
        assert (answer.status_code, answer.json()["detail"]) == (403, f"you may not {right}")
    assert len(runs()) == before


def test_what_one_may_not_read_has_no_name_in_what_it_takes(ulla, platform, monkeypatch):
    """Though it has to be run again too."""
    make(platform, "secret/a", "load", origin=Origin("secret", "day 1", "a"), strategy=Strategy.CACHE_THROUGH)
    make(platform, "secret/b", "shout", ["secret/a"], origin=Origin("secret", "day 1", "b"))
    make(platform, "etl/clean", "count", ["secret/b"], origin=ETL)
    lose(platform, "secret/b", "etl/clean")
    refuse(monkeypatch, "GET", "secret")
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


def test_a_lost_dataset_comes_back_in_the_name_of_who_asked(platform):
    """The others that were lost stay so; their loss had not been noticed."""
    expected = lines_of(platform, "etl/clean")
    remove_copies(platform, "etl/clean")
    (result,) = recover(platform, "etl/clean")
    assert result["dataset"] == "etl/clean@1" and [step.split(" on ")[0] for step in result["steps"]] == ["run shout"]
    assert lines_of(platform, "etl/clean") == expected
    events = [(moment.event, moment.actor) for moment in platform.catalog.history(Ref("etl/clean", 1))]
    assert events[-2:] == [(event, "recover task, requested by ulla") for event in ("lost", "restored")]


def test_damaged_bytes_are_detected_and_recomputed(platform):
    """Though as many as before; what is whole is left alone, and that is reported."""
    before = platform.catalog.resolve("etl/clean")
    assert recover(platform, "etl/clean@1")[0]["summary"] == "it was intact"
    assert platform.catalog.resolve("etl/clean").cache_location == before.cache_location
    expected = lines_of(platform, "etl/clean")
    damage(platform.cache, platform.catalog.resolve("etl/clean").cache_location)
    assert lines_of(platform, "etl/clean") != expected
    recover(platform, "etl/clean")
    assert lines_of(platform, "etl/clean") == expected


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
def test_what_no_retry_can_repair_fails_after_the_others_came_back(platform, name, expected_message):
    """With the reason."""
    remove_copies(platform, "etl/clean", "etl/salted")
    with pytest.raises(ZeroDivisionError), platform.store.write("etl/gone", strategy=Strategy.ASYNC_STORE):
        raise ZeroDivisionError
    with pytest.raises(AirflowFailException, match=expected_message):
        recover(platform, name, "etl/clean")
    assert platform.catalog.resolve("etl/clean").cache is CacheState.PRESENT
