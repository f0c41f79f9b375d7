"""The mode `predictive`: the true service rate fed forward, and a PI term on the queue.

What a stage wants to receive is what it can do, min(true capacity, what it may admit itself), corrected so that its
mean queue stays at a small target: then it never waits for input, and nothing waits long for it. The upstream
divides by its amplification (95th percentile); the integral takes up what that and the percentile of the rate are off.
Feed-forward follows a change of the load in the time of one round; the queue alone would need several.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from springline.persistence.model.codec import from_plain, plain
from springline.persistence.text.formatting import say_bytes
from springline.spark_jobs.streaming.backpressure.admission import MINIMUM, Admitted, Seen, Throttle, bounded, throttles
from springline.spark_jobs.streaming.backpressure.queue import Measured
from springline.spark_jobs.streaming.backpressure.signals import RECOVERY_SECONDS, Ask, Asking, Received

_LEAST_AMPLIFICATION = 1e-6  # of a stage that sends next to nothing downstream
_TRIM = 0.1  # the integral at first: the percentiles of rate and amplification are about that much too careful
_LEAST = 0.8  # of its rate, by which a stage asks for less while its queue is too long, at most
_NOISE = 0.1  # of a capacity: what it differs by from one moment to the next
_CALM_SECONDS = 1.0  # in which a smaller change is believed
_UNKNOWN = 8e6  # bytes that may wait before a stage of which nothing is known yet
_BOUND = 0.95  # of what it may: an upstream that sends less is not held back


@dataclass(frozen=True, slots=True)
class Tuning:
    """The controller's parameters.

    `target`: the mean queue that is wanted, in seconds of the stage's rate, `passing`: of a stage that is throttled
    itself; at least `buffer` bytes (a wider buffer keeps siblings going for longer). `proportional` and `integral`: a
    second, and a second squared, of the queue that is missing; the former only beyond a share `calm` of the target.
    `widest`: the bound of the correction, as a share of the rate. Upstreams are asked from `engage` times the target
    on, and are freed once they have sent less than the most that they may for `release` seconds.
    """

    target: float = 0.22
    passing: float = 0.05
    buffer: float = 1e6
    proportional: float = 2.0
    integral: float = 0.4
    widest: float = 0.5
    engage: float = 2.0
    release: float = 1.0
    calm: float = 0.3


@dataclass(frozen=True, slots=True)
class Loop:
    """What the controller remembers: whether it asks, the integral (a share of the rate), since when it need not."""

    engaged: bool = False
    trim: float = _TRIM
    idle: float | None = None
    at: float | None = None
    wanted: float = 0.0


@dataclass(frozen=True, slots=True)
class _Known:
    """What an admission goes on from, beside its signals: `able` is what its stage could do, `at` when that was."""

    loop: Loop = field(default_factory=Loop)
    able: float | None = None
    at: float = 0.0


def believed(before: float | None, measured: float, seconds: float) -> float:
    """The capacity that is reckoned with: what is measured where it differs much, else on the way to it."""
    if before is None or abs(measured - before) > _NOISE * before:
        return measured
    return before + (measured - before) * min(seconds / _CALM_SECONDS, 1.0)


def steered(loop: Loop, measured: Measured, able: float, own: bool, tuning: Tuning) -> Loop:
    """One step of the loop; `able` is what the stage can do now, in bytes a second, `own` whether by itself.

    A stage that is throttled itself needs no queue to be busy, so its target is smaller.
    """
    target = max((tuning.target if own else tuning.passing) * able, tuning.buffer)
    missing = target - measured.mean
    if not loop.engaged:
        too_much = measured.mean > tuning.engage * target + MINIMUM
        coming = measured.arriving > able and missing < 0
        if not (too_much or coming):
            return Loop()
        loop = Loop(engaged=True)
    seconds = 0.0 if loop.at is None else min(max(measured.at - loop.at, 0.0), 1.0)
    calm = tuning.calm * target
    straight = tuning.proportional * (missing - min(max(missing, -calm), calm)) / able
    trim = loop.trim
    if abs(straight) < tuning.widest:  # what is far off is a change of the load, and no matter of the trim
        trim = min(max(trim + tuning.integral * missing / able * seconds, -tuning.widest), tuning.widest)
    correction = min(max(straight + trim, -_LEAST), tuning.widest)
    wanted = max(able * (1 + correction), MINIMUM)
    if missing < 0 or max(straight, trim) < tuning.widest or measured.arriving >= _BOUND * wanted:
        return Loop(True, trim, None, measured.at, wanted)
    idle = measured.at if loop.idle is None else loop.idle
    if measured.at - idle >= tuning.release:
        return Loop()
    return Loop(True, trim, idle, measured.at, wanted)


class Predictive:
    """The mode `predictive` for one stage."""

    def __init__(self, stage: str, state: Mapping[str, Any] | None = None, tuning: Tuning | None = None) -> None:
        known = from_plain(_Known, state or {}, f"the state of back-pressure of stage {stage}")
        self._stage = stage
        self._tuning = tuning or Tuning()
        self._loop, self._able, self._at = known.loop, known.able, known.at
        self._asking = Asking(stage, state)
        self._received = Received(state)

    def look(self, seen: Seen) -> Admitted:
        """Decide once; see `Admission`."""
        rate, by = self._obeyed(seen)
        signals = self._asking.signals(self._wanted(seen, rate), seen.at)
        return Admitted(rate, signals, by, throttles(self._asking))

    def as_json(self) -> dict[str, Any]:
        """The state, from which another one goes on."""
        known = plain(_Known(self._loop, self._able, self._at))
        return {**known, **self._asking.as_json(), **self._received.as_json()}

    def _wanted(self, seen: Seen, admitted: float | None) -> dict[str, Ask]:
        """What each upstream may send, in proportion to what it sends now."""
        measured = seen.measured
        if measured.rate is None:
            many = measured.queue > _UNKNOWN
            why = f"what it can do is not known yet, and {say_bytes(measured.queue)} wait"
            return dict.fromkeys(seen.upstreams, Ask(0, MINIMUM, why) if many else Ask())
        if not seen.upstreams:
            return {}
        self._able = believed(self._able, measured.rate, seen.at - self._at)
        self._at = seen.at
        own = admitted is None or self._able <= admitted
        able = self._able if admitted is None else min(self._able, admitted)
        self._loop = steered(self._loop, measured, able, own, self._tuning)
        if not self._loop.engaged:
            return dict.fromkeys(seen.upstreams, Ask())
        why = f"it can do {say_bytes(able)}/s, and {say_bytes(measured.queue)} wait"
        shares = _shares(seen)
        return {each: Ask(0, max(self._loop.wanted * shares[each], MINIMUM), why) for each in seen.upstreams}

    def _obeyed(self, seen: Seen) -> tuple[float | None, tuple[Throttle, ...]]:
        self._received.take(seen.signals, seen.at)
        least, by = seen.original, []
        for held in self._received.held():
            signal, overdue = held.signal, held.overdue(seen.at)
            if signal.rate is None:
                rate = seen.original
            else:
                many = max(seen.measured.amplification.get(signal.downstream, 1.0), _LEAST_AMPLIFICATION)
                rate = signal.rate / many * 2 ** min(overdue / RECOVERY_SECONDS, 60)
            if rate < seen.original:
                by.append(Throttle(signal.downstream, self._stage, held.since, signal.why, 0, signal.rate))
            elif overdue:
                self._received.forget(signal.downstream)
            least = min(least, rate)
        return bounded(least, seen.original), tuple(by)


def _shares(seen: Seen) -> dict[str, float]:
    """What part of the bytes comes from each upstream; nobody's is less than a quarter of an even one."""
    even = 1 / len(seen.upstreams)
    found = {each: max(seen.measured.inflow.get(each, 0.0), 0.0) for each in seen.upstreams}
    total = sum(found.values())
    parts = {each: max(flow / total if total else even, even / 4) for each, flow in found.items()}
    return {each: part / sum(parts.values()) for each, part in parts.items()}
