"""Queues and rates of a stage, measured from its counters; pure.

A stage's queue is the bytes sent to it (its upstream's end markers) minus the bytes applied (its state). Its rate is
its capacity, not its throughput: bytes applied per busy second, so a starved stage is not measured as slow.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from springline.persistence.model.codec import from_json_value, to_json_value

Floats = npt.NDArray[np.float64]

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
FIXED_LEAST, FIXED_MOST = 0.25, 0.95  # shares of a round's output: less is noise; more, and no size would be enough
SPREAD = 0.1  # of the sizes of rounds, from which their fixed output shows
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
    `admitted_round`, `applied_round`: the newest rounds that `admitted` and `applied` include.
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
    applied_round: int = 0

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
class RoundCost:
    """What a round costs a stage's downstream, in bytes of the stage's own input: `fixed`, and `slope` for each byte.

    A stage that aggregates sends every group of a round once, so that a small round sends almost as much as a large
    one. Of a stage whose output is in proportion to its input, a round costs what it reads.

    Example:
        >>> cost = RoundCost(fixed=600.0, slope=0.4)
        >>> cost.of(1_000), cost.affordable(800), cost.affordable(3_000)
        (1000.0, 1500.0, 6000.0)
    """

    fixed: float = 0.0
    slope: float = 1.0

    def of(self, read: float) -> float:
        """Return the cost of a round that reads so many bytes."""
        return self.fixed + self.slope * read

    def affordable(self, cost: float) -> float:
        """Return the bytes that a round of such a cost reads; at least so many that they cost as much as the round
        itself.
        """
        return max(cost - self.fixed, self.fixed) / self.slope


IN_PROPORTION: RoundCost = RoundCost()
"""What a round costs that sends in proportion to what it reads."""


@dataclass(frozen=True, slots=True)
class StageMeasurement:
    """Measurement of a stage, in bytes and bytes/s.

    `queue`: sent and not applied; `waiting`: sent and not admitted to a round; `standing`: the least queue of the last
    quarter of a second, as in CoDel (Nichols and Jacobson, 2012), which removes the sawtooth of the rounds; `mean`:
    over several rounds. `rate`: true capacity, None before the first round. `inflow`: by upstream stage; `outflow`:
    applied bytes/s. `amplification`: output bytes per input byte, by downstream stage, as the 95th percentile over
    rounds, for a round of the mean size. `round_cost`: that of the downstream where it has the greatest fixed part.
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
    round_cost: RoundCost = IN_PROPORTION

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
    """State of a meter: bytes and seconds of rounds; bytes that rounds read, and sent to each downstream stage."""

    round_samples: tuple[tuple[float, float], ...] = ()
    outputs: tuple[tuple[float, dict[str, float]], ...] = ()


class StageMeter:
    """Measures a stage from its counters; `state` is the `as_json` of an earlier meter."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        restored = from_json_value(_MeterState, state or {}, "the state of a meter")
        self._observed: deque[StageCounts] = deque()
        self._round_samples: deque[tuple[float, float]] = deque(restored.round_samples)
        self._sample_ends: deque[float] = deque([0.0] * len(self._round_samples))  # when each ended
        self._outputs: deque[tuple[float, dict[str, float]]] = deque(restored.outputs, maxlen=ROUNDS)
        self._shortest_rounds: deque[tuple[float, float, float]] = (
            deque()
        )  # (end time, bytes, seconds), by increasing seconds
        self._last_ended: StageCounts | None = None
        self._fixed_shares: dict[str, float] = {}  # by downstream: the part of a mean round's output that is fixed
        self._amplification, self._round_cost = self._measure_outputs()
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
            round_cost=self._round_cost,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the state of the rates, from which another meter continues; flows are measured again."""
        state: dict[str, Any] = to_json_value(_MeterState(tuple(self._round_samples), tuple(self._outputs)))
        return state

    def _record_rounds(self, counts: StageCounts) -> None:
        """Record the rounds that were completed since the last recorded ones."""
        last = self._last_ended
        if last is None:
            self._last_ended = counts
        elif counts.busy > last.busy and counts.busy_bytes > last.busy_bytes:
            self._add_round(float(counts.busy_bytes - last.busy_bytes), counts.busy - last.busy, counts.observed_at)
            rounds = max(counts.applied_round - last.applied_round, 1)
            sent = {name: (many - last.produced.get(name, 0)) / rounds for name, many in counts.produced.items()}
            self._outputs.append(((counts.applied - last.applied) / rounds, sent))
            self._last_ended = counts
            self._amplification, self._round_cost = self._measure_outputs()

    def _measure_outputs(self) -> tuple[dict[str, float], RoundCost]:
        """Return the amplification for each downstream stage, and the cost of a round."""
        read = np.array([each for each, _ in self._outputs])
        amplification, fixed_share = {}, 0.0
        for name in sorted({name for _, sent in self._outputs for name in sent}):
            of_stage = np.array([sent.get(name, math.nan) for _, sent in self._outputs])
            present = ~np.isnan(of_stage)
            self._fixed_shares[name] = _fixed_share(read[present], of_stage[present], self._fixed_shares.get(name, 0.0))
            amplification[name] = _amplification(read[present], of_stage[present], self._fixed_shares[name])
            fixed_share = max(fixed_share, self._fixed_shares[name])
        cost = RoundCost(fixed_share * float(read.mean()), 1 - fixed_share) if fixed_share else IN_PROPORTION
        return amplification, cost

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


def _fixed_share(read: Floats, sent: Floats, previous: float) -> float:
    """Return the share of a mean round's output that does not depend on its size, by a line through the rounds.

    It stays what it was while all rounds are of similar size.
    """
    mean_read, mean_sent = float(read.mean()), float(sent.mean())
    variance = float(read.var())
    if mean_sent <= 0 or variance <= (SPREAD * mean_read) ** 2:
        return previous
    slope = float(((read - mean_read) * (sent - mean_sent)).mean()) / variance
    share = 1 - min(max(slope * mean_read / mean_sent, 0.0), 1.0)
    return 0.0 if share < FIXED_LEAST else min(share, FIXED_MOST)


def _amplification(read: Floats, sent: Floats, fixed_share: float) -> float:
    """Return the output bytes per input byte of a mean round, as the percentile over rounds of what each would give."""
    mean_read = float(read.mean())
    expected = fixed_share * mean_read + (1 - fixed_share) * read
    return float(np.percentile(sent / expected, AMPLIFICATION_PERCENTILE))


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
