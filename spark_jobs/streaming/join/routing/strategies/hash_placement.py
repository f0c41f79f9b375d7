"""Placement by hash, the initial one of strategies: every bucket on one unit, round-robin."""

from __future__ import annotations

from collections.abc import Sequence

from springline.spark_jobs.streaming.join.errors import InvalidRoutingError
from springline.spark_jobs.streaming.join.routing.strategies.bucket_packing import even_placements, spread_buckets
from springline.spark_jobs.streaming.join.routing.table import Placement, RoutingTable
from springline.spark_jobs.streaming.join.wire import JoinSide


def side_units(side: JoinSide, units: int) -> tuple[int, ...]:
    """Return the units of a side: even ones for left, odd ones for right; a single unit has both sides."""
    return tuple(range(units))[side::2] if units > 1 else (0,)


def active_units(max_units: int, units: int) -> tuple[int, ...]:
    """Return units 0 to `units` - 1; raises `InvalidRoutingError`."""
    if not 1 <= units <= max_units:
        raise InvalidRoutingError(f"{units} units: expected 1 to {max_units}; request fewer, or increase max_units")
    return tuple(range(units))


def places_by_hash(units: Sequence[int], owners: Sequence[int] = ()) -> list[Placement]:
    """Return the placement of each bucket, evenly over units; if buckets have `owners`, with the fewest moves."""
    if not owners:
        return even_placements(units)
    places = {unit: Placement.from_shares([unit]) for unit in units}
    return [places[unit] for unit in spread_buckets(owners, units)]


def table_by_hash(max_units: int, units: int, block: int = 0) -> RoutingTable:
    """Return a table with both sides of a key on one unit; raises `InvalidRoutingError`."""
    active = active_units(max_units, units)
    places = tuple(places_by_hash(active))
    return RoutingTable(1, max_units, active, (places, places), block=block)
