"""Routing lookups: the unit that stores each tuple and the tasks to probe, for millions of tuples per second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from springline.spark_jobs.streaming.join.buckets import bucket_of
from springline.spark_jobs.streaming.join.routing import kernels
from springline.spark_jobs.streaming.join.routing.table import Placement, RoutingTable
from springline.spark_jobs.streaming.join.wire import MAX_UNITS, JoinSide, KeyBand

_MOST_BLOCKS = 256  # a band over more blocks probes every unit of the other side

Ints = npt.NDArray[np.int64]
Units = npt.NDArray[np.int32]


class RouteLookup(NamedTuple):
    """The unit that stores each tuple, and the tasks that it probes: `probed[starts[i]:starts[i + 1]]`."""

    stored: Units
    starts: Ints
    probed: Units


class RowsByTask(NamedTuple):
    """Rows by task and action: those of task t with action a are `rows[bounds[3 * t + a]:bounds[3 * t + a + 1]]`.

    `stored` has the unit that stores each tuple.
    """

    rows: Units
    bounds: Ints
    stored: Units

    @property
    def sent(self) -> int:
        """The number of rows that are sent: one per tuple and task."""
        return self.rows.size


@dataclass(frozen=True)
class Routes:
    """Lookup arrays for the tuples of one side; unit u belongs to task u % tasks."""

    own: _PlacementArrays
    other: _PlacementArrays
    own_of: Units
    other_of: Units
    slots: kernels.EntrySlots
    band: tuple[int, int] | None
    other_keys: Ints
    other_entries: Units
    block: int
    tasks: int

    @staticmethod
    def of(table: RoutingTable, side: JoinSide, key_band: KeyBand, tasks: int | None = None) -> Routes:
        """Build the lookup for the tuples of a side; `key_band` is the condition's, seen from the left.

        Without `tasks`, each unit is a task of its own.
        """
        tasks = table.max_units if tasks is None else tasks
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
            _PlacementArrays.of(owns.places, tasks), _PlacementArrays.of(others.places, tasks), owns.buckets,
            others.buckets, slots, band, others.keys, others.entries, table.block, tasks,
        )  # fmt: skip

    def look_up(self, keys: Ints, seqs: Ints) -> RouteLookup:
        """Return the units that store these tuples and the tasks that they probe."""
        stored, probes = self._placements(keys, seqs)
        starts = np.zeros(keys.size + 1, np.int64)
        other = self.other
        if self.band is None:
            kernels.count_probes(probes, other.holder_starts, starts)
            probed = np.empty(int(starts[-1]), np.int32)
            kernels.fill_probes(probes, other.holder_starts, other.holders, starts, probed)
            return RouteLookup(stored, starts, probed)
        band_arguments = (keys, self.block, *self.band, self.other_of, self.other_keys, self.other_entries)
        kernels.find_band_probes(*band_arguments, other.holder_starts, other.holders, self.tasks, starts, _NONE, True)
        probed = np.empty(int(starts[-1]), np.int32)
        kernels.find_band_probes(*band_arguments, other.holder_starts, other.holders, self.tasks, starts, probed, False)
        return RouteLookup(stored, starts, probed)

    def group_rows(self, keys: Ints, seqs: Ints) -> RowsByTask:
        """Return the rows of these tuples by task and action."""
        if self.band is None:
            stored, lists = self._placements(keys, seqs)
            starts, probed = self.other.holder_starts, self.other.holders
        else:
            (stored, starts, probed), lists = self.look_up(keys, seqs), _NONE
        bounds = np.zeros(3 * self.tasks + 1, np.int64)
        task_of = np.arange(MAX_UNITS, dtype=np.int32) % np.int32(self.tasks)
        kernels.count_targets(stored, lists, starts, probed, task_of, bounds)
        rows = np.empty(int(bounds[-1]), np.int32)
        kernels.fill_targets(stored, lists, starts, probed, task_of, bounds[:-1].copy(), rows)
        return RowsByTask(rows, bounds, stored)

    def _placements(self, keys: Ints, seqs: Ints) -> tuple[Units, Units]:
        """Return the unit that stores each tuple, and the number of the other side's placement of its key."""
        stored, probes = np.empty(keys.size, np.int32), np.empty(keys.size, np.int32)
        own = self.own
        kernels.find_placements(
            keys, seqs, self.block, self.own_of, self.other_of, *self.slots,
            own.starts, own.units, own.upto, stored, probes,
        )  # fmt: skip
        return stored, probes


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
    buckets = np.array(table.by_bucket(side, numbers.__getitem__), np.int32)
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
    """The units of placements that store, and the tasks of those that hold, concatenated."""

    starts: Ints
    units: Units
    upto: Ints  # the end of each unit's range of the 2^32 hashes
    holder_starts: Ints
    holders: Units

    @staticmethod
    def of(places: list[Placement], tasks: int) -> _PlacementArrays:
        def ends(lengths: list[int]) -> Ints:
            return np.cumsum([0, *lengths], dtype=np.int64)

        upto = [np.cumsum([share for _, share in place.stores], dtype=np.int64) for place in places]
        holders = [sorted({unit % tasks for unit in place.holds}) for place in places]
        return _PlacementArrays(
            ends([len(place.stores) for place in places]),
            np.array([unit for place in places for unit in place.units], np.int32),
            np.concatenate(upto),
            ends([len(own) for own in holders]),
            np.array([task for own in holders for task in own], np.int32),
        )
