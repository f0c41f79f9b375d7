"""The paper's D-JB: half of the units for each side, and keys that move in, out, or are split, by its heuristics.

H3 keys with entries come home to a unit that is under the bound; H1 all tuples of some keys leave a unit that is over
it, if that is enough; H2 else the keys with most tuples are split. ISM does so within the units of a side, S2SM from
the units of the heavier side to those of the lighter one. Future tuples of a key are shared as those that are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from springline.spark_jobs.streaming.join.routing.loads import Loads, Plan
from springline.spark_jobs.streaming.join.routing.strategies.bucket_packing import gathering
from springline.spark_jobs.streaming.join.routing.strategies.costs import Costs
from springline.spark_jobs.streaming.join.routing.strategies.hash_placement import (
    checked,
    places_by_hash,
    units_of,
)
from springline.spark_jobs.streaming.join.routing.strategies.migration_plan import Migrating
from springline.spark_jobs.streaming.join.routing.table import SIDES, Draft, Table

_FEW = 1e-9


@dataclass(frozen=True)
class DJB:
    """The strategy; `theta` is the paper's greatest imbalance."""

    theta: float
    costs: Costs
    name: str = field(default="djb", init=False)

    def first(self, room: int, units: int, block: int = 0) -> Table:
        """By hash on the units of each side; unlike JB, a probe goes to the units that may hold its key."""
        active = checked(room, units)
        left, right = (tuple(places_by_hash(units_of(side, units))) for side in SIDES)
        return Table(1, room, active, (left, right), block=block)

    def plan(self, table: Table, loads: Loads, units: int) -> Plan | None:
        """S2SM if the sides differ by more than the bound, then ISM on each."""
        if checked(table.room, units) != table.units:
            return self._other_units(table, loads, units)
        work = Migrating(table, loads, self.theta, self.costs)
        left, right = (units_of(side, units) for side in SIDES)
        self._between(work, left, right)
        for own in (left, right) if units > 1 else ():
            self._within(work, own)
        if not work.moves:
            return None
        before = loads.imbalance(table.units)
        reason = f"imbalance {before:.2f}, and {self.theta:.2f} is borne: {work.imbalance(table.units):.2f} afterwards"
        return Plan(work.table(), tuple(work.moves), (reason,))

    def _within(self, work: Migrating, own: Sequence[int]) -> None:
        """ISM: units under the bound take keys in, those over it give some away."""
        mean = work.mean(own)
        for unit in sorted(own, key=lambda one: (work.load[one], one)):
            if work.load[unit] < (1 - self.theta) * mean - _FEW:
                work.move_in(unit, mean, "ISM, H3")
        for unit in sorted(own, key=lambda one: (-work.load[one], one)):
            if work.load[unit] > (1 + self.theta) * mean + _FEW:
                work.move_out(unit, [one for one in own if one != unit], mean, "ISM")

    def _between(self, work: Migrating, left: Sequence[int], right: Sequence[int]) -> None:
        """S2SM: units of the heavier side give to those of the lighter one."""
        mean = work.mean([*left, *right])
        if abs(work.mean(left) - mean) <= self.theta * mean + _FEW:
            return
        heavy, light = (left, right) if work.mean(left) > mean else (right, left)
        for unit in sorted(light, key=lambda one: (work.load[one], one)):
            if work.load[unit] < (1 - self.theta) * mean - _FEW:
                work.move_in(unit, mean, "S2SM, H3")
        for unit in sorted(heavy, key=lambda one: (-work.load[one], one)):
            if work.load[unit] > (1 + self.theta) * mean + _FEW:
                work.move_out(unit, light, mean, "S2SM")

    def _other_units(self, table: Table, loads: Loads, units: int) -> Plan:
        """Buckets go elsewhere, as few as can be, and all keys come home."""
        draft = Draft(table)
        for side in SIDES:
            owners = [place.units[0] for place in table.buckets[side]]
            for bucket, place in enumerate(places_by_hash(units_of(side, units), owners)):
                draft.route_bucket(side, bucket, place)
            for key in sorted(table.entries[side]):
                draft.route_key(side, key, draft.home(side, key))
        after = draft.table(units=tuple(range(units)))
        why = f"{units} units instead of {len(table.units)}"
        return Plan(after, gathering(table, after, loads, lambda side, key: why, self.costs), (why,))
