"""The paper's worked examples and rules, and what our own strategy promises."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from springline.persistence.errors import ExtensionError
from springline.spark_jobs.streaming.join.buckets import bucket_of
from springline.spark_jobs.streaming.join.errors import InvalidRoutingError
from springline.spark_jobs.streaming.join.routing.controller import (
    ControllerState,
    JoinObservation,
    RebalanceConfig,
    decide,
    initial_state,
)
from springline.spark_jobs.streaming.join.routing.explain import explain
from springline.spark_jobs.streaming.join.routing.loads import HeavyKeySide, Loads, Move, RebalancePlan
from springline.spark_jobs.streaming.join.routing.sketch import Sketch
from springline.spark_jobs.streaming.join.routing.strategies import STRATEGIES, strategy_of
from springline.spark_jobs.streaming.join.routing.strategies.costs import PAPER_WEIGHTS, CostWeights
from springline.spark_jobs.streaming.join.routing.strategies.water_filling import pair_moves
from springline.spark_jobs.streaming.join.routing.table import SIDES, Placement, RoutingTable, TableDraft
from springline.spark_jobs.streaming.join.wire import JoinSide
from tests.support.examples import examples

LEFT, RIGHT = SIDES
Keys = dict[tuple[JoinSide, int], dict[int, int]]


def key_at(table: RoutingTable, side: JoinSide, unit: int, *, nth: int = 0) -> int:
    """A key whose home is that unit."""
    return [key for key in range(1000) if table.home(side, key).units == (unit,)][nth]


def loads(table: RoutingTable, keys: Keys) -> Loads:
    """Units that hold these keys and nothing else."""
    stored = {
        unit: tuple(sum(parts.get(unit, 0) for (own, _), parts in keys.items() if own is side) for side in SIDES)
        for unit in range(table.max_units)
    }
    heavy = [HeavyKeySide(side, key, parts) for (side, key), parts in keys.items()]
    return Loads({unit: (two[0], two[1]) for unit, two in stored.items()}, heavy)


def after(keys: Keys, moves: tuple[Move, ...]) -> Keys:
    """Where keys are once all has moved."""
    shares = {key: dict(parts) for key, parts in keys.items()}
    for move in moves:
        parts = shares[move.side, move.key]
        parts[move.giver] -= move.tuples
        parts[move.receiver] = parts.get(move.receiver, 0) + move.tuples
    return {key: {unit: count for unit, count in parts.items() if count} for key, parts in shares.items()}


def moves_of(plan: RebalancePlan | None) -> list[tuple[str, int, int, int, int]]:
    """The moves: kind, key, tuples, from, to."""
    assert plan is not None
    return [(move.kind, move.key, move.tuples, move.giver, move.receiver) for move in plan.moves]


def table_after(plan: RebalancePlan) -> RoutingTable:
    """The plan's table when all has moved: units hold what they store, and entries of keys at home are cleared."""
    draft = TableDraft(plan.table)
    for side in SIDES:
        for key, place in draft.entries[side].items():
            draft.entries[side][key] = place.with_holders(without=place.holds)
    draft.clear_entries()
    return draft.table()


# ---- the paper


def test_the_papers_example_within_a_side():
    """t1: 10 of k1 leave; t2: k4 has grown; k1 comes home first, then 10 of k4 leave: 40 and 40."""
    strategy = strategy_of("djb", 0.0)
    table = strategy.first(4, 4)
    k1, k2 = (key_at(table, LEFT, 0, nth=nth) for nth in (0, 1))
    k3, k4 = (key_at(table, LEFT, 2, nth=nth) for nth in (0, 1))
    quiet = {(RIGHT, 1): {1: 20}, (RIGHT, 2): {3: 20}}
    keys = {(LEFT, k1): {0: 25}, (LEFT, k2): {0: 5}, (LEFT, k3): {2: 5}, (LEFT, k4): {2: 5}} | quiet
    first = strategy.plan(table, loads(table, keys), 4)
    assert moves_of(first) == [("split", k1, 10, 0, 2)]
    table = table_after(first)
    assert table.entries[LEFT].keys() == {k1}
    keys = after(keys, first.moves) | {(LEFT, k4): {2: 45}, (RIGHT, 1): {1: 40}, (RIGHT, 2): {3: 40}}
    second = strategy.plan(table, loads(table, keys), 4)
    assert moves_of(second) == [("move-in", k1, 10, 2, 0), ("split", k4, 10, 2, 0)]
    assert "H3" in second.moves[0].reason and "H2" in second.moves[1].reason
    assert [loads(table, after(keys, second.moves)).of(unit) for unit in (0, 2)] == [40, 40]
    assert table_after(second).entries[LEFT].keys() == {k4}


def test_the_papers_example_between_sides():
    """10 of Sk1 go to the R side's first unit, 10 of Sk3 to its second: 20 each."""
    strategy = strategy_of("djb", 0.0)
    table = strategy.first(4, 4)
    keys: Keys = {
        (side, key_at(table, side, unit, nth=nth)): {unit: count}
        for side, unit, counts in ((LEFT, 0, (5, 5)), (LEFT, 2, (5, 5)), (RIGHT, 1, (25, 5)), (RIGHT, 3, (25, 5)))
        for nth, count in enumerate(counts)
    }
    plan = strategy.plan(table, loads(table, keys), 4)
    sk1, sk3 = key_at(table, RIGHT, 1), key_at(table, RIGHT, 3)
    assert moves_of(plan) == [("split", sk1, 10, 1, 0), ("split", sk3, 10, 3, 2)]
    assert [loads(table, after(keys, plan.moves)).of(unit) for unit in range(4)] == [20, 20, 20, 20]
    assert plan.table.place(RIGHT, sk1).holds == (0, 1)


def test_a_whole_key_leaves_where_that_is_enough():
    """H1 before H2; the least cost of those that do."""
    strategy = strategy_of("djb", 0.1)
    table = strategy.first(4, 4)
    big, small = (key_at(table, LEFT, 0, nth=nth) for nth in (0, 1))
    keys: Keys = {(LEFT, big): {0: 25}, (LEFT, small): {0: 5}, (LEFT, key_at(table, LEFT, 2)): {2: 20}}
    keys |= {(RIGHT, 1): {1: 25}, (RIGHT, 2): {3: 25}}
    plan = strategy.plan(table, loads(table, keys), 4)
    assert moves_of(plan) == [("move-out", small, 5, 0, 2)]
    assert plan.table.place(LEFT, small).units == (2,)


def test_the_cost_is_the_weighted_sum():
    """Each weight counts for its own cost alone."""
    assert all(sum((one.routing, one.duplication, one.migration)) == pytest.approx(1) for one in PAPER_WEIGHTS)
    costs = CostWeights(0.2, 0.3, 0.5)
    assert costs.migration_cost(1000, 100) == pytest.approx(0.05)
    assert costs.migration_cost(1000, 100, entries=1, extra_probes=500) == pytest.approx(0.0002 + 0.15 + 0.05)


@settings(max_examples=examples(60), deadline=None)
@given(
    counts=st.lists(st.integers(0, 60), min_size=8, max_size=8),
    away=st.lists(st.tuples(st.integers(0, 7), st.integers(1, 30)), max_size=3),
    theta=st.sampled_from([0.0, 0.1, 0.3]),
)
def test_djb_keeps_the_bound_where_it_can_be_kept(counts, away, theta):
    """All tuples are of known keys, so it can, but for rounding; none is made or lost; H3 comes before H1 and H2."""
    strategy = strategy_of("djb", theta)
    table = strategy.first(8, 8)
    keys: Keys = {
        (LEFT, key_at(table, LEFT, 2 * (at % 4), nth=at // 4)): {2 * (at % 4): n} for at, n in enumerate(counts)
    }
    draft = TableDraft(table)
    for at, more in away:
        side, key = list(keys)[at]
        unit = (2 * (at % 4) + 2) % 8
        keys[side, key][unit] = more
        draft.route_key(
            side, key, Placement.from_shares({one: count for one, count in keys[side, key].items() if count})
        )
    total = sum(sum(parts.values()) for parts in keys.values())
    keys |= {(RIGHT, key_at(table, RIGHT, unit)): {unit: total // 4} for unit in (1, 3, 5, 7)}
    table = draft.table()
    plan = strategy.plan(table, loads(table, keys), 8)
    moves = plan.moves if plan else ()
    final_keys = after(keys, moves)
    assert {key: sum(parts.values()) for key, parts in final_keys.items()} == {
        k: sum(p.values()) for k, p in keys.items()
    }
    final_loads = loads(table, final_keys)
    mean = final_loads.mean(table.units)
    assert all(
        final_loads.of(unit) <= (1 + theta) * max(mean, final_loads.mean((0, 2, 4, 6))) + 8 for unit in (0, 2, 4, 6)
    )
    for parity in (0, 1):  # the units of a side
        first = [move.kind == "move-in" for move in moves if "ISM" in move.reason and move.giver % 2 == parity]
        assert first == sorted(first, reverse=True)
    for move in moves:
        if move.kind == "move-in":
            assert move.receiver == table.home(move.side, move.key).units[0]


# ---- all


@pytest.mark.parametrize("name", STRATEGIES.names)
def test_nothing_is_planned_while_units_are_level(name):
    """Even counts of many keys."""
    strategy = strategy_of(name)
    table = strategy.first(8, 8)
    assert strategy.plan(table, Loads(dict.fromkeys(range(8), (1000, 1000))), 8) is None


@pytest.mark.parametrize("name", ["hash", "heavy-split", "djb"])
def test_twice_the_units_take_half_of_the_buckets(name):
    """From 4 to 8 units: no bucket goes that could stay."""
    strategy = strategy_of(name)
    table = strategy.first(8, 4)
    plan = strategy.plan(table, Loads(dict.fromkeys(range(4), (1000, 1000))), 8)
    assert sum(len(move.buckets) for move in plan.moves) == pytest.approx(4096, rel=0.05)
    assert {move.receiver for move in plan.moves} == {4, 5, 6, 7}


@pytest.mark.parametrize("name", STRATEGIES.names)
def test_routers_may_know_of_keys_before_units_have_stored_any(name):
    """Reports come when they come; the units are changed all the same."""
    strategy = strategy_of(name)
    table = strategy.first(8, 4)
    early_loads = Loads(
        dict.fromkeys(range(8), (0, 0)), [HeavyKeySide(side, key, {3: 9}) for side in SIDES for key in range(9)]
    )
    plan = strategy.plan(table, early_loads, 2)
    assert plan is not None and plan.table.units == (0, 1)
    json.dumps([move.describe() for move in plan.moves])
    strategy.plan(table, early_loads, 4)


def test_what_cannot_be_is_refused():
    """With what can be; the baselines are named as such."""
    with pytest.raises(
        ExtensionError, match=r"'best'.*installed: djb, heavy-split, heavy-split-work; baselines.*: hash, jb, jb6"
    ):
        strategy_of("best")
    with pytest.raises(InvalidRoutingError, match="from 0 to below 1"):
        strategy_of("djb", 1.0)
    with pytest.raises(InvalidRoutingError, match="expected 1 to 4"):
        strategy_of("hash").first(4, 5)


# ---- our own


def test_a_key_that_fits_nowhere_is_split_over_the_fewest_units():
    """Half of all tuples, on 8 units: 2 for the left part and 2 for the right one; no other key has an entry."""
    strategy = strategy_of("heavy-split")
    table = strategy.first(8, 8)
    home = table.home(LEFT, 7).units[0]
    stored = dict.fromkeys(range(8), (500, 500))
    stored[home] = (4_500, 4_500)
    heavy = [HeavyKeySide(side, 7, {home: 4_000}, 4_000) for side in SIDES]
    plan = strategy.plan(table, Loads(stored, heavy), 8)
    assert [sorted(own) for own in plan.table.entries] == [[7], [7]]
    left, right = (plan.table.place(side, 7).units for side in SIDES)
    assert len(left) <= 3 and len(right) <= 3 and len({*left} & {*right}) <= 1


def test_a_unit_that_holds_far_too_much_of_a_split_key_gives_away_a_part():
    """Though it goes on storing the key: what came before the first look may be more than it ever has room for."""
    strategy = strategy_of("heavy-split")
    table = strategy.first(24, 24)
    home = table.home(RIGHT, 7).units[0]
    stored = dict.fromkeys(range(24), (1000, 5000)) | {home: (1000, 405_000)}
    plan = strategy.plan(table, Loads(stored, [HeavyKeySide(RIGHT, 7, {home: 400_000})]), 24)
    moves = [move for move in plan.moves if (move.side, move.key) == (RIGHT, 7)]
    moved_tuples = sum(move.tuples for move in moves)
    final = 3 * sum(map(sum, stored.values())) / 24
    assert home in plan.table.place(RIGHT, 7).units
    assert all(move.giver == home and not move.is_complete for move in moves)
    assert 400_000 - moved_tuples <= 1.05 * final
    ends = sorted((move.start, move.start + move.share) for move in moves)
    assert all(one[1] == pytest.approx(two[0]) for one, two in itertools.pairwise(ends))


def test_a_key_with_few_tuples_and_many_probes_is_split_by_the_work_that_it_makes():
    """100 tuples of 8,000, but 3,000 of the other side meet each."""
    strategy = strategy_of("heavy-split-work")
    table = strategy.first(8, 8)
    home = table.home(LEFT, 7).units[0]
    stored = dict.fromkeys(range(8), (100, 500)) | {home: (200, 3_500)}
    heavy = [HeavyKeySide(LEFT, 7, {home: 100}, 3_000), HeavyKeySide(RIGHT, 7, {home: 3_000}, 100)]
    plan = strategy.plan(table, Loads(stored, heavy, pairs=300_000), 8)
    left, right = (plan.table.place(side, 7).units for side in SIDES)
    assert len(left) >= 3 and len(right) >= 3
    assert sum(move.tuples for move in plan.moves if (move.side, move.key) == (LEFT, 7)) <= 100
    by_tuples = strategy_of("heavy-split").plan(table, Loads(stored, heavy, pairs=300_000), 8)
    assert len(by_tuples.table.place(LEFT, 7).units) == 1


@pytest.mark.parametrize(("pairs", "expected"), [(None, 1.0), (0, 0.0), (150_000, 0.5), (900_000, 1.0)])
def test_what_share_of_the_pairs_of_equal_keys_are_results_is_known_by_their_number(pairs, expected):
    assert Loads({0: (100, 3_000)}, [HeavyKeySide(LEFT, 7, {0: 100}, 3_000)], pairs=pairs).match_share == expected


def test_buckets_that_are_left_stay_together_on_both_sides():
    """So a key that is not split is stored and probed at one unit."""
    strategy = strategy_of("heavy-split")
    table = strategy.first(8, 8)
    keys = np.arange(40)
    owner = [table.buckets[LEFT][bucket].units[0] for bucket in bucket_of(keys)]
    heavy = [
        HeavyKeySide(side, int(key), {unit: 100 * (40 - int(key))})
        for side in SIDES
        for key, unit in zip(keys, owner, strict=True)
    ]
    stored = {unit: tuple(sum(h.parts.get(unit, 0) for h in heavy if h.side is s) for s in SIDES) for unit in range(8)}
    plan = strategy.plan(table, Loads(stored, heavy), 8)
    assert plan.moves and not plan.table.entries[LEFT]
    assert all(a.units == b.units for a, b in zip(*plan.table.buckets, strict=True))


def test_light_buckets_that_move_go_from_few_givers_to_few_receivers():
    """As many to each unit as before, heavy ones to where they were to go."""
    random = np.random.default_rng(1)
    owners = random.integers(0, 24, 4096)
    is_moved = random.random(4096) < 0.4
    targets = np.where(is_moved, random.integers(0, 24, 4096), owners)
    weights = np.where(np.arange(4096) == 9, 500.0, 1.0)
    after = pair_moves(owners, targets, weights)
    assert np.abs(np.bincount(after, weights) - np.bincount(targets, weights)).max() <= 1
    assert after[9] == targets[9] and (after[targets == owners] == owners[targets == owners]).all()
    assert len({(one, two) for one, two in zip(owners, after, strict=True) if one != two}) <= 24 + 24


# ---- the controller


def test_where_no_plan_was_found_none_is_looked_for_until_there_are_more_tuples():
    control = RebalanceConfig(2, "heavy-split", max_imbalance=0.05, min_tuples=1)
    sketch = Sketch.empty()

    def decided(course, tuples):
        return decide(
            course, JoinObservation({0: 1}, (sketch, sketch), dict.fromkeys(range(2), (tuples, tuples))), control, 1
        )

    course = decided(initial_state(control, 2), 1_000).state
    assert course.planned_tuples == 4_000
    assert decided(course, 1_005).state.planned_tuples == 4_000
    assert decided(course, 1_100).state.planned_tuples == 4_400
    assert ControllerState.decode(course.encode(), "here") == course


def observation_of(course: ControllerState, epoch: int) -> JoinObservation:
    """One router; unit 0 has nearly all, and half of that is of key 7."""
    home = course.table.home(LEFT, 7).units[0]
    sketch = Sketch(np.array([7]), np.array([40_000]), 80_000)
    stored = dict.fromkeys(range(8), (5000, 5000)) | {home: (45_000, 45_000)}
    return JoinObservation({0: epoch}, (sketch, sketch), stored)


def test_the_next_epoch_waits_for_routers():
    """Orders of an epoch that no round names would be lost."""
    course = initial_state(RebalanceConfig(8), 8)
    decision = decide(course, observation_of(course, 0), RebalanceConfig(8), 1)
    assert decision.table is None and "epoch 1 is not yet used by routers [0]" in decision.reasons[0]


def test_copies_come_first_and_are_of_a_bounded_size():
    """Nothing is switched to before it was copied."""
    control = RebalanceConfig(8, migration_tuples=15_000)
    course = initial_state(control, 8)
    first = decide(course, observation_of(course, 1), control, 1)
    assert first.table is not None and first.table.commands.copies and not first.table.commands.cutovers
    assert all(one.tuples <= control.migration_tuples for one in first.state.copying)


def test_what_it_sees_and_would_do_can_be_explained():
    """Before it acts: the moves that it would make, with reasons and costs; then those under way."""
    control = RebalanceConfig(8)
    course = initial_state(control, 8)
    explanation = explain(course, observation_of(course, 1), control, {"messages": 30, "tuples": 20})
    assert explanation.messages_per_tuple == 1.5 and explanation.imbalance > 3
    assert explanation.heavy_keys[0]["key"] == 7 and not explanation.entries
    assert "keys split" in explanation.next_reasons[0]
    assert explanation.planned_moves[0]["cost"] > 0 and "key 7" in explanation.planned_moves[0]["description"]
    next_state = decide(course, observation_of(course, 1), control, 1).state
    explanation = explain(next_state, observation_of(next_state, 2), control)
    assert explanation.migrations and explanation.entries and not explanation.planned_moves
    assert "wait for" in explanation.next_reasons[0]
    assert json.loads(json.dumps(explanation.as_json()))["epoch"] == 2
