"""Predicts durations of transfers and operation runs from measured history.

A Theil-Sen line (the median of the slopes between all pairs) through the newest measurements, which is robust
against single slow runs. Sizes in bytes, times in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from statistics import median

from springline.persistence.model.dataset import ExecutionSide, Ref
from springline.persistence.model.lineage import Lineage
from springline.persistence.text.formatting import format_seconds

_MAX_MEASUREMENTS = 60  # measurements used: the number of pairs grows with its square
_MIN_SIZES = 4  # different sizes required to fit a line


@dataclass(frozen=True)
class Measurement:
    """Size and duration of one transfer or one run."""

    bytes: int
    seconds: float


@dataclass(frozen=True)
class Prediction:
    """A predicted duration, the number of measurements it is based on, and a description."""

    seconds: float
    samples: int
    summary: str


@dataclass(frozen=True)
class LinearFit:
    """The model fitted to a history: `intercept` seconds plus `slope` seconds per byte, and how it was fitted."""

    intercept: float
    slope: float
    samples: int
    basis: str

    def predict(self, size: int) -> Prediction:
        """Predict the duration for `size` bytes."""
        seconds = self.intercept + self.slope * size
        return Prediction(seconds, self.samples, f"{format_seconds(seconds)}: {self.basis}")


def fit_line(history: Sequence[Measurement]) -> LinearFit | None:
    """Fit a line to the newest of `history` (oldest first), never below 0; returns None without history.

    With fewer than four different sizes, or a negative intercept, it is the median rate, with each measurement
    weighted by its bytes.
    """
    newest = history[-_MAX_MEASUREMENTS:]
    if not newest:
        return None
    count = len(newest)
    sample_text = "one measurement" if count == 1 else f"{count} measurements"
    if len({m.bytes for m in newest}) >= _MIN_SIZES:
        pairs = combinations(newest, 2)
        slope = max(median((b.seconds - a.seconds) / (b.bytes - a.bytes) for a, b in pairs if a.bytes != b.bytes), 0.0)
        start = median(m.seconds - slope * m.bytes for m in newest)
        if start >= 0:
            terms = f"{format_seconds(start)} + {format_seconds(slope * 1e6)}/MB"
            return LinearFit(start, slope, count, f"line through {sample_text}, {terms}")
    rate = _weighted_median([(m.seconds / m.bytes, m.bytes) for m in newest if m.bytes > 0])
    if rate is None:
        return LinearFit(max(median(m.seconds for m in newest), 0.0), 0.0, count, f"median of {sample_text}")
    return LinearFit(0.0, max(rate, 0.0), count, f"median rate of {sample_text}, {format_seconds(rate * 1e6)}/MB")


def _weighted_median(weighted: Sequence[tuple[float, int]]) -> float | None:
    """Return the median of (value, weight) pairs: small transfers, dominated by latency, say little of the rate."""
    half = sum(weight for _, weight in weighted) / 2
    for value, weight in sorted(weighted):
        half -= weight
        if half <= 0:
            return value
    return None


@dataclass(frozen=True)
class CostModel:
    """Measurements of the link to the under-store and of operations on either side, with predictions in seconds.

    Args:
        link: transfers over the link, oldest first, in bytes and seconds.
        compute: runs by operation name and side; their bytes are those of the sources.

    Example:
        >>> CostModel().predict_transfer(1_000) is None
        True
    """

    link: Sequence[Measurement] = ()
    compute: Mapping[tuple[str, ExecutionSide], Sequence[Measurement]] = field(default_factory=dict)

    def predict_transfer(self, size: int) -> Prediction | None:
        """Predict the duration of a transfer of `size` bytes."""
        return self._link_fit.predict(size) if self._link_fit else None

    def predict_run(self, operation: str, side: ExecutionSide, size: int) -> Prediction | None:
        """Predict the duration of a run of `operation` on `side` with `size` bytes of sources.

        Without history there, the history of the other side is used, and the summary says so.
        """
        if line := self._compute_fit(operation, side):
            return line.predict(size)
        other = ExecutionSide.STORAGE if side is ExecutionSide.CACHE else ExecutionSide.CACHE
        if line := self._compute_fit(operation, other):
            prediction = line.predict(size)
            return replace(prediction, summary=f"{prediction.summary} (measured on the {other.value} side)")
        return None

    def predict_rerun(self, ref: Ref, lineage: Lineage) -> Prediction | None:
        """Predict the time to recompute `ref` beside the cache: as in its first run, else from history."""
        dataset = lineage.datasets[ref]
        if dataset.compute_seconds is not None:
            return Prediction(
                dataset.compute_seconds, 1, f"{format_seconds(dataset.compute_seconds)}: as in its first run"
            )
        if dataset.call is None:
            return None
        return self.predict_run(dataset.call.name, ExecutionSide.CACHE, lineage.source_bytes(ref))

    @cached_property
    def _link_fit(self) -> LinearFit | None:
        return fit_line(self.link)

    @cached_property
    def _compute_fits(self) -> dict[tuple[str, ExecutionSide], LinearFit | None]:
        return {}

    def _compute_fit(self, operation: str, side: ExecutionSide) -> LinearFit | None:
        key = (operation, side)
        if key not in self._compute_fits:
            self._compute_fits[key] = fit_line(self.compute.get(key, ()))
        return self._compute_fits[key]
