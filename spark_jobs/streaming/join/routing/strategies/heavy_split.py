"""Our strategy: both sides of a key at one unit by hash; a key that no unit has room for, on the fewest that have.

The left and the right part of a split key lie on units of their own, but for one that has the end of the one and the
beginning of the other: a tuple that is stored on one of a units and probes b of them is sent b or b + 1 times, against
a + b when both parts lie on all. Buckets make room for split keys while they are small; later, keys are spread beside
what units hold. Shares of future tuples level what is left; stored tuples move last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from springline.spark_jobs.streaming.join.routing.loads import Floats, Loads, Plan
from springline.spark_jobs.streaming.join.routing.strategies.bucket_packing import easing, gathering
from springline.spark_jobs.streaming.join.routing.strategies.costs import Costs
from springline.spark_jobs.streaming.join.routing.strategies.hash_placement import checked, table_by_hash
from springline.spark_jobs.streaming.join.routing.strategies.projection import Ahead
from springline.spark_jobs.streaming.join.routing.strategies.water_filling import (
    Item,
    filled,
    kept,
    rebucketed,
    relieved,
    shares,
    units_for,
)
from springline.spark_jobs.streaming.join.routing.table import SIDES, Draft, Place, Table
from springline.spark_jobs.streaming.join.wire import Side

PAIR, TRIED = 0.25, 0.05  # the work of a result of two columns, and of a pair that is tried, beside a tuple's
MARGIN = 0.1  # of the bound, kept free when planning
_MORE = 3  # units that a split key is given more before it is placed anew
FEW = 10_000  # tuples a unit: while there are fewer, those that come level units, whatever one holds too much
MOVABLE = 0.01  # of all tuples: if more would have to make room for keys, keys are spread beside them


@dataclass(frozen=True)
class HeavySplit:
    """The strategy; `theta` is the imbalance that is borne.

    What is made level is weight: a stored tuple has 1, `tried` more for each tuple of the other side with its key, and
    `pair` if that is a result. With 0, units are level in tuples.
    """

    theta: float
    costs: Costs
    name: str = "heavy-split"
    pair: float = 0.0
    tried: float = 0.0

    def first(self, room: int, units: int, block: int = 0) -> Table:
        """By hash."""
        return table_by_hash(room, units, block)

    def plan(self, table: Table, loads: Loads, units: int) -> Plan | None:
        """First other shares of split keys, which move nothing; else other units for keys and buckets."""
        active = checked(table.room, units)
        ahead = Ahead.of(table, loads, units, self.tried + self.pair * loads.found)
        if active != table.units:
            return self._placed(
                table, loads, ahead, f"{units} units instead of {len(table.units)}", making_room=True
            ).plan
        worst = ahead.worst(table)
        if worst <= 1 + self.theta:
            return None
        why = f"the fullest unit will have {worst:.2f} of the mean, and {1 + self.theta:.2f} is borne"
        shared = _reshared(table, ahead)
        if ahead.worst(shared) <= 1 + self.theta:
            return Plan(shared, (), (f"{why}: other shares of split keys level it",))
        best = self._placed(table, loads, ahead, why, making_room=True)
        if best.gathered > MOVABLE * loads.total:
            beside = self._placed(table, loads, ahead, why, making_room=False)
            best = min((best, beside), key=lambda one: (self._steps(one.worst), one.gathered))
        return best.plan if best.worst < worst - 0.001 else None

    def _steps(self, worst: float) -> int:
        """How far over the bound that is, in steps that are worth a migration."""
        return int(max(worst - 1 - self.theta, 0) / max(self.theta / 2, 0.01) + 0.99)

    def _placed(self, table: Table, loads: Loads, ahead: Ahead, why: str, *, making_room: bool) -> _Placed:
        """Split keys on units, then buckets where there is room."""
        cap = ahead.mean * (1 + self.theta * (1 - MARGIN))
        keys = ahead.split_keys(table, cap)
        resting = Draft(table)  # with entries for just these keys
        for side in SIDES:
            resting.entries[side].clear()
            resting.entries[side].update(dict.fromkeys(keys, Place.at([0])))
        beside = np.zeros(table.room) if making_room else ahead.bucket_loads(resting.table())
        owners = [place.units[0] for place in table.buckets[Side.LEFT]]
        weights = ahead.weights(Side.LEFT, keys) + ahead.weights(Side.RIGHT, keys)
        heaviest = np.zeros(table.room)
        np.maximum.at(heaviest, owners, weights)
        items, big = _seated(keys, table, ahead, beside, (cap, ahead.mean * (1 + self.theta)), heaviest)
        room = np.where(np.arange(table.room) < ahead.units, np.maximum(cap - big, 0), -1)
        if making_room:
            owners = rebucketed(owners, weights, room, ahead.mean * self.theta / 2)
        level = np.bincount(owners, weights, minlength=table.room) + kept(items, table.room)
        bound = ahead.mean * (1 + self.theta) if loads.total > FEW * ahead.units else np.inf
        items, level, given = relieved(items, level, bound, cap)
        poured = filled(items, level)
        after = _drafted(table, ahead, owners, items, poured)

        def reason(side: Side, key: int | None) -> str:
            return why if key is None else f"{why}; all tuples of the key will be {ahead.of_mean(key):.2f}"

        eased = easing(items, poured, given, loads, reason, self.costs)
        gathered = gathering(table, after, loads, reason, self.costs)
        moves = (*eased, *gathered)
        worst = float((level + np.sum(poured, axis=0)).max() / ahead.mean) if given else ahead.worst(after)
        plan = Plan(after, moves, (f"{why}: {len(keys)} keys split, {len(moves)} moves",))
        return _Placed(plan, worst, sum(move.tuples for move in gathered))


def heavy_split_work(theta: float, costs: Costs) -> HeavySplit:
    """The strategy `heavy-split-work`: units are level in the work that their tuples make."""
    return HeavySplit(theta, costs, "heavy-split-work", PAIR, TRIED)


@dataclass(frozen=True)
class _Placed:
    """A plan; the load of the unit that will then be the fullest, beside the mean; tuples that have to go elsewhere."""

    plan: Plan
    worst: float
    gathered: int


def _seated(
    keys: Sequence[int], table: Table, ahead: Ahead, base: Floats, caps: tuple[float, float], awkward: Floats
) -> tuple[list[Item], Floats]:
    """Both sides of these keys with their units, and what each unit will have of them.

    `caps`: where a key is placed anew, and where it is already, which holds against small changes.
    """
    cap, bound = caps
    items: list[Item] = []
    big = np.zeros(ahead.room)
    closed = np.where(np.arange(ahead.room) < ahead.units, 0.0, np.inf)
    for key in keys:
        two = ahead.item(Side.LEFT, key), ahead.item(Side.RIGHT, key)
        taken = base + big + closed
        seated = _still(two, table, taken, bound)
        if seated is None:
            units = units_for(*two, taken, cap, awkward)
            emptiest = (int(np.argmin(taken)),)
            seated = [replace(item, units=own or emptiest) for item, own in zip(two, units, strict=True)]
        items.extend(seated)
        big = np.sum(filled(items, base, anew=True), axis=0)
    return items, big


def _still(two: tuple[Item, Item], table: Table, taken: Floats, cap: float) -> list[Item] | None:
    """The units that a split key has, with a few more if they have no room; none if that is not enough."""
    places = [table.entries[item.side].get(item.key) for item in two]
    if places[0] is None or places[1] is None:
        return None
    open_ = [tuple(unit for unit in place.units if np.isfinite(taken[unit])) for place in places if place]
    if not all(open_):
        return None
    seated = [replace(item, units=units) for item, units in zip(two, open_, strict=True)]
    for _ in range(_MORE + 1):
        used = sorted({unit for item in seated for unit in item.units})
        load = taken + np.sum(filled(seated, taken, anew=True), axis=0)
        if load[used].max() <= cap:
            return seated
        free = np.where(np.isin(np.arange(taken.size), used), np.inf, taken)
        if np.isinf(free.min()):
            return None
        crowded = max((0, 1), key=lambda side: seated[side].amount / len(seated[side].units))
        one = seated[crowded]
        seated[crowded] = replace(one, units=tuple(sorted((*one.units, int(np.argmin(free))))))
    return None


def _drafted(
    table: Table, ahead: Ahead, owners: Sequence[int], items: Sequence[Item], poured: Sequence[Floats]
) -> Table:
    """The table with buckets at these units, and entries for just these items."""
    draft = Draft(table)
    places = {unit: Place.at([unit]) for unit in set(owners)}
    stay = {(item.side, item.key) for item in items}
    for item, own in zip(items, poured, strict=True):
        draft.route_key(item.side, item.key, Place.at(shares(item, own)))
    for side in SIDES:
        for key in sorted(table.entries[side]):
            if (side, key) not in stay:  # it comes home
                draft.route_key(side, key, places[owners[ahead.bucket[key]]])
        for bucket, unit in enumerate(owners):
            if table.buckets[side][bucket].units != (unit,):
                draft.route_bucket(side, bucket, places[unit])
    return draft.table(units=tuple(range(ahead.units)))


def _reshared(table: Table, ahead: Ahead) -> Table:
    """The same places with other shares."""
    items = [
        replace(ahead.item(side, key), units=table.entries[side][key].holds)
        for side in SIDES
        for key in sorted(table.entries[side])
    ]
    poured = filled(items, ahead.bucket_loads(table) + kept(items, table.room))
    draft = Draft(table)
    for item, own in zip(items, poured, strict=True):
        draft.route_key(item.side, item.key, Place.at(shares(item, own)))
    return draft.table()
