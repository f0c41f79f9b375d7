"""Measured history and what it predicts: how long a transfer or a run of an operation will take.

A Theil-Sen line (the median of the slopes between all pairs) through the newest measurements: a stray
slow run does not move it. Sizes in bytes, times in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from statistics import median

from springline.persistence.model.dataset import Ref, Side
from springline.persistence.model.lineage import Lineage
from springline.persistence.text.formatting import say_seconds

_NEWEST = 60  # measurements looked at: pairs grow with the square
_ENOUGH = 4  # measurements of different sizes that make a line


@dataclass(frozen=True)
class Measurement:
    """What one transfer or one run took."""

    bytes: int
    seconds: float


@dataclass(frozen=True)
class Prediction:
    """How long something will take, from how many measurements, in words."""

    seconds: float
    samples: int
    words: str


@dataclass(frozen=True)
class Line:
    """What a history comes to: `start` seconds and `slope` seconds a byte, and how it was found."""

    start: float
    slope: float
    samples: int
    found: str

    def at(self, size: int) -> Prediction:
        """What it predicts for `size` bytes."""
        seconds = self.start + self.slope * size
        return Prediction(seconds, self.samples, f"{say_seconds(seconds)}: {self.found}")


def fit(history: Sequence[Measurement]) -> Line | None:
    """The line through the newest of `history` (oldest first), never below 0; None without history.

    With fewer than four sizes, or where the line would start below 0, it is the median rate, each weighted
    by its bytes.
    """
    newest = history[-_NEWEST:]
    if not newest:
        return None
    count = len(newest)
    what = "one measurement" if count == 1 else f"{count} measurements"
    if len({m.bytes for m in newest}) >= _ENOUGH:
        pairs = combinations(newest, 2)
        slope = max(median((b.seconds - a.seconds) / (b.bytes - a.bytes) for a, b in pairs if a.bytes != b.bytes), 0.0)
        start = median(m.seconds - slope * m.bytes for m in newest)
        if start >= 0:
            terms = f"{say_seconds(start)} + {say_seconds(slope * 1e6)}/MB"
            return Line(start, slope, count, f"line through {what}, {terms}")
    rate = _weighted_median([(m.seconds / m.bytes, m.bytes) for m in newest if m.bytes > 0])
    if rate is None:
        return Line(max(median(m.seconds for m in newest), 0.0), 0.0, count, f"median of {what}")
    return Line(0.0, max(rate, 0.0), count, f"median rate of {what}, {say_seconds(rate * 1e6)}/MB")


def _weighted_median(weighted: Sequence[tuple[float, int]]) -> float | None:
    """The median of (value, weight) pairs: small transfers, which mostly wait, say little of the rate."""
    half = sum(weight for _, weight in weighted) / 2
    for value, weight in sorted(weighted):
        half -= weight
        if half <= 0:
            return value
    return None


@dataclass(frozen=True)
class Costs:
    """What was measured, and what that predicts in seconds: the link to the under-store, operations on either side.

    Args:
        link: transfers across the link, the oldest first, in bytes and seconds.
        compute: runs by operation name and side; their bytes are those of the sources.

    Example:
        >>> Costs().send(1_000) is None
        True
    """

    link: Sequence[Measurement] = ()
    compute: Mapping[tuple[str, Side], Sequence[Measurement]] = field(default_factory=dict)

    def send(self, size: int) -> Prediction | None:
        """How long the link will take for `size` bytes."""
        return self._link.at(size) if self._link else None

    def run(self, operation: str, side: Side, size: int) -> Prediction | None:
        """How long `operation` will run on `side` over `size` bytes of sources.

        Without history there the other side's serves, and the words say so.
        """
        if line := self._line(operation, side):
            return line.at(size)
        other = Side.STORAGE if side is Side.CACHE else Side.CACHE
        if line := self._line(operation, other):
            found = line.at(size)
            return replace(found, words=f"{found.words} (measured on the {other.value} side)")
        return None

    def rerun(self, ref: Ref, lineage: Lineage) -> Prediction | None:
        """How long making `ref` again beside the cache will take: as it did the first time, else by history."""
        dataset = lineage.datasets[ref]
        if dataset.made_seconds is not None:
            return Prediction(dataset.made_seconds, 1, f"{say_seconds(dataset.made_seconds)}: as when it was made")
        if dataset.call is None:
            return None
        return self.run(dataset.call.name, Side.CACHE, lineage.source_bytes(ref))

    @cached_property
    def _link(self) -> Line | None:
        return fit(self.link)

    @cached_property
    def _lines(self) -> dict[tuple[str, Side], Line | None]:
        return {}

    def _line(self, operation: str, side: Side) -> Line | None:
        key = (operation, side)
        if key not in self._lines:
            self._lines[key] = fit(self.compute.get(key, ()))
        return self._lines[key]
