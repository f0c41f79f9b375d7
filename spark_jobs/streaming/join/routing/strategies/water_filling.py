"""Water filling: shares of split keys, the fewest units for a key, and reassignment of buckets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

import numpy as np

from springline.spark_jobs.streaming.join.condition.checked_arithmetic import Ints
from springline.spark_jobs.streaming.join.routing.loads import Floats
from springline.spark_jobs.streaming.join.wire import JoinSide

_SWEEPS = 40
_LIGHT = 2.0  # maximum weight of an exchangeable bucket, as a multiple of the median
_LEAST_SHARE = 1e-3  # minimum share of a unit that already holds a part, since it is probed anyway


@dataclass(frozen=True)
class SplitKeySide:
    """One side of a split key: tuples by unit, expected future tuples, and the units that shall store it.

    All amounts are weights; `weight` is the weight of one tuple.
    """

    side: JoinSide
    key: int
    parts: Mapping[int, int]
    future: float
    units: tuple[int, ...] = ()
    weight: float = 1.0

    @property
    def amount(self) -> float:
        """The total weight, stored and future."""
        return self.future + sum(self.parts.values())

    @property
    def tuples(self) -> float:
        """The total number of tuples."""
        return self.amount / self.weight

    @property
    def unplaced(self) -> float:
        """The weight to be distributed: future tuples, and those on other units."""
        return self.amount - sum(self.parts.get(unit, 0) for unit in self.units)


def placed_weights(items: Sequence[SplitKeySide], max_units: int) -> Floats:
    """Return the weight of the items that their units already hold."""
    weights = np.zeros(max_units)
    for item in items:
        for unit in item.units:
            weights[unit] += item.parts.get(unit, 0)
    return weights


def relieve_units(
    items: Sequence[SplitKeySide], unit_loads: Floats, bound: float, cap: float
) -> tuple[list[SplitKeySide], Floats, dict[tuple[JoinSide, int, int], float]]:
    """Choose what units release that are above the bound even without further tuples: down to `cap`.

    Returns the items and the loads without it, and the weight released per (side, key, unit), the biggest parts first.
    """
    relieved_items, loads_after, released = list(items), unit_loads.copy(), dict[tuple[JoinSide, int, int], float]()
    for unit in np.flatnonzero(unit_loads > bound).tolist():
        candidates = [place for place, item in enumerate(relieved_items) if unit in item.units and len(item.units) > 1]
        for place in sorted(candidates, key=lambda place: (-relieved_items[place].parts.get(unit, 0), place)):
            item = relieved_items[place]
            amount = min(item.parts.get(unit, 0), int(loads_after[unit] - cap))
            if amount <= 0:
                break
            # The released weight counts as future weight, and is distributed with it.
            parts = {**item.parts, unit: item.parts[unit] - amount}
            relieved_items[place] = replace(item, parts=parts, future=item.future + amount)
            released[item.side, item.key, unit] = amount
            loads_after[unit] -= amount
    return relieved_items, loads_after, released


def water_fill(items: Sequence[SplitKeySide], base: Floats, *, from_scratch: bool = False) -> list[Floats]:
    """Distribute the unplaced weight of each item (`from_scratch`: all) so that units are level above their base."""
    load = base.copy()
    poured_by_item = [np.zeros(base.size) for _ in items]
    for sweep in range(_SWEEPS if len(items) > 1 else 1):
        worst = 0.0
        for item, poured_before in zip(items, poured_by_item, strict=True):
            units, amount = list(item.units), item.amount if from_scratch else item.unplaced
            load -= poured_before
            poured = np.zeros(base.size)
            poured[units] = _pour(load[units], amount)
            worst = max(worst, float(np.abs(poured - poured_before).max()))
            poured_before[:] = poured
            load += poured_before
        if sweep and worst < 1:
            break
    return poured_by_item


def future_shares(item: SplitKeySide, poured: Floats) -> dict[int, float]:
    """Return the shares of future tuples in proportion to what units get."""
    total = float(poured.sum()) or 1.0
    by_unit = {}
    for unit in item.units:
        least = _LEAST_SHARE if item.parts.get(unit) else 0.0
        by_unit[unit] = max(float(poured[unit]) / total, least)
    return by_unit if any(by_unit.values()) else dict.fromkeys(item.units, 1.0)


def _pour(base: Floats, amount: float) -> Floats:
    """Fill the lowest units first, until `amount` has been distributed."""
    order = np.argsort(base, kind="stable")
    heights = base[order]
    sums = np.cumsum(heights)
    counts = np.arange(1, base.size + 1)
    levels = (amount + sums) / counts
    last = int(np.flatnonzero(levels >= heights)[-1]) if amount > 0 else 0
    return np.maximum(levels[last] - base, 0) if amount > 0 else np.zeros(base.size)


def choose_units(
    left: SplitKeySide, right: SplitKeySide, base: Floats, cap: float, penalty: Floats
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Choose units for the left and the right part of a key: the fewest with room, preferably those that hold some.

    Of units with equal room, those with a lower `penalty` come first.
    """
    capacity = np.maximum(cap - base, 0.0)
    total = left.amount + right.amount

    def preference(unit: int) -> tuple[bool, float, float, int]:
        holds = (unit in left.parts or unit in right.parts) and capacity[unit] >= min(total, cap / 2)
        return not holds, -float(capacity[unit]), float(penalty[unit]), unit

    order = sorted((unit for unit in range(base.size) if capacity[unit] > cap / 100), key=preference)
    first, second = (left, right) if left.amount >= right.amount else (right, left)
    choices = []
    for shared in (True, False):
        of_first, spare = _take_units(order, capacity, first.amount, 0.0)
        rest = order[len(of_first) :]
        of_second, _ = _take_units(rest, capacity, second.amount - (spare if shared else 0.0), 0.0)
        if shared and of_first:
            of_second = [of_first[-1], *of_second]
        of_second = of_second or of_first[-1:]
        both = first.tuples + second.tuples
        outside = (
            max(0.0, both * (1 - float(capacity[list({*of_first} & {*of_second})].sum()) / total)) if total else 0.0
        )
        messages = first.tuples * len(of_second) + second.tuples * len(of_first) + outside
        choices.append((messages, tuple(of_first), tuple(of_second)))
    _, of_first_, of_second_ = min(choices, key=lambda choice: choice[0])
    return (of_first_, of_second_) if first is left else (of_second_, of_first_)


def _take_units(order: Sequence[int], capacity: Floats, amount: float, spare: float) -> tuple[list[int], float]:
    """Return as many units as `amount` needs, and the room left on the last one."""
    units: list[int] = []
    for unit in order:
        if spare >= amount:
            break
        units.append(unit)
        spare += float(capacity[unit])
    return units, max(spare - amount, 0.0)


def reassign_buckets(owners: Sequence[int], weights: Floats, capacity: Floats, slack: float) -> list[int]:
    """Reassign buckets of units without room for all of them (capacity -1: no buckets at all), moving few tuples.

    A unit above its capacity is reduced to `slack` below it, so that it is not above it again soon. The heaviest
    unplaced bucket is placed on the unit with most room, and lighter ones make way for it.
    """
    assigned = np.array(owners)
    load = np.bincount(assigned, weights, minlength=capacity.size)
    pool: list[tuple[float, int]] = []

    def shed(unit: int, spare: float, below: float) -> None:
        """Remove the heaviest buckets that exceed the unit's capacity."""
        target = max(capacity[unit] - spare, 0.0)
        # Only buckets that may be moved are examined: there are thousands, in thousands of calls.
        most = np.inf if capacity[unit] < 0 else (load[unit] - target) * 1.0001
        own = np.flatnonzero((assigned == unit) & (weights < below) & (weights <= most))
        for bucket in own[np.lexsort((own, -weights[own]))].tolist():
            excess = load[unit] - target
            if excess <= 0 and capacity[unit] >= 0:
                break
            if weights[bucket] <= excess * 1.0001 or capacity[unit] < 0:
                heappush(pool, (-weights[bucket], bucket))
                assigned[bucket] = -1
                load[unit] -= weights[bucket]

    for unit in range(capacity.size):
        if load[unit] > capacity[unit] or capacity[unit] < 0:
            shed(unit, slack, np.inf)
    while pool:
        weight, bucket = heappop(pool)
        unit = int(np.argmax(np.where(capacity < 0, -np.inf, capacity - load)))
        assigned[bucket] = unit
        load[unit] -= weight
        if load[unit] > capacity[unit]:
            shed(unit, 0.0, -weight)
    result: list[int] = pair_moves(np.array(owners), assigned, weights).tolist()
    return result


def pair_moves(owners: Ints, assigned: Ints, weights: Floats) -> Ints:
    """Return an assignment with the same loads and fewer pairs of givers and receivers; each pair is one migration.

    Light buckets that move are reassigned: sorted by giver, they fill one receiver after another.
    """
    moving = np.flatnonzero(owners != assigned)
    light = moving[weights[moving] <= _LIGHT * np.median(weights[moving])] if moving.size else moving
    if not light.size:
        return assigned
    paired_owners = assigned.copy()
    light = light[np.argsort(owners[light], kind="stable")]
    receivers, receiver_indices = np.unique(assigned[light], return_inverse=True)
    ends = np.cumsum(np.bincount(receiver_indices, weights[light]))
    middles = np.cumsum(weights[light]) - weights[light] / 2
    paired_owners[light] = receivers[np.minimum(np.searchsorted(ends, middles), receivers.size - 1)]
    return paired_owners
