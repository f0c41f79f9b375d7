"""Moving stored tuples to where their keys are stored now, and spreading buckets with few moves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from springline.spark_jobs.streaming.join.buckets import BUCKETS, bucket_of
from springline.spark_jobs.streaming.join.routing.loads import Floats, Loads, Move, bucket_weights
from springline.spark_jobs.streaming.join.routing.strategies.costs import PAPER_WEIGHTS, Costs
from springline.spark_jobs.streaming.join.routing.strategies.water_filling import Item
from springline.spark_jobs.streaming.join.routing.table import SIDES, Place, Table
from springline.spark_jobs.streaming.join.wire import Side


def levelled(owners: Sequence[int], units: Sequence[int]) -> list[int]:
    """Buckets on these units, as many on each as on any other but for one; as few as can be go elsewhere."""
    found, own = list(owners), defaultdict(list)
    for bucket, unit in enumerate(found):
        own[unit].append(bucket)
    most, more = divmod(len(found), len(units))
    by_size = sorted(units, key=lambda unit: (-len(own[unit]), unit))
    quotas = {unit: most + (place < more) for place, unit in enumerate(by_size)}
    free = [bucket for unit in sorted(own) for bucket in own[unit][quotas.get(unit, 0) :]]
    for unit in units:
        for _ in range(quotas[unit] - len(own[unit])):
            found[free.pop()] = unit
    return found


def even(units: Sequence[int]) -> list[Place]:
    """Every bucket at one unit, in turns."""
    places = [Place.at([unit]) for unit in units]
    return [places[bucket % len(units)] for bucket in range(BUCKETS)]


def gathering(
    before: Table,
    table: Table,
    loads: Loads,
    reason: Callable[[Side, int | None], str],
    costs: Costs = PAPER_WEIGHTS[0],
) -> tuple[Move, ...]:
    """The moves after which only units that store a bucket or key hold it; keys first, the heaviest first."""
    parts = {(heavy.side, heavy.key): heavy.parts for heavy in loads.heavy}
    sizes = defaultdict(int, {(heavy.side, heavy.key): heavy.count for heavy in loads.heavy})
    total = loads.total
    keys: list[Move] = []
    buckets: list[Move] = []
    for side in SIDES:
        for key, place in sorted(table.entries[side].items()):
            known = parts.get((side, key), {})
            home = set(table.home(side, key).units)
            for giver in sorted(set(place.holds) - set(place.units)):
                kind = "move-in" if set(place.units) == home else "move-out" if len(place.units) == 1 else "split"
                for receiver, start, share in _shared(place):
                    tuples = int(known.get(giver, 0) * share)
                    cost = costs.of(total, tuples, entries=int(kind != "move-in"))
                    keys.append(
                        Move(side, giver, receiver, tuples, kind, reason(side, key), key, (), share, start, True, cost)
                    )
    weights = bucket_weights(before, loads)
    for heavy in loads.heavy:
        if heavy.key not in table.entries[heavy.side]:
            weights[heavy.side][int(bucket_of(heavy.key, table.block)[0])] += heavy.count
    for side in SIDES:
        groups: Mapping[tuple[int, int], list[int]] = defaultdict(list)
        for bucket, place in enumerate(table.buckets[side]):
            for giver in sorted(set(place.holds) - set(place.units)):
                groups[giver, place.units[bucket % len(place.units)]].append(bucket)
        for (giver, receiver), some in sorted(groups.items()):
            tuples = int(weights[side][some].sum())
            cost = costs.of(total, tuples)
            buckets.append(
                Move(side, giver, receiver, tuples, "bucket", reason(side, None), None, tuple(some), cost=cost)
            )
    return (
        *sorted(keys, key=lambda move: (-sizes[move.side, move.key or 0], move.side, move.key, move.giver, move.start)),
        *buckets,
    )


def easing(
    items: Sequence[Item],
    poured: Sequence[Floats],
    given: Mapping[tuple[Side, int, int], float],
    loads: Loads,
    reason: Callable[[Side, int | None], str],
    costs: Costs,
) -> tuple[Move, ...]:
    """Moves of a part of what units hold of split keys, which they go on to store, to the key's other units.

    `given` says how much of (side, key, unit), `poured` what each unit is to get of each item, both by weight.
    """
    moves: list[Move] = []
    for item, own in zip(items, poured, strict=True):
        for giver in item.units:
            gives = given.get((item.side, item.key, giver), 0)
            if not gives:
                continue
            weights = {unit: float(own[unit]) for unit in item.units if unit != giver and own[unit] > 0}
            whole, start = gives / (item.parts[giver] + gives), 0.0
            for unit, weight in weights.items():
                share = whole * weight / sum(weights.values())
                tuples = int(gives * weight / sum(weights.values()) / item.weight)
                cost = costs.of(loads.total, tuples, entries=1)
                moves.append(
                    Move(
                        item.side, giver, unit, tuples, "split", reason(item.side, item.key), item.key,
                        share=share, start=start, whole=False, cost=cost,
                    )
                )  # fmt: skip
                start += share
    return tuple(moves)


def _shared(place: Place) -> list[tuple[int, float, float]]:
    """For each unit that stores, the range of what there is that it gets: where it begins, and its share."""
    found, start = [], 0.0
    for unit in place.units:
        share = 1.0 - start if unit == place.units[-1] else place.share(unit)
        found.append((unit, start, share))
        start += share
    return found
