"""Queues and rates of a stage, measured from its counters; pure.

A stage's queue is the bytes sent to it (its upstream's end markers) minus the bytes applied (its state). Its rate is
its capacity, not its throughput: bytes applied per busy second, so a starved stage is not measured as slow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from springline.persistence.model.codec import from_json_value, to_json_value

BUSY_SECONDS = 0.5  # busy seconds of the newest samples, from which the rate is computed
BUSY_AGE = 2.0  # seconds after which a sample is dropped if there are newer ones, which are short with little input
BUSY_MOST = 0.15  # maximum weight of a sample in seconds: a stalled round must not outweigh those after it
STALL_SECONDS = (
    1.0  # duration of a round that stood still rather than worked: a quicker one after it shows that it is over
)
BUSY_PERCENTILE = 40.0  # of the samples: a fall of the rate shows sooner than a rise
SHORT_SECONDS = 0.03  # busy seconds; a shorter round is only a lower bound of the rate
FULL_SECONDS = 0.1  # busy seconds; shorter rounds are extrapolated to this length
FULL_MOST = 3.0  # maximum factor of the extrapolation: it relies on two durations that are close to each other
SMALLEST = 4.0  # minimum ratio to the bytes of the short round, for an extrapolation
STANDING_SECONDS = 0.25  # window of the standing queue, its minimum: several rounds
MEAN_SECONDS = 0.3  # window of the mean queue
FLOW_SECONDS = 1.0  # window of flows in bytes/s
ROUNDS = 64  # newest samples, from which the amplification is computed
AMPLIFICATION_PERCENTILE = 95.0
MIN_AMPLIFICATION = 1e-6  # of a stage that sends almost nothing downstream
GRACE_SECONDS = 0.12  # duration of a round from which it lowers the rate


@dataclass(frozen=True, slots=True)
class StageCounts:
    """The counters of a stage since its job began, at one moment; in bytes and seconds.

    `sent`: bytes sent to it, by upstream stage. `admitted`: bytes that its rounds have admitted, including the round in
    progress, which began at `round_started_at` (None: there is none). `applied`: bytes of the completed rounds, `busy`:
    the seconds that these took; if `busy` excludes rounds that do not show the rate, `sampled_bytes` is the bytes of
    the included ones. `produced`: bytes that it has sent, by downstream stage. `unit_queues`: the queue of each unit.
    `admitted_round`: the newest round that `admitted` includes.
    """

    observed_at: float
    sent: Mapping[str, int]
    admitted: int
    applied: int
    busy: float
    round_started_at: float | None = None
    produced: Mapping[str, int] = field(default_factory=dict)
    unit_queues: Mapping[int, int] = field(default_factory=dict)
    sampled_bytes: int | None = None
    admitted_round: int = 0

    @property
    def busy_bytes(self) -> int:
        """Bytes of the rounds that `busy` includes."""
        return self.applied if self.sampled_bytes is None else self.sampled_bytes

    @property
    def queue(self) -> int:
        """Bytes sent and not applied."""
        return max(sum(self.sent.values()) - self.applied, 0)

    def can_precede(self, other: StageCounts) -> bool:
        """Whether `other` can be later: no counter has decreased."""
        return self.observed_at <= other.observed_at and self.applied <= other.applied and self.busy <= other.busy


@dataclass(frozen=True, slots=True)
class StageMeasurement:
    """Measurement of a stage, in bytes and bytes/s.

    `queue`: sent and not applied; `waiting`: sent and not admitted to a round; `standing`: the least queue of the last
    quarter of a second, as in CoDel (Nichols and Jacobson, 2012), which removes the sawtooth of the rounds; `mean`:
    over several rounds. `rate`: true capacity, None before the first round. `inflow`: by upstream stage; `outflow`:
    applied bytes/s. `amplification`: output bytes per input byte, by downstream stage, as the 95th percentile over
    rounds.
    """

    observed_at: float
    queue: float
    waiting: float
    standing: float
    mean: float
    rate: float | None
    inflow: Mapping[str, float] = field(default_factory=dict)
    outflow: float = 0.0
    amplification: Mapping[str, float] = field(default_factory=dict)
    unit_queues: Mapping[int, int] = field(default_factory=dict)

    @property
    def queue_seconds(self) -> float | None:
        """Time to drain the queue in seconds; None while the rate is unknown."""
        return self.queue / self.rate if self.rate else None

    def amplification_to(self, downstream: str) -> float:
        """Return the output bytes per input byte for a downstream stage, above zero; 1 before it is measured."""
        return max(self.amplification.get(downstream, 1.0), MIN_AMPLIFICATION)

    @property
    def arrival_rate(self) -> float:
        """Bytes/s from all upstream stages."""
        return sum(self.inflow.values())


@dataclass(frozen=True, slots=True)
class _MeterState:
    """State of a meter: bytes and seconds of rounds, and output bytes per input byte by downstream stage."""

    round_samples: tuple[tuple[float, float], ...] = ()
    output_ratios: tuple[dict[str, float], ...] = ()


class StageMeter:
    """Measures a stage from its counters; `state` is the `as_json` of an earlier meter."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        restored = from_json_value(_MeterState, state or {}, "the state of a meter")
        self._observed: deque[StageCounts] = deque()
        self._round_samples: deque[tuple[float, float]] = deque(restored.round_samples)
        self._sample_ends: deque[float] = deque([0.0] * len(self._round_samples))  # when each ended
        self._output_ratios: deque[dict[str, float]] = deque(restored.output_ratios, maxlen=ROUNDS)
        self._shortest_rounds: deque[tuple[float, float, float]] = (
            deque()
        )  # (end time, bytes, seconds), by increasing seconds
        self._last_ended: StageCounts | None = None
        self._amplification = _amplification(self._output_ratios)
        self._capacity = _weighted_percentile(self._round_samples, BUSY_PERCENTILE) if self._round_samples else None

    def measure(self, counts: StageCounts) -> StageMeasurement:
        """Add the current counters and return the measurement. Counters that went back reset the flows."""
        if self._observed and not self._observed[-1].can_precede(counts):
            self._observed.clear()
            self._last_ended = None
        self._observed.append(counts)
        while len(self._observed) > 2 and self._observed[1].observed_at <= counts.observed_at - FLOW_SECONDS:
            self._observed.popleft()
        self._record_rounds(counts)
        first = self._observed[0]
        seconds = (
            max(counts.observed_at - first.observed_at, 1e-9)
            if counts.observed_at > first.observed_at
            else float("inf")
        )
        return StageMeasurement(
            observed_at=counts.observed_at,
            queue=counts.queue,
            waiting=max(sum(counts.sent.values()) - counts.admitted, 0),
            standing=min(
                each.queue for each in self._observed if each.observed_at >= counts.observed_at - STANDING_SECONDS
            ),
            mean=_time_mean(
                [
                    (each.observed_at, each.queue)
                    for each in self._observed
                    if each.observed_at >= counts.observed_at - MEAN_SECONDS
                ]
            ),
            rate=self._capacity_of(counts),
            inflow={name: max(sent - first.sent.get(name, 0), 0) / seconds for name, sent in counts.sent.items()},
            outflow=(counts.applied - first.applied) / seconds,
            amplification=self._amplification,
            unit_queues=counts.unit_queues,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the state of the rates, from which another meter continues; flows are measured again."""
        state: dict[str, Any] = to_json_value(_MeterState(tuple(self._round_samples), tuple(self._output_ratios)))
        return state

    def _record_rounds(self, counts: StageCounts) -> None:
        """Record the rounds that were completed since the last recorded ones."""
        last = self._last_ended
        if last is None:
            self._last_ended = counts
        elif counts.busy > last.busy and counts.busy_bytes > last.busy_bytes:
            applied = counts.applied - last.applied
            self._add_round(float(counts.busy_bytes - last.busy_bytes), counts.busy - last.busy, counts.observed_at)
            self._output_ratios.append(
                {name: (produced - last.produced.get(name, 0)) / applied for name, produced in counts.produced.items()}
            )
            self._last_ended = counts
            self._amplification = _amplification(self._output_ratios)

    def _add_round(self, applied: float, busy: float, ended_at: float) -> None:
        applied = self._full_round_rate(applied, busy, ended_at) * busy
        if busy < SHORT_SECONDS and self._capacity is not None and applied / busy < self._capacity:
            return
        while self._round_samples and _is_stall_before(self._round_samples[-1], applied / busy):
            self._round_samples.pop()
            self._sample_ends.pop()
        self._round_samples.append((applied, busy))
        self._sample_ends.append(ended_at)
        while len(self._round_samples) > 1 and self._is_outdated(ended_at):
            self._round_samples.popleft()
            self._sample_ends.popleft()
        self._capacity = _weighted_percentile(self._round_samples, BUSY_PERCENTILE)

    def _full_round_rate(self, applied: float, busy: float, ended_at: float) -> float:
        """Return the bytes/s that the stage would process in rounds of `FULL_SECONDS`, estimated from a given round.

        A round has a fixed cost whatever its size, such as its transaction; it is estimated from the shortest recent
        round. Otherwise a stage with little input, which has short rounds, would be measured as slow.
        """
        shortest = self._shortest_rounds
        while shortest and ended_at - shortest[0][0] > BUSY_AGE:
            shortest.popleft()
        while shortest and shortest[-1][2] >= busy:
            shortest.pop()
        shortest.append((ended_at, applied, busy))
        _, short_bytes, short_seconds = shortest[0]
        if busy >= FULL_SECONDS or applied < SMALLEST * short_bytes or busy <= short_seconds:
            return applied / busy
        slope = (busy - short_seconds) / (applied - short_bytes)
        fixed = max(busy - slope * applied, 0.0)
        return min((FULL_SECONDS - fixed) / slope / FULL_SECONDS, FULL_MOST * applied / busy)

    def _is_outdated(self, now: float) -> bool:
        """Whether the oldest round is no longer used."""
        return now - self._sample_ends[0] > BUSY_AGE or sum(map(_weight, list(self._round_samples)[1:])) >= BUSY_SECONDS

    def _capacity_of(self, counts: StageCounts) -> float | None:
        """Return the capacity by completed rounds, limited by the last long one and by the current one's maximum."""
        if self._capacity is None:
            return None
        applied, busy = self._round_samples[-1]
        rate = min(self._capacity, applied / busy) if busy > GRACE_SECONDS else self._capacity
        elapsed = 0.0 if counts.round_started_at is None else counts.observed_at - counts.round_started_at
        if elapsed > GRACE_SECONDS and counts.admitted > counts.applied:
            rate = min(rate, (counts.admitted - counts.applied) / elapsed)
        return rate


def _time_mean(samples: Sequence[tuple[float, int]]) -> float:
    """Return the mean over time of samples (time, value)."""
    seconds = samples[-1][0] - samples[0][0]
    if not seconds:
        return float(samples[-1][1])
    steps = pairwise(samples)
    return sum((end - start) * (first + last) / 2 for (start, first), (end, last) in steps) / seconds


def _amplification(ratios: Iterable[Mapping[str, float]]) -> dict[str, float]:
    by_stage: dict[str, list[float]] = {}
    for each in ratios:
        for name, ratio in each.items():
            by_stage.setdefault(name, []).append(ratio)
    return {name: float(np.percentile(by_stage[name], AMPLIFICATION_PERCENTILE)) for name in sorted(by_stage)}


def _is_stall_before(sample: tuple[float, float], rate: float) -> bool:
    """Whether a sample is a stall, and no measure of a stage that has then worked at `rate`."""
    applied, busy = sample
    return busy > STALL_SECONDS and applied / busy < rate / 2


def _weight(sample: tuple[float, float]) -> float:
    return min(sample[1], BUSY_MOST)


def _weighted_percentile(samples: Iterable[tuple[float, float]], percentile: float) -> float:
    """Return the percentile of bytes/s, each sample weighted by its seconds, up to a limit."""
    ascending = sorted((bytes_ / busy, _weight((bytes_, busy))) for bytes_, busy in samples)
    cumulative = np.cumsum([weight for _, weight in ascending])
    index = int(np.searchsorted(cumulative, percentile / 100 * cumulative[-1]))
    return ascending[min(index, len(ascending) - 1)][0]
