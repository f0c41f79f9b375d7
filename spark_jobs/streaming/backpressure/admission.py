"""Admission control of a stage: the interface of all modes, and their common parts.

A stage acts in two roles. As a downstream, it measures its own queue and asks its direct upstreams to slow down, by
signals. As an upstream, it obeys the signals of its downstreams: the lowest requested rate applies. Feedback edges (an
acker's to the spring) are left out: they are never throttled.

A mode is an entry point of the group `springline.backpressure_modes`. It refers to `make(stage, state) -> Admission`:
`state` is the last `as_json` of an admission of the same mode, or None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from springline.persistence.extensions import Extensions
from springline.spark_jobs.streaming.backpressure.signals import Signal, SignalSender
from springline.spark_jobs.streaming.backpressure.stage_meter import (
    StageCounts,
    StageMeasurement,
)

MODES = Extensions("springline.backpressure_modes", "mode of back-pressure")
DEFAULT_MODE, OFF = "predictive", "off"
MINIMUM_RATE = 10_000.0  # bytes/s that a stage may always admit, so that its rate can still be measured


@dataclass(frozen=True, slots=True)
class StageObservation:
    """The input of an admission: the stage's measurement, the signals sent to it, and its direct upstreams.

    `unthrottled_rate` is what the stage admits without back-pressure, in bytes/s of its own input; `counts` are the
    counters that `measurement` was computed from.
    """

    measurement: StageMeasurement
    unthrottled_rate: float
    upstreams: Sequence[str] = ()
    signals: Sequence[Signal] = ()
    counts: StageCounts | None = None

    @property
    def observed_at(self) -> float:
        """Time of the measurement in seconds since 1970."""
        return self.measurement.observed_at


@dataclass(frozen=True, slots=True)
class Throttle:
    """A throttle that `downstream` imposes on `upstream`: a level, or a `rate` in bytes/s of the downstream's input.

    It applies since `since` (seconds since 1970), for `reason`.
    """

    downstream: str
    upstream: str
    since: float
    reason: str
    throttle_level: int = 0
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class AdmissionDecision:
    """A decision: the bytes/s that the stage may admit, and the signals to send.

    If `rate` is None, the stage is not throttled. `max_queue` bounds the bytes that may be queued before this stage:
    its upstreams in the same application get credits for them, whatever their rates are. `throttled_by` and `throttles`
    explain the stage's two roles.
    """

    rate: float | None
    signals: tuple[Signal, ...] = ()
    throttled_by: tuple[Throttle, ...] = ()
    throttles: tuple[Throttle, ...] = ()
    max_queue: float | None = None


class Admission(Protocol):
    """Decides for one stage; called every 50 to 100 ms."""

    def decide(self, observation: StageObservation) -> AdmissionDecision:
        """Decide once.

        The rate is at least `MINIMUM_RATE`, or the unthrottled rate if that is less, and at most the unthrottled rate.
        """

    def as_json(self) -> dict[str, Any]:
        """Return the state, from which another instance continues."""


class UnlimitedAdmission:
    """The mode `off`: no back-pressure."""

    def __init__(self, stage: str, state: Mapping[str, Any] | None = None) -> None:
        """Take the arguments of every admission."""

    def decide(self, observation: StageObservation) -> AdmissionDecision:
        """Return a decision without a limit."""
        return AdmissionDecision(None)

    def as_json(self) -> dict[str, Any]:
        """Return an empty state."""
        return {}


def make_admission(mode: str, stage: str, state: Mapping[str, Any] | None = None) -> Admission:
    """Make the admission of a stage; `state` is the last `as_json` of one of the same mode. Raises `ExtensionError`."""
    admission: Admission = MODES.load(mode)(stage, state)
    return admission


def clamp_rate(rate: float, unthrottled_rate: float) -> float | None:
    """Return a rate within its limits; None if it is not below the unthrottled rate."""
    return None if rate >= unthrottled_rate else max(rate, min(MINIMUM_RATE, unthrottled_rate))


def throttles_of(sender: SignalSender) -> tuple[Throttle, ...]:
    """Return the throttles that a stage imposes."""
    return tuple(
        Throttle(signal.downstream, signal.upstream, since, signal.reason, signal.throttle_level, signal.rate)
        for signal, since in sender.active_signals()
    )


@dataclass
class TokenBucket:
    """Token bucket that converts a rate to bytes of rounds.

    Unused tokens are kept for `burst` seconds; bytes beyond the tokens are subtracted from the next ones. Messages are
    not split, so a round may take a little more than it is given.
    """

    burst: float = 0.15
    tokens: float = 0.0
    refilled_at: float | None = field(default=None)

    def available_bytes(self, rate: float, now: float) -> float:
        """Refill the bucket and return the bytes that the next round may admit."""
        elapsed = 0.0 if self.refilled_at is None else max(now - self.refilled_at, 0.0)
        self.tokens = min(self.tokens + rate * elapsed, rate * self.burst)
        self.refilled_at = now
        return max(self.tokens, 0.0)

    def spend(self, spent: float, least: float = -math.inf) -> None:
        """Subtract the bytes that a round costs; that does not lower the tokens below `least`."""
        self.tokens = max(self.tokens - spent, min(least, self.tokens))


def forward_upstreams(stages: Sequence[str], sends: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return the direct upstreams that each stage may throttle; `stages` in the order in which records pass them.

    An edge that leads to an earlier stage, or to the stage itself, is a feedback edge and is left out.
    """
    position = {stage: number for number, stage in enumerate(stages)}
    by_stage: dict[str, list[str]] = {stage: [] for stage in stages}
    for upstream in stages:
        for downstream in sends.get(upstream, ()):
            if position[upstream] < position[downstream]:
                by_stage[downstream].append(upstream)
    return {stage: tuple(upstreams) for stage, upstreams in by_stage.items()}
