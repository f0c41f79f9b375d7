"""The patent's procedure to the letter, for comparison: the mode `stepwise-literal`.

Steps 1 to 3 of the text, with its marks compared as `stepwise` compares them. Signals are the text's two: level 1 is
"slow down", level 0 "undo a step"; they have no lease. The upstream has one state for all of its downstreams.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from springline.persistence.model.codec import from_plain, plain
from springline.spark_jobs.streaming.backpressure.admission import MINIMUM, Admitted, Seen, Throttle, bounded
from springline.spark_jobs.streaming.backpressure.signals import Signal
from springline.spark_jobs.streaming.backpressure.stepwise import Marks


@dataclass(slots=True)
class _Known:
    """What it remembers: upstreams that it thinks throttled, since when; its own rate, and who asked, when and why."""

    slowed: dict[str, float] = field(default_factory=dict)
    checked: float | None = None
    under: float | None = None
    sequence: int = 0
    rate: float | None = None
    origin: float | None = None
    by: tuple[str, float, str] | None = None


class StepwiseLiteral:
    """The mode `stepwise-literal` for one stage; its faults are the text's (`stepwise` names them)."""

    def __init__(self, stage: str, state: Mapping[str, Any] | None = None, marks: Marks | None = None) -> None:
        self._stage = stage
        self._marks = marks or Marks()
        self._known = from_plain(_Known, state or {}, f"the state of back-pressure of stage {stage}")

    def look(self, seen: Seen) -> Admitted:
        """Decide once; see `Admission`."""
        signals = self._checks(seen)
        for signal in seen.signals:
            self._obey(signal, seen)
        whom = tuple(Throttle(self._stage, each, since, "overloaded", 1) for each, since in self._known.slowed.items())
        by = (
            ()
            if self._known.by is None
            else (Throttle(self._known.by[0], self._stage, self._known.by[1], self._known.by[2], 1),)
        )
        return Admitted(
            None if self._known.rate is None else bounded(self._known.rate, seen.original), signals, by, whom
        )

    def as_json(self) -> dict[str, Any]:
        """The state, from which another one goes on."""
        told: dict[str, Any] = plain(self._known)
        return told

    def _checks(self, seen: Seen) -> tuple[Signal, ...]:
        queue, at = seen.measured.standing, seen.at
        if queue > self._marks.low:
            self._known.under = None
        elif self._known.under is None:
            self._known.under = at
        if self._known.checked is not None and at - self._known.checked < self._marks.sensitivity:
            return ()
        self._known.checked = at
        if queue >= self._marks.high:
            chosen = [each for each in seen.upstreams if each not in self._known.slowed]
            self._known.slowed |= dict.fromkeys(chosen, at)
            return tuple(self._signal(each, 1) for each in chosen)
        if self._known.under is not None and at - self._known.under >= self._marks.sensitivity:
            chosen, self._known.slowed = list(self._known.slowed), {}
            return tuple(self._signal(each, 0) for each in chosen)
        return ()

    def _signal(self, upstream: str, level: int) -> Signal:
        self._known.sequence += 1
        return Signal(
            self._stage, upstream, self._known.sequence, None, level, None, "overloaded" if level else "underloaded"
        )

    def _obey(self, signal: Signal, seen: Seen) -> None:
        if signal.level and self._known.rate is None:
            self._known.origin = min(max(seen.measured.outflow, MINIMUM), seen.original)
            self._known.rate = self._known.origin * self._marks.ratio
            self._known.by = (signal.downstream, seen.at, signal.why)
        elif not signal.level and self._known.rate is not None and self._known.origin is not None:
            self._known.rate /= self._marks.ratio
            if self._known.rate >= self._known.origin * (1 - 1e-9):
                self._known.rate = self._known.origin = self._known.by = None
