"""Queues and rates of a stage, measured from what it has counted; pure.

A stage's queue is the bytes sent to it (its upstream's end markers) minus those applied (its state). Its rate is what
it could do, not what it does: bytes applied in a second at work, so one that is starved is not thought to be slow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from springline.persistence.model.codec import from_plain, plain

BUSY_SECONDS = 0.5  # at work, of which the newest samples tell the rate
BUSY_AGE = 2.0  # seconds after which a round tells no more, where newer ones do: with little to do, those are short
BUSY_MOST = 0.15  # seconds that a sample counts for: one that stood still must not outweigh those after it
BUSY_PERCENTILE = 40.0  # of those seconds: a fall is believed sooner than a rise
SHORT_SECONDS = 0.03  # at work: a shorter round tells only that the stage is at least so quick
FULL_SECONDS = 0.1  # at work: for a shorter round it is reckoned what one as long as this would come to
FULL_MOST = 3.0  # times what it came to, at most: it follows from two times that lie close together
SMALLEST = 4.0  # times the bytes of a small round: with less, a round is not compared with it
STANDING_SECONDS = 0.25  # whose least queue is the standing one: several rounds
MEAN_SECONDS = 0.3  # over which the mean queue is taken
FLOW_SECONDS = 1.0  # over which bytes a second are told
ROUNDS = 64  # newest samples that tell the amplification
AMPLIFICATION_PERCENTILE = 95.0
GRACE_SECONDS = 0.12  # which a round may last before it tells that the stage has become slow


@dataclass(frozen=True, slots=True)
class Counted:
    """What a stage has counted since its job began, at one moment; bytes, and seconds.

    `sent`: bytes sent to it, by stage upstream. `taken`: bytes that its rounds have admitted, with the round under way,
    which began at `began` (None: there is none). `applied`: bytes of the rounds that have ended, `busy`: the seconds
    that these took; where `busy` leaves rounds out that tell nothing of the rate, `worked` is the bytes of the others.
    `made`: bytes that it has sent, by stage downstream. `units`: the queue of each unit.
    """

    at: float
    sent: Mapping[str, int]
    taken: int
    applied: int
    busy: float
    began: float | None = None
    made: Mapping[str, int] = field(default_factory=dict)
    units: Mapping[int, int] = field(default_factory=dict)
    worked: int | None = None

    @property
    def work(self) -> int:
        """Bytes of the rounds that `busy` counts."""
        return self.applied if self.worked is None else self.worked

    @property
    def queue(self) -> int:
        """Bytes sent and not applied."""
        return max(sum(self.sent.values()) - self.applied, 0)

    def precedes(self, other: Counted) -> bool:
        """Whether `other` can have come later: nothing that is counted has become less."""
        return self.at <= other.at and self.applied <= other.applied and self.busy <= other.busy


@dataclass(frozen=True, slots=True)
class Measured:
    """How a stage is: bytes and bytes a second.

    `queue`: sent and not applied; `waiting`: sent and not admitted to a round; `standing`: the least queue of the last
    quarter of a second, as CoDel's (Nichols and Jacobson, 2012), which is free of the saw of the rounds; `mean`: over
    several rounds. `rate`: true capacity, None before the first round. `inflow`: by stage upstream; `outflow`: what is
    applied. `amplification`: output bytes for an input byte, by stage downstream, their 95th percentile over rounds.
    """

    at: float
    queue: float
    waiting: float
    standing: float
    mean: float
    rate: float | None
    inflow: Mapping[str, float] = field(default_factory=dict)
    outflow: float = 0.0
    amplification: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[int, int] = field(default_factory=dict)

    @property
    def seconds(self) -> float | None:
        """How long the stage would take for its queue; None while its rate is unknown."""
        return self.queue / self.rate if self.rate else None

    @property
    def arriving(self) -> float:
        """Bytes a second from all stages upstream."""
        return sum(self.inflow.values())


@dataclass(frozen=True, slots=True)
class _Known:
    """What a meter knows of rates: bytes and seconds of rounds, and what they made of a byte, by stage downstream."""

    work: tuple[tuple[float, float], ...] = ()
    made: tuple[dict[str, float], ...] = ()


class Meter:
    """Measures a stage from what it counts; `state` is what another one's `as_json` told."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        known = from_plain(_Known, state or {}, "the state of a meter")
        self._seen: deque[Counted] = deque()
        self._work: deque[tuple[float, float]] = deque(known.work)
        self._ages: deque[float] = deque([0.0] * len(self._work))  # when each ended
        self._made: deque[dict[str, float]] = deque(known.made, maxlen=ROUNDS)
        self._small: deque[tuple[float, float, float]] = deque()  # when it ended, bytes, seconds: ever longer ones
        self._ended: Counted | None = None
        self._amplification = _amplification(self._made)
        self._true = _weighted(self._work, BUSY_PERCENTILE) if self._work else None

    def note(self, counted: Counted) -> Measured:
        """Take what is counted now, and tell how the stage is. Counts that went back begin anew."""
        if self._seen and not self._seen[-1].precedes(counted):
            self._seen.clear()
            self._ended = None
        self._seen.append(counted)
        while len(self._seen) > 2 and self._seen[1].at <= counted.at - FLOW_SECONDS:
            self._seen.popleft()
        self._sample(counted)
        first = self._seen[0]
        seconds = max(counted.at - first.at, 1e-9) if counted.at > first.at else float("inf")
        return Measured(
            at=counted.at,
            queue=counted.queue,
            waiting=max(sum(counted.sent.values()) - counted.taken, 0),
            standing=min(each.queue for each in self._seen if each.at >= counted.at - STANDING_SECONDS),
            mean=_mean([(each.at, each.queue) for each in self._seen if each.at >= counted.at - MEAN_SECONDS]),
            rate=self._rate(counted),
            inflow={name: max(sent - first.sent.get(name, 0), 0) / seconds for name, sent in counted.sent.items()},
            outflow=(counted.applied - first.applied) / seconds,
            amplification=self._amplification,
            units=counted.units,
        )

    def as_json(self) -> dict[str, Any]:
        """What it knows of rates, for one that goes on; flows are measured anew."""
        told: dict[str, Any] = plain(_Known(tuple(self._work), tuple(self._made)))
        return told

    def _sample(self, counted: Counted) -> None:
        """Note the rounds that have ended since the last look in which one had."""
        last = self._ended
        if last is None:
            self._ended = counted
        elif counted.busy > last.busy and counted.work > last.work:
            applied = counted.applied - last.applied
            self._work_done(float(counted.work - last.work), counted.busy - last.busy, counted.at)
            self._made.append({name: (made - last.made.get(name, 0)) / applied for name, made in counted.made.items()})
            self._ended = counted
            self._amplification = _amplification(self._made)

    def _work_done(self, applied: float, busy: float, at: float) -> None:
        applied = self._in_full(applied, busy, at) * busy
        if busy < SHORT_SECONDS and self._true is not None and applied / busy < self._true:
            return
        self._work.append((applied, busy))
        self._ages.append(at)
        while len(self._work) > 1 and self._outdated(at):
            self._work.popleft()
            self._ages.popleft()
        self._true = _weighted(self._work, BUSY_PERCENTILE)

    def _in_full(self, applied: float, busy: float, at: float) -> float:
        """Bytes a second that the stage would do in rounds of `FULL_SECONDS`, by a round that has ended.

        A round takes some time whatever its size, as a transaction does; that is reckoned from the shortest round of
        late. A stage that gets little has short rounds, and would be thought to be slow for it.
        """
        small = self._small
        while small and at - small[0][0] > BUSY_AGE:
            small.popleft()
        while small and small[-1][2] >= busy:
            small.pop()
        small.append((at, applied, busy))
        _, less, short = small[0]
        if busy >= FULL_SECONDS or applied < SMALLEST * less or busy <= short:
            return applied / busy
        slope = (busy - short) / (applied - less)
        fixed = max(busy - slope * applied, 0.0)
        return min((FULL_SECONDS - fixed) / slope / FULL_SECONDS, FULL_MOST * applied / busy)

    def _outdated(self, at: float) -> bool:
        """Whether the oldest round tells no more."""
        return at - self._ages[0] > BUSY_AGE or sum(map(_weight, list(self._work)[1:])) >= BUSY_SECONDS

    def _rate(self, counted: Counted) -> float | None:
        """Of the rounds that ended; at most what the last long one came to, and the one under way can still come to."""
        if self._true is None:
            return None
        applied, busy = self._work[-1]
        rate = min(self._true, applied / busy) if busy > GRACE_SECONDS else self._true
        elapsed = 0.0 if counted.began is None else counted.at - counted.began
        if elapsed > GRACE_SECONDS and counted.taken > counted.applied:
            rate = min(rate, (counted.taken - counted.applied) / elapsed)
        return rate


def _mean(course: Sequence[tuple[float, int]]) -> float:
    """Over time, of what was seen now and then."""
    seconds = course[-1][0] - course[0][0]
    if not seconds:
        return float(course[-1][1])
    steps = pairwise(course)
    return sum((to - at) * (first + last) / 2 for (at, first), (to, last) in steps) / seconds


def _amplification(made: Iterable[Mapping[str, float]]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for each in made:
        for name, many in each.items():
            found.setdefault(name, []).append(many)
    return {name: float(np.percentile(found[name], AMPLIFICATION_PERCENTILE)) for name in sorted(found)}


def _weight(sample: tuple[float, float]) -> float:
    return min(sample[1], BUSY_MOST)


def _weighted(work: Iterable[tuple[float, float]], percentile: float) -> float:
    """The percentile of bytes a second, each sample weighing about as much as it took."""
    ascending = sorted((bytes_ / busy, _weight((bytes_, busy))) for bytes_, busy in work)
    upto = np.cumsum([weight for _, weight in ascending])
    place = int(np.searchsorted(upto, percentile / 100 * upto[-1]))
    return ascending[min(place, len(ascending) - 1)][0]
