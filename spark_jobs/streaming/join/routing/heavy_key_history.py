"""Which unit has how many tuples of each heavy key: what routers count, by where the table sent it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from springline.spark_jobs.streaming.join.buckets import bucket_of
from springline.spark_jobs.streaming.join.routing.loads import Heavy
from springline.spark_jobs.streaming.join.routing.moves import Pending
from springline.spark_jobs.streaming.join.routing.sketch import Sketch
from springline.spark_jobs.streaming.join.routing.table import SIDES, Place, Table

Parts = Mapping[int, Mapping[int, int]]


@dataclass(frozen=True)
class Recollection:
    """By side and key, the tuples on each unit: what sketches told last, and what has moved since.

    It is right but for what sketches miss, and for what came between a change of the table and its news.
    """

    parts: tuple[Parts, Parts] = field(default=({}, {}))

    def learnt(self, table: Table, sketches: tuple[Sketch, Sketch]) -> Recollection:
        """With what came since, at the units that store it now; keys that are heavy no more are forgotten."""
        found: list[Parts] = []
        for side in SIDES:
            known: dict[int, Mapping[int, int]] = {
                key: self.parts[side][key] for key in table.entries[side] if key in self.parts[side]
            }
            for key, count in sketches[side].top():
                before = self.parts[side].get(key, {})
                more = count - sum(before.values())
                known[key] = _added(before, more, table.place(side, key)) if more > 0 else before
            found.append(known)
        return Recollection((found[0], found[1]))

    def moved(self, done: Pending, tuples: int, table: Table, *, last: bool) -> Recollection:
        """With what a piece took from its giver to its receiver; with the `last` one, the giver has none."""
        piece = done.piece
        parts = {key: dict(own) for key, own in self.parts[piece.side].items()}
        if not piece.buckets:
            own = parts.setdefault(piece.keys[0], {})
            took = own.get(piece.giver, 0) if last else min(tuples, own.get(piece.giver, 0))
            _shift(own, piece.giver, piece.receiver, took)
        else:
            keys = [key for key in sorted(parts) if key not in table.entries[piece.side]]
            for key, bucket in zip(keys, bucket_of(keys, table.block).tolist() if keys else [], strict=True):
                if bucket in piece.buckets:
                    _shift(parts[key], piece.giver, piece.receiver, parts[key].get(piece.giver, 0))
        both: list[Parts] = list(self.parts)
        both[piece.side] = parts
        return Recollection((both[0], both[1]))

    def heavy(self, sketches: tuple[Sketch, Sketch]) -> list[Heavy]:
        """The heavy keys, with the probes that sketches know of."""
        counts = tuple(dict(sketch.top()) for sketch in sketches)
        return [
            Heavy(side, key, dict(self.parts[side][key]), counts[side.other].get(key, 0))
            for side in SIDES
            for key in sorted(self.parts[side])
        ]


def _added(before: Mapping[int, int], more: int, place: Place) -> dict[int, int]:
    found, left = dict(before), more
    for unit in place.units:
        own = left if unit == place.units[-1] else min(round(more * place.share(unit)), left)
        found[unit] = found.get(unit, 0) + own
        left -= own
    return found


def _shift(own: dict[int, int], giver: int, receiver: int, tuples: int) -> None:
    if tuples > 0:
        own[giver] = own.get(giver, 0) - tuples
        own[receiver] = own.get(receiver, 0) + tuples
        if own[giver] <= 0:
            del own[giver]
