"""Admission limits in the planner of a stage: leased rates and credits, converted to messages of rounds.

JOB/rates/STAGE.json       bytes/s that a stage may admit, its credit, and the end of the lease; no file: no limit
JOB/planned/STAGE.json     the newest rounds of a stage: when they were planned, and how much they admit

Both are in the job's folder: each application of a job writes those of its own stages.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.backpressure.admission import TokenBucket
from springline.spark_jobs.streaming.backpressure.signals import RECOVERY_SECONDS
from springline.spark_jobs.streaming.backpressure.stage_meter import (
    IN_PROPORTION,
    RoundCost,
    StageCounts,
    StageMeasurement,
)
from springline.spark_jobs.streaming.runtime.atomic_files import read_value, write_value
from springline.spark_jobs.streaming.runtime.driver.admission import FixedAdmission, spread
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from springline.spark_jobs.streaming.runtime.stage import Stage

UNLIMITED_RATE = 1e10  # bytes/s: practically unlimited
_MAX_PLANNED = 64  # newest rounds, which a credit may not include yet
_LEAST_SECONDS = 0.08  # minimum size of a round, in seconds of the rate
_LEAST_SHARE = 0.5  # of its window that a round takes, if it cannot take all that waits
_LONGEST_WAIT = 2.0  # seconds of the rate for which a round waits so that its fixed cost pays, before it or after
_BURST, _LONGEST_BURST = (
    0.15,
    1.0,
)  # seconds of the rate that a round may admit, including the duration of the previous one


@dataclass(frozen=True, slots=True)
class Credit:
    """Bytes that all rounds after round `after_round` may admit together: what fits into the queues downstream.

    A round that does not admit all that waits, admits at least `least` bytes: otherwise the little that each completed
    round sets free would be a round of its own (in TCP the silly window syndrome, RFC 1122).
    """

    bytes: int
    after_round: int
    least: int = 0


def credit_of(
    downstream: str, max_queue: float, counts: StageCounts, upstream: StageCounts, measured: StageMeasurement
) -> Credit:
    """Return what an upstream stage may still admit for the queue of a downstream one.

    Args:
        downstream: the name of the downstream stage.
        max_queue: the bytes that may be queued before it; several upstreams get an equal share each.
        counts: its counters.
        upstream: the counters of the upstream, of the same moment; what its open rounds admitted is under way.
        measured: the measurement of the upstream.

    The credit is negative when more is queued or under way than there is room for.

    >>> counts = StageCounts(1.0, {"a": 3_000}, admitted=2_000, applied=1_000, busy=0.5)
    >>> upstream = StageCounts(1.0, {"topic": 9_000}, admitted=3_500, applied=3_000, busy=0.5)
    >>> measured = StageMeasurement(1.0, 0, 0, 0, 0, 1e6, amplification={"b": 2.0})
    >>> credit_of("b", 5_000, counts, upstream, measured)
    Credit(bytes=1000, after_round=0, least=1250)
    """
    cost = measured.round_cost
    open_rounds = max(upstream.admitted_round - upstream.applied_round, 0)
    under_way = open_rounds * cost.fixed + cost.slope * (upstream.admitted - upstream.applied)
    scale = max(len(counts.sent), 1) * measured.amplification_to(downstream)
    left, window = (max_queue - counts.queue) / scale - under_way, max_queue / scale
    return Credit(int(left), upstream.admitted_round, int(window * _LEAST_SHARE))


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Bytes/s that a stage may admit, the mean bytes of an offset of its log, and its credit; None: as many as it can.

    Both are spent by what rounds cost. While a credit is above zero, a round may admit at least one message, which may
    be larger, and at least as many as cost what the round itself does.
    """

    rate: float | None
    bytes_per_offset: float
    credit: Credit | None = None
    round_cost: RoundCost = IN_PROPORTION


@dataclass(frozen=True, slots=True)
class _Grant:
    """A limit with the end of its lease, as stored in its file."""

    until: float
    limit: RateLimit


_GRANTS: Codec[_Grant] = Codec(
    _Grant, 1, "the admission limit of a stage", "remove the file; it is recreated when needed"
)


def write_grant(folder: Path, stage: str, limit: RateLimit | None, until: float) -> None:
    """Limit a stage of the job with this folder until `until`, in seconds since 1970; then the limit rises.

    None removes the limit.
    """
    path = _rate_file(folder, stage)
    if limit is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_value(path, _GRANTS, _Grant(until, limit))


class GrantReader:
    """Reads the grant of a stage, and rereads it when the file was replaced."""

    def __init__(self, folder: Path, stage: str) -> None:
        self._path = _rate_file(folder, stage)
        self._file_version: tuple[int, int] | None = None
        self._grant: _Grant | None = None

    def limit(self, now: float) -> RateLimit | None:
        """Return the limit of the stage; None if it has none.

        After the end of the lease the rate doubles every second and the credit is void, since the granting process may
        be dead or only late.
        """
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        file_version = (status.st_ino, status.st_mtime_ns)
        if file_version != self._file_version:
            if (grant := read_value(self._path, _GRANTS)) is None:
                return None
            self._grant, self._file_version = grant, file_version
        if self._grant is None:
            return None
        limit, overdue = self._grant.limit, now - self._grant.until
        if overdue <= 0:
            return limit
        rate = UNLIMITED_RATE if limit.rate is None else limit.rate * 2 ** min(overdue / RECOVERY_SECONDS, 60)
        return replace(limit, rate=rate, credit=None) if rate < UNLIMITED_RATE else None


@dataclass(frozen=True, slots=True)
class PlannedRound:
    """A round of a stage with messages: its number, when it was planned, how many offsets it admits."""

    number: int
    planned_at: float
    messages: int


_PLANNED_ROUNDS: Codec[tuple[PlannedRound, ...]] = Codec(
    tuple[PlannedRound, ...], 1, "the newest rounds of a stage", "remove the file; the next round recreates it"
)


def read_planned(folder: Path, stage: str) -> tuple[PlannedRound, ...]:
    """Return the newest rounds with messages, up to two, the older one first. Raises `DecodeError`."""
    return read_value(_planned_file(folder, stage), _PLANNED_ROUNDS) or ()


def write_planned(folder: Path, stage: str, rounds: Iterable[PlannedRound]) -> None:
    """Replace the newest rounds with messages."""
    path = _planned_file(folder, stage)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_value(path, _PLANNED_ROUNDS, tuple(rounds))


class Allowance:
    """What the rounds of a stage may admit under its limits; `now` in seconds. Pure.

    Example:
        >>> allowance = Allowance()
        >>> limit = RateLimit(rate=1_000.0, bytes_per_offset=1.0)
        >>> allowance.affordable(limit, requested=500.0, now=0.0)
        150.0
        >>> allowance.spend(1, 150.0)
        >>> allowance.affordable(limit, requested=500.0, now=0.01)
        0.0
    """

    def __init__(self) -> None:
        self._limit: RateLimit | None = None
        self._bucket: TokenBucket | None = None
        self._spent: deque[tuple[int, float]] = deque(maxlen=_MAX_PLANNED)  # rounds, and the bytes that they admit

    def affordable(self, limit: RateLimit | None, requested: float, now: float) -> float:
        """Return the bytes that a round may admit now, of `requested` ones; 0 if they are too few for a round."""
        self._limit = limit
        if limit is None:
            self._bucket = None
            return math.inf
        return min(self._tokens(limit, requested, now), self._remaining_credit(limit, requested))

    def spend(self, number: int, admitted: float) -> None:
        """Subtract what a round admits; once for each round."""
        if self._spent and self._spent[-1][0] == number:
            return
        self._spent.append((number, admitted))
        if self._bucket is not None and self._limit is not None:
            cost = self._limit.round_cost
            # The debt of a fixed cost is bounded: otherwise a rate that falls to its minimum would last for hours.
            least = -(self._limit.rate or 0.0) * _LONGEST_WAIT if cost.fixed else -math.inf
            self._bucket.spend(cost.of(admitted), least)

    def _tokens(self, limit: RateLimit, requested: float, now: float) -> float:
        rate, cost = limit.rate, limit.round_cost
        if rate is None:
            self._bucket = None
            return math.inf
        if self._bucket is None:
            self._bucket = TokenBucket(refilled_at=now - _BURST)
        elapsed = now - (self._bucket.refilled_at or now)
        worthwhile = min(2 * cost.fixed, rate * _LONGEST_WAIT)
        self._bucket.burst = max(min(max(elapsed, _BURST), _LONGEST_BURST), worthwhile / rate)
        allowed = self._bucket.available_bytes(rate, now)
        is_enough = allowed >= min(max(rate * _LEAST_SECONDS, worthwhile), cost.of(requested))
        return cost.affordable(allowed) if is_enough and allowed > 0 else 0.0

    def _remaining_credit(self, limit: RateLimit, requested: float) -> float:
        """Return the bytes that the rounds planned since have left of a credit."""
        if (credit := limit.credit) is None:
            return math.inf
        cost = limit.round_cost
        left = credit.bytes - sum(cost.of(admitted) for number, admitted in self._spent if number > credit.after_round)
        is_enough = left > 0 and left >= min(credit.least, cost.of(requested))
        return cost.affordable(left) if is_enough else 0.0


class RateLimiter:
    """Limits the rounds of a stage by its rate and credit, and by `max_messages_per_round` messages of each unit.

    `folder` is the job's folder.
    """

    def __init__(self, stage: Stage, folder: Path) -> None:
        self._stage = stage
        self._folder = folder
        self._fixed = FixedAdmission(stage.max_messages_per_round, stage.units)
        self._grants = GrantReader(folder, stage.name)
        self._allowance = Allowance()
        self._bytes_per_offset = 0.0
        self._planned: deque[PlannedRound] = deque(maxlen=2)

    def max_messages(self, lag: Mapping[int, int], now: float) -> dict[int, int]:
        """See `AdmissionLimit`."""
        limits = self._fixed.max_messages(lag, now)
        limit = self._grants.limit(now)
        if limit is None or limit.bytes_per_offset <= 0:
            self._allowance.affordable(None, 0.0, now)
            return limits
        self._bytes_per_offset = limit.bytes_per_offset
        requested = {partition: min(many, limits[partition]) for partition, many in lag.items()}
        allowed = self._allowance.affordable(limit, sum(requested.values()) * limit.bytes_per_offset, now)
        return spread(allowed / limit.bytes_per_offset, requested) if allowed > 0 else dict.fromkeys(lag, 0)

    def on_round_planned(self, plan: RoundPlan, now: float) -> None:
        """See `AdmissionLimit`."""
        if not plan.messages:
            return
        self._allowance.spend(plan.number, plan.messages * self._bytes_per_offset)
        if not self._planned or self._planned[-1].number != plan.number:
            self._planned.append(PlannedRound(plan.number, now, plan.messages))
        with suppress(OSError):  # the file is only used for measurements, and the round does not depend on it
            write_planned(self._folder, self._stage.name, self._planned)


def _rate_file(folder: Path, stage: str) -> Path:
    return folder / "rates" / f"{stage}.json"


def _planned_file(folder: Path, stage: str) -> Path:
    return folder / "planned" / f"{stage}.json"
