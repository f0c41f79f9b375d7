"""The routing table: which unit stores a tuple, and which units may hold tuples of a key; an immutable value per epoch.

A key is placed by its bucket, unless it has its own entry, on each side separately. A placement says where new tuples
are stored (`stores`, with shares) and where tuples may be (`holds`): a unit that stores also holds from then on, and a
former unit holds until all its tuples of the key or bucket were moved away.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from springline.persistence.model.codec import from_json_value, to_json_value
from springline.spark_jobs.streaming.join.buckets import BUCKETS, bucket_of
from springline.spark_jobs.streaming.join.errors import InvalidRoutingError
from springline.spark_jobs.streaming.join.wire import SEQ_HASHES, EpochCommands, JoinSide, KeyBand

SIDES = (JoinSide.LEFT, JoinSide.RIGHT)
_MOST_BLOCK = 40


@dataclass(frozen=True)
class Placement:
    """Units that store, each with its share of 2^32, and all units that may hold; both sorted by unit."""

    stores: tuple[tuple[int, int], ...]
    holds: tuple[int, ...]

    @staticmethod
    def from_shares(shares: Mapping[int, float] | Iterable[int], holds: Iterable[int] = ()) -> Placement:
        """Build a placement from shares of any sum, or equal ones; units of `holds` may hold too."""
        weights = dict(shares) if isinstance(shares, Mapping) else dict.fromkeys(shares, 1.0)
        units = sorted(unit for unit, share in weights.items() if share > 0)
        if not units:
            raise InvalidRoutingError("a placement needs at least one unit with a share")
        ends = np.rint(np.cumsum([weights[unit] for unit in units]) / sum(weights[unit] for unit in units) * SEQ_HASHES)
        shares_ = np.diff(ends.astype(np.int64), prepend=0).tolist()
        stores = tuple((unit, share) for unit, share in zip(units, shares_, strict=True) if share)
        return Placement(stores, tuple(sorted({*holds, *(unit for unit, _ in stores)})))

    @cached_property
    def units(self) -> tuple[int, ...]:
        """The units that store; cached, since all buckets are queried."""
        return tuple(unit for unit, _ in self.stores)

    def share(self, unit: int) -> float:
        """Return the share of tuples that a unit stores."""
        return next((share / SEQ_HASHES for one, share in self.stores if one == unit), 0.0)

    def with_holders(self, more: Iterable[int] = (), without: Iterable[int] = ()) -> Placement:
        """Return the placement with the holders `more`, and without those of `without` that do not store."""
        holders = tuple(sorted(({*self.holds, *more} - set(without)) | set(self.units)))
        return self if holders == self.holds else replace(self, holds=holders)  # buckets share few objects


@dataclass(frozen=True)
class RoutingTable:
    """The table of one epoch, of which `units` out of `max_units` are in use.

    `buckets` has a placement for each bucket, `entries` for keys that differ from theirs, each by side; keys are hashed
    in blocks of 2^block. With `probes_everywhere`, tuples probe all units that hold the other side. `commands` are for
    the cut before the epoch's first round.
    """

    epoch: int
    max_units: int
    units: tuple[int, ...]
    buckets: tuple[tuple[Placement, ...], tuple[Placement, ...]] = field(repr=False)
    entries: tuple[Mapping[int, Placement], Mapping[int, Placement]] = ({}, {})
    block: int = 0
    probes_everywhere: bool = False
    commands: EpochCommands = field(default_factory=lambda: EpochCommands(1))

    def __post_init__(self) -> None:
        holders = {unit for side in SIDES for place in self.places(side) for unit in place.holds}
        if out_of_range := sorted(unit for unit in holders | set(self.units) if not 0 <= unit < self.max_units):
            raise InvalidRoutingError(
                f"units {out_of_range}: expected units 0 to {self.max_units - 1}; increase max_units"
            )
        if any(len(places) != BUCKETS for places in self.buckets):
            raise InvalidRoutingError(f"a table needs {BUCKETS} buckets on each side")

    def places(self, side: JoinSide) -> frozenset[Placement]:
        """Return all distinct placements of a side."""
        return self._distinct_places[side]

    @cached_property
    def _distinct_places(self) -> tuple[frozenset[Placement], frozenset[Placement]]:
        left, right = (frozenset(places.values()) for places in self._places_by_id)
        return left, right

    def by_bucket(self, side: JoinSide, value_of: Callable[[Placement], int]) -> list[int]:
        """Return a value of each bucket's placement; buckets share few placements, and it is computed once for each."""
        values = {id_: value_of(place) for id_, place in self._places_by_id[side].items()}
        return list(map(values.__getitem__, map(id, self.buckets[side])))

    @cached_property
    def _places_by_id(self) -> tuple[dict[int, Placement], dict[int, Placement]]:
        """The objects, by side: comparing those of thousands of buckets by value would take milliseconds."""
        left, right = ([*self.buckets[side], *self.entries[side].values()] for side in SIDES)
        return dict(zip(map(id, left), left, strict=True)), dict(zip(map(id, right), right, strict=True))

    def place(self, side: JoinSide, key: int) -> Placement:
        """Return the placement of a key."""
        own = self.entries[side].get(key)
        return self.home(side, key) if own is None else own

    def home(self, side: JoinSide, key: int) -> Placement:
        """Return the placement of a key's bucket."""
        return self.buckets[side][int(bucket_of(key, self.block)[0])]

    def holders(self, side: JoinSide) -> tuple[int, ...]:
        """Return all units that may hold tuples of a side."""
        return tuple(sorted({unit for place in self.places(side) for unit in place.holds}))

    @cached_property
    def keys_by_bucket(self) -> tuple[Mapping[int, tuple[int, ...]], Mapping[int, tuple[int, ...]]]:
        """The keys with entries in each bucket, by side."""
        by_bucket: tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]] = ({}, {})
        for side in SIDES:
            keys = sorted(self.entries[side])
            for key, bucket in zip(keys, bucket_of(keys, self.block).tolist() if keys else [], strict=True):
                by_bucket[side][bucket] = (*by_bucket[side].get(bucket, ()), key)
        return by_bucket

    def as_json(self) -> dict[str, Any]:
        """Return JSON for files and rounds: each placement once, and their numbers by bucket in packed form."""
        every = sorted(
            self.places(JoinSide.LEFT) | self.places(JoinSide.RIGHT), key=lambda place: (place.stores, place.holds)
        )
        numbers = {place: number for number, place in enumerate(every)}
        return {
            "epoch": self.epoch,
            "max_units": self.max_units,
            "units": list(self.units),
            "block": self.block,
            "probes_everywhere": self.probes_everywhere,
            "places": [{"stores": [list(one) for one in place.stores], "holds": list(place.holds)} for place in every],
            "buckets": [_pack_numbers(self.by_bucket(side, numbers.__getitem__)) for side in SIDES],
            "entries": [{str(key): numbers[own[key]] for key in sorted(own)} for own in self.entries],
            "commands": to_json_value(self.commands),
        }

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> RoutingTable:
        """The inverse of `as_json`."""
        every = [Placement(tuple((u, s) for u, s in one["stores"]), tuple(one["holds"])) for one in raw["places"]]
        left, right = (tuple(map(every.__getitem__, _unpack_numbers(packed))) for packed in raw["buckets"])
        entries = tuple({int(key): every[number] for key, number in own.items()} for own in raw["entries"])
        return RoutingTable(
            raw["epoch"], raw["max_units"], tuple(raw["units"]), (left, right), (entries[0], entries[1]),
            raw["block"], raw["probes_everywhere"],
            from_json_value(EpochCommands, raw["commands"], "the routing table"),
        )  # fmt: skip


class TableDraft:
    """A mutable copy of a table; units that no longer store continue to hold."""

    def __init__(self, table: RoutingTable) -> None:
        self._table = table
        self.buckets = (list(table.buckets[0]), list(table.buckets[1]))
        self.entries = (dict(table.entries[0]), dict(table.entries[1]))
        # By the placement that a bucket was routed to, and by what held it: all such buckets share one.
        self._routed: dict[tuple[int, tuple[int, ...]], tuple[Placement, Placement]] = {}

    def place(self, side: JoinSide, key: int) -> Placement:
        """Return the current placement of a key."""
        own = self.entries[side].get(key)
        return self.home(side, key) if own is None else own

    def home(self, side: JoinSide, key: int) -> Placement:
        """Return the current placement of a key's bucket."""
        return self.buckets[side][int(bucket_of(key, self._table.block)[0])]

    def route_bucket(self, side: JoinSide, bucket: int, to: Placement) -> None:
        """Store new tuples of a bucket at `to`."""
        holders = self.buckets[side][bucket].holds
        routed = self._routed.get((id(to), holders))
        if routed is None:
            routed = self._routed[id(to), holders] = to, to.with_holders(holders)
        self.buckets[side][bucket] = routed[1]

    def route_key(self, side: JoinSide, key: int, to: Placement) -> None:
        """Store new tuples of a key at `to`, by an entry."""
        self.entries[side][key] = to.with_holders(self.place(side, key).holds)

    def clear_entries(self) -> int:
        """Delete entries equal to their bucket's placement; returns how many. Not allowed while anything is moving."""
        cleared = 0
        for side in SIDES:
            for key in sorted(self.entries[side]):
                if self.entries[side][key] == self.home(side, key):
                    del self.entries[side][key]
                    cleared += 1
        return cleared

    def table(self, **changes: Any) -> RoutingTable:
        """Return the changed table."""
        buckets, entries = (tuple(self.buckets[0]), tuple(self.buckets[1])), (self.entries[0], self.entries[1])
        return replace(self._table, **{"buckets": buckets, "entries": entries, **changes})


def block_for(key_band: KeyBand) -> int:
    """Return how many low bits of keys the bucket hash ignores, so that a band of keys covers few buckets."""
    if key_band.low is None or key_band.high is None or key_band.is_equality:
        return 0
    return min((max(key_band.high - key_band.low, 0) * 8).bit_length(), _MOST_BLOCK)


def _pack_numbers(numbers: list[int]) -> str:
    return base64.b64encode(zlib.compress(np.array(numbers, "<u2").tobytes(), 9)).decode()


def _unpack_numbers(packed: str) -> list[int]:
    numbers: list[int] = np.frombuffer(zlib.decompress(base64.b64decode(packed)), "<u2").tolist()
    return numbers
