"""The patent's procedure, implemented literally, as a baseline: the mode `stepwise-literal`.

Steps 1 to 3 of the patent's text, with its marks compared as in `stepwise`. There are two signals, as in the text:
level 1 is "slow down", level 0 is "undo a step"; they have no lease. An upstream stage has one state for all of its
downstream stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from springline.persistence.model.codec import from_json_value, to_json_value
from springline.spark_jobs.streaming.backpressure.admission import (
    MINIMUM_RATE,
    AdmissionDecision,
    StageObservation,
    Throttle,
    clamp_rate,
)
from springline.spark_jobs.streaming.backpressure.signals import Signal
from springline.spark_jobs.streaming.backpressure.stepwise import Thresholds


@dataclass(slots=True)
class _LiteralState:
    """The state of a stage: the upstream stages that it throttles and since when, its own rate, and which downstream
    stage throttles it, when and why.
    """

    throttled_since: dict[str, float] = field(default_factory=dict)
    checked_at: float | None = None
    underloaded_since: float | None = None
    sequence: int = 0
    rate: float | None = None
    original_rate: float | None = None
    throttled_by: tuple[str, float, str] | None = None


class StepwiseLiteral:
    """The mode `stepwise-literal` for one stage; its flaws are those of the text (`stepwise` lists them)."""

    def __init__(self, stage: str, state: Mapping[str, Any] | None = None, marks: Thresholds | None = None) -> None:
        self._stage = stage
        self._marks = marks or Thresholds()
        self._state = from_json_value(_LiteralState, state or {}, f"the state of back-pressure of stage {stage}")

    def decide(self, observation: StageObservation) -> AdmissionDecision:
        """Make one decision from an observation; see `Admission`."""
        signals = self._check_queue(observation)
        for signal in observation.signals:
            self._obey(signal, observation)
        throttles = tuple(
            Throttle(self._stage, each, since, "overloaded", 1) for each, since in self._state.throttled_since.items()
        )
        throttled_by = (
            ()
            if self._state.throttled_by is None
            else (
                Throttle(
                    self._state.throttled_by[0],
                    self._stage,
                    self._state.throttled_by[1],
                    self._state.throttled_by[2],
                    1,
                ),
            )
        )
        return AdmissionDecision(
            None if self._state.rate is None else clamp_rate(self._state.rate, observation.unthrottled_rate),
            signals,
            throttled_by,
            throttles,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the state, from which another instance can continue."""
        state: dict[str, Any] = to_json_value(self._state)
        return state

    def _check_queue(self, observation: StageObservation) -> tuple[Signal, ...]:
        queue, now = observation.measurement.standing, observation.observed_at
        if queue > self._marks.low:
            self._state.underloaded_since = None
        elif self._state.underloaded_since is None:
            self._state.underloaded_since = now
        if self._state.checked_at is not None and now - self._state.checked_at < self._marks.sensitivity:
            return ()
        self._state.checked_at = now
        if queue >= self._marks.high:
            upstreams = [each for each in observation.upstreams if each not in self._state.throttled_since]
            self._state.throttled_since |= dict.fromkeys(upstreams, now)
            return tuple(self._signal(each, 1) for each in upstreams)
        if self._state.underloaded_since is not None and now - self._state.underloaded_since >= self._marks.sensitivity:
            upstreams, self._state.throttled_since = list(self._state.throttled_since), {}
            return tuple(self._signal(each, 0) for each in upstreams)
        return ()

    def _signal(self, upstream: str, throttle_level: int) -> Signal:
        self._state.sequence += 1
        return Signal(
            self._stage,
            upstream,
            self._state.sequence,
            None,
            throttle_level,
            None,
            "overloaded" if throttle_level else "underloaded",
        )

    def _obey(self, signal: Signal, observation: StageObservation) -> None:
        if signal.throttle_level and self._state.rate is None:
            self._state.original_rate = min(
                max(observation.measurement.outflow, MINIMUM_RATE), observation.unthrottled_rate
            )
            self._state.rate = self._state.original_rate * self._marks.ratio
            self._state.throttled_by = (signal.downstream, observation.observed_at, signal.reason)
        elif not signal.throttle_level and self._state.rate is not None and self._state.original_rate is not None:
            self._state.rate /= self._marks.ratio
            if self._state.rate >= self._state.original_rate * (1 - 1e-9):
                self._state.rate = self._state.original_rate = self._state.throttled_by = None
