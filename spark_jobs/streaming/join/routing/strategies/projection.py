"""Loads as they will be when some more tuples have come, distributed as those that are there."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from springline.spark_jobs.streaming.join.buckets import bucket_of
from springline.spark_jobs.streaming.join.routing.loads import Floats, Loads, bucket_weights
from springline.spark_jobs.streaming.join.routing.strategies.water_filling import Item
from springline.spark_jobs.streaming.join.routing.table import SIDES, Table
from springline.spark_jobs.streaming.join.wire import Side

GROWTH = 2.0  # how far ahead loads are made level: when twice as many tuples again have come
_BIG, _STILL_BIG = 0.98, 0.8  # of what fits on a unit: so big a key is split; so big a split one stays so


@dataclass(frozen=True)
class Ahead:
    """What is to come: `rest` by side and bucket, heavy keys by side and key."""

    units: int
    mean: float
    room: int
    rest: Floats
    heavy: dict[tuple[Side, int], Item]
    bucket: dict[int, int]

    @staticmethod
    def of(table: Table, loads: Loads, units: int, pair: float = 0.0) -> Ahead:
        """By what is known now, for so many units. Routers may have told of more than units have stored yet.

        A tuple of a heavy key weighs 1, and `pair` more for each of the other side that has its key.
        """
        total: float = max(loads.total, sum(one.count for one in loads.heavy))
        rest = np.stack(bucket_weights(table, loads)) * (1 + GROWTH)
        items: dict[tuple[Side, int], Item] = {}
        for one in loads.heavy:
            weight = 1 + pair * one.probes
            parts = {unit: round(count * weight) for unit, count in one.parts.items()}
            items[one.side, one.key] = Item(one.side, one.key, parts, one.count * GROWTH * weight, weight=weight)
            total += one.count * (weight - 1)
        keys = sorted({key for _, key in items} | set(table.entries[0]) | set(table.entries[1]))
        buckets = dict(zip(keys, bucket_of(keys, table.block).tolist() if keys else [], strict=True))
        return Ahead(units, total * (1 + GROWTH) / units, table.room, rest, items, buckets)

    def item(self, side: Side, key: int) -> Item:
        """One side of a key; empty where nothing is known of it."""
        return self.heavy.get((side, key), Item(side, key, {}, 0.0))

    def size(self, key: int) -> float:
        """All that there will be of a key."""
        return sum(self.item(side, key).amount for side in SIDES)

    def of_mean(self, key: int) -> float:
        """The same beside the mean of units."""
        return self.size(key) / self.mean if self.mean else 0.0

    def split_keys(self, table: Table, cap: float) -> list[int]:
        """The keys that no unit has room for, the biggest first."""
        split = {*table.entries[0], *table.entries[1]}
        sizes = {key: self.size(key) for _, key in self.heavy}
        big = [key for key, size in sizes.items() if size > cap * (_STILL_BIG if key in split else _BIG)]
        return sorted(big, key=lambda key: (-sizes[key], key))

    def weights(self, side: Side, split: Collection[int]) -> Floats:
        """Of a side's buckets, with the heavy keys that are not split."""
        found: Floats = self.rest[side].copy()
        for (own, key), item in self.heavy.items():
            if own is side and key not in split:
                found[self.bucket[key]] += item.amount
        return found

    def bucket_loads(self, table: Table) -> Floats:
        """What units will have of keys without entries."""
        found = np.zeros(self.room)
        for side in SIDES:
            owners = np.array([place.units[0] for place in table.buckets[side]])
            found += np.bincount(owners, self.weights(side, table.entries[side]), minlength=self.room)
        return found

    def worst(self, table: Table) -> float:
        """The fullest unit's load beside the mean, once what is to move has moved."""
        found = self.bucket_loads(table)
        for side in SIDES:
            for key, place in table.entries[side].items():
                item = self.item(side, key)
                away = sum(count for unit, count in item.parts.items() if unit not in place.units)
                for unit in place.units:
                    found[unit] += place.share(unit) * (item.future + away) + item.parts.get(unit, 0)
        return float(found.max() / self.mean) if self.mean else 1.0
