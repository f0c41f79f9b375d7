"""The routing table: which unit stores a tuple, which units may hold tuples of a key; a value, one an epoch.

A key is placed by its bucket, unless it has an entry of its own, on each side by itself. A place says where tuples go
from now on (`stores`, with shares) and where tuples may be (`holds`): a unit that is to store holds from then on, and
one that held before does until all that it has of the key or bucket was moved away.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from springline.persistence.model.codec import from_plain, plain
from springline.spark_jobs.streaming.join.buckets import BUCKETS, bucket_of
from springline.spark_jobs.streaming.join.errors import InvalidRoutingError
from springline.spark_jobs.streaming.join.wire import PARTS, Orders, Reach, Side

SIDES = (Side.LEFT, Side.RIGHT)
_MOST_BLOCK = 40


@dataclass(frozen=True)
class Place:
    """Units that store, each with its share of 2^32, and all that may hold; both in the order of units."""

    stores: tuple[tuple[int, int], ...]
    holds: tuple[int, ...]

    @staticmethod
    def at(shares: Mapping[int, float] | Iterable[int], holds: Iterable[int] = ()) -> Place:
        """A place by shares of any sum, or even ones; all of `holds` may hold too."""
        told = dict(shares) if isinstance(shares, Mapping) else dict.fromkeys(shares, 1.0)
        units = sorted(unit for unit, share in told.items() if share > 0)
        if not units:
            raise InvalidRoutingError("a place needs a unit that stores: give one of them a share")
        ends = np.rint(np.cumsum([told[unit] for unit in units]) / sum(told[unit] for unit in units) * PARTS)
        shares_ = np.diff(ends.astype(np.int64), prepend=0).tolist()
        stores = tuple((unit, share) for unit, share in zip(units, shares_, strict=True) if share)
        return Place(stores, tuple(sorted({*holds, *(unit for unit, _ in stores)})))

    @cached_property
    def units(self) -> tuple[int, ...]:
        """The units that store; asked for by the thousand, since buckets are as many."""
        return tuple(unit for unit, _ in self.stores)

    def share(self, unit: int) -> float:
        """What share of tuples a unit stores."""
        return next((share / PARTS for one, share in self.stores if one == unit), 0.0)

    def holding(self, more: Iterable[int] = (), without: Iterable[int] = ()) -> Place:
        """The same with more units that may hold, and without some that do not store."""
        kept = ({*self.holds, *more} - set(without)) | set(self.units)
        return replace(self, holds=tuple(sorted(kept)))


@dataclass(frozen=True)
class Table:
    """One epoch's table: `units` of a `room` are in use; `everywhere`: probes go to all units that hold the other side.

    `buckets` has a place for each bucket, `entries` for keys that differ from theirs, each by side; keys are hashed in
    blocks of 2^block. `orders` are for the cut before the epoch's first round.
    """

    epoch: int
    room: int
    units: tuple[int, ...]
    buckets: tuple[tuple[Place, ...], tuple[Place, ...]] = field(repr=False)
    entries: tuple[Mapping[int, Place], Mapping[int, Place]] = ({}, {})
    block: int = 0
    everywhere: bool = False
    orders: Orders = field(default_factory=lambda: Orders(1))

    def __post_init__(self) -> None:
        held = {unit for side in SIDES for place in self.places(side) for unit in place.holds}
        if odd := sorted(unit for unit in held | set(self.units) if not 0 <= unit < self.room):
            raise InvalidRoutingError(
                f"units {odd}: there is room for units 0 to {self.room - 1}; give the job more room"
            )
        if any(len(places) != BUCKETS for places in self.buckets):
            raise InvalidRoutingError(f"a table needs {BUCKETS} buckets on each side")

    def places(self, side: Side) -> set[Place]:
        """All places of a side."""
        every = {id(place): place for place in (*self.buckets[side], *self.entries[side].values())}
        return set(every.values())

    def place(self, side: Side, key: int) -> Place:
        """Where tuples of a key are."""
        own = self.entries[side].get(key)
        return self.home(side, key) if own is None else own

    def home(self, side: Side, key: int) -> Place:
        """Where the key's bucket is."""
        return self.buckets[side][int(bucket_of(key, self.block)[0])]

    def holders(self, side: Side) -> tuple[int, ...]:
        """All units that may hold tuples of a side."""
        return tuple(sorted({unit for place in self.places(side) for unit in place.holds}))

    @cached_property
    def entries_in(self) -> tuple[Mapping[int, tuple[int, ...]], Mapping[int, tuple[int, ...]]]:
        """The keys with entries of each bucket, by side."""
        found: tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]] = ({}, {})
        for side in SIDES:
            keys = sorted(self.entries[side])
            for key, bucket in zip(keys, bucket_of(keys, self.block).tolist() if keys else [], strict=True):
                found[side][bucket] = (*found[side].get(bucket, ()), key)
        return found

    def as_json(self) -> dict[str, Any]:
        """A form for files and rounds: places once each, their numbers by bucket packed."""
        every = sorted(self.places(Side.LEFT) | self.places(Side.RIGHT), key=lambda place: (place.stores, place.holds))
        numbers = {place: number for number, place in enumerate(every)}
        return {
            "epoch": self.epoch,
            "room": self.room,
            "units": list(self.units),
            "block": self.block,
            "everywhere": self.everywhere,
            "places": [{"stores": [list(one) for one in place.stores], "holds": list(place.holds)} for place in every],
            "buckets": [_packed([numbers[place] for place in places]) for places in self.buckets],
            "entries": [{str(key): numbers[own[key]] for key in sorted(own)} for own in self.entries],
            "orders": plain(self.orders),
        }

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> Table:
        """What `as_json` gave."""
        every = [Place(tuple((u, s) for u, s in one["stores"]), tuple(one["holds"])) for one in told["places"]]
        left, right = (tuple(every[number] for number in _unpacked(packed)) for packed in told["buckets"])
        entries = tuple({int(key): every[number] for key, number in own.items()} for own in told["entries"])
        return Table(
            told["epoch"], told["room"], tuple(told["units"]), (left, right), (entries[0], entries[1]),
            told["block"], told["everywhere"], from_plain(Orders, told["orders"], "the routing table"),
        )  # fmt: skip


class Draft:
    """A table that is being changed; places that store elsewhere go on holding."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.buckets = (list(table.buckets[0]), list(table.buckets[1]))
        self.entries = (dict(table.entries[0]), dict(table.entries[1]))

    def place(self, side: Side, key: int) -> Place:
        """Where a key is now."""
        own = self.entries[side].get(key)
        return self.home(side, key) if own is None else own

    def home(self, side: Side, key: int) -> Place:
        """Where its bucket is now."""
        return self.buckets[side][int(bucket_of(key, self._table.block)[0])]

    def route_bucket(self, side: Side, bucket: int, to: Place) -> None:
        """Store a bucket elsewhere from now on."""
        self.buckets[side][bucket] = to.holding(self.buckets[side][bucket].holds)

    def route_key(self, side: Side, key: int, to: Place) -> None:
        """Store a key elsewhere from now on, by an entry."""
        self.entries[side][key] = to.holding(self.place(side, key).holds)

    def tidy(self) -> int:
        """Clear the entries of keys that are where their buckets are; how many. Never while anything is moving."""
        cleared = 0
        for side in SIDES:
            for key in sorted(self.entries[side]):
                if self.entries[side][key] == self.home(side, key):
                    del self.entries[side][key]
                    cleared += 1
        return cleared

    def table(self, **changes: Any) -> Table:
        """What it has become."""
        buckets, entries = (tuple(self.buckets[0]), tuple(self.buckets[1])), (self.entries[0], self.entries[1])
        return replace(self._table, **{"buckets": buckets, "entries": entries, **changes})


def block_for(reach: Reach) -> int:
    """How many low bits of keys a bucket leaves out, so that a band of keys is in little more than one bucket."""
    if reach.low is None or reach.high is None or reach.is_equality:
        return 0
    return min((max(reach.high - reach.low, 0) * 8).bit_length(), _MOST_BLOCK)


def _packed(numbers: list[int]) -> str:
    return base64.b64encode(zlib.compress(np.array(numbers, "<u2").tobytes(), 9)).decode()


def _unpacked(packed: str) -> list[int]:
    found: list[int] = np.frombuffer(zlib.decompress(base64.b64decode(packed)), "<u2").tolist()
    return found
