"""The mode `stepwise`: the patent's stepwise back-pressure, with its gaps closed.

The gaps of the patent's text, and the solutions here:

- *One overload lowers a rate by one step only* (its step 6 skips an upstream that is throttled already): while the
  queue is above the high mark and does not shrink, a further step is taken every `patience` seconds.
- *Rates drift*: v'·(1/v') is not 1 in floating point, and a duplicated message counts twice. A level is an integer,
  the rate is the original times v' to the level, and a signal holds the level, not the change.
- *Two downstreams share an upstream*: each pair has its own level, the greatest (the lowest rate) applies, and a
  release of one pair does not release another.
- *A dead task throttles its upstream forever*: signals carry leases; after the end of a lease, the level falls by a
  whole step per second.
- *It oscillates forever* if the right rate lies between two levels: a level is a sixteenth of v'; a step is sixteen
  levels initially and at most, is halved after each reversal, and doubled from the third step in the same direction
  on. A level that led to an overload is not tried again for a time that doubles, up to a minute, unless the stage has
  been faster for some seconds.
- *The queue of a stage with rounds is a sawtooth*: thresholds are compared with the standing queue.
- *The original rate* is what the upstream admitted when it was first throttled; the upstream keeps it until it is
  released.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
from springline.spark_jobs.streaming.backpressure.signals import Demand, SignalReceiver, SignalSender
from springline.spark_jobs.streaming.backpressure.stage_meter import StageMeasurement

LEVELS_PER_STEP = 16  # levels per step of v'
_MAX_THROTTLE_LEVEL = 40 * LEVELS_PER_STEP  # at v' = 0.85, a sixth of a per cent of the original rate
_MAX_QUEUE = 1.5  # times the high mark: the bytes that may be queued, whatever the levels are
_MAX_HOLD_SECONDS = 60.0  # limit of the time before a failed level is tried again
_RECOVERY_FACTOR = 1.1  # a rate of this times the rate at an overload, for _RECOVERY_SECONDS, clears the failed level
_RECOVERY_SECONDS = 5.0  # longer than a burst of a stage whose downstream releases it for a moment


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds of overload and underload: bytes of the standing queue, and `sensitivity`, the seconds of underload.

    `ratio` is the patent's v', `patience` the seconds between two steps down. The patent's own values are 50 MB, 500 KB
    and 2 s; those here are for rounds of a tenth of a second.
    """

    high: float = 6e6
    low: float = 2e6
    sensitivity: float = 0.3
    ratio: float = 0.85
    patience: float = 1.0

    def __post_init__(self) -> None:
        if not (0 < self.ratio < 1 and 0 <= self.low < self.high):
            raise ValueError(f"thresholds: must satisfy 0 < ratio < 1 and 0 <= low < high; got {self}")


@dataclass(frozen=True, slots=True)
class UpstreamThrottle:
    """State of a stage's throttling of one upstream.

    `throttle_level` is the requested level. `step` is the step size in levels, `is_down` the direction of the last
    `same_direction_steps` steps, of which the newest was taken at `changed_at` (None: there is none) with a queue of
    `queue`. The stage is underloaded since `underloaded_since`. `failed_throttle_level` is a level that led to an
    overload, at a rate of `failed_rate`; it is tried again after `hold_seconds` seconds. Since `quicker_since` the
    stage is faster than that rate.
    """

    throttle_level: int = 0
    step: int = LEVELS_PER_STEP
    same_direction_steps: int = 0
    is_down: bool = True
    changed_at: float | None = None
    queue: float = 0.0
    underloaded_since: float | None = None
    failed_throttle_level: int | None = None
    failed_rate: float = 0.0
    hold_seconds: float = 0.0
    quicker_since: float | None = None


@dataclass(frozen=True, slots=True)
class _StepwiseState:
    """State of an admission, without its signals.

    `unthrottled_rate` is what it admitted before it was throttled.
    """

    pairs: dict[str, UpstreamThrottle] = field(default_factory=dict)
    unthrottled_rate: float | None = None


def next_throttle(pair: UpstreamThrottle, measurement: StageMeasurement, thresholds: Thresholds) -> UpstreamThrottle:
    """Return the throttling of a pair after a measurement."""
    now, queue = measurement.observed_at, measurement.standing
    is_quicker = (
        pair.failed_throttle_level is not None
        and measurement.rate is not None
        and measurement.rate > _RECOVERY_FACTOR * pair.failed_rate
    )
    since = (now if pair.quicker_since is None else pair.quicker_since) if is_quicker else None
    pair = replace(pair, quicker_since=since)
    if since is not None and now - since >= _RECOVERY_SECONDS:
        pair = replace(pair, failed_throttle_level=None, hold_seconds=0.0, quicker_since=None)
    if queue >= thresholds.high:
        pair = replace(pair, underloaded_since=None)
        return (
            _throttle_more(pair, measurement, thresholds)
            if pair.changed_at is None or now - pair.changed_at >= thresholds.patience
            else pair
        )
    if queue > thresholds.low:
        return replace(pair, underloaded_since=None)
    if pair.throttle_level == 0:
        return UpstreamThrottle()
    if pair.underloaded_since is None:
        return replace(pair, underloaded_since=now)
    return _throttle_less(pair, pair.underloaded_since, measurement, thresholds)


def _throttle_more(pair: UpstreamThrottle, measurement: StageMeasurement, thresholds: Thresholds) -> UpstreamThrottle:
    now, queue = measurement.observed_at, measurement.standing
    flows_off = measurement.rate is not None and measurement.arrival_rate < measurement.rate
    if pair.is_down and pair.throttle_level and (queue < pair.queue or flows_off):
        return replace(pair, queue=queue, changed_at=now)  # it already shrinks
    if pair.is_down:
        step = _next_step(pair) if pair.throttle_level else LEVELS_PER_STEP
        updated = replace(pair, same_direction_steps=pair.same_direction_steps + 1)
    else:  # the last step up was one too many
        step = max(pair.step // 2, 1)
        hold_seconds = min(max(pair.hold_seconds * 2, thresholds.sensitivity * 2), _MAX_HOLD_SECONDS)
        updated = replace(
            pair,
            same_direction_steps=1,
            failed_throttle_level=pair.throttle_level,
            failed_rate=measurement.rate or 0.0,
            hold_seconds=hold_seconds,
        )
    return replace(
        updated,
        throttle_level=min(pair.throttle_level + step, _MAX_THROTTLE_LEVEL),
        step=step,
        is_down=True,
        changed_at=now,
        queue=queue,
    )


def _throttle_less(
    pair: UpstreamThrottle, underloaded_since: float, measurement: StageMeasurement, thresholds: Thresholds
) -> UpstreamThrottle:
    step, same_direction_steps = (
        (max(pair.step // 2, 1), 1) if pair.is_down else (_next_step(pair), pair.same_direction_steps + 1)
    )
    throttle_level = max(pair.throttle_level - step, 0)
    wait_seconds, failed_throttle_level = thresholds.sensitivity, pair.failed_throttle_level
    if failed_throttle_level is not None and throttle_level <= failed_throttle_level:
        if pair.throttle_level - failed_throttle_level > 1:
            throttle_level, step = (
                failed_throttle_level + 1,
                pair.throttle_level - failed_throttle_level - 1,
            )  # down to the lowest level that did not fail
        else:
            throttle_level, step, wait_seconds, failed_throttle_level = (
                pair.throttle_level - 1,
                1,
                pair.hold_seconds,
                None,
            )
    if (
        measurement.observed_at
        - (underloaded_since if pair.changed_at is None else max(underloaded_since, pair.changed_at))
        < wait_seconds
    ):
        return pair
    return replace(
        pair,
        throttle_level=throttle_level,
        step=step,
        same_direction_steps=same_direction_steps,
        is_down=False,
        changed_at=measurement.observed_at,
        underloaded_since=measurement.observed_at,
        failed_throttle_level=failed_throttle_level,
    )


def _next_step(pair: UpstreamThrottle) -> int:
    return min(pair.step * (2 if pair.same_direction_steps > 1 else 1), LEVELS_PER_STEP)


class StepwiseAdmission:
    """The mode `stepwise` for one stage."""

    def __init__(
        self, stage: str, state: Mapping[str, Any] | None = None, thresholds: Thresholds | None = None
    ) -> None:
        restored = from_json_value(_StepwiseState, state or {}, f"the state of back-pressure of stage {stage}")
        self._stage = stage
        self._thresholds = thresholds or Thresholds()
        self._throttles, self._unthrottled_rate = restored.pairs, restored.unthrottled_rate
        self._sender = SignalSender(stage, state)
        self._receiver = SignalReceiver(state)

    def decide(self, observation: StageObservation) -> AdmissionDecision:
        """Decide once; see `Admission`."""
        rate, throttled_by = self._obey(observation)
        capacity = min((each for each in (observation.measurement.rate, rate) if each is not None), default=None)
        measurement = replace(observation.measurement, rate=capacity)  # a throttled stage is no faster than its limit
        self._throttles = {
            upstream: next_throttle(self._throttles.get(upstream, UpstreamThrottle()), measurement, self._thresholds)
            for upstream in observation.upstreams
        }
        reason = (
            f"{format_bytes(observation.measurement.standing)} are queued; limit {format_bytes(self._thresholds.high)}"
        )
        demands = {upstream: Demand(pair.throttle_level, None, reason) for upstream, pair in self._throttles.items()}
        signals = self._sender.signals_to_send(demands, observation.observed_at)
        return AdmissionDecision(
            rate, signals, throttled_by, throttles_of(self._sender), max_queue=_MAX_QUEUE * self._thresholds.high
        )

    def as_json(self) -> dict[str, Any]:
        """Return the state, from which another instance continues."""
        own_state = to_json_value(_StepwiseState(self._throttles, self._unthrottled_rate))
        return {**own_state, **self._sender.as_json(), **self._receiver.as_json()}

    def _obey(self, observation: StageObservation) -> tuple[float | None, tuple[Throttle, ...]]:
        self._receiver.accept(observation.signals, observation.observed_at)
        throttled_by = []
        for active in self._receiver.active_signals():
            signal, overdue = active.signal, active.seconds_overdue(observation.observed_at)
            throttle_level = signal.throttle_level - (LEVELS_PER_STEP * (1 + int(overdue)) if overdue else 0)
            if throttle_level > 0:
                throttled_by.append(
                    Throttle(signal.downstream, self._stage, active.since, signal.reason, throttle_level)
                )
            elif overdue:
                self._receiver.forget(signal.downstream)
        if not throttled_by:
            self._unthrottled_rate = None
            return None, ()
        if self._unthrottled_rate is None:
            self._unthrottled_rate = min(
                max(observation.measurement.outflow, MINIMUM_RATE), observation.unthrottled_rate
            )
        deepest = max(throttle.throttle_level for throttle in throttled_by)
        return clamp_rate(
            min(self._unthrottled_rate, observation.unthrottled_rate)
            * self._thresholds.ratio ** (deepest / LEVELS_PER_STEP),
            observation.unthrottled_rate,
        ), tuple(throttled_by)
