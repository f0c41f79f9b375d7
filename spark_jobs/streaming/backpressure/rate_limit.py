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
from dataclasses import dataclass
from pathlib import Path

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.backpressure.admission import TokenBucket
from springline.spark_jobs.streaming.backpressure.signals import RECOVERY_SECONDS
from springline.spark_jobs.streaming.runtime.atomic_files import read_value, write_value
from springline.spark_jobs.streaming.runtime.driver.admission import FixedAdmission, spread
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from springline.spark_jobs.streaming.runtime.stage import Stage

UNLIMITED_RATE = 1e10  # bytes/s: practically unlimited
_MAX_PLANNED = 64  # newest rounds, which a credit may not include yet
_LEAST_SECONDS = 0.04  # minimum size of a round, in seconds of the rate
_BURST, _LONGEST_BURST = (
    0.15,
    1.0,
)  # seconds of the rate that a round may admit, including the duration of the previous one


@dataclass(frozen=True, slots=True)
class Credit:
    """Bytes that all rounds after round `after_round` may admit together: what fits into the queues downstream."""

    bytes: int
    after_round: int


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Bytes/s that a stage may admit, the mean bytes of an offset of its log, and its credit; None: as many as it can.

    While a credit is above zero, a round may admit at least one message, which may be larger.
    """

    rate: float | None
    bytes_per_offset: float
    credit: Credit | None = None


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
        return RateLimit(rate, limit.bytes_per_offset) if rate < UNLIMITED_RATE else None


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


class RateLimiter:
    """Limits the rounds of a stage by its rate and credit, and by `max_messages_per_round` messages of each unit.

    `folder` is the job's folder.
    """

    def __init__(self, stage: Stage, folder: Path) -> None:
        self._stage = stage
        self._folder = folder
        self._fixed = FixedAdmission(stage.max_messages_per_round, stage.units)
        self._grants = GrantReader(folder, stage.name)
        self._bucket: TokenBucket | None = None
        self._bytes_per_offset = 0.0
        self._planned: deque[PlannedRound] = deque(maxlen=_MAX_PLANNED)

    def max_messages(self, lag: Mapping[int, int], now: float) -> dict[int, int]:
        """See `AdmissionLimit`."""
        limits = self._fixed.max_messages(lag, now)
        limit = self._grants.limit(now)
        if limit is None or limit.bytes_per_offset <= 0:
            self._bucket = None
            return limits
        self._bytes_per_offset = limit.bytes_per_offset
        requested = {partition: min(many, limits[partition]) for partition, many in lag.items()}
        allowed = min(
            self._tokens(limit.rate, sum(requested.values()) * limit.bytes_per_offset, now),
            self._remaining_credit(limit.credit),
        )
        return spread(allowed / limit.bytes_per_offset, requested) if allowed > 0 else dict.fromkeys(lag, 0)

    def on_round_planned(self, plan: RoundPlan, now: float) -> None:
        """See `AdmissionLimit`."""
        if not plan.messages:
            return
        if self._bucket is not None:
            self._bucket.spend(plan.messages * self._bytes_per_offset)
        if not self._planned or self._planned[-1].number != plan.number:
            self._planned.append(PlannedRound(plan.number, now, plan.messages))
        with suppress(OSError):  # the file is only used for measurements, and the round does not depend on it
            write_planned(self._folder, self._stage.name, [*self._planned][-2:])

    def _tokens(self, rate: float | None, requested: float, now: float) -> float:
        """Return the bytes that the rate allows now; 0 if they are too few for a round, and more are requested."""
        if rate is None:
            self._bucket = None
            return math.inf
        if self._bucket is None:
            self._bucket = TokenBucket(refilled_at=now - _BURST)
        elapsed = now - (self._bucket.refilled_at or now)
        self._bucket.burst = min(max(elapsed, _BURST), _LONGEST_BURST)
        allowed = self._bucket.available_bytes(rate, now)
        return 0.0 if allowed < min(rate * _LEAST_SECONDS, requested) else allowed

    def _remaining_credit(self, credit: Credit | None) -> float:
        """Return the bytes of a credit that the rounds planned since have left."""
        if credit is None:
            return math.inf
        messages = sum(planned.messages for planned in self._planned if planned.number > credit.after_round)
        return credit.bytes - messages * self._bytes_per_offset


def _rate_file(folder: Path, stage: str) -> Path:
    return folder / "rates" / f"{stage}.json"


def _planned_file(folder: Path, stage: str) -> Path:
    return folder / "planned" / f"{stage}.json"
