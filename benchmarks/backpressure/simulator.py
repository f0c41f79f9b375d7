"""Stages, rounds and queues in discrete events, under real admissions: the simulator of back-pressure.

As in the platform, a round of a stage admits what waits, as far as it may, and works on it. The next one begins when
that work ends; what the round sends arrives 4 ms later, and it is committed 25 ms later. Admissions look every 50 ms;
signals are under way for 20 to 60 ms, credits take effect at once. The first stage reads a topic that fills at a
constant rate. Bytes and seconds throughout; one seed, one course.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from benchmarks.backpressure.wire import Faults, Wire
from springline.spark_jobs.streaming.backpressure.admission import (
    Admission,
    AdmissionDecision,
    StageObservation,
)
from springline.spark_jobs.streaming.backpressure.rate_limit import Allowance, Credit, RateLimit, credit_of
from springline.spark_jobs.streaming.backpressure.stage_meter import (
    IN_PROPORTION,
    StageCounts,
    StageMeasurement,
    StageMeter,
)

GRID = 0.01  # seconds between two points at which capacities are given
CONTROL_INTERVAL = 0.05
RESEND_SECONDS = 30.0  # after which a spring sends again what was dropped
_CADENCE = (0.02, 0.03)  # seconds between the beginnings of two rounds, at least
_POLL_SECONDS = 0.005  # after which a stage that could not begin a round tries again
_SEND_SECONDS = 0.004  # from the end of a round's work until its output is downstream
_COMMIT_SECONDS = 0.025  # from the end of a round's work until it is counted
_LEAST_WORK = 0.005  # seconds
_NOISE = 0.05  # relative, of a round's work and of its output

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Station:
    """A stage: its capacity (bytes a second at points `GRID` apart), output bytes for an input byte, by downstream.

    Each round sends `round_output` bytes in addition, as one does that aggregates.
    """

    name: str
    capacity: Floats
    sends: Mapping[str, float] = field(default_factory=dict)
    original: float = 60e6
    round_output: float = 0.0


@dataclass
class Trace:
    """What was seen: at every look, and what each stage has applied by when.

    `waiting`, `queue`: bytes, a value a look; `rate`: what the stage may admit (the original where it is free).
    `applied`: (time, bytes so far) of round ends; `admitted` of round beginnings. `latencies`: (seconds since the first
    stage admitted them, bytes) at the ends of the branches, by stage.
    """

    at: dict[str, list[float]] = field(default_factory=dict)
    waiting: dict[str, list[float]] = field(default_factory=dict)
    queue: dict[str, list[float]] = field(default_factory=dict)
    rate: dict[str, list[float]] = field(default_factory=dict)
    applied: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    admitted: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    latencies: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    resent: float = 0.0


@dataclass
class _Round:
    """An open round: when its work began, what it works on, and what it sent."""

    began: float
    parts: list[tuple[float, float]]
    busy: float
    produced: dict[str, float] = field(default_factory=dict)


@dataclass
class _Stage:
    """A stage as it runs; `waits` holds (bytes, when the first stage admitted them)."""

    station: Station
    work: Floats  # cumulative capacity
    meter: StageMeter
    admission: Admission | None
    allowance: Allowance = field(default_factory=Allowance)
    rounds: int = 0
    applied_rounds: int = 0
    waits: deque[tuple[float, float]] = field(default_factory=deque)
    waiting: float = 0.0
    sent: dict[str, float] = field(default_factory=dict)
    produced: dict[str, float] = field(default_factory=dict)
    admitted_bytes: float = 0.0
    applied: float = 0.0
    busy: float = 0.0
    admitted: AdmissionDecision = field(default_factory=lambda: AdmissionDecision(None))
    credits: dict[str, Credit] = field(default_factory=dict)
    working: deque[_Round] = field(default_factory=deque)
    committing: deque[_Round] = field(default_factory=deque)

    @property
    def rate(self) -> float:
        """What it may admit."""
        return self.station.original if self.admitted.rate is None else self.admitted.rate

    @property
    def credit(self) -> Credit | None:
        """What it may admit at most until it is given more."""
        return min(self.credits.values(), key=lambda credit: credit.bytes, default=None)

    def counted(self, at: float) -> StageCounts:
        """The input of its meter."""
        open_rounds = (*self.committing, *self.working)
        began = open_rounds[0].began if open_rounds else None
        return StageCounts(
            at, {name: int(sent) for name, sent in self.sent.items()}, int(self.admitted_bytes), int(self.applied),
            self.busy, began, {name: int(bytes_) for name, bytes_ in self.produced.items()},
            admitted_round=self.rounds, applied_round=self.applied_rounds,
        )  # fmt: skip


class Simulation:
    """Runs stages, the first of which reads the topic; `offered` bytes a second come into that.

    `upstreams` says whom each stage may throttle. With `drop_at`, a stage drops what comes to a queue of so many bytes,
    and the first stage sends it again. A stage without an admission (`make` gives None) is not throttled.
    """

    def __init__(
        self,
        stations: Sequence[Station],
        upstreams: Mapping[str, Sequence[str]],
        make: Callable[[str], Admission | None],
        offered: float,
        seconds: float,
        *,
        seed: int = 1,
        faults: Faults | None = None,
        most: float = 4e6,
        drop_at: float = float("inf"),
    ) -> None:
        self.now = 0.0
        self.trace = Trace()
        self.wire = Wire(lambda: self.now, seed, faults)
        self.stages = {
            each.name: _Stage(
                each, np.concatenate([[0.0], np.cumsum(each.capacity) * GRID]), StageMeter(), make(each.name)
            )
            for each in stations
        }
        self._first = stations[0].name
        self._upstreams = upstreams
        self._offered = offered
        self._seconds = seconds
        self._most = most
        self._drop_at = drop_at
        self._random = np.random.default_rng(seed)
        self._measured: dict[str, StageMeasurement] = {}
        self._events: list[tuple[float, int, str, str]] = []
        self._count = 0
        self._resends: list[tuple[float, float, float]] = []  # when, bytes, when first admitted

    def run(self, until: float | None = None) -> Trace:
        """Go on to a time, or to the end."""
        if not self._count:
            for place, name in enumerate(self.stages):
                self._plan(0.01 * place, "decide", name)
                self._plan(0.013 * place, "begin", name)
        end = self._seconds if until is None else until
        while self._events and self._events[0][0] <= end:
            self.now, _, what, name = heapq.heappop(self._events)
            getattr(self, f"_{what}")(self.stages[name])
        self.now = end
        return self.trace

    def _plan(self, at: float, what: str, name: str) -> None:
        self._count += 1
        heapq.heappush(self._events, (at, self._count, what, name))

    def _decide(self, stage: _Stage) -> None:
        name = stage.station.name
        self._plan(self.now + CONTROL_INTERVAL, "decide", name)
        if name == self._first:
            self._fill(stage)
        counted = stage.counted(self.now)
        measured = stage.meter.measure(counted)
        if stage.admission is not None:
            signals = self.wire.receive(name)
            observation = StageObservation(
                measured, stage.station.original, self._upstreams.get(name, ()), signals, counted
            )
            stage.admitted = stage.admission.decide(observation)
            self.wire.send(stage.admitted.signals)
            self._grant_credits(stage, counted)
        self._measured[name] = measured
        self._note(stage, measured)

    def _grant_credits(self, stage: _Stage, counted: StageCounts) -> None:
        """Grant the stages before this one what they may still admit."""
        if stage.admitted.max_queue is None:
            return
        for upstream in (self.stages[name] for name in self._upstreams.get(stage.station.name, ())):
            measured = self._measured.get(upstream.station.name)
            if measured is not None:
                credit = credit_of(
                    stage.station.name, stage.admitted.max_queue, counted, upstream.counted(self.now), measured
                )
                upstream.credits[stage.station.name] = credit

    def _note(self, stage: _Stage, measured: StageMeasurement) -> None:
        name, trace = stage.station.name, self.trace
        trace.at.setdefault(name, []).append(self.now)
        trace.waiting.setdefault(name, []).append(measured.waiting)
        trace.queue.setdefault(name, []).append(measured.queue)
        trace.rate.setdefault(name, []).append(stage.rate)

    def _fill(self, stage: _Stage) -> None:
        """The topic holds what has been offered; what is sent again comes on top."""
        stage.sent["topic"] = self._offered * self.now + self.trace.resent
        while self._resends and self._resends[0][0] <= self.now:
            _, many, admitted_at = heapq.heappop(self._resends)
            self.trace.resent += many
            stage.sent["topic"] += many
            stage.waits.append((many, admitted_at))
        stage.waiting = stage.sent["topic"] - stage.admitted_bytes

    def _begin(self, stage: _Stage) -> None:
        name = stage.station.name
        if name == self._first:
            self._fill(stage)
        possible = min(stage.waiting, self._most)
        measured = self._measured.get(name)
        limit = RateLimit(stage.rate, 1.0, stage.credit, IN_PROPORTION if measured is None else measured.round_cost)
        admitted = min(possible, stage.allowance.affordable(limit, possible, self.now))
        if admitted < 100.0:
            self._plan(self.now + _POLL_SECONDS, "begin", name)
            return
        stage.rounds += 1
        stage.allowance.spend(stage.rounds, admitted)
        stage.admitted_bytes += admitted
        stage.waiting -= admitted
        self.trace.admitted.setdefault(name, []).append((self.now, stage.admitted_bytes))
        parts = self._oldest_parts(stage, admitted)
        end = self._worked(stage, admitted * float(self._random.normal(1, _NOISE)))
        stage.working.append(_Round(self.now, parts, 0.0 if end is None else end - self.now))
        if end is not None:
            self._plan(max(end, self.now + float(self._random.uniform(*_CADENCE))), "begin", name)
            self._plan(end + _SEND_SECONDS, "deliver", name)
            self._plan(end + _COMMIT_SECONDS, "commit", name)

    def _oldest_parts(self, stage: _Stage, many: float) -> list[tuple[float, float]]:
        """The oldest bytes that wait; of the topic, what is to be sent again first."""
        parts = []
        while many > 1e-6 and stage.waits:
            bytes_, admitted_at = stage.waits.popleft()
            part = min(bytes_, many)
            if part < bytes_:
                stage.waits.appendleft((bytes_ - part, admitted_at))
            parts.append((part, admitted_at))
            many -= part
        if many > 1e-6 and stage.station.name == self._first:
            parts.append((many, self.now))
        return parts

    def _worked(self, stage: _Stage, many: float) -> float | None:
        """When so many bytes are through; None if not before the end."""
        applied_work = _at(stage.work, self.now)
        place = int(np.searchsorted(stage.work, applied_work + max(many, 1.0)))
        if place >= len(stage.work):
            return None
        before = stage.work[place - 1]
        end = GRID * (place - 1 + (applied_work + many - before) / (stage.work[place] - before))
        return max(float(end), self.now + _LEAST_WORK)

    def _deliver(self, stage: _Stage) -> None:
        """Send what the oldest round that worked has made."""
        ended = stage.working.popleft()
        stage.committing.append(ended)
        for downstream, factor in stage.station.sends.items():
            self._send(stage, ended, self.stages[downstream], factor * float(self._random.normal(1, _NOISE)))

    def _commit(self, stage: _Stage) -> None:
        """Count the oldest round that was sent, as a whole."""
        name, ended = stage.station.name, stage.committing.popleft()
        stage.applied += sum(bytes_ for bytes_, _ in ended.parts)
        stage.busy += ended.busy
        stage.applied_rounds += 1
        for downstream, many in ended.produced.items():
            stage.produced[downstream] = stage.produced.get(downstream, 0.0) + many
        self.trace.applied.setdefault(name, []).append((self.now, stage.applied))
        if not stage.station.sends:
            latencies = self.trace.latencies.setdefault(name, [])
            latencies.extend((self.now - admitted_at, bytes_) for bytes_, admitted_at in ended.parts)

    def _send(self, stage: _Stage, ended: _Round, to: _Stage, factor: float) -> None:
        read = sum(bytes_ for bytes_, _ in ended.parts)
        for bytes_, admitted_at in ended.parts:
            many = bytes_ * (factor + stage.station.round_output / read)
            ended.produced[to.station.name] = ended.produced.get(to.station.name, 0.0) + many
            if to.waiting + many > self._drop_at:
                heapq.heappush(self._resends, (self.now + RESEND_SECONDS, bytes_, admitted_at))
                continue
            to.sent[stage.station.name] = to.sent.get(stage.station.name, 0.0) + many
            to.waits.append((many, admitted_at))
            to.waiting += many


def _at(work: Floats, at: float) -> float:
    place = min(int(at / GRID), len(work) - 2)
    return float(work[place] + (work[place + 1] - work[place]) * (at / GRID - place))
