"""The lineage over HTTP, in an app like Airflow's: templates, cells, values to complete, and recovery of partitions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from fastapi.testclient import TestClient

from springline.airflow.api import PREFIX
from springline.persistence.model.dataset import CacheState, Origin, Strategy
from springline.persistence.platform import Platform
from springline.testing.lines import make_dataset as make
from tests.support.airflow.two_dags import allow_only, lose, refuse

ROOT = f"{PREFIX}/api/v1"
DAYS = ("2013-01-05", "2013-01-06", "2013-01-07")


def run_of(day: str) -> str:
    """The DAG run of a day."""
    return f"scheduled__{day}T00:00:00+00:00"


def make_day(platform: Platform, day: str) -> None:
    """`raw` is persisted; `clean` was made of it, and by another DAG `count` of that."""
    etl, other = Origin("etl", run_of(day), "clean"), Origin("other", run_of(day), "count")
    make(platform, f"etl/{day}/raw", "load", origin=etl, strategy=Strategy.CACHE_THROUGH)
    make(platform, f"etl/{day}/clean", "shout", [f"etl/{day}/raw"], origin=etl)
    make(platform, f"other/{day}/count", "count", [f"etl/{day}/clean"], origin=other)


@pytest.fixture(autouse=True)
def platform(api_platform: Platform) -> Platform:
    """Three days of two DAGs."""
    for day in DAYS:
        make_day(api_platform, day)
    return api_platform


def nodes_of(client: TestClient, **params: object) -> dict[str, dict]:
    """The nodes by key."""
    answer = client.get(f"{ROOT}/lineage", params=params)
    assert answer.status_code == 200, answer.text
    return {node["key"]: node for node in answer.json()["nodes"]}


# ---- the picture


def test_a_template_is_one_node_with_a_strip_of_days(vera):
    """In layers, sources first; the characters say the states."""
    body = vera.get(f"{ROOT}/lineage").json()
    nodes = {node["key"]: node for node in body["nodes"]}
    assert body["partitions"] == list(DAYS) and (body["templates"], body["datasets"]) == (3, 9)
    assert {key: (node["layer"], node["strip"]) for key, node in nodes.items()} == {
        "etl/{date}/raw": (0, "ppp"), "etl/{date}/clean": (1, "ccc"), "other/{date}/count": (2, "ccc"),
    }  # fmt: skip
    assert body["edges"] == [
        {"source": "etl/{date}/raw", "target": "etl/{date}/clean"},
        {"source": "etl/{date}/clean", "target": "other/{date}/count"},
    ]
    clean = nodes["etl/{date}/clean"]
    assert (clean["operation"], clean["dag_id"], clean["states"]) == ("shout", "etl", {"cached": 3})
    assert clean["newest"]["path"] == "etl/2013-01-07/clean" and clean["exposed_bytes"] == clean["unproven_bytes"] > 0
    assert (body["overall"], body["broken"], body["grouping"]) == ("ccc", [], "none")


def test_the_picture_follows_what_happens(vera, platform):
    """Bit by bit: a new day, a loss, a newer generation, what is missing."""
    nodes_of(vera)
    make(platform, "etl/2013-01-08/raw", "load", origin=Origin("etl", run_of("2013-01-08"), "raw"))
    lose(platform, "etl/2013-01-06/clean")
    make(platform, "etl/2013-01-05/raw", "load", origin=Origin("etl", "again", "raw"))
    body = vera.get(f"{ROOT}/lineage").json()
    nodes = {node["key"]: node for node in body["nodes"]}
    assert nodes["etl/{date}/raw"]["strip"] == "cppc" and nodes["etl/{date}/clean"]["strip"] == "clc."
    assert nodes["etl/{date}/clean"]["stale"] == 1
    assert [(each["partition"], each["lost"], each["template"], each["dag_ids"]) for each in body["broken"]] == [
        ("2013-01-06", 1, "etl/{date}/clean", ["etl"])
    ]
    assert body["overall"] == "clcc"
    make(platform, "etl/2013-01-09/clean", "shout", ["etl/2013-01-05/raw"], origin=Origin("etl", "x", "clean"))
    assert nodes_of(vera)["etl/{date}/clean"]["strip"] == "clcmc"


def test_the_picture_is_filtered(vera, platform):
    """By DAG, run, task, prefix, state and range; groups are collapsed and expanded, one of one is its template."""
    lose(platform, "other/2013-01-06/count")
    for asked, expected in (
        ({"dag_id": "other"}, {"other/{date}/count": "clc"}),
        ({"run_id": run_of("2013-01-06"), "dag_id": "etl"}, {"etl/{date}/raw": "p", "etl/{date}/clean": "c"}),
        ({"prefix": "etl/2013-01-07/r"}, {"etl/{date}/raw": "p"}),
        ({"task_id": "count", "last": "2013-01-06"}, {"other/{date}/count": "cl"}),
        ({"state": "lost"}, {"other/{date}/count": "clc"}),
        ({"state": "lost", "first": "2013-01-07"}, {}),
        ({"dag_id": "nothing"}, {}),
        ({"grouping": "dag"}, {"dag:etl": "ccc", "other/{date}/count": "clc"}),
        (
            {"grouping": "dag", "expand": ["dag:etl"]},
            {"etl/{date}/raw": "ppp", "etl/{date}/clean": "ccc", "other/{date}/count": "clc"},
        ),
    ):
        nodes = nodes_of(vera, **asked)
        assert {key: node["strip"] for key, node in nodes.items()} == expected, asked
        assert [key for key, node in nodes.items() if node["is_group"]] == [key for key in expected if "dag:" in key]
    assert vera.get(f"{ROOT}/lineage", params={"first": "2013-01-06", "last": "2013-01-06"}).json()["earlier"] == 1


def test_what_one_may_not_read_is_not_in_the_picture(vera, monkeypatch):
    """Neither as a template nor as an edge, a count or a value."""
    allow_only(monkeypatch, "other")
    body = vera.get(f"{ROOT}/lineage").json()
    assert [node["key"] for node in body["nodes"]] == ["other/{date}/count"] and body["edges"] == []
    assert body["datasets"] == 3
    assert vera.get(f"{ROOT}/lineage/values", params={"field": "dag_id"}).json()["values"] == ["other"]
    asked = {"template": "etl/{date}/clean", "partition": DAYS[0]}
    for hidden_or_unknown in (asked, {**asked, "template": "etl/{date}/none"}):
        assert vera.get(f"{ROOT}/lineage/cell", params=hidden_or_unknown).status_code == 404
    for path in (f"etl/{DAYS[0]}/clean", "etl/x"):
        answer = vera.get(f"{ROOT}/lineage/cell", params={"path": path})
        assert (answer.status_code, answer.json()["detail"]) == (404, f"{path}: no live dataset that you may read")
    answer = vera.get(f"{ROOT}/lineage/cell", params={"template": "other/{date}/count", "partition": DAYS[0]})
    assert answer.status_code == 200 and "etl/" not in answer.text


def test_stream_jobs_are_in_the_picture(vera, words_job):
    """Of the DAG that is asked for; a filter of datasets, and declarations that cannot be read, leave them out."""
    (stream_node,) = vera.get(f"{ROOT}/lineage").json()["streams"]
    assert (stream_node["key"], stream_node["dag_id"], stream_node["reads"]) == (
        "stream:words",
        "stream_words",
        ["lines"],
    )
    assert stream_node["health"] and stream_node["health_reason"] and stream_node["results"]
    for params, count in (({"dag_id": "stream_words"}, 1), ({"dag_id": "etl"}, 0), ({"state": "lost"}, 0)):
        assert len(vera.get(f"{ROOT}/lineage", params=params).json()["streams"]) == count
    Path(os.environ["SPRINGLINE_STREAMS_FILE"]).write_text("[words")
    answer = vera.get(f"{ROOT}/lineage")
    assert answer.status_code == 200 and answer.json()["streams"] == []


# ---- one cell


def test_a_cell_has_the_chain_that_restores_it(vera, platform):
    """In order, each step in its place; before a loss and after it."""
    params = {"template": "other/{date}/count", "partition": "2013-01-06"}
    before = vera.get(f"{ROOT}/lineage/cell", params=params).json()
    assert (before["path"], before["status"], before["is_lost"]) == ("other/2013-01-06/count", "cached", False)
    chain = [("recompute", "etl/{date}/clean", "2013-01-06"), ("recompute", "other/{date}/count", "2013-01-06")]
    assert [(step["action"], step["template"], step["partition"]) for step in before["chain"]] == chain
    lose(platform, "other/2013-01-06/count")
    after = vera.get(f"{ROOT}/lineage/cell", params={"path": "other/2013-01-06/count"}).json()
    assert (after["template"], after["status"], after["is_lost"]) == ("other/{date}/count", "lost", True)
    assert [step["template"] for step in after["chain"]] == ["other/{date}/count"], "its source is in the cache"
    raw = vera.get(f"{ROOT}/lineage/cell", params={**params, "template": "etl/{date}/raw"}).json()
    assert raw["status"] == "persisted" and raw["chain"] == []


def test_values_complete_what_is_typed(vera):
    """The newest first."""
    values = lambda **params: vera.get(f"{ROOT}/lineage/values", params=params).json()["values"]  # noqa: E731
    assert values(field="dag_id") == ["other", "etl"]
    assert values(field="partition", text="01-0") == list(reversed(DAYS))
    assert values(field="run_id", text="01-06") == [run_of("2013-01-06")]
    assert values(field="task_id", dag_id="etl") == ["clean"]
    assert values(field="prefix") == ["other/", "etl/"]
    assert vera.get(f"{ROOT}/lineage/values", params={"field": "password"}).status_code == 422


# ---- recovery


def recover(client: TestClient, **body: object) -> dict:
    """The answer to a request to restore what is lost."""
    answer = client.post(f"{ROOT}/lineage/recover", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.usefixtures("read_dags")
def test_all_that_is_lost_of_some_days_is_restored_by_one_run(ulla, platform):
    """A dry run says what would be done."""
    lose(platform, "etl/2013-01-05/clean", "other/2013-01-05/count", "other/2013-01-06/count")
    dry = recover(ulla, partitions=["2013-01-05"], dry_run=True)
    names = ["etl/2013-01-05/clean@1", "other/2013-01-05/count@1"]
    assert (dry["datasets"], dry["allowed"], dry["executed"]) == (names, True, False)
    assert dry["message"] == "2 datasets will be restored in about 20 ms, by 2 steps"
    of_template = recover(ulla, partitions=["2013-01-05"], templates=["etl/{date}/clean"], dry_run=True)
    assert of_template["datasets"] == names[:1]
    body = recover(ulla, partitions=["2013-01-05", "2013-01-06"])
    assert body["executed"] and body["dag_id"] == "recover"
    with create_session() as session:
        run = session.query(DagRun).filter(DagRun.run_id == body["run_id"]).one()
        assert run.conf == {"datasets": [*names, "other/2013-01-06/count@1"], "requested_by": "ulla"}
    ref = platform.catalog.resolve("other/2013-01-06/count").ref
    assert platform.catalog.history(ref)[-1].event == "recovery_requested"


def test_what_cannot_be_restored_is_left_out_and_named(ulla, platform, read_dags):
    """If nothing can, nothing is started."""
    make(platform, "etl/2013-01-05/salted", "salt", ["etl/2013-01-05/clean"], origin=Origin("etl", "r", "salt"))
    lose(platform, "etl/2013-01-05/salted")
    assert nodes_of(ulla)["etl/{date}/salted"]["strip"] == "x.."
    answer = ulla.post(f"{ROOT}/lineage/recover", json={"partitions": ["2013-01-05"]})
    assert answer.status_code == 409
    assert answer.json()["detail"] == "nothing can be restored; 1 dataset cannot be restored"
    lose(platform, "etl/2013-01-05/clean")
    dry = recover(ulla, partitions=["2013-01-05"], dry_run=True)
    assert dry["allowed"] and "1 dataset will be restored" in dry["message"] and "1 dataset cannot" in dry["message"]


def test_only_what_one_may_change_is_restored(ulla, vera, platform, read_dags, monkeypatch):
    """Who may not trigger `recover` may not even try; what is not readable is not counted."""
    lose(platform, "etl/2013-01-05/clean", "other/2013-01-05/count")
    assert vera.post(f"{ROOT}/lineage/recover", json={"partitions": [DAYS[0]], "dry_run": True}).status_code == 403
    refuse(monkeypatch, "PUT", "etl")
    dry = recover(ulla, partitions=[DAYS[0]], dry_run=True)
    assert dry["datasets"] == ["other/2013-01-05/count@1"] and "you may not change 1 dataset" in dry["message"]
    refuse(monkeypatch, "GET", "etl")
    dry = recover(ulla, partitions=[DAYS[0]], dry_run=True)
    assert dry["message"].startswith("1 dataset will be restored") and "change" not in dry["message"]
    assert platform.catalog.resolve("etl/2013-01-05/clean").cache is CacheState.LOST
