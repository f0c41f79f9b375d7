"""Static join strategies: JB, JB with subgroups, and hash. They ignore loads; tuples move only on a rescale.

`jb` and `jb6` are the baselines of the paper on D-JB. `theta` and `costs` have no effect on them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from springline.spark_jobs.streaming.join.buckets import BUCKETS
from springline.spark_jobs.streaming.join.routing.loads import Loads, RebalancePlan
from springline.spark_jobs.streaming.join.routing.strategies.bucket_packing import gather_moves
from springline.spark_jobs.streaming.join.routing.strategies.costs import CostWeights
from springline.spark_jobs.streaming.join.routing.strategies.hash_placement import (
    active_units,
    places_by_hash,
    side_units,
)
from springline.spark_jobs.streaming.join.routing.table import SIDES, Placement, RoutingTable, TableDraft
from springline.spark_jobs.streaming.join.wire import JoinSide


@dataclass(frozen=True)
class StaticStrategy(ABC):
    """A strategy whose routing table depends only on the number of units and on the previous table."""

    theta: float
    costs: CostWeights
    name: ClassVar[str] = ""
    everywhere: ClassVar[bool] = False

    def first(self, max_units: int, units: int, block: int = 0) -> RoutingTable:
        """Return the initial routing table."""
        active = active_units(max_units, units)
        left, right = (tuple(self.places(side, units)) for side in SIDES)
        return RoutingTable(1, max_units, active, (left, right), block=block, probes_everywhere=self.everywhere)

    def plan(self, table: RoutingTable, loads: Loads, units: int) -> RebalancePlan | None:
        """Plan a change of the number of units that moves as few buckets as possible; None if it is unchanged."""
        active = active_units(table.max_units, units)
        if active == table.units:
            return None
        draft = TableDraft(table)
        for side in SIDES:
            for bucket, place in enumerate(self.places(side, units, [one.units[0] for one in table.buckets[side]])):
                draft.route_bucket(side, bucket, place)
        after = draft.table(units=active)
        reason = f"{units} units instead of {len(table.units)}"
        return RebalancePlan(after, gather_moves(table, after, loads, lambda side, key: reason), (reason,))

    @abstractmethod
    def places(self, side: JoinSide, units: int, owners: Sequence[int] = ()) -> list[Placement]:
        """Return the placement of each bucket of a side, close to the current `owners`."""


class Hash(StaticStrategy):
    """Both sides of a key are stored at one unit, by hash: no tuple is sent twice, but a heavy key loads its unit."""

    name = "hash"

    def places(self, side: JoinSide, units: int, owners: Sequence[int] = ()) -> list[Placement]:
        """Distribute the buckets round-robin over all units."""
        return places_by_hash(range(units), owners)


class TwoSides(StaticStrategy):
    """The paper's JB: half of the units for each side, stored by hash; a probe goes to all units of the other side."""

    name = "jb"
    everywhere = True

    def places(self, side: JoinSide, units: int, owners: Sequence[int] = ()) -> list[Placement]:
        """Distribute the buckets round-robin over the units of the side."""
        return places_by_hash(side_units(side, units), owners)


class Subgroups(StaticStrategy):
    """The paper's JB6: up to six subgroups per side, by hash; a tuple is stored at any unit of its subgroup, and probes
    all units of the other side's.
    """

    name = "jb6"
    groups = 6

    def places(self, side: JoinSide, units: int, owners: Sequence[int] = ()) -> list[Placement]:
        """Assign each bucket to a subgroup."""
        own = side_units(side, units)
        groups = max(min(self.groups, units // 2), 1)
        places = [Placement.from_shares(own[group::groups]) for group in range(groups)]
        return [places[bucket % groups] for bucket in range(BUCKETS)]
