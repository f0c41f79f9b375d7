"""Looking up the routing table: for each tuple the unit that stores it and those to be probed, millions a second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from springline.spark_jobs.streaming.join.buckets import bucket_of
from springline.spark_jobs.streaming.join.routing import kernels
from springline.spark_jobs.streaming.join.routing.table import Place, Table
from springline.spark_jobs.streaming.join.wire import Act, Reach, Side

ACTS = (Act.STORE, Act.PROBE, Act.BOTH)
_MOST_BLOCKS = 256  # a band over more of them than that probes every unit of the other side

Ints = npt.NDArray[np.int64]
Units = npt.NDArray[np.int32]


class Found(NamedTuple):
    """For each tuple the unit that stores it, and those that are probed: `probed[starts[i]:starts[i + 1]]`."""

    stored: Units
    starts: Ints
    probed: Units


class Grouped(NamedTuple):
    """Rows by target: those of target t are `rows[bounds[t]:bounds[t + 1]]`; t is 3 · unit + the act's number."""

    rows: Ints
    bounds: Ints

    @property
    def messages(self) -> int:
        """How many messages of one tuple that makes."""
        return self.rows.size

    @property
    def stored(self) -> Ints:
        """How many tuples each unit is to store."""
        counts = np.diff(self.bounds).reshape(-1, len(ACTS))
        return np.asarray(counts[:, ACTS.index(Act.STORE)] + counts[:, ACTS.index(Act.BOTH)])


@dataclass(frozen=True)
class Routes:
    """What tuples of one side are looked up in."""

    own: _Lists
    other: _Lists
    own_of: Units
    other_of: Units
    slots: kernels.Slots
    band: tuple[int, int] | None
    other_keys: Ints
    other_entries: Units
    block: int
    room: int

    @staticmethod
    def of(table: Table, side: Side, reach: Reach) -> Routes:
        """For the tuples of a side; `reach` is the condition's, as seen from the left."""
        seen, other = reach.seen_from(side), side.other
        owns = _numbers(table, side)
        others = _numbers(table, other)
        band = None if seen.low is None or seen.high is None or seen.is_equality else (seen.low, seen.high)
        wide = band is not None and ((band[1] - band[0]) >> table.block) >= _MOST_BLOCKS
        if table.everywhere or not seen.is_bounded or wide:
            every = Place(((0, 1),), table.holders(other))
            others, band = _Numbers([every], np.zeros_like(others.buckets), np.empty(0, np.int64), _NONE), None
        keys = np.union1d(owns.keys, others.keys) if band is None else owns.keys
        slots = kernels.slots_of(keys, _entries(owns, keys), _entries(others, keys), bucket_of(keys, table.block))
        return Routes(
            _Lists.of(owns.places), _Lists.of(others.places), owns.buckets, others.buckets, slots, band,
            others.keys, others.entries, table.block, table.room,
        )  # fmt: skip

    def look_up(self, keys: Ints, seqs: Ints) -> Found:
        """Where these tuples go."""
        stored, starts = np.empty(keys.size, np.int32), np.zeros(keys.size + 1, np.int64)
        probes = np.empty(keys.size, np.int32)
        own, other = self.own, self.other
        kernels.places_of(
            keys, seqs, self.block, self.own_of, self.other_of, *self.slots,
            own.starts, own.units, own.upto, stored, probes,
        )  # fmt: skip
        if self.band is None:
            kernels.count_held(probes, other.held_starts, starts)
            probed = np.empty(int(starts[-1]), np.int32)
            kernels.fill_held(probes, other.held_starts, other.held, starts, probed)
            return Found(stored, starts, probed)
        given = (keys, self.block, *self.band, self.other_of, self.other_keys, self.other_entries)
        kernels.reach_held(*given, other.held_starts, other.held, self.room, starts, _NONE, True)
        probed = np.empty(int(starts[-1]), np.int32)
        kernels.reach_held(*given, other.held_starts, other.held, self.room, starts, probed, False)
        return Found(stored, starts, probed)

    def grouped(self, keys: Ints, seqs: Ints) -> Grouped:
        """The rows of these tuples by unit and act."""
        found = self.look_up(keys, seqs)
        bounds = np.zeros(3 * self.room + 1, np.int64)
        kernels.count_targets(*found, bounds)
        rows = np.empty(int(bounds[-1]), np.int64)
        kernels.fill_targets(*found, bounds[:-1].copy(), rows)
        return Grouped(rows, bounds)


_NONE = np.empty(0, np.int32)


class _Numbers(NamedTuple):
    """The places of a side, which one each bucket has, which one each key with an entry."""

    places: list[Place]
    buckets: Units
    keys: Ints
    entries: Units


def _numbers(table: Table, side: Side) -> _Numbers:
    places = sorted(table.places(side), key=lambda place: (place.stores, place.holds))
    numbers = {place: number for number, place in enumerate(places)}
    keys = sorted(table.entries[side])
    buckets = np.array([numbers[place] for place in table.buckets[side]], np.int32)
    entries = np.array([numbers[table.entries[side][key]] for key in keys], np.int32)
    return _Numbers(places, buckets, np.array(keys, np.int64), entries)


def _entries(numbers: _Numbers, keys: Ints) -> Units:
    """The place of each of some keys by its entry; -1 where it has none."""
    found = np.full(keys.size, -1, np.int32)
    inside = np.isin(numbers.keys, keys)
    found[np.searchsorted(keys, numbers.keys[inside])] = numbers.entries[inside]
    return found


@dataclass(frozen=True)
class _Lists:
    """The units of places, one after the other."""

    starts: Ints
    units: Units
    upto: Ints  # the end of each unit's part of 2^32
    held_starts: Ints
    held: Units

    @staticmethod
    def of(places: list[Place]) -> _Lists:
        def ends(lengths: list[int]) -> Ints:
            return np.cumsum([0, *lengths], dtype=np.int64)

        upto = [np.cumsum([share for _, share in place.stores], dtype=np.int64) for place in places]
        return _Lists(
            ends([len(place.stores) for place in places]),
            np.array([unit for place in places for unit in place.units], np.int32),
            np.concatenate(upto),
            ends([len(place.holds) for place in places]),
            np.array([unit for place in places for unit in place.holds], np.int32),
        )
