"""Placement by hash, which strategies begin with: every bucket at one of some units, in turns."""

from __future__ import annotations

from collections.abc import Sequence

from springline.spark_jobs.streaming.join.errors import InvalidRoutingError
from springline.spark_jobs.streaming.join.routing.strategies.bucket_packing import even, levelled
from springline.spark_jobs.streaming.join.routing.table import Place, Table
from springline.spark_jobs.streaming.join.wire import Side


def units_of(side: Side, units: int) -> tuple[int, ...]:
    """The units of a side where each has half of them: even ones left, odd ones right; of one unit, both have it."""
    return tuple(range(units))[side::2] if units > 1 else (0,)


def checked(room: int, units: int) -> tuple[int, ...]:
    """Units 0 to n - 1; raises `InvalidRoutingError`."""
    if not 1 <= units <= room:
        raise InvalidRoutingError(
            f"{units} units: there is room for 1 to {room}; give the job more room, or ask for fewer"
        )
    return tuple(range(units))


def places_by_hash(units: Sequence[int], owners: Sequence[int] = ()) -> list[Place]:
    """The place of each bucket, as many on each unit; where buckets have `owners`, as few as can be go elsewhere."""
    if not owners:
        return even(units)
    places = {unit: Place.at([unit]) for unit in units}
    return [places[unit] for unit in levelled(owners, units)]


def table_by_hash(room: int, units: int, block: int = 0) -> Table:
    """The table with both sides of a key at one unit; raises `InvalidRoutingError`."""
    active = checked(room, units)
    places = tuple(places_by_hash(active))
    return Table(1, room, active, (places, places), block=block)
