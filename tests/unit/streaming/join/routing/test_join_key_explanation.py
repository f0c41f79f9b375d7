"""What a join does with one key: the units that store it, those that it probes, and whether it is heavy."""

from __future__ import annotations

from typing import Any

from springline.spark_jobs.streaming.join.routing.key_explanation import explain_key, heavy_key_rows
from springline.spark_jobs.streaming.join.routing.loads import HeavyKeySide, Loads
from springline.spark_jobs.streaming.join.routing.strategies.hash_placement import table_by_hash
from springline.spark_jobs.streaming.join.routing.table import Placement, RoutingTable, TableDraft
from springline.spark_jobs.streaming.join.wire import JoinSide, KeyBand

LEFT, RIGHT = JoinSide.LEFT, JoinSide.RIGHT
EQUAL = KeyBand(0, 0)


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
