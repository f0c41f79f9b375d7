"""Projected loads, after further tuples with the same distribution as the stored ones."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from springline.spark_jobs.streaming.join.buckets import bucket_of
from springline.spark_jobs.streaming.join.routing.loads import Floats, Loads, bucket_weights
from springline.spark_jobs.streaming.join.routing.strategies.water_filling import SplitKeySide
from springline.spark_jobs.streaming.join.routing.table import SIDES, RoutingTable
from springline.spark_jobs.streaming.join.wire import JoinSide

GROWTH = 2.0  # planning horizon: further tuples, as a multiple of the current ones
_BIG, _STILL_BIG = 0.98, 0.8  # of a unit's capacity: size from which a key is split, and from which it stays split


@dataclass(frozen=True)
class ProjectedLoads:
    """Projected weights: `rest` by side and bucket, heavy keys by side and key."""

    units: int
    mean: float
    max_units: int
    rest: Floats
    heavy: dict[tuple[JoinSide, int], SplitKeySide]
    bucket: dict[int, int]

    @staticmethod
    def of(table: RoutingTable, loads: Loads, units: int, pair: float = 0.0) -> ProjectedLoads:
        """Project the current loads onto `units` units. Routers may have counted tuples that units have not stored yet.

        A tuple of a heavy key weighs 1, plus `pair` for each tuple of the other side with its key.
        """
        total: float = max(loads.total, sum(one.count for one in loads.heavy))
        rest = np.stack(bucket_weights(table, loads)) * (1 + GROWTH)
        items: dict[tuple[JoinSide, int], SplitKeySide] = {}
        for one in loads.heavy:
            weight = 1 + pair * one.probes
            parts = {unit: round(count * weight) for unit, count in one.parts.items()}
            items[one.side, one.key] = SplitKeySide(
                one.side, one.key, parts, one.count * GROWTH * weight, weight=weight
            )
            total += one.count * (weight - 1)
        keys = sorted({key for _, key in items} | set(table.entries[0]) | set(table.entries[1]))
        buckets = dict(zip(keys, bucket_of(keys, table.block).tolist() if keys else [], strict=True))
        return ProjectedLoads(units, total * (1 + GROWTH) / units, table.max_units, rest, items, buckets)

    def item(self, side: JoinSide, key: int) -> SplitKeySide:
        """Return one side of a key; empty if nothing is known of it."""
        return self.heavy.get((side, key), SplitKeySide(side, key, {}, 0.0))

    def size(self, key: int) -> float:
        """Return the projected weight of a key."""
        return sum(self.item(side, key).amount for side in SIDES)

    def of_mean(self, key: int) -> float:
        """Return the projected weight of a key relative to the mean of units."""
        return self.size(key) / self.mean if self.mean else 0.0

    def split_keys(self, table: RoutingTable, cap: float) -> list[int]:
        """Return the keys that do not fit on one unit, the biggest first."""
        split = {*table.entries[0], *table.entries[1]}
        sizes = {key: self.size(key) for _, key in self.heavy}
        big = [key for key, size in sizes.items() if size > cap * (_STILL_BIG if key in split else _BIG)]
        return sorted(big, key=lambda key: (-sizes[key], key))

    def bucket_weights_without(self, side: JoinSide, split: Collection[int]) -> Floats:
        """Return the weights of a side's buckets, with the heavy keys that are not split."""
        weights: Floats = self.rest[side].copy()
        for (own, key), item in self.heavy.items():
            if own is side and key not in split:
                weights[self.bucket[key]] += item.amount
        return weights

    def bucket_loads(self, table: RoutingTable) -> Floats:
        """Return the projected loads of units from keys without entries."""
        loads = np.zeros(self.max_units)
        for side in SIDES:
            owners = np.array(table.by_bucket(side, lambda place: place.units[0]))
            loads += np.bincount(
                owners, self.bucket_weights_without(side, table.entries[side]), minlength=self.max_units
            )
        return loads

    def greatest_share(self, table: RoutingTable) -> float:
        """Return the greatest projected load relative to the mean, after all moves."""
        loads = self.bucket_loads(table)
        for side in SIDES:
            for key, place in table.entries[side].items():
                item = self.item(side, key)
                away = sum(count for unit, count in item.parts.items() if unit not in place.units)
                for unit in place.units:
                    loads[unit] += place.share(unit) * (item.future + away) + item.parts.get(unit, 0)
        return float(loads.max() / self.mean) if self.mean else 1.0
