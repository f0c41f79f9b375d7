"""Other ways of back-pressure, for comparison in the simulator: each an admission of one stage.

`source-throttle`   Heron's spout clamping: a queue at the high mark stops the spring until it is at the low mark
`pid`               Spark's PIDRateEstimator with its defaults, a stage at a time
`aimd`              additive increase, multiplicative decrease, as TCP's (Chiu and Jain, 1989)
`credit`            Flink's: an upstream may send as much as there is room for in the receiver's buffers
`drop-and-resend`   Storm's before 1.0: no admission at all, the world drops what does not fit and sends it again
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from springline.spark_jobs.streaming.backpressure.admission import (
    MINIMUM_RATE,
    Admission,
    AdmissionDecision,
    StageObservation,
    UnlimitedAdmission,
    clamp_rate,
)
from springline.spark_jobs.streaming.backpressure.signals import (
    Demand,
    SignalReceiver,
    SignalSender,
)
from springline.spark_jobs.streaming.backpressure.stepwise import Thresholds

CREDIT_BYTES = 4e6
_INCREASE = 1e6  # bytes a second, in a second
_DECREASE = 0.5


class _Rated:
    """What peers have in common: a stage asks its upstreams for a rate, and obeys the least that it is asked for."""

    def __init__(self, stage: str) -> None:
        self._asking = SignalSender(stage)
        self._received = SignalReceiver()

    def decide(self, observation: StageObservation) -> AdmissionDecision:
        """Decide once; see `Admission`."""
        self._received.accept(observation.signals, observation.observed_at)
        rate = self.requested_rate(observation)
        asks = {each: Demand(0, None if rate is None else max(rate, 0.0)) for each in observation.upstreams}
        signals = self._asking.signals_to_send(asks, observation.observed_at)
        rates = [active.signal.rate for active in self._received.active_signals() if active.signal.rate is not None]
        return AdmissionDecision(
            clamp_rate(min(rates, default=observation.unthrottled_rate), observation.unthrottled_rate), signals
        )

    def requested_rate(self, observation: StageObservation) -> float | None:
        """Bytes a second that upstreams may send; None: as they like."""
        raise NotImplementedError

    def as_json(self) -> dict[str, Any]:
        """Nothing in the simulator is restarted."""
        return {}


class SourceThrottle(_Rated):
    """Any queue at the high mark stops the spring; all at the low mark let it go on."""

    def __init__(self, stage: str) -> None:
        super().__init__(stage)
        self._stopped = False

    def requested_rate(self, observation: StageObservation) -> float | None:
        marks, queue = Thresholds(), observation.measurement.standing
        self._stopped = queue > (marks.low if self._stopped else marks.high)
        return 0.0 if self._stopped else None


class Pid(_Rated):
    """Spark's estimator: proportional 1, integral 0.2, derivative 0; a batch is a round of 80 ms."""

    def __init__(self, stage: str) -> None:
        super().__init__(stage)
        self._rate: float | None = None
        self._at = 0.0

    def requested_rate(self, observation: StageObservation) -> float | None:
        measured = observation.measurement
        if measured.rate is None or observation.observed_at - self._at < 0.08:
            return self._rate
        self._at = observation.observed_at
        if self._rate is None:  # the first one is the processing rate
            self._rate = measured.rate
            return self._rate
        delay = measured.waiting / measured.rate
        error = self._rate - measured.rate
        historical = delay * measured.rate / 0.08
        self._rate = max(self._rate - error - 0.2 * historical, MINIMUM_RATE)
        return self._rate


class Aimd(_Rated):
    """A queue at the high mark halves the rate, at most twice a second; else it grows by 1 MB/s a second."""

    def __init__(self, stage: str) -> None:
        super().__init__(stage)
        self._rate: float | None = None
        self._at = 0.0
        self._halved = float("-inf")

    def requested_rate(self, observation: StageObservation) -> float | None:
        measured, elapsed = observation.measurement, observation.observed_at - self._at
        self._at = observation.observed_at
        if measured.standing >= Thresholds().high and observation.observed_at - self._halved >= 0.5:
            self._halved = observation.observed_at
            self._rate = _DECREASE * (
                measured.arrival_rate if self._rate is None else min(self._rate, measured.arrival_rate)
            )
        elif self._rate is not None:
            self._rate += _INCREASE * elapsed
        return self._rate


class Credit:
    """No round admits more than fits into the buffers of the stages downstream, and nothing else limits it."""

    def __init__(self, stage: str) -> None:
        """Take the argument of every peer."""

    def decide(self, observation: StageObservation) -> AdmissionDecision:
        """Decide once; see `Admission`."""
        return AdmissionDecision(None, max_queue=CREDIT_BYTES)

    def as_json(self) -> dict[str, Any]:
        """Nothing in the simulator is restarted."""
        return {}


PEERS: dict[str, Callable[[str], Admission]] = {
    "source-throttle": SourceThrottle,
    "drop-and-resend": UnlimitedAdmission,
    "pid": Pid,
    "aimd": Aimd,
    "credit": Credit,
}
