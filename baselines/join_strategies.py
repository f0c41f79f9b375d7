"""Join strategies that look at no loads: JB, JB with subgroups, and hash; tuples move only when the units change.

`jb` and `jb6` are what the paper of D-JB compares with. `theta` and the costs mean nothing to them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from springline.spark_jobs.streaming.join.buckets import BUCKETS
from springline.spark_jobs.streaming.join.routing.loads import Loads, Plan
from springline.spark_jobs.streaming.join.routing.strategies.bucket_packing import gathering
from springline.spark_jobs.streaming.join.routing.strategies.costs import Costs
from springline.spark_jobs.streaming.join.routing.strategies.hash_placement import checked, places_by_hash, units_of
from springline.spark_jobs.streaming.join.routing.table import SIDES, Draft, Place, Table
from springline.spark_jobs.streaming.join.wire import Side


@dataclass(frozen=True)
class Fixed(ABC):
    """A strategy whose table follows from the number of units, and from the table before."""

    theta: float
    costs: Costs
    name: ClassVar[str] = ""
    everywhere: ClassVar[bool] = False

    def first(self, room: int, units: int, block: int = 0) -> Table:
        """The table to begin with."""
        active = checked(room, units)
        left, right = (tuple(self.places(side, units)) for side in SIDES)
        return Table(1, room, active, (left, right), block=block, everywhere=self.everywhere)

    def plan(self, table: Table, loads: Loads, units: int) -> Plan | None:
        """For other units: buckets go elsewhere, as few as can be."""
        active = checked(table.room, units)
        if active == table.units:
            return None
        draft = Draft(table)
        for side in SIDES:
            for bucket, place in enumerate(self.places(side, units, [one.units[0] for one in table.buckets[side]])):
                draft.route_bucket(side, bucket, place)
        after = draft.table(units=active)
        why = f"{units} units instead of {len(table.units)}"
        return Plan(after, gathering(table, after, loads, lambda side, key: why), (why,))

    @abstractmethod
    def places(self, side: Side, units: int, owners: Sequence[int] = ()) -> list[Place]:
        """A side's places by bucket, near to where the buckets are."""


class Hash(Fixed):
    """Both sides of a key at one unit, by hash: nothing is sent twice, and a heavy key is its unit's burden."""

    name = "hash"

    def places(self, side: Side, units: int, owners: Sequence[int] = ()) -> list[Place]:
        """In turns over all units."""
        return places_by_hash(range(units), owners)


class TwoSides(Fixed):
    """The paper's JB: half of the units for each side, stored by hash; a probe goes to all units of the other side."""

    name = "jb"
    everywhere = True

    def places(self, side: Side, units: int, owners: Sequence[int] = ()) -> list[Place]:
        """In turns over the units of the side."""
        return places_by_hash(units_of(side, units), owners)


class Subgroups(Fixed):
    """The paper's JB6: up to six subgroups a side, by hash; stored anywhere in one, probed all over the other."""

    name = "jb6"
    groups = 6

    def places(self, side: Side, units: int, owners: Sequence[int] = ()) -> list[Place]:
        """A bucket has a subgroup."""
        own = units_of(side, units)
        groups = max(min(self.groups, units // 2), 1)
        places = [Place.at(own[group::groups]) for group in range(groups)]
        return [places[bucket % groups] for bucket in range(BUCKETS)]
