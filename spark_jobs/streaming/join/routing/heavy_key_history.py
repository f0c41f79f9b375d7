"""Tuples of each heavy key on each unit, computed from the routers' counts and from the table that routed them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from springline.spark_jobs.streaming.join.buckets import bucket_of
from springline.spark_jobs.streaming.join.routing.loads import HeavyKeySide
from springline.spark_jobs.streaming.join.routing.moves import PendingMigration
from springline.spark_jobs.streaming.join.routing.sketch import Sketch
from springline.spark_jobs.streaming.join.routing.table import SIDES, Placement, RoutingTable

Parts = Mapping[int, Mapping[int, int]]


@dataclass(frozen=True)
class HeavyKeyHistory:
    """Tuples on each unit, by side and key: the last counts of the sketches, corrected by the migrations since.

    It is exact except for the sketches' error, and for tuples between a change of the table and the next report.
    """

    parts: tuple[Parts, Parts] = field(default=({}, {}))

    def with_sketches(self, table: RoutingTable, sketches: tuple[Sketch, Sketch]) -> HeavyKeyHistory:
        """Add new tuples at the units that store them now; keys that are no longer heavy are dropped."""
        by_side: list[Parts] = []
        for side in SIDES:
            key_parts: dict[int, Mapping[int, int]] = {
                key: self.parts[side][key] for key in table.entries[side] if key in self.parts[side]
            }
            for key, count in sketches[side].top():
                previous = self.parts[side].get(key, {})
                more = count - sum(previous.values())
                key_parts[key] = _add_tuples(previous, more, table.place(side, key)) if more > 0 else previous
            by_side.append(key_parts)
        return HeavyKeyHistory((by_side[0], by_side[1]))

    def with_migration(
        self, pending: PendingMigration, tuples: int, table: RoutingTable, *, is_last: bool
    ) -> HeavyKeyHistory:
        """Move a migration's tuples from its giver to its receiver; if it `is_last`, the giver keeps none."""
        migration = pending.migration
        parts = {key: dict(own) for key, own in self.parts[migration.side].items()}
        if not migration.buckets:
            own = parts.setdefault(migration.keys[0], {})
            moved_tuples = own.get(migration.giver, 0) if is_last else min(tuples, own.get(migration.giver, 0))
            _shift_tuples(own, migration.giver, migration.receiver, moved_tuples)
        else:
            keys = [key for key in sorted(parts) if key not in table.entries[migration.side]]
            for key, bucket in zip(keys, bucket_of(keys, table.block).tolist() if keys else [], strict=True):
                if bucket in migration.buckets:
                    _shift_tuples(parts[key], migration.giver, migration.receiver, parts[key].get(migration.giver, 0))
        by_side: list[Parts] = list(self.parts)
        by_side[migration.side] = parts
        return HeavyKeyHistory((by_side[0], by_side[1]))

    def heavy(self, sketches: tuple[Sketch, Sketch]) -> list[HeavyKeySide]:
        """Return the heavy keys, with their probes by the sketches."""
        counts = tuple(dict(sketch.top()) for sketch in sketches)
        return [
            HeavyKeySide(side, key, dict(self.parts[side][key]), counts[side.other].get(key, 0))
            for side in SIDES
            for key in sorted(self.parts[side])
        ]


def _add_tuples(previous: Mapping[int, int], more: int, place: Placement) -> dict[int, int]:
    parts, remaining = dict(previous), more
    for unit in place.units:
        own = remaining if unit == place.units[-1] else min(round(more * place.share(unit)), remaining)
        parts[unit] = parts.get(unit, 0) + own
        remaining -= own
    return parts


def _shift_tuples(own: dict[int, int], giver: int, receiver: int, tuples: int) -> None:
    if tuples > 0:
        own[giver] = own.get(giver, 0) - tuples
        own[receiver] = own.get(receiver, 0) + tuples
        if own[giver] <= 0:
            del own[giver]
