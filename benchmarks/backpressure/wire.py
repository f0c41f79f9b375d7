"""A channel of signals with delays and faults, for the simulator of back-pressure and the tests of its modes."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from springline.spark_jobs.streaming.backpressure.signals import Signal


@dataclass(frozen=True)
class Faults:
    """What happens to signals: the share that is lost, doubled, and late (by up to `late_seconds`)."""

    lost: float = 0.0
    doubled: float = 0.0
    late: float = 0.0
    late_seconds: float = 5.0


class Wire:
    """A channel with delays and faults; `now` is the time."""

    def __init__(self, now: Callable[[], float], seed: int = 0, faults: Faults | None = None) -> None:
        self._now = now
        self._random = np.random.default_rng(seed)
        self._faults = faults or Faults()
        self._under_way: dict[str, list[tuple[float, int, Signal]]] = {}
        self._count = 0

    def send(self, signals: Sequence[Signal]) -> None:
        """Put signals under way, as many times as the faults have it."""
        faults = self._faults
        for signal in signals:
            copies = (self._random.random() >= faults.lost) + (self._random.random() < faults.doubled)
            for _ in range(copies):
                delay = self._random.uniform(0.02, 0.06)
                if self._random.random() < faults.late:
                    delay += self._random.uniform(0, faults.late_seconds)
                self._count += 1
                heapq.heappush(
                    self._under_way.setdefault(signal.upstream, []), (self._now() + delay, self._count, signal)
                )

    def receive(self, upstream: str) -> list[Signal]:
        """The signals for a stage that have arrived."""
        waiting = self._under_way.get(upstream, [])
        signals = []
        while waiting and waiting[0][0] <= self._now():
            signals.append(heapq.heappop(waiting)[2])
        return signals

    def close(self) -> None:
        """Nothing to let go of."""
