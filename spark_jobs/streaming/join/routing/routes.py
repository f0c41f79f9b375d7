"""Routing lookups: the unit that stores each tuple and the units to probe, for millions of tuples per second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from springline.spark_jobs.streaming.join.buckets import bucket_of
from springline.spark_jobs.streaming.join.routing import kernels
from springline.spark_jobs.streaming.join.routing.table import Placement, RoutingTable
from springline.spark_jobs.streaming.join.wire import Action, JoinSide, KeyBand

ACTIONS = (Action.STORE, Action.PROBE, Action.BOTH)
_MOST_BLOCKS = 256  # a band over more blocks probes every unit of the other side

Ints = npt.NDArray[np.int64]
Units = npt.NDArray[np.int32]


class RouteLookup(NamedTuple):
    """The unit that stores each tuple, and the units that it probes: `probed[starts[i]:starts[i + 1]]`."""

    stored: Units
    starts: Ints
    probed: Units


class RowsByTarget(NamedTuple):
    """Rows by target: those of target t are `rows[bounds[t]:bounds[t + 1]]`; t is 3 · unit + the action's number."""

    rows: Ints
    bounds: Ints

    @property
    def messages(self) -> int:
        """The number of messages, one per tuple and target unit."""
        return self.rows.size

    @property
    def stored(self) -> Ints:
        """The number of tuples that each unit stores."""
        counts = np.diff(self.bounds).reshape(-1, len(ACTIONS))
        return np.asarray(counts[:, ACTIONS.index(Action.STORE)] + counts[:, ACTIONS.index(Action.BOTH)])


@dataclass(frozen=True)
class Routes:
    """Lookup arrays for the tuples of one side."""

    own: _PlacementArrays
    other: _PlacementArrays
    own_of: Units
    other_of: Units
    slots: kernels.EntrySlots
    band: tuple[int, int] | None
    other_keys: Ints
    other_entries: Units
    block: int
    max_units: int

    @staticmethod
    def of(table: RoutingTable, side: JoinSide, key_band: KeyBand) -> Routes:
        """Build the lookup for the tuples of a side; `key_band` is the condition's, seen from the left."""
        side_band, other = key_band.from_side(side), side.other
        owns = _number_placements(table, side)
        others = _number_placements(table, other)
        band = (
            None
            if side_band.low is None or side_band.high is None or side_band.is_equality
            else (side_band.low, side_band.high)
        )
        is_wide = band is not None and ((band[1] - band[0]) >> table.block) >= _MOST_BLOCKS
        if table.probes_everywhere or not side_band.is_bounded or is_wide:
            every = Placement(((0, 1),), table.holders(other))
            others, band = (
                _NumberedPlacements([every], np.zeros_like(others.buckets), np.empty(0, np.int64), _NONE),
                None,
            )
        keys = np.union1d(owns.keys, others.keys) if band is None else owns.keys
        slots = kernels.slots_of(
            keys, _entry_numbers(owns, keys), _entry_numbers(others, keys), bucket_of(keys, table.block)
        )
        return Routes(
            _PlacementArrays.of(owns.places), _PlacementArrays.of(others.places), owns.buckets, others.buckets, slots,
            band,
            others.keys, others.entries, table.block, table.max_units,
        )  # fmt: skip

    def look_up(self, keys: Ints, seqs: Ints) -> RouteLookup:
        """Return the units that store these tuples and the units that they probe."""
        stored, starts = np.empty(keys.size, np.int32), np.zeros(keys.size + 1, np.int64)
        probes = np.empty(keys.size, np.int32)
        own, other = self.own, self.other
        kernels.find_placements(
            keys, seqs, self.block, self.own_of, self.other_of, *self.slots,
            own.starts, own.units, own.upto, stored, probes,
        )  # fmt: skip
        if self.band is None:
            kernels.count_probes(probes, other.holder_starts, starts)
            probed = np.empty(int(starts[-1]), np.int32)
            kernels.fill_probes(probes, other.holder_starts, other.holders, starts, probed)
            return RouteLookup(stored, starts, probed)
        band_arguments = (keys, self.block, *self.band, self.other_of, self.other_keys, self.other_entries)
        kernels.find_band_probes(
            *band_arguments, other.holder_starts, other.holders, self.max_units, starts, _NONE, True
        )
        probed = np.empty(int(starts[-1]), np.int32)
        kernels.find_band_probes(
            *band_arguments, other.holder_starts, other.holders, self.max_units, starts, probed, False
        )
        return RouteLookup(stored, starts, probed)

    def group_rows(self, keys: Ints, seqs: Ints) -> RowsByTarget:
        """Return the rows of these tuples by unit and action."""
        lookup = self.look_up(keys, seqs)
        bounds = np.zeros(3 * self.max_units + 1, np.int64)
        kernels.count_targets(*lookup, bounds)
        rows = np.empty(int(bounds[-1]), np.int64)
        kernels.fill_targets(*lookup, bounds[:-1].copy(), rows)
        return RowsByTarget(rows, bounds)


_NONE = np.empty(0, np.int32)


class _NumberedPlacements(NamedTuple):
    """The distinct placements of a side, and the placement number of each bucket and of each key with an entry."""

    places: list[Placement]
    buckets: Units
    keys: Ints
    entries: Units


def _number_placements(table: RoutingTable, side: JoinSide) -> _NumberedPlacements:
    places = sorted(table.places(side), key=lambda place: (place.stores, place.holds))
    numbers = {place: number for number, place in enumerate(places)}
    keys = sorted(table.entries[side])
    buckets = np.array([numbers[place] for place in table.buckets[side]], np.int32)
    entries = np.array([numbers[table.entries[side][key]] for key in keys], np.int32)
    return _NumberedPlacements(places, buckets, np.array(keys, np.int64), entries)


def _entry_numbers(numbers: _NumberedPlacements, keys: Ints) -> Units:
    """Return the number of each key's placement by its entry; -1 if it has none."""
    entry_numbers = np.full(keys.size, -1, np.int32)
    inside = np.isin(numbers.keys, keys)
    entry_numbers[np.searchsorted(keys, numbers.keys[inside])] = numbers.entries[inside]
    return entry_numbers


@dataclass(frozen=True)
class _PlacementArrays:
    """The units of placements, concatenated."""

    starts: Ints
    units: Units
    upto: Ints  # the end of each unit's range of the 2^32 hashes
    holder_starts: Ints
    holders: Units

    @staticmethod
    def of(places: list[Placement]) -> _PlacementArrays:
        def ends(lengths: list[int]) -> Ints:
            return np.cumsum([0, *lengths], dtype=np.int64)

        upto = [np.cumsum([share for _, share in place.stores], dtype=np.int64) for place in places]
        return _PlacementArrays(
            ends([len(place.stores) for place in places]),
            np.array([unit for place in places for unit in place.units], np.int32),
            np.concatenate(upto),
            ends([len(place.holds) for place in places]),
            np.array([unit for place in places for unit in place.holds], np.int32),
        )
