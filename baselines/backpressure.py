"""The patent's procedure to the letter, for comparison: the mode `stepwise-literal`.

Steps 1 to 3 of the text, with its marks compared as `stepwise` compares them. Signals are the text's two: level 1 is
"slow down", level 0 "undo a step"; they have no lease. The upstream has one state for all of its downstreams.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from springline.spark_jobs.streaming.backpressure.admission import MINIMUM, Admitted, Seen, Throttle, bounded
from springline.spark_jobs.streaming.backpressure.signals import Signal
from springline.spark_jobs.streaming.backpressure.stepwise import Marks


class StepwiseLiteral:
    """The mode `stepwise-literal` for one stage; its faults are the text's (`stepwise` names them)."""

    def __init__(self, stage: str, state: Mapping[str, Any] | None = None, marks: Marks | None = None) -> None:
        told = state or {}
        self._stage = stage
        self._marks = marks or Marks()
        self._slowed: dict[str, float] = dict(told.get("slowed", {}))  # upstreams thought to be throttled, since when
        self._checked: float | None = told.get("checked")
        self._under: float | None = told.get("under")
        self._sequence: int = told.get("sequence", 0)
        self._rate: float | None = told.get("rate")
        self._origin: float | None = told.get("origin")
        self._by: list[Any] | None = told.get("by")

    def look(self, seen: Seen) -> Admitted:
        """Decide once; see `Admission`."""
        signals = self._checks(seen)
        for signal in seen.signals:
            self._obey(signal, seen)
        whom = tuple(Throttle(self._stage, each, since, "overloaded", 1) for each, since in self._slowed.items())
        by = () if self._by is None else (Throttle(self._by[0], self._stage, self._by[1], self._by[2], 1),)
        return Admitted(None if self._rate is None else bounded(self._rate, seen.original), signals, by, whom)

    def as_json(self) -> dict[str, Any]:
        """The state, from which another one goes on."""
        return {
            "slowed": self._slowed, "checked": self._checked, "under": self._under, "sequence": self._sequence,
            "rate": self._rate, "origin": self._origin, "by": self._by,
        }  # fmt: skip

    def _checks(self, seen: Seen) -> tuple[Signal, ...]:
        queue, at = seen.measured.standing, seen.at
        if queue > self._marks.low:
            self._under = None
        elif self._under is None:
            self._under = at
        if self._checked is not None and at - self._checked < self._marks.sensitivity:
            return ()
        self._checked = at
        if queue >= self._marks.high:
            chosen = [each for each in seen.upstreams if each not in self._slowed]
            self._slowed |= dict.fromkeys(chosen, at)
            return tuple(self._signal(each, 1) for each in chosen)
        if self._under is not None and at - self._under >= self._marks.sensitivity:
            chosen, self._slowed = list(self._slowed), {}
            return tuple(self._signal(each, 0) for each in chosen)
        return ()

    def _signal(self, upstream: str, level: int) -> Signal:
        self._sequence += 1
        return Signal(
            self._stage, upstream, self._sequence, None, level, None, "overloaded" if level else "underloaded"
        )

    def _obey(self, signal: Signal, seen: Seen) -> None:
        if signal.level and self._rate is None:
            self._origin = min(max(seen.measured.outflow, MINIMUM), seen.original)
            self._rate = self._origin * self._marks.ratio
            self._by = [signal.downstream, seen.at, signal.why]
        elif not signal.level and self._rate is not None and self._origin is not None:
            self._rate /= self._marks.ratio
            if self._rate >= self._origin * (1 - 1e-9):
                self._rate = self._origin = self._by = None
