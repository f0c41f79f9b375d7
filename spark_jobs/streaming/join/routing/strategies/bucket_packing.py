"""Moves of stored tuples to the units that now store their keys, and distribution of buckets with few moves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from springline.spark_jobs.streaming.join.buckets import BUCKETS, bucket_of
from springline.spark_jobs.streaming.join.routing.loads import Floats, Loads, Move, bucket_weights
from springline.spark_jobs.streaming.join.routing.strategies.costs import PAPER_WEIGHTS, CostWeights
from springline.spark_jobs.streaming.join.routing.strategies.water_filling import SplitKeySide
from springline.spark_jobs.streaming.join.routing.table import SIDES, Placement, RoutingTable
from springline.spark_jobs.streaming.join.wire import JoinSide


def spread_buckets(owners: Sequence[int], units: Sequence[int]) -> list[int]:
    """Distribute buckets over units as evenly as possible (counts differ by at most one), with the fewest moves."""
    assigned, own = list(owners), defaultdict(list)
    for bucket, unit in enumerate(assigned):
        own[unit].append(bucket)
    most, more = divmod(len(assigned), len(units))
    by_size = sorted(units, key=lambda unit: (-len(own[unit]), unit))
    quotas = {unit: most + (index < more) for index, unit in enumerate(by_size)}
    free = [bucket for unit in sorted(own) for bucket in own[unit][quotas.get(unit, 0) :]]
    for unit in units:
        for _ in range(quotas[unit] - len(own[unit])):
            assigned[free.pop()] = unit
    return assigned


def even_placements(units: Sequence[int]) -> list[Placement]:
    """Place every bucket on one unit, round-robin."""
    places = [Placement.from_shares([unit]) for unit in units]
    return [places[bucket % len(units)] for bucket in range(BUCKETS)]


def gather_moves(
    before: RoutingTable,
    table: RoutingTable,
    loads: Loads,
    reason: Callable[[JoinSide, int | None], str],
    costs: CostWeights = PAPER_WEIGHTS[0],
) -> tuple[Move, ...]:
    """Return the moves after which only units that store a bucket or key hold it; keys first, the heaviest first."""
    parts = {(heavy.side, heavy.key): heavy.parts for heavy in loads.heavy}
    sizes = defaultdict(int, {(heavy.side, heavy.key): heavy.count for heavy in loads.heavy})
    total = loads.total
    keys: list[Move] = []
    buckets: list[Move] = []
    for side in SIDES:
        for key, place in sorted(table.entries[side].items()):
            key_parts = parts.get((side, key), {})
            home = set(table.home(side, key).units)
            for giver in sorted(set(place.holds) - set(place.units)):
                kind = "move-in" if set(place.units) == home else "move-out" if len(place.units) == 1 else "split"
                for receiver, start, share in _placement_ranges(place):
                    tuples = int(key_parts.get(giver, 0) * share)
                    cost = costs.migration_cost(total, tuples, entries=int(kind != "move-in"))
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
            if place.holds == place.units:
                continue
            for giver in sorted(set(place.holds) - set(place.units)):
                groups[giver, place.units[bucket % len(place.units)]].append(bucket)
        for (giver, receiver), bucket_group in sorted(groups.items()):
            tuples = int(weights[side][bucket_group].sum())
            cost = costs.migration_cost(total, tuples)
            buckets.append(
                Move(side, giver, receiver, tuples, "bucket", reason(side, None), None, tuple(bucket_group), cost=cost)
            )
    return (
        *sorted(keys, key=lambda move: (-sizes[move.side, move.key or 0], move.side, move.key, move.giver, move.start)),
        *buckets,
    )


def relief_moves(
    items: Sequence[SplitKeySide],
    poured: Sequence[Floats],
    released: Mapping[tuple[JoinSide, int, int], float],
    loads: Loads,
    reason: Callable[[JoinSide, int | None], str],
    costs: CostWeights,
) -> tuple[Move, ...]:
    """Return moves of part of the split keys that units hold, and still store, to the other units of the key.

    `released` is the amount to move from (side, key, unit), `poured` what each unit gets of each item, both by weight.
    """
    moves: list[Move] = []
    for item, own in zip(items, poured, strict=True):
        for giver in item.units:
            amount = released.get((item.side, item.key, giver), 0)
            if not amount:
                continue
            weights = {unit: float(own[unit]) for unit in item.units if unit != giver and own[unit] > 0}
            released_share, start = amount / (item.parts[giver] + amount), 0.0
            for unit, weight in weights.items():
                share = released_share * weight / sum(weights.values())
                tuples = int(amount * weight / sum(weights.values()) / item.weight)
                cost = costs.migration_cost(loads.total, tuples, entries=1)
                moves.append(
                    Move(
                        item.side, giver, unit, tuples, "split", reason(item.side, item.key), item.key,
                        share=share, start=start, is_complete=False, cost=cost,
                    )
                )  # fmt: skip
                start += share
    return tuple(moves)


def _placement_ranges(place: Placement) -> list[tuple[int, float, float]]:
    """Return (unit, start, share) for each unit that stores: the range of the existing tuples that it gets."""
    ranges, start = [], 0.0
    for unit in place.units:
        share = 1.0 - start if unit == place.units[-1] else place.share(unit)
        ranges.append((unit, start, share))
        start += share
    return ranges
