"""Generations over HTTP: the list, and of one its columns, rows, neighbours and differences from another."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from springline.airflow.api import PREFIX
from springline.persistence.platform import Platform
from springline.testing.lines import make_dataset as make
from tests.support.airflow.two_dags import ETL, OTHER, allow_only, lose, make_chain

ROOT = f"{PREFIX}/api/v1"
PARTS = ("schema", "rows", "lineage", "comparison")


@pytest.fixture(autouse=True)
def platform(api_platform: Platform) -> Platform:
    """In use in every test here."""
    return api_platform


@pytest.fixture
def workflow(platform: Platform) -> None:
    """`raw` is persisted; `clean` was made of it, and by another DAG `count` of that, and `tally` of that."""
    make_chain(platform)
    make(platform, "etl/tally", "count", ["other/count"], origin=ETL)


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No user may read any DAG but `etl`."""
    allow_only(monkeypatch, "etl")


def listed(client: TestClient, **params: object) -> list[str]:
    """The paths that are listed."""
    return [each["path"] for each in client.get(f"{ROOT}/datasets", params=params).json()["datasets"]]


# ---- the list


def test_the_newest_come_first_one_for_each_path(vera, workflow, platform):
    """With what a person looks for; more than asked for is said."""
    make(platform, "etl/raw", "load", origin=ETL)
    body = vera.get(f"{ROOT}/datasets").json()
    assert [each["path"] for each in body["datasets"]] == ["etl/raw", "etl/tally", "other/count", "etl/clean"]
    first = body["datasets"][0]
    assert (first["generation"], first["status"], first["rows"], first["operation"]) == (2, "cached", 100, "load")
    assert (first["dag_id"], first["run_id"], body["is_complete"]) == ("etl", "day 1", True)
    body = vera.get(f"{ROOT}/datasets", params={"limit": 3}).json()
    assert (len(body["datasets"]), body["is_complete"]) == (3, False)


def test_datasets_are_found_by_any_part_of_their_path(vera, workflow, platform):
    """Letters that a database reads as a pattern are letters."""
    make(platform, "etl/100%_sure", lines=["x"], origin=ETL)
    for asked, expected in (
        ({"search": "CLEA"}, ["etl/clean"]),
        ({"search": "%_s"}, ["etl/100%_sure"]),
        ({"search": "c_ean"}, []),
        ({"prefix": "other/"}, ["other/count"]),
        ({"prefix": "ther"}, []),
        ({"dag_id": "other"}, ["other/count"]),
        ({"dag_id": "etl", "search": "a", "limit": 2}, ["etl/tally", "etl/clean"]),
    ):
        assert listed(vera, **asked) == expected, asked


def test_datasets_are_listed_by_their_state(vera, workflow, platform):
    """Whether something is lost for good depends on what it was made from."""
    make(platform, "etl/gone", lines=["x"], origin=ETL)
    lose(platform, "etl/gone", "etl/tally")
    for status, expected in (
        ("persisted", ["etl/raw"]), ("cached", ["other/count", "etl/clean"]), ("lost", ["etl/tally"]),
        ("irrecoverable", ["etl/gone"]), ("evicted", []), ("writing", []), ("persisting", []), ("retired", []),
        ("abandoned", []),
    ):  # fmt: skip
        assert listed(vera, status=status) == expected, status
    assert vera.get(f"{ROOT}/datasets", params={"status": "burnt"}).status_code == 422


# ---- columns and rows


def test_columns_and_rows_are_those_of_the_files(vera, workflow):
    """From the cache, or from where a copy is."""
    schema = vera.get(f"{ROOT}/datasets/etl/clean@1/schema").json()
    assert (schema["path"], schema["generation"]) == ("etl/clean", 1)
    assert (schema["store"], schema["format"]) == ("cache", "text")
    assert schema["columns"] == [{"name": "line", "type": "text", "nullable": False}] and schema["is_inferred"]
    rows = vera.get(f"{ROOT}/datasets/etl/clean@1/rows").json()
    assert rows["rows"][:2] == [["LINE 0"], ["LINE 1"]] and (len(rows["rows"]), rows["is_complete"]) == (20, False)
    rows = vera.get(f"{ROOT}/datasets/etl/clean@1/rows", params={"limit": 100}).json()
    assert (len(rows["rows"]), rows["is_complete"]) == (100, True)


def test_what_cannot_be_read_is_refused_and_not_an_error_of_the_server(vera, platform):
    """Each with what to do next."""
    make(platform, "etl/a", lines=["x"], origin=ETL)
    dataset = platform.catalog.resolve("etl/a")
    (file,) = platform.cache.files(dataset.cache_location)
    path = platform.cache.root / dataset.cache_location / file.name  # type: ignore[attr-defined]
    path.write_bytes(b"PAR1 broken PAR1")
    refused = vera.get(f"{ROOT}/datasets/etl/a@1/rows")
    assert (refused.status_code, refused.json()["error"]) == (422, "UnreadableContentError")
    assert f"the file {file.name} of etl/a@1 is not a Parquet file that can be read" in refused.json()["detail"]
    path.unlink()
    refused = vera.get(f"{ROOT}/datasets/etl/a@1/schema")
    assert (refused.status_code, refused.json()["error"]) == (409, "NoCopyError")
    lose(platform, "etl/a")
    assert vera.get(f"{ROOT}/datasets/etl/a@1/rows").json()["detail"] == (
        "etl/a@1 is lost from the cache and in no other store; recover it first"
    )


@pytest.mark.parametrize("part", PARTS)
def test_a_generation_is_named_as_everywhere(part, vera, workflow, platform):
    """A dataset may be called like a part of another; what is not there is not found."""
    make(platform, f"etl/clean/{part}", lines=["x"], origin=ETL)
    make(platform, f"etl/clean/{part}", lines=["y"], origin=ETL)
    assert vera.get(f"{ROOT}/datasets/etl/clean/{part}").json()["path"] == f"etl/clean/{part}"
    answer = vera.get(f"{ROOT}/datasets/etl/clean/{part}%402/{part}")
    assert (answer.status_code, answer.json()["path"]) == (200, f"etl/clean/{part}")
    for wrong, status in (("9", 404), ("0", 422), ("x", 422), ("9" * 5000, 422), ("1" * 12, 422)):
        assert vera.get(f"{ROOT}/datasets/etl/clean@{wrong}/{part}").status_code == status, wrong
    assert vera.get(f"{ROOT}/datasets/etl/clean@1/{part}", params={"limits": 1}).status_code == 422


# ---- neighbours and differences


def test_what_made_it_and_what_depends_on_it_is_laid_out(vera, workflow, platform):
    """As many steps as asked for, in layers; what has no copy, and can be recomputed, is drawn as lost."""
    body = vera.get(f"{ROOT}/datasets/etl/clean@1/lineage").json()
    nodes = {node["key"]: (node["step"], node["layer"]) for node in body["nodes"]}
    assert nodes == {"etl/raw@1": (-1, 0), "etl/clean@1": (0, 1), "other/count@1": (1, 2), "etl/tally@1": (2, 3)}
    assert {"source": "etl/raw@1", "target": "etl/clean@1", "stale": False} in body["edges"] and len(body["edges"]) == 3
    (clean,) = (node for node in body["nodes"] if node["key"] == "etl/clean@1")
    assert (clean["operation"], clean["status"]) == ("shout", "cached")
    assert (clean["dag_id"], clean["task_id"]) == ("etl", "clean")
    body = vera.get(f"{ROOT}/datasets/etl/clean@1/lineage", params={"steps": 1}).json()
    assert {node["key"] for node in body["nodes"]} == {"etl/raw@1", "etl/clean@1", "other/count@1"}
    assert vera.get(f"{ROOT}/datasets/etl/clean@1/lineage", params={"steps": 9}).status_code == 422
    lose(platform, "etl/clean")
    nodes = vera.get(f"{ROOT}/datasets/etl/raw@1/lineage").json()["nodes"]
    assert {node["key"]: node["status"] for node in nodes}["etl/clean@1"] == "lost"


def test_many_dependents_are_counted_and_some_are_drawn(vera, workflow, platform):
    """What was made from an older generation is not what depends on this one."""
    for i in range(15):
        make(platform, f"etl/copies/{i}", "shout", ["etl/raw"], origin=ETL)
    body = vera.get(f"{ROOT}/datasets/etl/raw@1/lineage").json()
    assert sum(node["step"] == 1 for node in body["nodes"]) == 12 and body["more_dependents"] == 4
    make(platform, "etl/raw", "load", origin=ETL)
    assert [node["key"] for node in vera.get(f"{ROOT}/datasets/etl/raw@2/lineage").json()["nodes"]] == ["etl/raw@2"]
    body = vera.get(f"{ROOT}/datasets/etl/clean@1/lineage").json()
    assert {"source": "etl/raw@1", "target": "etl/clean@1", "stale": True} in body["edges"]


def test_a_generation_is_compared_with_the_one_before(vera, platform):
    """Or with any other, the earlier one always first; one without files by what is recorded, with the reason."""
    for ds in ("1", "2", "2"):
        make(platform, "etl/raw", "load", origin=ETL, params={"ds": ds})
    body = vera.get(f"{ROOT}/datasets/etl/raw@3/comparison").json()
    assert (body["before"]["generation"], body["after"]["generation"], body["same_digest"]) == (2, 3, True)
    assert body["params"] == [{"name": "ds", "change": "same", "before": "2", "after": "2"}]
    text = "text, never null"
    assert body["columns"] == [{"name": "line", "change": "same", "before": text, "after": text}]
    for asked in ((1, 3), (3, 1)):
        body = vera.get(f"{ROOT}/datasets/etl/raw@{asked[0]}/comparison", params={"other": asked[1]}).json()
        assert (body["before"]["generation"], body["after"]["generation"]) == (1, 3)
        assert body["params"][0]["change"] == "changed"
    first = vera.get(f"{ROOT}/datasets/etl/raw@1/comparison")
    assert (first.status_code, "no earlier generation" in first.json()["detail"]) == (404, True)
    assert vera.get(f"{ROOT}/datasets/etl/raw@1/comparison", params={"other": 9}).status_code == 404
    platform.cache.delete(platform.catalog.find(path="etl/raw")[1].cache_location)
    body = vera.get(f"{ROOT}/datasets/etl/raw@3/comparison").json()
    assert "check and recover it" in body["before"]["columns_unknown"] and body["columns"] == []
    assert (body["before"]["rows"], body["after"]["columns_unknown"]) == (100, "")


# ---- who may read what


def test_what_one_may_not_read_is_counted_and_has_no_name(vera, workflow, only):
    """Each part of it is closed, what is beyond it is not followed, and it is in no list."""
    for part in PARTS:
        answer = vera.get(f"{ROOT}/datasets/other/count@1/{part}")
        assert (answer.status_code, answer.json()["detail"]) == (403, "you may not read the DAG other"), part
    answer = vera.get(f"{ROOT}/datasets/etl/clean@1/lineage")
    body = answer.json()
    assert [node["key"] for node in body["nodes"]] == ["etl/clean@1", "etl/raw@1"]
    assert (body["hidden_sources"], body["hidden_dependents"]) == (0, 1) and "other" not in answer.text
    body = vera.get(f"{ROOT}/datasets/etl/tally@1/lineage").json()
    assert ([node["key"] for node in body["nodes"]], body["hidden_sources"]) == (["etl/tally@1"], 1)
    assert listed(vera) == ["etl/tally", "etl/clean", "etl/raw"]
    assert listed(vera, search="other") == [] and listed(vera, dag_id="other") == []


@pytest.mark.usefixtures("only")
def test_another_dags_generation_of_the_same_path_is_not_compared(vera, platform):
    """Neither by default nor if it is asked for."""
    for origin in (ETL, OTHER, ETL):
        make(platform, "shared", lines=["x"], origin=origin)
    assert vera.get(f"{ROOT}/datasets/shared@3/comparison").json()["before"]["generation"] == 1
    assert vera.get(f"{ROOT}/datasets/shared@3/comparison", params={"other": 2}).status_code == 403
