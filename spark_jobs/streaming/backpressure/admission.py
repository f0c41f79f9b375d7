"""How much a stage may admit: one interface for all modes, and the halves that they share.

A stage has two parts in it. Downstream, it looks at its own queue and asks its direct upstreams to slow down, by
signals. Upstream, it obeys what its own downstreams ask: the least of it. Edges that lead back (an acker's to the
spring) are left out: they are never throttled.

A mode is an entry point of the group `springline.backpressure_modes`. It leads to `make(stage, state) -> Admission`:
`state` is what `as_json` of one of the same mode has told before it ended, or None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from springline.persistence.extensions import Extensions
from springline.spark_jobs.streaming.backpressure.queue import Counted, Measured
from springline.spark_jobs.streaming.backpressure.signals import Asking, Signal

MODES = Extensions("springline.backpressure_modes", "mode of back-pressure")
USUAL_MODE, OFF = "predictive", "off"
MINIMUM = 10_000.0  # bytes a second that a stage may always admit: so it goes on being measured


@dataclass(frozen=True, slots=True)
class Seen:
    """What an admission looks at: how its stage is, the signals that came for it, its direct upstreams.

    `original` is what the stage admits without back-pressure, in bytes a second of its own input; `counted` is what
    `measured` was measured from.
    """

    measured: Measured
    original: float
    upstreams: Sequence[str] = ()
    signals: Sequence[Signal] = ()
    counted: Counted | None = None

    @property
    def at(self) -> float:
        """Seconds since 1970."""
        return self.measured.at


@dataclass(frozen=True, slots=True)
class Throttle:
    """Who throttles whom, since when, and why; `rate` in bytes a second of what the downstream gets, or a level."""

    downstream: str
    upstream: str
    since: float
    why: str
    level: int = 0
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Admitted:
    """What comes of a look: bytes a second that the stage may admit, and the signals that are to be sent.

    `rate` None: as much as without back-pressure. `bytes`, where it is given, bounds the next round instead.
    `throttled_by` and `throttles` explain both halves.
    """

    rate: float | None
    signals: tuple[Signal, ...] = ()
    throttled_by: tuple[Throttle, ...] = ()
    throttles: tuple[Throttle, ...] = ()
    bytes: float | None = None


class Admission(Protocol):
    """Decides for one stage; a look every 50 to 100 ms."""

    def look(self, seen: Seen) -> Admitted:
        """Decide once; the rate is at least `MINIMUM`, or the original where that is less, and at most the original."""

    def as_json(self) -> dict[str, Any]:
        """The state, from which another one goes on."""


class Off:
    """The mode `off`: no back-pressure."""

    def __init__(self, stage: str, state: Mapping[str, Any] | None = None) -> None:
        """Made as every admission is."""

    def look(self, seen: Seen) -> Admitted:
        """As much as the stage can."""
        return Admitted(None)

    def as_json(self) -> dict[str, Any]:
        """Nothing to remember."""
        return {}


def make_admission(mode: str, stage: str, state: Mapping[str, Any] | None = None) -> Admission:
    """The admission of a stage; `state` is what one of the same mode told before it ended. Raises `ExtensionError`."""
    admission: Admission = MODES.load(mode)(stage, state)
    return admission


def bounded(rate: float, original: float) -> float | None:
    """A rate within its limits; None where it is the original."""
    return None if rate >= original else max(rate, min(MINIMUM, original))


def throttles(asking: Asking) -> tuple[Throttle, ...]:
    """Whom a stage throttles."""
    return tuple(
        Throttle(signal.downstream, signal.upstream, since, signal.why, signal.level, signal.rate)
        for signal, since in asking.asked()
    )


@dataclass
class Allowance:
    """Turns a rate into the bytes of rounds: what was not used is kept for `burst` seconds, what was too much is owed.

    Messages are whole, so a round may take a little more than it is given.
    """

    burst: float = 0.15
    left: float = 0.0
    at: float | None = field(default=None)

    def bytes(self, rate: float, at: float) -> float:
        """What the next round may admit now."""
        elapsed = 0.0 if self.at is None else max(at - self.at, 0.0)
        self.left = min(self.left + rate * elapsed, rate * self.burst)
        self.at = at
        return max(self.left, 0.0)

    def spend(self, admitted: float) -> None:
        """A round has admitted so many bytes."""
        self.left -= admitted


def forward(stages: Sequence[str], sends: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """The direct upstreams of each stage that it may throttle; `stages` in the order in which records pass them.

    An edge that leads to an earlier stage, or to the stage itself, is a feedback edge and is left out.
    """
    place = {stage: number for number, stage in enumerate(stages)}
    found: dict[str, list[str]] = {stage: [] for stage in stages}
    for upstream in stages:
        for downstream in sends.get(upstream, ()):
            if place[upstream] < place[downstream]:
                found[downstream].append(upstream)
    return {stage: tuple(upstreams) for stage, upstreams in found.items()}
