"""What is known of the units' loads, and what a strategy makes of it: the next table, and what is to be moved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from springline.spark_jobs.streaming.join.routing.table import SIDES, Table
from springline.spark_jobs.streaming.join.wire import Side

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Heavy:
    """A key with many tuples on a side: how many are stored on which unit; `probes` are those of the other side."""

    side: Side
    key: int
    parts: Mapping[int, int]
    probes: int = 0

    @property
    def count(self) -> int:
        """All its tuples."""
        return sum(self.parts.values())

    def lessened(self, stored: float, probes: float) -> Heavy:
        """With these shares of what is stored and of the probes, rounded up."""
        parts = {unit: math.ceil(count * stored) for unit, count in self.parts.items()}
        return Heavy(self.side, self.key, parts, math.ceil(self.probes * probes))


@dataclass(frozen=True)
class Loads:
    """Tuples stored on each unit (left, right), the heavy keys of both sides, and the pairs found; None: unknown."""

    stored: Mapping[int, tuple[int, int]]
    heavy: Sequence[Heavy] = ()
    pairs: int | None = None

    @property
    def total(self) -> int:
        """All tuples stored."""
        return sum(sum(two) for two in self.stored.values())

    @property
    def found(self) -> float:
        """The share of the pairs of equal heavy keys that were results, about; 1 where that is not known."""
        met = sum(one.count * one.probes for one in self.heavy if one.side is Side.LEFT)
        return 1.0 if self.pairs is None or not met else min(self.pairs / met, 1.0)

    def of(self, unit: int) -> int:
        """A unit's load."""
        return sum(self.stored.get(unit, (0, 0)))

    def mean(self, units: Sequence[int]) -> float:
        """The mean load of some units."""
        return sum(self.of(unit) for unit in units) / max(len(units), 1)

    def imbalance(self, units: Sequence[int]) -> float:
        """The greatest |load - mean| / mean of some units."""
        mean = self.mean(units)
        return max((abs(self.of(unit) - mean) / mean for unit in units), default=0.0) if mean else 0.0


@dataclass(frozen=True)
class Move:
    """Stored tuples of a side that are to go from a unit to another: of a key, or of some buckets.

    `share` of what the giver has, from `start` on: of one giver, several receivers get shares one after the other.
    `whole`: with them, the giver has given all. About `tuples`; `kind` and `cost` are the paper's, or `bucket`.
    """

    side: Side
    giver: int
    receiver: int
    tuples: int
    kind: str
    reason: str
    key: int | None = None
    buckets: tuple[int, ...] = ()
    share: float = 1.0
    start: float = 0.0
    whole: bool = True
    cost: float = 0.0

    def words(self) -> str:
        """For a person."""
        what = f"key {self.key}" if self.key is not None else f"{len(self.buckets)} buckets"
        part = "" if self.share == 1.0 else f"{self.share:.1%} of "
        return (
            f"{self.kind}: {part}{self.side.name.lower()} {what}, about {self.tuples:,} tuples, "
            f"from unit {self.giver} to unit {self.receiver}: {self.reason}"
        )


@dataclass(frozen=True)
class Plan:
    """The table to go on with (stores as wanted, whoever held still holding), then what to move, and why."""

    table: Table
    moves: tuple[Move, ...] = ()
    reasons: tuple[str, ...] = ()


class Strategy(Protocol):
    """A way of placing keys on units."""

    @property
    def name(self) -> str:
        """As it is called in settings."""

    def first(self, room: int, units: int, block: int = 0) -> Table:
        """The table to begin with: units 0 to `units` - 1 are in use."""

    def plan(self, table: Table, loads: Loads, units: int) -> Plan | None:
        """What to go on with, for so many units; nothing where all is well. Nothing may be under way."""


def bucket_weights(table: Table, loads: Loads) -> tuple[Floats, Floats]:
    """What each bucket is reckoned to hold besides the heavy keys, by side: the unit's rest, evenly over its buckets.

    A bucket that several units store counts where its greatest share is.
    """
    found = []
    for side in SIDES:
        owner = np.array([max(place.stores, key=lambda one: one[1])[0] for place in table.buckets[side]])
        rest = np.array([float(loads.stored.get(unit, (0, 0))[side]) for unit in range(table.room)])
        for heavy in loads.heavy:
            if heavy.side is side:
                for unit, count in heavy.parts.items():
                    rest[unit] -= count
        many = np.bincount(owner, minlength=table.room)
        found.append(np.maximum(rest, 0)[owner] / np.maximum(many[owner], 1))
    return found[0], found[1]
