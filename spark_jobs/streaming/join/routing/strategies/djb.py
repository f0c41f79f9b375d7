"""The paper's D-JB: half of the units for each side; keys move in, move out, or are split by its heuristics.

H3: keys with entries return to a home unit that is below the bound. H1: all tuples of some keys leave a unit that is
above the bound, if that is enough. H2: otherwise the keys with most tuples are split. ISM does this within the units
of a side, S2SM from the units of the heavier side to those of the lighter one. New tuples of a key are distributed like
the stored ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from springline.spark_jobs.streaming.join.routing.loads import Loads, RebalancePlan
from springline.spark_jobs.streaming.join.routing.strategies.bucket_packing import gather_moves
from springline.spark_jobs.streaming.join.routing.strategies.costs import CostWeights
from springline.spark_jobs.streaming.join.routing.strategies.hash_placement import (
    active_units,
    places_by_hash,
    side_units,
)
from springline.spark_jobs.streaming.join.routing.strategies.migration_plan import MigrationPlanner
from springline.spark_jobs.streaming.join.routing.table import SIDES, RoutingTable, TableDraft

_FEW = 1e-9


@dataclass(frozen=True)
class DJB:
    """The strategy D-JB; `theta` is the paper's greatest imbalance."""

    theta: float
    costs: CostWeights
    name: str = field(default="djb", init=False)

    def first(self, max_units: int, units: int, block: int = 0) -> RoutingTable:
        """Place buckets by hash on each side's units; unlike in JB, a probe goes only to units that may hold a key."""
        active = active_units(max_units, units)
        left, right = (tuple(places_by_hash(side_units(side, units))) for side in SIDES)
        return RoutingTable(1, max_units, active, (left, right), block=block)

    def plan(self, table: RoutingTable, loads: Loads, units: int) -> RebalancePlan | None:
        """Apply S2SM if the sides differ by more than the bound, then ISM on each."""
        if active_units(table.max_units, units) != table.units:
            return self._change_units(table, loads, units)
        planner = MigrationPlanner(table, loads, self.theta, self.costs)
        left, right = (side_units(side, units) for side in SIDES)
        self._balance_between(planner, left, right)
        for own in (left, right) if units > 1 else ():
            self._balance_within(planner, own)
        if not planner.moves:
            return None
        before = loads.imbalance(table.units)
        reason = f"imbalance {before:.2f}, limit {self.theta:.2f}: {planner.imbalance(table.units):.2f} afterwards"
        return RebalancePlan(planner.table(), tuple(planner.moves), (reason,))

    def _balance_within(self, planner: MigrationPlanner, own: Sequence[int]) -> None:
        """ISM: units below the bound take keys in, those above it move some out."""
        mean = planner.mean(own)
        for unit in sorted(own, key=lambda one: (planner.load[one], one)):
            if planner.load[unit] < (1 - self.theta) * mean - _FEW:
                planner.move_in(unit, mean, "ISM, H3")
        for unit in sorted(own, key=lambda one: (-planner.load[one], one)):
            if planner.load[unit] > (1 + self.theta) * mean + _FEW:
                planner.move_out(unit, [one for one in own if one != unit], mean, "ISM")

    def _balance_between(self, planner: MigrationPlanner, left: Sequence[int], right: Sequence[int]) -> None:
        """S2SM: units of the heavier side move keys to those of the lighter one."""
        mean = planner.mean([*left, *right])
        if abs(planner.mean(left) - mean) <= self.theta * mean + _FEW:
            return
        heavy, light = (left, right) if planner.mean(left) > mean else (right, left)
        for unit in sorted(light, key=lambda one: (planner.load[one], one)):
            if planner.load[unit] < (1 - self.theta) * mean - _FEW:
                planner.move_in(unit, mean, "S2SM, H3")
        for unit in sorted(heavy, key=lambda one: (-planner.load[one], one)):
            if planner.load[unit] > (1 + self.theta) * mean + _FEW:
                planner.move_out(unit, light, mean, "S2SM")

    def _change_units(self, table: RoutingTable, loads: Loads, units: int) -> RebalancePlan:
        """Move buckets to the new units with the fewest moves; all keys return home."""
        draft = TableDraft(table)
        for side in SIDES:
            owners = [place.units[0] for place in table.buckets[side]]
            for bucket, place in enumerate(places_by_hash(side_units(side, units), owners)):
                draft.route_bucket(side, bucket, place)
            for key in sorted(table.entries[side]):
                draft.route_key(side, key, draft.home(side, key))
        after = draft.table(units=tuple(range(units)))
        cause = f"{units} units instead of {len(table.units)}"
        return RebalancePlan(after, gather_moves(table, after, loads, lambda side, key: cause, self.costs), (cause,))
