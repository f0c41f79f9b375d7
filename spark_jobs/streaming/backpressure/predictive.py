"""The mode `predictive`: feed-forward of the true service rate, and a PI term on the queue.

A stage requests the rate that it can process, min(true capacity, what it may admit itself), corrected so that its mean
queue stays at a small target: then it is never starved, and its input never waits long. The upstream divides the rate
by its amplification (95th percentile); the integral compensates for the bias of that percentile and the one of the
rate. Feed-forward follows a load change within one round; control by the queue alone would need several.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from springline.persistence.model.codec import from_json_value, to_json_value
from springline.persistence.text.formatting import format_bytes
from springline.spark_jobs.streaming.backpressure.admission import (
    MINIMUM_RATE,
    AdmissionDecision,
    StageObservation,
    Throttle,
    clamp_rate,
    throttles_of,
)
from springline.spark_jobs.streaming.backpressure.signals import RECOVERY_SECONDS, Demand, SignalReceiver, SignalSender
from springline.spark_jobs.streaming.backpressure.stage_meter import StageMeasurement

_INITIAL_TRIM = 0.1  # initial integral: the percentiles of rate and amplification underestimate by about this share
_MAX_REDUCTION = 0.8  # maximum share of its rate by which a stage requests less while its queue is too long
_NOISE = 0.1  # share by which a measured capacity fluctuates
_CALM_SECONDS = 1.0  # seconds over which a smaller change is smoothed
_UNKNOWN_QUEUE_BYTES = 8e6  # maximum queue in bytes of a stage whose rate is unknown
_PEAK_SECONDS = 30.0  # in which the greatest capacity is forgotten: a stage that stands still will be as fast again
_UTILISATION = 0.95  # share of its limit; an upstream that sends less is not limited by it


@dataclass(frozen=True, slots=True)
class Tuning:
    """The controller's parameters.

    `target`: the wanted mean queue, in seconds of the stage's rate; `passing`: the same for a stage that is throttled
    itself; at least `buffer` bytes (a larger buffer keeps sibling stages busy for longer). `limit`: the longest queue,
    in seconds of the greatest rate of late, at least twice the target; upstreams get credits for it. `proportional` and
    `integral`: gains, per second and per second squared of missing queue; the former only beyond a share `calm` of the
    target. `widest`: the bound of the correction, as a share of the rate. Throttling of upstreams starts at `engage`
    times the target, and ends once they have sent less than their maximum for `release` seconds.
    """

    target: float = 0.13
    limit: float = 0.28
    passing: float = 0.05
    buffer: float = 1e6
    proportional: float = 2.0
    integral: float = 0.4
    widest: float = 0.5
    engage: float = 2.0
    release: float = 1.0
    calm: float = 0.3

    def target_queue(self, capacity: float, *, is_unthrottled: bool = True) -> float:
        """Return the target of the mean queue in bytes, for a stage that processes `capacity` bytes/s."""
        return max((self.target if is_unthrottled else self.passing) * capacity, self.buffer)


@dataclass(frozen=True, slots=True)
class LoopState:
    """State of the controller: whether it throttles, its integral (a share of the rate), and its last request.

    `idle_since`: since when the upstreams send less than they may.
    """

    is_engaged: bool = False
    trim: float = _INITIAL_TRIM
    idle_since: float | None = None
    updated_at: float | None = None
    requested_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class _PredictiveState:
    """State of an admission, without its signals.

    `capacity` is the capacity of its stage at `measured_at`, `peak` the greatest one of late.
    """

    loop: LoopState = field(default_factory=LoopState)
    capacity: float | None = None
    measured_at: float = 0.0
    peak: float = 0.0


def smoothed_capacity(previous: float | None, measured: float, seconds: float) -> float:
    """Return the capacity to use: the measured one if it differs by more than noise, else a step towards it."""
    if previous is None or abs(measured - previous) > _NOISE * previous:
        return measured
    return previous + (measured - previous) * min(seconds / _CALM_SECONDS, 1.0)


def next_loop_state(
    loop: LoopState, measurement: StageMeasurement, capacity: float, is_unthrottled: bool, tuning: Tuning
) -> LoopState:
    """Return the next state of the loop.

    `capacity` is what the stage can process now, in bytes/s; `is_unthrottled` says whether only its own speed limits
    it. A stage that is throttled itself needs no queue to stay busy, so its target is smaller.
    """
    target = tuning.target_queue(capacity, is_unthrottled=is_unthrottled)
    shortfall = target - measurement.mean
    if not loop.is_engaged:
        is_overloaded = measurement.mean > tuning.engage * target + MINIMUM_RATE
        is_filling = measurement.arrival_rate > capacity and shortfall < 0
        if not (is_overloaded or is_filling):
            return LoopState()
        loop = LoopState(is_engaged=True)
    seconds = 0.0 if loop.updated_at is None else min(max(measurement.observed_at - loop.updated_at, 0.0), 1.0)
    calm = tuning.calm * target
    proportional_term = tuning.proportional * (shortfall - min(max(shortfall, -calm), calm)) / capacity
    trim = loop.trim
    if (
        abs(proportional_term) < tuning.widest
    ):  # a large deviation is a change of the load, which must not wind up the integral
        trim = min(max(trim + tuning.integral * shortfall / capacity * seconds, -tuning.widest), tuning.widest)
    correction = min(max(proportional_term + trim, -_MAX_REDUCTION), tuning.widest)
    requested_rate = max(capacity * (1 + correction), MINIMUM_RATE)
    if (
        shortfall < 0
        or max(proportional_term, trim) < tuning.widest
        or measurement.arrival_rate >= _UTILISATION * requested_rate
    ):
        return LoopState(True, trim, None, measurement.observed_at, requested_rate)
    idle = measurement.observed_at if loop.idle_since is None else loop.idle_since
    if measurement.observed_at - idle >= tuning.release:
        return LoopState()
    return LoopState(True, trim, idle, measurement.observed_at, requested_rate)


class PredictiveAdmission:
    """The mode `predictive` for one stage."""

    def __init__(self, stage: str, state: Mapping[str, Any] | None = None, tuning: Tuning | None = None) -> None:
        restored = from_json_value(_PredictiveState, state or {}, f"the state of back-pressure of stage {stage}")
        self._stage = stage
        self._tuning = tuning or Tuning()
        self._loop, self._capacity, self._measured_at = restored.loop, restored.capacity, restored.measured_at
        self._peak = restored.peak
        self._sender = SignalSender(stage, state)
        self._receiver = SignalReceiver(state)

    def decide(self, observation: StageObservation) -> AdmissionDecision:
        """Decide once; see `Admission`."""
        rate, throttled_by = self._obey(observation)
        signals = self._sender.signals_to_send(self._demands(observation, rate), observation.observed_at)
        return AdmissionDecision(rate, signals, throttled_by, throttles_of(self._sender), max_queue=self._max_queue())

    def as_json(self) -> dict[str, Any]:
        """Return the state, from which another instance continues."""
        own_state = to_json_value(_PredictiveState(self._loop, self._capacity, self._measured_at, self._peak))
        return {**own_state, **self._sender.as_json(), **self._receiver.as_json()}

    def _max_queue(self) -> float:
        """Return the bytes that may be queued, whatever the rates of the upstreams are."""
        if self._capacity is None:
            return _UNKNOWN_QUEUE_BYTES
        return max(self._tuning.limit * self._peak, 2 * self._tuning.target_queue(self._capacity))

    def _demands(self, observation: StageObservation, admitted_rate: float | None) -> dict[str, Demand]:
        """Return the demand on each upstream, in proportion to what it sends now."""
        measurement = observation.measurement
        if measurement.rate is None:
            is_too_long = measurement.queue > _UNKNOWN_QUEUE_BYTES
            reason = f"its capacity is not measured yet, and {format_bytes(measurement.queue)} wait in its queue"
            return dict.fromkeys(observation.upstreams, Demand(0, MINIMUM_RATE, reason) if is_too_long else Demand())
        if not observation.upstreams:
            return {}
        self._capacity = smoothed_capacity(
            self._capacity, measurement.rate, observation.observed_at - self._measured_at
        )
        elapsed = max(observation.observed_at - self._measured_at, 0.0)
        self._peak = max(self._capacity, self._peak * math.exp(-elapsed / _PEAK_SECONDS))
        self._measured_at = observation.observed_at
        is_unthrottled = admitted_rate is None or self._capacity <= admitted_rate
        capacity = self._capacity if admitted_rate is None else min(self._capacity, admitted_rate)
        self._loop = next_loop_state(self._loop, measurement, capacity, is_unthrottled, self._tuning)
        if not self._loop.is_engaged:
            return dict.fromkeys(observation.upstreams, Demand())
        reason = f"its capacity is {format_bytes(capacity)}/s, and {format_bytes(measurement.queue)} wait in its queue"
        shares = _inflow_shares(observation)
        return {
            each: Demand(0, max(self._loop.requested_rate * shares[each], MINIMUM_RATE), reason)
            for each in observation.upstreams
        }

    def _obey(self, observation: StageObservation) -> tuple[float | None, tuple[Throttle, ...]]:
        self._receiver.accept(observation.signals, observation.observed_at)
        lowest_rate, throttled_by = observation.unthrottled_rate, []
        for active in self._receiver.active_signals():
            signal, overdue = active.signal, active.seconds_overdue(observation.observed_at)
            if signal.rate is None:
                rate = observation.unthrottled_rate
            else:
                amplification = observation.measurement.amplification_to(signal.downstream)
                rate = signal.rate / amplification * 2 ** min(overdue / RECOVERY_SECONDS, 60)
            if rate < observation.unthrottled_rate:
                throttled_by.append(
                    Throttle(signal.downstream, self._stage, active.since, signal.reason, 0, signal.rate)
                )
            elif overdue:
                self._receiver.forget(signal.downstream)
            lowest_rate = min(lowest_rate, rate)
        return clamp_rate(lowest_rate, observation.unthrottled_rate), tuple(throttled_by)


def _inflow_shares(observation: StageObservation) -> dict[str, float]:
    """Return each upstream's share of the input bytes, before normalization at least a quarter of an even share."""
    even = 1 / len(observation.upstreams)
    inflows = {each: max(observation.measurement.inflow.get(each, 0.0), 0.0) for each in observation.upstreams}
    total = sum(inflows.values())
    parts = {each: max(flow / total if total else even, even / 4) for each, flow in inflows.items()}
    return {each: part / sum(parts.values()) for each, part in parts.items()}
