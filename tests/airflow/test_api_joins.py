"""Joins over HTTP: what is told of loads, keys, moves and reasons, and what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from springline.airflow.api import PREFIX
from springline.spark_jobs.streaming.job_folder import JobFolder
from tests.support.joins.pairs import EXPLAINED, KEY
from tests.support.streams.kept_streams import explain_pairs

ROOT = f"{PREFIX}/api/v1/streams"
PAIRS = f"{ROOT}/pairs/join"
TOLD_AS_KEPT = ("strategy", "units", "requested_units", "imbalance", "bound", "messages", "would", "reasons",
                "observed_at", "history",
                "moves", "under_way")  # fmt: skip


def test_what_a_join_is_doing_and_why_is_told(vera: TestClient, pairs: JobFolder) -> None:
    """As the last look told it, with the state of the job."""
    told = vera.get(PAIRS).json()
    assert told["state"] == "never started"
    assert {name: told[name] for name in TOLD_AS_KEPT} == {name: EXPLAINED[name] for name in TOLD_AS_KEPT}
    assert told["loads"] == [
        {"unit": 0, "used": True, "left": 60, "right": 40, "stored": 100},
        {"unit": 1, "used": True, "left": 20, "right": 30, "stored": 50},
        {"unit": 2, "used": False, "left": 0, "right": 0, "stored": 0},
    ]


def test_a_key_is_told_to_the_last_bit(vera: TestClient, pairs: JobFolder) -> None:
    """As text: a number of JavaScript has 53 bits."""
    told = vera.get(PAIRS).json()
    assert told["heavy"] == [{"side": "left", "key": str(KEY), "tuples": 30, "probes": 7, "parts": {"0": 20, "1": 10}}]
    assert [entry["key"] for entry in told["routing"]["entries"]] == [str(KEY), "-2"]


def test_the_routing_table_is_told_in_short(vera: TestClient, pairs: JobFolder) -> None:
    """All keys with a place of their own are counted, and so many told as are asked for."""
    told = vera.get(PAIRS, params={"most": 1}).json()["routing"]
    assert (told["epoch"], told["keys"]) == (5, {"left": 1, "right": 1})
    assert told["entries"] == [{"side": "left", "key": str(KEY), "stores": {"0": 0.5, "1": 0.5}, "holds": [0, 1]}]


def test_what_a_real_join_tells_fits(vera: TestClient, pairs: JobFolder, tmp_path: Path) -> None:
    """One that split a key and went to another number of units."""
    explain_pairs(pairs, tmp_path / "scratch")
    told = vera.get(PAIRS).json()
    assert (told["state"], told["units"]) == ("stopped", 3)
    assert sum(load["stored"] for load in told["loads"]) == 600
    assert [load["unit"] for load in told["loads"] if load["used"]] == [0, 1, 2]
    assert any("3 units instead of 2" in why for each in told["history"] for why in each["reasons"])


@pytest.mark.parametrize(
    ("path", "status", "error", "words_of_it"),
    [
        ("words/join", 404, "UnknownJobError", "words: it joins nothing"),
        ("other/join", 404, "UnknownJobError", "no job 'other'"),
        ("pairs/join?most=-1", 422, "BadRequestError", "query.most"),
    ],
)
def test_an_error_says_what_is_wrong(
    vera: TestClient, pairs: JobFolder, path: str, status: int, error: str, words_of_it: str
) -> None:
    """In the shape of all errors."""
    answer = vera.get(f"{ROOT}/{path}")
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert words_of_it in answer.json()["detail"]


def test_a_join_that_nobody_started_says_so(vera: TestClient, pairs: JobFolder) -> None:
    """It is there, and has told nothing."""
    (pairs.path / "explain.json").unlink()
    answer = vera.get(PAIRS)
    assert (answer.status_code, answer.json()["error"]) == (409, "NeverBalancedError")
    assert "pairs: nothing is known of it yet: start it first" in answer.json()["detail"]
