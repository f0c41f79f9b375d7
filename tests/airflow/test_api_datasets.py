"""Datasets over HTTP, in an app like Airflow's: what is answered, and what is hidden from those who may not read."""

from __future__ import annotations

import pytest
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

from springline.airflow.api import PREFIX, access
from springline.persistence.platform import Platform
from springline.testing.lines import make_dataset as make
from tests.support.airflow.two_dags import ETL, OTHER, allow_only, lose, make_chain

ROOT = f"{PREFIX}/api/v1"
SAMPLED = ("bytes", "unproven_bytes", "irrecoverable_bytes", "recompute_seconds")


@pytest.fixture(autouse=True)
def platform(api_platform: Platform) -> Platform:
    """In use in every test here."""
    return api_platform


@pytest.fixture
def workflow(platform: Platform) -> None:
    """`raw` is persisted; `clean` was made of it, and by another DAG `count` of that; `salted` nothing brings back."""
    make_chain(platform)
    make(platform, "etl/salted", "salt", ["etl/clean"], origin=ETL)


@pytest.fixture
def proven(workflow: None, platform: Platform) -> None:
    """The idempotent operations were seen to repeat: only `salted` would be irrecoverable, or might be."""
    for path in ("etl/clean", "other/count"):
        call = platform.catalog.resolve(path).call
        assert call is not None
        platform.catalog.record_reproduction(call, same=True)


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No user may read any DAG but `other`."""
    allow_only(monkeypatch, "other")


# ---- what is answered


def test_the_queue_says_why_and_how_and_what_another_policy_would_do(vera, proven):
    """Nothing is changed by asking."""
    body = vera.get(f"{ROOT}/queue").json()
    assert (body["policy"], body["what_if"], body["depth"]) == ("value-density", "", 3)
    assert body["bytes"] == sum(row["bytes"] for row in body["entries"]) and body["empty_in"] > 0
    first = body["entries"][0]
    assert (first["position"], first["path"], first["dag_id"], first["method"]) == (1, "etl/salted", "etl", "data")
    assert "permanent loss" in first["reason"] and first["terms"] and first["waited_seconds"] >= 0
    assert (first["irrecoverable"], first["recompute_seconds"], first["what_if"]) == (True, None, None)
    assert [row["recompute_seconds"] for row in body["entries"][1:]] == [0.01, 0.01]
    other = vera.get(f"{ROOT}/queue", params={"what_if": "fifo"}).json()
    assert (other["policy"], other["what_if"]) == ("value-density", "fifo")
    assert {"fifo", "paper"} <= set(other["policies"])
    assert [row["path"] for row in other["entries"]] == [row["path"] for row in body["entries"]], "the real order"
    places = {row["path"]: row["what_if"]["position"] for row in other["entries"]}
    assert places == {"etl/clean": 1, "other/count": 2, "etl/salted": 3}
    assert [row["position"] for row in vera.get(f"{ROOT}/queue", params={"limit": 1}).json()["entries"]] == [1]
    assert vera.get(f"{ROOT}/queue", params={"what_if": "other"}).status_code == 422


def test_a_dataset_is_where_the_queue_has_it(vera, proven, platform):
    """By the scores of now, in both: those that were stored may be old."""
    for dataset in platform.catalog.find():
        platform.claims.rescore(dataset.ref, 0.0 if dataset.ref.path == "etl/salted" else 1e9)
    entries = vera.get(f"{ROOT}/queue").json()["entries"]
    assert entries[0]["path"] == "etl/salted" and len(entries) == 3
    for before, row in enumerate(entries):
        body = vera.get(f"{ROOT}/datasets/{row['path']}").json()
        text = dict(body["paragraphs"])["Queue"]
        assert text.startswith(("It is the next one:", "1 is before it:", "2 are before it:")[before]), text


def test_at_risk_names_what_would_be_irrecoverable_first(vera, workflow, platform):
    """With the reason; the others with the seconds that they would take."""
    body = vera.get(f"{ROOT}/at-risk").json()
    first, *others = body["exposed_datasets"]
    assert (first["path"], first["seconds"]) == ("etl/salted", None)
    assert "is not idempotent" in first["irrecoverable_reasons"][0]
    assert {row["path"]: row["seconds"] for row in others} == {"etl/clean": 0.01, "other/count": 0.01}
    assert body["irrecoverable_bytes"] == platform.catalog.resolve("etl/salted").bytes
    assert body["bytes"] == body["irrecoverable_bytes"] + body["unproven_bytes"] and body["datasets"] == 3
    assert all("not proven" in row["unproven_reasons"][0] for row in others)
    assert len(vera.get(f"{ROOT}/at-risk", params={"limit": 1}).json()["exposed_datasets"]) == 1


def test_an_unreachable_under_store_is_reported_wherever_its_copies_count(vera, ulla, workflow, platform):
    """What it has is at risk, a dataset's page says so, nothing that rests on it leaves the cache."""
    platform.under.root.rename(platform.under.root.with_name("away"))  # type: ignore[attr-defined]
    away = f"the under-store does not answer: {platform.under.root} does not exist: is its disk mounted?"  # type: ignore[attr-defined]
    body = vera.get(f"{ROOT}/at-risk").json()
    assert body["under_store_away"] == away and body["datasets"] == 4
    (raw,) = (row for row in body["exposed_datasets"] if row["path"] == "etl/raw")
    assert raw["remedy"]["state"] == "persisted" and raw["remedy"]["sentence"].startswith("Bring the under-store back")
    assert "load" in raw["irrecoverable_reasons"][0]
    assert vera.get(f"{ROOT}/queue").json()["under_store_away"] == away
    raw, clean = (vera.get(f"{ROOT}/queue/explain?path=etl/{name}").json() for name in ("raw", "clean"))
    assert "the catalog has a copy of it, but the under-store does not answer" in raw["sentence"]
    assert "nothing is persisted now: the under-store does not answer" in clean["sentence"]
    assert clean["wait_reason"] == ""
    body = vera.get(f"{ROOT}/datasets/etl/raw").json()
    assert body["under_store_away"] == away and away in body["paragraphs"]["Location"]
    assert body["chain"]["irrecoverable_reasons"]
    assert "Unless its copy exists" in body["paragraphs"]["If the cache were lost now"]
    tried = ulla.post(f"{ROOT}/datasets/etl/raw/evict", json={"dry_run": True}).json()
    assert not tried["allowed"] and tried["message"] == f"etl/raw@1 stays in the cache: {away}"
    assert ulla.post(f"{ROOT}/datasets/etl/raw/evict", json={}).status_code == 409
    assert platform.catalog.resolve("etl/raw").in_cache


def test_the_risk_over_time_is_a_series_the_newest_last(vera, workflow, platform, monkeypatch):
    """Each sample is what the page of risks showed then."""
    at, samples = 1_700_000_040, []
    for later in (0, 60):
        monkeypatch.setattr(platform.catalog, "now", lambda later=later: at + later + 7.0)
        assert platform.catalog.sample_risk()
        body = vera.get(f"{ROOT}/at-risk").json()
        sampled = {name: body[name] for name in SAMPLED}
        samples.append({"timestamp": at + later, "known_until": at + later + 60, **sampled})
        make(platform, "etl/more", "salt", ["etl/clean"], origin=ETL)
    assert samples[0]["irrecoverable_bytes"] < samples[1]["irrecoverable_bytes"]
    samples[1]["known_until"] = at + 60 + 86_400  # of that age, one sample a day is left
    reply = vera.get(f"{ROOT}/at-risk/history").json()
    assert reply["samples"] == samples and reply["worst"] == samples[1]
    assert [share["dag_id"] for share in reply["worst_dags"]] == ["etl", "other"]
    assert vera.get(f"{ROOT}/at-risk/history", params={"since": at + 0.5}).json()["samples"] == samples[1:]
    assert vera.get(f"{ROOT}/at-risk/history", params={"since": -1}).status_code == 422


def test_everything_about_a_dataset_is_answered(vera, workflow, platform):
    """What it is, what it was derived from, what was derived from it, what happened, and what would bring it back."""
    body = vera.get(f"{ROOT}/datasets/etl/clean").json()
    recorded = platform.catalog.resolve("etl/clean")
    assert (body["path"], body["generation"], body["status"]) == ("etl/clean", 1, "cached")
    assert (body["checksum"], body["digest"], body["rows"]) == (recorded.checksum, recorded.digest, 100)
    assert (body["operation"], body["dag_id"], body["run_id"], body["task_id"]) == ("shout", "etl", "day 1", "clean")
    assert [each["path"] for each in body["sources"]] == ["etl/raw"]
    assert [each["path"] for each in body["dependents"]] == ["etl/salted", "other/count"]
    assert [each["event"] for each in body["history"]] == ["opened", "cached", "committed"]
    assert body["chain"]["steps"][0].startswith("run shout on etl/raw@1 to recompute etl/clean@1")
    assert set(body["paragraphs"]) >= {"Dataset", "Queue", "If the cache were lost now"}


def test_an_older_generation_is_returned_if_asked_for(vera, platform):
    """Else the newest, committed or not; each with all the others."""
    for line in ("x", "y"):
        make(platform, "a", lines=[line], origin=ETL)
    newest = vera.get(f"{ROOT}/datasets/a").json()
    assert (newest["generation"], [each["generation"] for each in newest["generations"]]) == (2, [2, 1])
    older = vera.get(f"{ROOT}/datasets/a", params={"generation": 1}).json()
    assert (older["generation"], older["superseded"]) == (1, True)


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "it's \"quoted\" & 'so'", "שלום עולם", "x" * 190])
def test_a_hostile_name_is_returned_as_it_is(name, vera, platform):
    """As text in JSON, which no browser takes for a page; another one is not found, or invalid."""
    path = f"etl/{name.replace('/', '-')}"
    make(platform, path, lines=["x"], origin=ETL)
    answer = vera.get(f"{ROOT}/datasets/{path}")
    assert (answer.json()["path"], answer.headers["content-type"]) == (path, "application/json")
    for other, status, error in (
        (f"{path}/x", 404, "NeverWrittenError"),
        (f"a/%2E%2E/{path}@", 422, "InvalidPathError"),
    ):
        answer = vera.get(f"{ROOT}/datasets/{other}")
        assert (answer.status_code, answer.json()["error"]) == (status, error), other


# ---- who may read what


def test_what_another_dag_made_is_left_out_and_has_no_name_anywhere(vera, workflow, only):
    """Not in the queue, the risks, nor in any reason or chain of what one may read."""
    answers = [vera.get(f"{ROOT}/{page}") for page in ("queue", "at-risk", "datasets/other/count")]
    assert [answer.status_code for answer in answers] == [200] * 3
    queue, risk, about = (answer.json() for answer in answers)
    assert [row["path"] for row in queue["entries"]] == ["other/count"]
    assert [row["path"] for row in risk["exposed_datasets"]] == ["other/count"] and risk["irrecoverable_bytes"] == 0
    assert (about["sources"], about["hidden"]) == ([], 1)
    assert len(about["chain"]["steps"]) == 2, "what is hidden has to be made again too"
    for answer in answers:
        assert "etl/" not in answer.text


def test_the_risk_over_time_is_that_of_what_one_may_read(vera, workflow, platform, only):
    """Added up, without a name; nothing of the others is in it."""
    platform.catalog.sample_risk()
    mine = platform.catalog.resolve("other/count")
    reply = vera.get(f"{ROOT}/at-risk/history").json()
    (body,) = reply["samples"]
    now = vera.get(f"{ROOT}/at-risk").json()
    assert {name: now[name] for name in SAMPLED} == {name: body[name] for name in SAMPLED}, "now is as the curve ends"
    assert [share["dag_id"] for share in reply["worst_dags"]] == [share["dag_id"] for share in now["dags"]] == ["other"]
    assert {name: body[name] for name in SAMPLED} == {
        "bytes": mine.bytes, "unproven_bytes": mine.bytes, "irrecoverable_bytes": 0,
        "recompute_seconds": mine.compute_seconds,
    }  # fmt: skip
    (sample,) = platform.catalog.risk_since()
    assert body["bytes"] < sample.bytes and sample.irrecoverable_bytes > 0


def test_what_no_dag_made_is_for_those_who_may_read_every_dag(vera, platform, monkeypatch):
    """By hand or by a command line."""
    make(platform, "by-hand", lines=["x"])
    assert vera.get(f"{ROOT}/datasets/by-hand").status_code == 200
    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", lambda self, **asked: asked["details"] is not None)
    assert vera.get(f"{ROOT}/datasets/by-hand").status_code == 403
    assert vera.get(f"{ROOT}/datasets").json()["datasets"] == []


def test_each_generation_belongs_to_the_dag_that_made_it(vera, platform, only):
    """Two DAGs may write one path."""
    make(platform, "shared", lines=["x"], origin=ETL)
    make(platform, "shared", lines=["y"], origin=OTHER)
    body = vera.get(f"{ROOT}/datasets/shared").json()
    assert [each["generation"] for each in body["generations"]] == [2]
    refused = vera.get(f"{ROOT}/datasets/shared", params={"generation": 1})
    assert (refused.status_code, refused.json()["detail"]) == (403, "you may not read the DAG etl")


# ---- what may be asked for


def test_a_wish_is_tried_dry_then_granted_and_noted(ulla, workflow, platform):
    """A second time it is refused, with the reason; so is a wish that is none, or that does not come as JSON.

    A browser sends JSON to another site only if that site lets it.
    """
    for sent in ({"content": "{}", "headers": {"Content-Type": "text/plain"}}, {"data": {"dry_run": "false"}}, {}):
        assert ulla.post(f"{ROOT}/datasets/etl/raw/evict", **sent).status_code == 422
    assert ulla.post(f"{ROOT}/datasets/etl/raw/burn", json={}).status_code == 422
    assert ulla.post(f"{ROOT}/datasets/etl/raw/evict", json={}).json()["executed"] is True
    place = f"{ROOT}/datasets/etl/clean/pin"
    dry = ulla.post(place, json={"dry_run": True}).json()
    assert (dry["allowed"], dry["executed"], dry["action"]) == (True, False, "pin")
    assert not platform.catalog.resolve("etl/clean").pinned
    assert ulla.post(place, json={}).json() == {**dry, "executed": True}
    assert platform.catalog.resolve("etl/clean").pinned
    last = ulla.get(f"{ROOT}/datasets/etl/clean").json()["history"][-1]
    assert (last["event"], last["actor"], last["reason"]) == ("pinned", "ulla", "requested manually")
    refused = ulla.post(place, json={})
    assert (refused.status_code, refused.json()["detail"]) == (409, "etl/clean@1 is already pinned")
    assert ulla.post(place, json={"dry_run": True}).json()["allowed"] is False


def test_a_dataset_lists_which_actions_are_refused_and_why(vera, ulla, workflow, monkeypatch):
    """Only of those that its state allows, with the reason that a wish would be refused with."""
    place = f"{ROOT}/datasets/etl/clean"
    body = vera.get(place).json()
    assert body["actions"] == [] and set(body["refused"]) == {"persist", "pin", "mark", "recover"}
    for wish, reason in body["refused"].items():
        answer = vera.post(f"{place}/{wish}", json={"dry_run": True})
        assert (answer.status_code, answer.json()["detail"]) == (403, reason)
    body = ulla.get(place).json()
    assert (body["actions"], body["refused"]) == (["recover", "persist", "pin", "mark"], {})
    assert ulla.get(f"{ROOT}/datasets/etl/raw").json()["actions"] == ["recover", "pin", "evict", "mark"]
    monkeypatch.setattr(access, "may_trigger", lambda user, dag_id: False)
    body = ulla.get(place).json()
    assert body["actions"] == ["persist", "pin", "mark"]
    assert body["refused"] == {"recover": "you may not trigger the DAG recover"}


def test_one_sentence_says_what_matters(vera, workflow, platform):
    """Where the bytes are, and what a loss would cost or what brings them back."""

    def headline(path: str) -> str:
        return str(vera.get(f"{ROOT}/datasets/{path}").json()["headline"])

    assert headline("etl/raw") == "Persisted; nothing would have to be recomputed."
    assert headline("etl/clean").startswith("Only in the cache: after a loss, recovery re-runs 1 operation, about ")
    assert headline("etl/salted").startswith("Only in the cache: a loss would be for good, because salt (version 1)")
    lose(platform, "etl/clean", "etl/salted")
    assert headline("other/count").startswith("Only in the cache: after a loss, recovery re-runs 2 operations, about ")
    assert headline("etl/clean").startswith("Lost: Recover re-runs 1 operation, about ")
    assert headline("etl/salted").startswith("Lost for good: salt (version 1)")
