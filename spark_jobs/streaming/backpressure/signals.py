"""What a stage asks of a stage upstream, and what that one obeys, whatever becomes of the messages on their way.

A signal says all that is asked of a pair of stages, never a change, so one that is lost, doubled, late or overtaken
does no lasting harm: of a pair the greatest sequence counts, and it counts until its lease ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from springline.persistence.errors import DecodeError
from springline.persistence.model.codec import Codec, from_plain, plain
from springline.spark_jobs.streaming.errors import StreamError

LEASE_SECONDS = 2.0  # that a signal is obeyed for
RENEW_SECONDS = 0.5  # after which the same is asked again
RECOVERY_SECONDS = 1.0  # in which a rate doubles once its lease has ended
LONGEST_LEASE = 10.0  # seconds: clocks may differ, and a signal of a fast one must not bind for ever


class InvalidSignalError(StreamError):
    """Something else than a signal came through a channel of signals."""


@dataclass(frozen=True, slots=True)
class Signal:
    """What `downstream` asks of `upstream`: a `level` of throttling (stepwise) or a `rate` (bytes a second to itself).

    Level 0 without a rate frees. `until` is the end of its lease, in seconds since 1970; None: it has none, as the
    patent's signals. `why` is for people.
    """

    downstream: str
    upstream: str
    sequence: int
    until: float | None
    level: int = 0
    rate: float | None = None
    why: str = ""

    @property
    def pair(self) -> tuple[str, str]:
        """Downstream and upstream."""
        return (self.downstream, self.upstream)

    @property
    def frees(self) -> bool:
        """Whether nothing is asked any more."""
        return self.level == 0 and self.rate is None

    def encode(self) -> bytes:
        """One line of JSON."""
        return _SIGNALS.encode(self)

    @staticmethod
    def decode(content: bytes) -> Signal:
        """The inverse of `encode`; raises `InvalidSignalError`."""
        try:
            signal = _SIGNALS.decode(content, "a channel of signals")
        except DecodeError as error:
            raise InvalidSignalError(f"not a signal: {content[:80]!r}: {error}") from error
        if not all(math.isfinite(number) for number in (signal.rate or 0.0, signal.until or 0.0)):
            raise InvalidSignalError(f"not a signal: {content[:80]!r}: its numbers have no bound")
        return signal


_SIGNALS: Codec[Signal] = Codec(
    Signal, 1, "a signal", "run all applications of the job with the same version; until then it binds nobody"
)
_WHERE = "the state of an admission"


def newer(signals: Iterable[Signal]) -> dict[tuple[str, str], Signal]:
    """Of each pair the signal with the greatest sequence: all that has to be sent or kept."""
    found: dict[tuple[str, str], Signal] = {}
    for signal in signals:
        if signal.pair not in found or found[signal.pair].sequence < signal.sequence:
            found[signal.pair] = signal
    return found


@dataclass(frozen=True, slots=True)
class Held:
    """A signal that is obeyed until `ends`; `since`: when the pair was throttled first."""

    signal: Signal
    ends: float
    since: float

    def overdue(self, at: float) -> float:
        """Seconds since its lease ended; 0 while it has not."""
        return max(at - self.ends, 0.0)


class Received:
    """The signals that a stage obeys, one a stage downstream; `state` is what another one's `as_json` told."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        told = from_plain(tuple[Held, ...], (state or {}).get("held", ()), _WHERE)
        self._held = {each.signal.downstream: each for each in told}

    def take(self, signals: Iterable[Signal], at: float) -> None:
        """Obey what has come: nothing whose lease is over, nothing older than what is obeyed.

        One that frees is kept for its lease too, so that what it has overtaken does not throttle again.
        """
        for signal in signals:
            ends = at + LONGEST_LEASE if signal.until is None else min(signal.until, at + LONGEST_LEASE)
            before = self._held.get(signal.downstream)
            if ends <= at or (before is not None and signal.sequence <= before.signal.sequence):
                continue
            going_on = before is not None and not before.signal.frees and not signal.frees
            self._held[signal.downstream] = Held(signal, ends, before.since if before and going_on else at)

    def held(self) -> list[Held]:
        """All that is known, by stage downstream; those whose lease has ended too, until they are forgotten."""
        return [self._held[name] for name in sorted(self._held)]

    def forget(self, downstream: str) -> None:
        """Nothing is asked by a stage any more."""
        self._held.pop(downstream, None)

    def as_json(self) -> dict[str, Any]:
        """For one that goes on."""
        return {"held": plain(self.held())}


@dataclass(frozen=True, slots=True)
class Ask:
    """What a stage wants of one upstream now; level 0 without a rate: nothing."""

    level: int = 0
    rate: float | None = None
    why: str = ""

    @property
    def frees(self) -> bool:
        """Whether nothing is asked."""
        return self.level == 0 and self.rate is None


@dataclass(frozen=True, slots=True)
class _Asked:
    """A signal that was sent; `since`: when the pair was throttled first."""

    signal: Signal
    since: float


class Asking:
    """Turns what a stage wants into signals: at once where it changes, else again before their leases end.

    Sequences are at least the clock's milliseconds, so they ascend also for one that was started anew without a state.
    A rate counts as changed from 2 % on.
    """

    def __init__(self, stage: str, state: Mapping[str, Any] | None = None) -> None:
        self._stage = stage
        told = from_plain(tuple[_Asked, ...], (state or {}).get("asked", ()), _WHERE)
        self._asked = {each.signal.upstream: (each.signal, each.since) for each in told}

    def signals(self, wanted: Mapping[str, Ask], at: float) -> tuple[Signal, ...]:
        """What is to be sent now; nothing where nothing was asked and nothing is."""
        found = []
        for upstream, ask in wanted.items():
            before, since = self._asked.get(upstream, (None, at))
            if before is None and ask.frees:
                continue
            if before is not None and not self._due(before, ask, at):
                if before.frees and (before.until or at) < at:
                    del self._asked[upstream]
                continue
            sequence = max(int(at * 1000), before.sequence + 1 if before else 0)
            signal = Signal(self._stage, upstream, sequence, at + LEASE_SECONDS, ask.level, ask.rate, ask.why)
            self._asked[upstream] = (signal, at if before is None or before.frees else since)
            found.append(signal)
        return tuple(found)

    def asked(self) -> list[tuple[Signal, float]]:
        """What is asked of whom, and since when; freed ones left out."""
        return [each for _, each in sorted(self._asked.items()) if not each[0].frees]

    def as_json(self) -> dict[str, Any]:
        """For one that goes on."""
        return {"asked": plain([_Asked(signal, since) for signal, since in self._asked.values()])}

    @staticmethod
    def _due(before: Signal, ask: Ask, at: float) -> bool:
        if before.frees and ask.frees:
            return False
        if (before.level, before.rate is None) != (ask.level, ask.rate is None):
            return True
        if before.rate is not None and ask.rate is not None and abs(ask.rate - before.rate) > 0.02 * before.rate:
            return True
        return (before.until or at) - at <= LEASE_SECONDS - RENEW_SECONDS
