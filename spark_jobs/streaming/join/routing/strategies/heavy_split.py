"""The strategy `heavy-split`: both sides of a key on one unit by hash; a key too large for one on the fewest units.

The left and the right part of a split key are on disjoint units, except for one shared unit: a tuple that is stored on
one of a units and probes b of them is sent b or b + 1 times, compared with a + b if both parts were on all units.
Buckets make room for split keys while they are small; later, keys are placed around what units already hold.
Remaining imbalance is removed by the shares of future tuples; stored tuples are moved last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from springline.spark_jobs.streaming.join.routing.loads import Floats, Loads, RebalancePlan
from springline.spark_jobs.streaming.join.routing.strategies.bucket_packing import gather_moves, relief_moves
from springline.spark_jobs.streaming.join.routing.strategies.costs import CostWeights
from springline.spark_jobs.streaming.join.routing.strategies.hash_placement import active_units, table_by_hash
from springline.spark_jobs.streaming.join.routing.strategies.projection import ProjectedLoads
from springline.spark_jobs.streaming.join.routing.strategies.water_filling import (
    SplitKeySide,
    choose_units,
    future_shares,
    placed_weights,
    reassign_buckets,
    relieve_units,
    water_fill,
)
from springline.spark_jobs.streaming.join.routing.table import SIDES, Placement, RoutingTable, TableDraft
from springline.spark_jobs.streaming.join.wire import JoinSide

RESULT_WORK, CANDIDATE_WORK = (
    0.25,
    0.05,
)  # work of a result of two columns, and of a candidate pair, relative to a tuple's
MARGIN = 0.1  # share of the bound that is kept free in planning
_MAX_EXTRA_UNITS = 3  # additional units of a split key before it is placed again
FEW_TUPLES = 10_000  # tuples per unit; below, new tuples restore the balance, so no stored ones are released
MAX_MOVED_SHARE = 0.01  # share of all tuples: if more had to make room for keys, keys are placed around them


@dataclass(frozen=True)
class HeavySplit:
    """The strategy; `theta` is the tolerated imbalance.

    It balances weight: a stored tuple weighs 1, plus `candidate_work` for each tuple of the other side with its key,
    plus `result_work` if that is a result. If both are 0, it balances tuples.
    """

    theta: float
    costs: CostWeights
    name: str = "heavy-split"
    result_work: float = 0.0
    candidate_work: float = 0.0

    def first(self, max_units: int, units: int, block: int = 0) -> RoutingTable:
        """Place both sides by hash."""
        return table_by_hash(max_units, units, block)

    def plan(self, table: RoutingTable, loads: Loads, units: int) -> RebalancePlan | None:
        """Plan other shares of split keys first, which moves nothing; otherwise other units for keys and buckets."""
        active = active_units(table.max_units, units)
        projected = ProjectedLoads.of(table, loads, units, self.candidate_work + self.result_work * loads.match_share)
        if active != table.units:
            return self._plan_placement(
                table, loads, projected, f"{units} units instead of {len(table.units)}", moves_buckets=True
            ).plan
        greatest_share = projected.greatest_share(table)
        if greatest_share <= 1 + self.theta:
            return None
        cause = f"the most loaded unit will have {greatest_share:.2f} times the mean; limit {1 + self.theta:.2f}"
        reshared = _reshare(table, projected)
        if projected.greatest_share(reshared) <= 1 + self.theta:
            return RebalancePlan(reshared, (), (f"{cause}: balanced by other shares of split keys",))
        best = self._plan_placement(table, loads, projected, cause, moves_buckets=True)
        if best.moved_tuples > MAX_MOVED_SHARE * loads.total:
            alternative = self._plan_placement(table, loads, projected, cause, moves_buckets=False)
            best = min((best, alternative), key=lambda one: (self._steps(one.greatest_share), one.moved_tuples))
        return best.plan if best.greatest_share < greatest_share - 0.001 else None

    def _steps(self, greatest_share: float) -> int:
        """Return the excess over the bound in steps, each of which justifies a migration."""
        return int(max(greatest_share - 1 - self.theta, 0) / max(self.theta / 2, 0.01) + 0.99)

    def _plan_placement(
        self, table: RoutingTable, loads: Loads, projected: ProjectedLoads, cause: str, *, moves_buckets: bool
    ) -> _PlacementPlan:
        """Place the split keys on units, then the buckets where there is room."""
        cap = projected.mean * (1 + self.theta * (1 - MARGIN))
        keys = projected.split_keys(table, cap)
        key_draft = TableDraft(table)  # with entries for only these keys
        for side in SIDES:
            key_draft.entries[side].clear()
            key_draft.entries[side].update(dict.fromkeys(keys, Placement.from_shares([0])))
        base_loads = np.zeros(table.max_units) if moves_buckets else projected.bucket_loads(key_draft.table())
        owners = [place.units[0] for place in table.buckets[JoinSide.LEFT]]
        weights = projected.bucket_weights_without(JoinSide.LEFT, keys) + projected.bucket_weights_without(
            JoinSide.RIGHT, keys
        )
        heaviest = np.zeros(table.max_units)
        np.maximum.at(heaviest, owners, weights)
        items, split_loads = _place_split_keys(
            keys, table, projected, base_loads, (cap, projected.mean * (1 + self.theta)), heaviest
        )
        capacity = np.where(np.arange(table.max_units) < projected.units, np.maximum(cap - split_loads, 0), -1)
        if moves_buckets:
            owners = reassign_buckets(owners, weights, capacity, projected.mean * self.theta / 2)
        unit_loads = np.bincount(owners, weights, minlength=table.max_units) + placed_weights(items, table.max_units)
        bound = projected.mean * (1 + self.theta) if loads.total > FEW_TUPLES * projected.units else np.inf
        items, unit_loads, released = relieve_units(items, unit_loads, bound, cap)
        poured = water_fill(items, unit_loads)
        after = _draft_table(table, projected, owners, items, poured)

        def reason(side: JoinSide, key: int | None) -> str:
            return cause if key is None else f"{cause}; the key will have {projected.of_mean(key):.2f} times the mean"

        relief = relief_moves(items, poured, released, loads, reason, self.costs)
        home_moves = gather_moves(table, after, loads, reason, self.costs)
        moves = (*relief, *home_moves)
        greatest_share = (
            float((unit_loads + np.sum(poured, axis=0)).max() / projected.mean)
            if released
            else projected.greatest_share(after)
        )
        plan = RebalancePlan(after, moves, (f"{cause}: {len(keys)} keys split, {len(moves)} moves",))
        return _PlacementPlan(plan, greatest_share, sum(move.tuples for move in home_moves))


def heavy_split_work(theta: float, costs: CostWeights) -> HeavySplit:
    """Make the strategy `heavy-split-work`, which balances the work that tuples cause."""
    return HeavySplit(theta, costs, "heavy-split-work", RESULT_WORK, CANDIDATE_WORK)


@dataclass(frozen=True)
class _PlacementPlan:
    """A plan, the resulting greatest load relative to the mean, and the number of tuples that return home."""

    plan: RebalancePlan
    greatest_share: float
    moved_tuples: int


def _place_split_keys(
    keys: Sequence[int],
    table: RoutingTable,
    projected: ProjectedLoads,
    base: Floats,
    caps: tuple[float, float],
    penalty: Floats,
) -> tuple[list[SplitKeySide], Floats]:
    """Return both sides of these keys with their units, and the resulting load of each unit.

    `caps`: the limit for placing a key, and the one for keeping its placement, for stability against small changes.
    """
    cap, bound = caps
    items: list[SplitKeySide] = []
    split_loads = np.zeros(projected.max_units)
    unavailable = np.where(np.arange(projected.max_units) < projected.units, 0.0, np.inf)
    for key in keys:
        sides = projected.item(JoinSide.LEFT, key), projected.item(JoinSide.RIGHT, key)
        occupied = base + split_loads + unavailable
        placed = _extend_placement(sides, table, occupied, bound)
        if placed is None:
            units = choose_units(*sides, occupied, cap, penalty)
            emptiest = (int(np.argmin(occupied)),)
            placed = [replace(item, units=own or emptiest) for item, own in zip(sides, units, strict=True)]
        items.extend(placed)
        split_loads = np.sum(water_fill(items, base, from_scratch=True), axis=0)
    return items, split_loads


def _extend_placement(
    sides: tuple[SplitKeySide, SplitKeySide], table: RoutingTable, occupied: Floats, cap: float
) -> list[SplitKeySide] | None:
    """Return a split key's units, extended by a few if they have no room; None if that is not enough."""
    places = [table.entries[item.side].get(item.key) for item in sides]
    if places[0] is None or places[1] is None:
        return None
    usable = [tuple(unit for unit in place.units if np.isfinite(occupied[unit])) for place in places if place]
    if not all(usable):
        return None
    placed = [replace(item, units=units) for item, units in zip(sides, usable, strict=True)]
    for _ in range(_MAX_EXTRA_UNITS + 1):
        used = sorted({unit for item in placed for unit in item.units})
        load = occupied + np.sum(water_fill(placed, occupied, from_scratch=True), axis=0)
        if load[used].max() <= cap:
            return placed
        free_loads = np.where(np.isin(np.arange(occupied.size), used), np.inf, occupied)
        if np.isinf(free_loads.min()):
            return None
        crowded = max((0, 1), key=lambda side: placed[side].amount / len(placed[side].units))
        one = placed[crowded]
        placed[crowded] = replace(one, units=tuple(sorted((*one.units, int(np.argmin(free_loads))))))
    return None


def _draft_table(
    table: RoutingTable,
    projected: ProjectedLoads,
    owners: Sequence[int],
    items: Sequence[SplitKeySide],
    poured: Sequence[Floats],
) -> RoutingTable:
    """Return the table with buckets on these units, and with entries only for these items."""
    draft = TableDraft(table)
    places = {unit: Placement.from_shares([unit]) for unit in set(owners)}
    split_keys = {(item.side, item.key) for item in items}
    for item, own in zip(items, poured, strict=True):
        draft.route_key(item.side, item.key, Placement.from_shares(future_shares(item, own)))
    for side in SIDES:
        for key in sorted(table.entries[side]):
            if (side, key) not in split_keys:  # it returns home
                draft.route_key(side, key, places[owners[projected.bucket[key]]])
        for bucket, unit in enumerate(owners):
            if table.buckets[side][bucket].units != (unit,):
                draft.route_bucket(side, bucket, places[unit])
    return draft.table(units=tuple(range(projected.units)))


def _reshare(table: RoutingTable, projected: ProjectedLoads) -> RoutingTable:
    """Return the table with the same placements and other shares."""
    items = [
        replace(projected.item(side, key), units=table.entries[side][key].holds)
        for side in SIDES
        for key in sorted(table.entries[side])
    ]
    poured = water_fill(items, projected.bucket_loads(table) + placed_weights(items, table.max_units))
    draft = TableDraft(table)
    for item, own in zip(items, poured, strict=True):
        draft.route_key(item.side, item.key, Placement.from_shares(future_shares(item, own)))
    return draft.table()
