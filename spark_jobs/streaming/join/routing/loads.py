"""Loads of units, and the plans that strategies make from them: the next table, and the tuples to move."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from springline.spark_jobs.streaming.join.routing.table import SIDES, RoutingTable
from springline.spark_jobs.streaming.join.wire import JoinSide

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class HeavyKeySide:
    """A key with many tuples on a side: tuple counts by storing unit; `probes` counts the tuples of the other side."""

    side: JoinSide
    key: int
    parts: Mapping[int, int]
    probes: int = 0

    @property
    def count(self) -> int:
        """All its tuples."""
        return sum(self.parts.values())

    def scale(self, stored: float, probes: float) -> HeavyKeySide:
        """Return it with these shares of the stored tuples and of the probes, rounded up."""
        parts = {unit: math.ceil(count * stored) for unit, count in self.parts.items()}
        return HeavyKeySide(self.side, self.key, parts, math.ceil(self.probes * probes))


@dataclass(frozen=True)
class Loads:
    """Tuples stored on each unit (left, right), the heavy keys of both sides, and the number of results (or None)."""

    stored: Mapping[int, tuple[int, int]]
    heavy: Sequence[HeavyKeySide] = ()
    pairs: int | None = None

    @property
    def total(self) -> int:
        """All stored tuples."""
        return sum(sum(two) for two in self.stored.values())

    @property
    def match_share(self) -> float:
        """Estimated share of the pairs of equal heavy keys that were results; 1 if unknown."""
        possible_pairs = sum(one.count * one.probes for one in self.heavy if one.side is JoinSide.LEFT)
        return 1.0 if self.pairs is None or not possible_pairs else min(self.pairs / possible_pairs, 1.0)

    def of(self, unit: int) -> int:
        """Return a unit's load."""
        return sum(self.stored.get(unit, (0, 0)))

    def mean(self, units: Sequence[int]) -> float:
        """Return the mean load of some units."""
        return sum(self.of(unit) for unit in units) / max(len(units), 1)

    def imbalance(self, units: Sequence[int]) -> float:
        """Return the greatest |load - mean| / mean of some units."""
        mean = self.mean(units)
        return max((abs(self.of(unit) - mean) / mean for unit in units), default=0.0) if mean else 0.0


@dataclass(frozen=True)
class Move:
    """Stored tuples of a side that move from one unit to another: of a key, or of some buckets.

    It moves a `share` of what the giver holds, beginning at `start`: several receivers of one giver get consecutive
    shares. With `is_complete`, the giver has given everything after them. `tuples` is an estimate; `kind` and `cost`
    are the paper's, or `bucket`.
    """

    side: JoinSide
    giver: int
    receiver: int
    tuples: int
    kind: str
    reason: str
    key: int | None = None
    buckets: tuple[int, ...] = ()
    share: float = 1.0
    start: float = 0.0
    is_complete: bool = True
    cost: float = 0.0

    def describe(self) -> str:
        """Describe the move for a person."""
        subject = f"key {self.key}" if self.key is not None else f"{len(self.buckets)} buckets"
        part = "" if self.share == 1.0 else f"{self.share:.1%} of "
        return (
            f"{self.kind}: {part}{self.side.name.lower()} {subject}, about {self.tuples:,} tuples, "
            f"from unit {self.giver} to unit {self.receiver}: {self.reason}"
        )


@dataclass(frozen=True)
class RebalancePlan:
    """The next table (new tuples at their new units, all former holders still holding), the moves, and the reasons."""

    table: RoutingTable
    moves: tuple[Move, ...] = ()
    reasons: tuple[str, ...] = ()


class PlacementStrategy(Protocol):
    """A strategy of placing keys on units."""

    @property
    def name(self) -> str:
        """The name in settings."""

    def first(self, max_units: int, units: int, block: int = 0) -> RoutingTable:
        """Return the initial table: units 0 to `units` - 1 are in use."""

    def plan(self, table: RoutingTable, loads: Loads, units: int) -> RebalancePlan | None:
        """Return the plan for `units` units; None if nothing is to change. No migration may be in progress."""


def bucket_weights(table: RoutingTable, loads: Loads) -> tuple[Floats, Floats]:
    """Estimate the tuples of each bucket without the heavy keys, by side: the unit's remaining tuples, evenly.

    A bucket that several units store counts at the unit with its greatest share.
    """
    weights = []
    for side in SIDES:
        owner = np.array(table.by_bucket(side, lambda place: max(place.stores, key=lambda one: one[1])[0]))
        rest = np.array([float(loads.stored.get(unit, (0, 0))[side]) for unit in range(table.max_units)])
        for heavy in loads.heavy:
            if heavy.side is side:
                for unit, count in heavy.parts.items():
                    rest[unit] -= count
        bucket_counts = np.bincount(owner, minlength=table.max_units)
        weights.append(np.maximum(rest, 0)[owner] / np.maximum(bucket_counts[owner], 1))
    return weights[0], weights[1]
