"""Level filling: shares of split keys, the fewest units for a key, buckets that make room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

import numpy as np

from springline.spark_jobs.streaming.join.condition.checked_arithmetic import Ints
from springline.spark_jobs.streaming.join.routing.loads import Floats
from springline.spark_jobs.streaming.join.wire import Side

_SWEEPS = 40
_LIGHT = 2.0  # times the median: so much a bucket may weigh whose place another may take
_LEAST_SHARE = 1e-3  # of a unit that holds a part already: it goes on, since it is probed anyhow


@dataclass(frozen=True)
class Item:
    """One side of a split key: what units hold of it, how much is to come, and the units that are to have it.

    All is counted by weight; `weight` is that of a tuple.
    """

    side: Side
    key: int
    parts: Mapping[int, int]
    future: float
    units: tuple[int, ...] = ()
    weight: float = 1.0

    @property
    def amount(self) -> float:
        """All that there will be."""
        return self.future + sum(self.parts.values())

    @property
    def tuples(self) -> float:
        """How many tuples that is."""
        return self.amount / self.weight

    @property
    def open(self) -> float:
        """What is still to be given a place: all that is to come, and what other units hold."""
        return self.amount - sum(self.parts.get(unit, 0) for unit in self.units)


def kept(items: Sequence[Item], room: int) -> Floats:
    """What the items' units hold of them already."""
    found = np.zeros(room)
    for item in items:
        for unit in item.units:
            found[unit] += item.parts.get(unit, 0)
    return found


def relieved(
    items: Sequence[Item], level: Floats, bound: float, cap: float
) -> tuple[list[Item], Floats, dict[tuple[Side, int, int], float]]:
    """What units give away that would have more than the bound even if nothing more came: down to the cap.

    The items and the level without it, and how many tuples of which (side, key, unit) that is, of the biggest part
    first.
    """
    found, after, given = list(items), level.copy(), dict[tuple[Side, int, int], float]()
    for unit in np.flatnonzero(level > bound).tolist():
        mine = [place for place, item in enumerate(found) if unit in item.units and len(item.units) > 1]
        for place in sorted(mine, key=lambda place: (-found[place].parts.get(unit, 0), place)):
            item = found[place]
            gives = min(item.parts.get(unit, 0), int(after[unit] - cap))
            if gives <= 0:
                break
            # It counts as what is to come: it gets its place with that.
            parts = {**item.parts, unit: item.parts[unit] - gives}
            found[place] = replace(item, parts=parts, future=item.future + gives)
            given[item.side, item.key, unit] = gives
            after[unit] -= gives
    return found, after, given


def filled(items: Sequence[Item], base: Floats, *, anew: bool = False) -> list[Floats]:
    """What each unit gets of what is open of each item (`anew`: of all), so that units are level above their base."""
    load = base.copy()
    found = [np.zeros(base.size) for _ in items]
    for sweep in range(_SWEEPS if len(items) > 1 else 1):
        worst = 0.0
        for item, own in zip(items, found, strict=True):
            units, amount = list(item.units), item.amount if anew else item.open
            load -= own
            poured = np.zeros(base.size)
            poured[units] = _pour(load[units], amount)
            worst = max(worst, float(np.abs(poured - own).max()))
            own[:] = poured
            load += own
        if sweep and worst < 1:
            break
    return found


def shares(item: Item, poured: Floats) -> dict[int, float]:
    """The shares of future tuples by what units are to get."""
    whole = float(poured.sum()) or 1.0
    found = {}
    for unit in item.units:
        least = _LEAST_SHARE if item.parts.get(unit) else 0.0
        found[unit] = max(float(poured[unit]) / whole, least)
    return found if any(found.values()) else dict.fromkeys(item.units, 1.0)


def _pour(base: Floats, amount: float) -> Floats:
    """Fill up the lowest first, until so much has been poured."""
    order = np.argsort(base, kind="stable")
    heights = base[order]
    sums = np.cumsum(heights)
    counts = np.arange(1, base.size + 1)
    levels = (amount + sums) / counts
    last = int(np.flatnonzero(levels >= heights)[-1]) if amount > 0 else 0
    return np.maximum(levels[last] - base, 0) if amount > 0 else np.zeros(base.size)


def units_for(
    left: Item, right: Item, base: Floats, cap: float, awkward: Floats
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Units for the left and the right part of a key: the fewest with room for them, at best those that hold some.

    Of units with as much room, those that are less `awkward` come first.
    """
    room = np.maximum(cap - base, 0.0)
    whole = left.amount + right.amount

    def wanted(unit: int) -> tuple[bool, float, float, int]:
        holds = (unit in left.parts or unit in right.parts) and room[unit] >= min(whole, cap / 2)
        return not holds, -float(room[unit]), float(awkward[unit]), unit

    order = sorted((unit for unit in range(base.size) if room[unit] > cap / 100), key=wanted)
    first, second = (left, right) if left.amount >= right.amount else (right, left)
    choices = []
    for shared in (True, False):
        of_first, spare = _taken(order, room, first.amount, 0.0)
        rest = order[len(of_first) :]
        of_second, _ = _taken(rest, room, second.amount - (spare if shared else 0.0), 0.0)
        if shared and of_first:
            of_second = [of_first[-1], *of_second]
        of_second = of_second or of_first[-1:]
        both = first.tuples + second.tuples
        outside = max(0.0, both * (1 - float(room[list({*of_first} & {*of_second})].sum()) / whole)) if whole else 0.0
        messages = first.tuples * len(of_second) + second.tuples * len(of_first) + outside
        choices.append((messages, tuple(of_first), tuple(of_second)))
    _, of_first_, of_second_ = min(choices, key=lambda choice: choice[0])
    return (of_first_, of_second_) if first is left else (of_second_, of_first_)


def _taken(order: Sequence[int], room: Floats, amount: float, spare: float) -> tuple[list[int], float]:
    """As many units as it takes, and the room that is left on the last one."""
    found: list[int] = []
    for unit in order:
        if spare >= amount:
            break
        found.append(unit)
        spare += float(room[unit])
    return found, max(spare - amount, 0.0)


def rebucketed(owners: Sequence[int], weights: Floats, room: Floats, slack: float) -> list[int]:
    """Buckets elsewhere, where their unit has no room for all of them (-1: it is to have none); few tuples move.

    A unit that is over goes down to `slack` below its room, so that it is not over again soon. The heaviest bucket that
    has no place takes one where there is most room, and smaller ones make way for it.
    """
    found = np.array(owners)
    load = np.bincount(found, weights, minlength=room.size)
    pool: list[tuple[float, int]] = []

    def shed(unit: int, spare: float, below: float) -> None:
        """The heaviest that the unit must do without."""
        target = max(room[unit] - spare, 0.0)
        # Only those that may go are looked at: there are thousands, and this is done thousands of times.
        most = np.inf if room[unit] < 0 else (load[unit] - target) * 1.0001
        own = np.flatnonzero((found == unit) & (weights < below) & (weights <= most))
        for bucket in own[np.lexsort((own, -weights[own]))].tolist():
            excess = load[unit] - target
            if excess <= 0 and room[unit] >= 0:
                break
            if weights[bucket] <= excess * 1.0001 or room[unit] < 0:
                heappush(pool, (-weights[bucket], bucket))
                found[bucket] = -1
                load[unit] -= weights[bucket]

    for unit in range(room.size):
        if load[unit] > room[unit] or room[unit] < 0:
            shed(unit, slack, np.inf)
    while pool:
        weight, bucket = heappop(pool)
        unit = int(np.argmax(np.where(room < 0, -np.inf, room - load)))
        found[bucket] = unit
        load[unit] -= weight
        if load[unit] > room[unit]:
            shed(unit, 0.0, -weight)
    result: list[int] = paired(np.array(owners), found, weights).tolist()
    return result


def paired(owners: Ints, found: Ints, weights: Floats) -> Ints:
    """The same loads with fewer pairs of givers and receivers: each pair is a piece to be copied, however small.

    Light buckets that move are dealt out anew: those of one giver after those of another, to one receiver after
    another.
    """
    moving = np.flatnonzero(owners != found)
    light = moving[weights[moving] <= _LIGHT * np.median(weights[moving])] if moving.size else moving
    if not light.size:
        return found
    after = found.copy()
    light = light[np.argsort(owners[light], kind="stable")]
    receivers, wanted = np.unique(found[light], return_inverse=True)
    ends = np.cumsum(np.bincount(wanted, weights[light]))
    middles = np.cumsum(weights[light]) - weights[light] / 2
    after[light] = receivers[np.minimum(np.searchsorted(ends, middles), receivers.size - 1)]
    return after
