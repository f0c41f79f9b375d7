"""Completion latencies as a small histogram: bins that widen by a fifth, counts that are halved every minute."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

_WIDER = 1.2
_HALVED_SECONDS = 60.0


@dataclass
class LatencyHistogram:
    """Counts of durations by bin; `since` is when they were last halved."""

    counts: dict[int, int] = field(default_factory=dict)  # by bin: the durations below 1 ms * 1.2^bin
    since: float = 0.0

    def add(self, seconds: npt.NDArray[np.floating[Any]], now: float, counts: npt.ArrayLike = 1) -> None:
        """Count durations: each once, or as often as `counts` says."""
        if now - self.since >= _HALVED_SECONDS:
            self.counts = {place: count // 2 for place, count in self.counts.items() if count > 1}
            self.since = now
        bins = np.ceil(np.log(np.maximum(seconds * 1000, 1.0)) / math.log(_WIDER)).astype(np.int64)
        places, which = np.unique(bins, return_inverse=True)
        sums = np.bincount(which, np.broadcast_to(np.asarray(counts, np.int64), bins.shape), places.size)
        for place, count in zip(places.tolist(), sums.tolist(), strict=True):
            self.counts[place] = self.counts.get(place, 0) + int(count)

    def as_json(self) -> dict[str, int]:
        """Return the counts for gauges and states."""
        return {str(place): self.counts[place] for place in sorted(self.counts)}


def percentiles(histograms: Iterable[Mapping[str, int]], shares: Iterable[float]) -> list[float | None]:
    """Return percentiles of several histograms, in seconds, for shares from 0 to 1; None if nothing was counted."""
    counts: dict[int, int] = {}
    for each in histograms:
        for place, count in each.items():
            counts[int(place)] = counts.get(int(place), 0) + count
    total, places = sum(counts.values()), sorted(counts)
    sums = np.cumsum([counts[place] for place in places])
    return [0.001 * _WIDER ** places[int(np.searchsorted(sums, share * total))] if total else None for share in shares]
