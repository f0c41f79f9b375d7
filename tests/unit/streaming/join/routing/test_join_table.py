"""The routing table, its look-up against a slow one, sketches of heavy keys, and what a join does with one key."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.join.buckets import BUCKETS, bucket_of, part_of
from springline.spark_jobs.streaming.join.errors import InvalidRoutingError
from springline.spark_jobs.streaming.join.routing.key_explanation import explain_key, heavy_key_rows
from springline.spark_jobs.streaming.join.routing.loads import HeavyKeySide, Loads
from springline.spark_jobs.streaming.join.routing.routes import Routes
from springline.spark_jobs.streaming.join.routing.sketch import COUNTERS, Sketch, merge_sketches
from springline.spark_jobs.streaming.join.routing.strategies import strategy_of
from springline.spark_jobs.streaming.join.routing.strategies.hash_placement import table_by_hash
from springline.spark_jobs.streaming.join.routing.table import SIDES, Placement, RoutingTable, TableDraft, block_for
from springline.spark_jobs.streaming.join.wire import (
    GREATEST,
    LEAST,
    SEQ_HASHES,
    Cutover,
    EpochCommands,
    JoinSide,
    KeyBand,
    StateMigration,
)
from tests.support.examples import examples

LEFT, RIGHT = SIDES
EQUAL, WIDE = KeyBand(0, 0), KeyBand(-5000, 5000)
REACHES = [EQUAL, KeyBand(-1, 1), KeyBand(2, 5), KeyBand(-9, -3), KeyBand(1, None), KeyBand(None, 0), WIDE]


def a_table(name: str = "hash", block: int = 0) -> RoutingTable:
    """Eight units, of which two keys lie elsewhere than their buckets, and a bucket is on its way."""
    draft = TableDraft(strategy_of(name).first(8, 8, block))
    draft.route_key(LEFT, 5, Placement.from_shares({1: 3, 6: 1}))
    draft.route_key(RIGHT, 5, Placement.from_shares([2]))
    draft.route_key(RIGHT, 9, Placement.from_shares([0, 7]))
    draft.route_bucket(LEFT, 17, Placement.from_shares([3]))
    return draft.table()


def slowly(table: RoutingTable, side: JoinSide, reach: KeyBand, key: int) -> set[int]:
    """All units that may hold a key that matches, key by key."""
    band, other = reach.from_side(side), side.other
    if not band.is_bounded:
        return set(table.holders(other))
    keys = range(max(key + band.low, LEAST), min(key + band.high, GREATEST) + 1)
    buckets = set(bucket_of(list(set(keys) - table.entries[other].keys()), table.block).tolist())
    places = [table.buckets[other][bucket] for bucket in buckets]
    places += [place for own, place in table.entries[other].items() if own in keys]
    return {unit for place in places for unit in place.holds}


@pytest.mark.parametrize("name", ["hash", "jb", "jb6"])
@pytest.mark.parametrize("reach", REACHES, ids=str)
@pytest.mark.parametrize("side", SIDES)
def test_every_unit_that_may_hold_a_partner_is_probed(name, reach, side):
    """And no other one where keys are in no blocks; the extremes of keys included."""
    for block in {0, block_for(reach)}:
        table = a_table(name, block)
        keys = np.array([*range(-3, 20), LEAST, LEAST + 1, GREATEST, GREATEST - 2, 1 << 40])
        routes = Routes.of(table, side, reach).look_up(keys, np.arange(keys.size))
        for at, key in enumerate(keys.tolist()):
            probed = routes.probed[routes.starts[at] : routes.starts[at + 1]].tolist()
            assert len(probed) == len(set(probed))
            expected = slowly(table, side, reach, key)
            exact = not (block or table.probes_everywhere or reach == WIDE)
            assert set(probed) >= expected and (not exact or set(probed) == expected)
            assert routes.stored[at] in table.place(side, key).units


def test_shares_are_kept_and_a_seq_always_goes_to_the_same_unit():
    """Three quarters and a quarter."""
    routes = Routes.of(a_table(), LEFT, KeyBand(0, 0))
    seqs = np.arange(100_000)
    stored = routes.look_up(np.full(seqs.size, 5), seqs).stored
    assert np.mean(stored == 1) == pytest.approx(0.75, abs=0.01) and set(stored.tolist()) == {1, 6}
    assert (routes.look_up(np.full(10, 5), seqs[50:60]).stored == stored[50:60]).all()


def test_a_table_survives_json_and_is_small():
    """With orders; a table of 48 units by hash is below 20 kB."""
    piece = StateMigration(3, RIGHT, 1, 2, (LEAST, GREATEST), buckets=(1, 2), block=4, excluded_keys=(9,))
    part = StateMigration(4, LEFT, 1, 2, (5, 5), part=(0, 77), salt=4)
    table = replace(a_table(block=3), commands=EpochCommands(2, (piece,), (Cutover(part, 5, 9),)))
    assert RoutingTable.from_json(json.loads(json.dumps(table.as_json()))) == table
    assert len(json.dumps(strategy_of("hash").first(48, 48).as_json())) < 20_000


def test_units_without_room_are_refused():
    """And places where nothing is stored."""
    with pytest.raises(InvalidRoutingError, match="expected units 0 to 3"):
        replace(a_table(), max_units=4)
    with pytest.raises(InvalidRoutingError, match="needs at least one unit"):
        Placement.from_shares({})


# ---- parts of keys


def test_parts_of_different_salts_know_nothing_of_each_other():
    """A part of a part is as big as a part of the whole."""
    seqs = np.arange(100_000)
    first, second = part_of(seqs, 1) < SEQ_HASHES // 2, part_of(seqs, 2) < SEQ_HASHES // 2
    assert np.mean(second[first]) == pytest.approx(0.5, abs=0.01)
    assert np.bincount(bucket_of(seqs), minlength=BUCKETS).max() < 60


# ---- sketches


@settings(max_examples=examples(20), deadline=None)
@given(seed=st.integers(0, 1000), cuts=st.integers(1, 4))
def test_counts_are_too_small_by_what_is_missed_at_most(seed, cuts):
    """Over rounds and routers, with many more keys than counters."""
    random = np.random.default_rng(seed)
    keys = random.zipf(1.3, 120_000) % 60_000
    parts = np.array_split(keys, cuts)
    merged = merge_sketches(Sketch.empty().with_keys(part) for part in parts)
    truth = Counter(keys.tolist())
    assert merged.total == keys.size and merged.keys.size <= COUNTERS
    assert merged.missed <= keys.size / COUNTERS
    counts = dict(zip(merged.keys.tolist(), merged.counts.tolist(), strict=True))
    assert all(count - merged.missed <= counts.get(key, 0) <= count for key, count in truth.items())


def test_a_sketch_is_the_same_each_time():
    """Keys in their order; the heaviest first when it is printed."""
    keys = np.random.default_rng(1).zipf(1.5, 200_000)
    one, two = (Sketch.empty().with_keys(keys) for _ in range(2))
    assert one.to_batch().equals(two.to_batch()) and one.top(3) == two.top(3)
    assert [key for key, _ in one.top(3)] == [1, 2, 3]
    assert Sketch.from_json(json.loads(json.dumps(one.as_json()))).top() == one.top()


# ---- one key: the units that store it, those that it probes, and whether it is heavy


def routed() -> RoutingTable:
    """Four units; the left tuples of key 7 are split, its right ones are on one unit, and so is key 9."""
    draft = TableDraft(table_by_hash(4, 4))
    draft.route_key(LEFT, 7, Placement.from_shares({0: 0.75, 2: 0.25}))
    draft.route_key(RIGHT, 7, Placement.from_shares([3]))
    draft.route_key(LEFT, 9, Placement.from_shares([1]))
    return draft.table()


def explanation(*heavy: HeavyKeySide) -> dict[str, Any]:
    """What the controller reported about units of 1,000 tuples."""
    loads = Loads(dict.fromkeys(range(4), (500, 500)), heavy)
    return {
        "max_imbalance": 0.05, "used": [0, 1, 2, 3], "loads": loads.stored, "uncounted_at_most": (3, 0),
        "heavy_keys": heavy_key_rows(routed(), loads, 0.05),
    }  # fmt: skip


def test_a_split_key_is_heavy_and_probes_where_its_partners_are() -> None:
    """A left tuple goes to one of two units and probes the one of the right tuples, and possibly their former ones."""
    explained_key = explain_key(routed(), EQUAL, 7, explanation(HeavyKeySide(LEFT, 7, {0: 300, 2: 100}, 20)))
    assert explained_key.is_heavy and explained_key.share == 0.4
    assert explained_key.reason == "its tuples are split over several units, 40.0% of a unit's mean load"
    left, right = explained_key.sides
    assert (left.placement, left.tuples, left.parts, left.probes) == ("split", 400, {0: 300, 2: 100}, 20)
    assert set(left.stores) == {0, 2} and 3 in left.probed_units
    assert (right.placement, right.stores, right.tuples) == ("pinned", {3: 1.0}, None)
    assert {0, 2} <= set(right.probed_units)
    assert left.sentence.startswith("A new left tuple is split over units 0, 2: 75% on 0, 25% on 2, and probes unit")


def test_a_key_is_heavy_above_the_tolerated_imbalance_and_not_at_it() -> None:
    """Both sides count together."""
    at_it = explain_key(
        routed(), EQUAL, 11, explanation(HeavyKeySide(LEFT, 11, {0: 30}), HeavyKeySide(RIGHT, 11, {0: 20}))
    )
    above = explain_key(
        routed(), EQUAL, 11, explanation(HeavyKeySide(LEFT, 11, {0: 30}), HeavyKeySide(RIGHT, 11, {0: 21}))
    )
    assert not at_it.is_heavy and above.is_heavy
    assert at_it.reason == "its 50 tuples are 5.0% of a unit's mean load, not more than max_imbalance, 5.0%"
    assert above.sides[0].placement == "hash" and above.sides[0].stores == above.sides[1].stores


def test_a_key_that_is_not_counted_has_few_tuples_at_most() -> None:
    """By the error of the sketch, on each side."""
    explained_key = explain_key(routed(), EQUAL, 9, explanation())
    assert (explained_key.is_heavy, explained_key.reason) == (False, "it is too rare to be counted")
    assert [(side.tuples, side.at_most) for side in explained_key.sides] == [(None, 3), (None, 0)]
    assert "is pinned to unit 1" in explained_key.sides[0].sentence


def test_the_list_of_counted_keys_marks_the_heavy_ones() -> None:
    """The one with most tuples first."""
    rows = explanation(
        HeavyKeySide(LEFT, 5, {1: 10}), HeavyKeySide(LEFT, 6, {1: 90}), HeavyKeySide(LEFT, 7, {0: 3, 2: 1})
    )
    marked = [(row["key"], row["is_heavy"], row["placement"]) for row in rows["heavy_keys"]]
    assert marked == [(6, True, "hash"), (5, False, "hash"), (7, True, "split")]
