"""Joins over HTTP: loads, keys, moves and reasons; `test_api` has the requests that are refused."""

from __future__ import annotations

from springline.airflow.api import PREFIX
from tests.support.joins.pairs import EXPLAINED, KEY
from tests.support.streams.declared_streams import explain_pairs

ROOT = f"{PREFIX}/api/v1/streams"
PAIRS = f"{ROOT}/pairs/join"
COPIED_KEYS = ("strategy", "units", "requested_units", "imbalance", "max_imbalance", "messages_per_tuple",
                "next_reasons", "reasons", "observed_at", "history",
                "planned_moves", "migrations")  # fmt: skip


def test_what_a_join_is_doing_and_why_is_answered(vera, pairs):
    """As the controller last reported it, with the state of the job; one that was not started says so."""
    body = vera.get(PAIRS).json()
    assert body["state"] == "never started"
    assert {name: body[name] for name in COPIED_KEYS} == {name: EXPLAINED[name] for name in COPIED_KEYS}
    assert body["loads"] == [
        {"unit": 0, "used": True, "left": 60, "right": 40, "stored": 100},
        {"unit": 1, "used": True, "left": 20, "right": 30, "stored": 50},
        {"unit": 2, "used": False, "left": 0, "right": 0, "stored": 0},
    ]
    (pairs.path / "explain.json").unlink()
    answer = vera.get(PAIRS)
    assert (answer.status_code, answer.json()["error"]) == (409, "NeverBalancedError")
    reason = "pairs: no loads have been observed yet; start the job, and try again when its first rounds are completed"
    assert reason in answer.json()["detail"]


def test_keys_are_exact_to_the_last_bit_and_the_routing_table_is_summarized(vera, pairs):
    """As text: a number of JavaScript has 53 bits. All keys are counted, and as many shown as are asked for."""
    body = vera.get(PAIRS).json()
    (heavy_key,) = EXPLAINED["heavy_keys"]
    assert [{**each, "is_heavy": True} for each in body["heavy_keys"]] == [{**heavy_key, "key": str(KEY)}]
    assert [entry["key"] for entry in body["routing"]["entries"]] == [str(KEY), "-2"]
    body = vera.get(PAIRS, params={"limit": 1}).json()["routing"]
    assert (body["epoch"], body["keys"]) == (5, {"left": 1, "right": 1})
    assert body["entries"] == [
        {"side": "left", "key": str(KEY), "stores": {"0": 0.5, "1": 0.5}, "probed_units": [0, 1]}
    ]


def test_the_report_and_the_keys_of_a_real_join_fit(vera, tmp_path, pairs):
    """One that split a key and went to another number of units; only keys that are heavy are listed as such.

    A heavy key is split over units; another one has its unit by its hash.
    """
    explain_pairs(pairs, tmp_path / "scratch")
    body = vera.get(PAIRS).json()
    assert (body["state"], body["units"]) == ("stopped", 3)
    assert sum(load["stored"] for load in body["loads"]) == 600
    assert [load["unit"] for load in body["loads"] if load["used"]] == [0, 1, 2]
    assert any("3 units instead of 2" in reason for each in body["history"] for reason in each["reasons"])
    assert {key["key"] for key in body["heavy_keys"]} == {"1"}
    assert all(key["share"] > body["max_imbalance"] for key in body["heavy_keys"])
    assert body["key_columns"] == [{"name": "k", "type": "int"}]
    heavy = vera.get(f"{PAIRS}/keys/1").json()
    assert (heavy["key"], heavy["values"], heavy["columns"]) == ("1", ["1"], [{"name": "k", "type": "int"}])
    assert heavy["is_heavy"] and "split over several units" in heavy["reason"]
    left, right = heavy["sides"]
    assert (left["tuples"], left["probes"], sum(left["parts"].values())) == (150, 150, 150)
    assert "split" in (left["placement"], right["placement"])
    assert left["sentence"].startswith("A new left tuple ")
    assert set(left["probed_units"]) >= set(map(int, right["parts"]))
    light = vera.get(f"{PAIRS}/keys/4").json()
    assert not light["is_heavy"] and light["sides"][0]["tuples"] == 1
    assert "not more than max_imbalance" in light["reason"] and "by its hash" in light["sides"][0]["sentence"]
    none = vera.get(f"{PAIRS}/keys/77777", params={"side": "right"}).json()
    assert none["reason"] == "it is too rare to be counted" and none["sides"][1]["tuples"] is None
