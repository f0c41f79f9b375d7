"""Admission as the planner of a stage carries it out: rates that hold for a lease, turned into messages of rounds.

STATE/STAGE/rate.json       bytes a second that a stage may admit, and until when; no file: as without back-pressure
STATE/STAGE/planned.json    the newest round of a stage, since when it is under way, how much it admits

Both lie where the states of units do: each application of a job writes those of its own stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.backpressure.admission import Allowance
from springline.spark_jobs.streaming.backpressure.signals import RECOVERY_SECONDS
from springline.spark_jobs.streaming.runtime.atomic_files import read_value, write_value
from springline.spark_jobs.streaming.runtime.rounds import Plan
from springline.spark_jobs.streaming.runtime.stage import Stage

FASTEST = 1e10  # bytes a second: as good as without bound
_LEAST_SECONDS = 0.04  # of its rate, less than which is not worth a round
_BURST, _LONGEST_BURST = 0.15, 1.0  # seconds of its rate that a round may admit: what passed in the one before, too


@dataclass(frozen=True, slots=True)
class Rate:
    """Bytes a second that a stage may admit, and the mean bytes of an offset of its log."""

    rate: float
    size: float


@dataclass(frozen=True, slots=True)
class _Grant:
    """A rate with the end of its lease, as it lies in its file."""

    until: float
    rate: float
    size: float


_GRANTS: Codec[_Grant] = Codec(_Grant, 1, "what a stage may admit", "remove the file: it is written anew where needed")


def grant(stage: Stage, rate: Rate | None, until: float) -> None:
    """Let a stage admit so much until then, seconds since 1970, and ever more after; None: it is free."""
    path = _rate_file(stage)
    if rate is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_value(path, _GRANTS, _Grant(until, rate.rate, rate.size))


class Grants:
    """Looks at what a stage is granted, and reads it again when it was replaced."""

    def __init__(self, stage: Stage) -> None:
        self._path = _rate_file(stage)
        self._known: tuple[int, int] | None = None
        self._told: _Grant | None = None

    def rate(self, now: float) -> Rate | None:
        """What the stage may admit; None where it is not throttled.

        Once the lease has ended the rate doubles every second: whoever granted it may be dead, or late for a moment.
        """
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        known = (status.st_ino, status.st_mtime_ns)
        if known != self._known:
            if (told := read_value(self._path, _GRANTS)) is None:
                return None
            self._told, self._known = told, known
        if self._told is None:
            return None
        overdue = max(now - self._told.until, 0.0)
        rate = self._told.rate * 2 ** min(overdue / RECOVERY_SECONDS, 60)
        return Rate(rate, self._told.size) if rate < FASTEST else None


@dataclass(frozen=True, slots=True)
class Planned:
    """The newest round of a stage with messages: its number, when it was planned, how many offsets it admits."""

    number: int
    at: float
    messages: int

    @staticmethod
    def read(stage: Stage) -> Planned | None:
        """None before the first one; raises `DecodeError`."""
        return read_value(_planned_file(stage), _PLANNED)

    def write(self, stage: Stage) -> None:
        """In place of the one before."""
        path = _planned_file(stage)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_value(path, _PLANNED, self)


_PLANNED: Codec[Planned] = Codec(
    Planned, 1, "the newest round of a stage", "remove the file: the next round writes it anew"
)


def spread(messages: float, waiting: Mapping[int, int]) -> dict[int, int]:
    """About so many messages, at least one, over units in proportion to what waits for them."""
    total = sum(waiting.values())
    if messages >= total:
        return dict(waiting)
    shares = {unit: messages * many / total for unit, many in waiting.items()}
    found = {unit: int(share) for unit, share in shares.items()}
    missing = max(int(messages), 1) - sum(found.values())
    for unit in sorted(shares, key=lambda unit: (found[unit] - shares[unit], unit))[:missing]:
        found[unit] += 1
    return found


class Pacing:
    """Bounds the rounds of a stage by its rate; without one, by the stage's `admitted` messages of each unit."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._grants = Grants(stage)
        self._allowance: Allowance | None = None
        self._size = 0.0

    def admitted(self, waiting: Mapping[int, int], now: float) -> dict[int, int]:
        """See `Admitting`."""
        most = dict.fromkeys(waiting, self._stage.admitted)
        rate = self._grants.rate(now)
        if rate is None or rate.size <= 0:
            self._allowance = None
            return most
        self._size = rate.size
        if self._allowance is None:
            self._allowance = Allowance(at=now - _BURST)
        elapsed = now - (self._allowance.at or now)
        self._allowance.burst = min(max(elapsed, _BURST), _LONGEST_BURST)
        allowed = self._allowance.bytes(rate.rate, now)
        wanted = {unit: min(many, most[unit]) for unit, many in waiting.items()}
        if allowed < min(rate.rate * _LEAST_SECONDS, sum(wanted.values()) * rate.size) or allowed <= 0:
            return dict.fromkeys(waiting, 0)
        return spread(allowed / rate.size, wanted)

    def planned(self, plan: Plan, now: float) -> None:
        """See `Admitting`."""
        if not plan.messages:
            return
        if self._allowance is not None:
            self._allowance.spend(plan.messages * self._size)
        with suppress(OSError):  # what is told is for measuring alone: a round goes on without
            Planned(plan.number, now, plan.messages).write(self._stage)


def _rate_file(stage: Stage) -> Path:
    return Path(stage.state) / stage.name / "rate.json"


def _planned_file(stage: Stage) -> Path:
    return Path(stage.state) / stage.name / "planned.json"
