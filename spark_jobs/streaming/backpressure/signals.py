"""Signals by which a stage throttles an upstream stage, robust against loss, duplication and reordering.

A signal holds the complete request of a pair of stages, never a change, so a lost, duplicated, late or reordered signal
has no lasting effect: the signal of a pair with the greatest sequence applies, until its lease ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from springline.persistence.errors import DecodeError
from springline.persistence.model.codec import Codec, from_json_value, to_json_value
from springline.spark_jobs.streaming.errors import StreamError

LEASE_SECONDS = 2.0  # for which a signal is obeyed
RENEW_SECONDS = 0.5  # after which an unchanged signal is renewed
RECOVERY_SECONDS = 1.0  # in which a rate doubles after the end of its lease
LONGEST_LEASE = 10.0  # limit, since clocks may differ and a signal from a fast clock must not apply forever


class InvalidSignalError(StreamError):
    """A message on a signal channel is not a signal."""


@dataclass(frozen=True, slots=True)
class Signal:
    """A request of `downstream` to `upstream`: a `throttle_level` (stepwise), or a `rate` in bytes/s of its input.

    Level 0 without a rate is a release. `until` is the end of its lease, in seconds since 1970; None: no lease, as in
    the patent's signals. `reason` is for people.
    """

    downstream: str
    upstream: str
    sequence: int
    until: float | None
    throttle_level: int = 0
    rate: float | None = None
    reason: str = ""

    @property
    def pair(self) -> tuple[str, str]:
        """Downstream and upstream."""
        return (self.downstream, self.upstream)

    @property
    def is_release(self) -> bool:
        """Whether it ends the throttling."""
        return self.throttle_level == 0 and self.rate is None

    def encode(self) -> bytes:
        """Encode as one line of JSON."""
        return _SIGNALS.encode(self)

    @staticmethod
    def decode(content: bytes) -> Signal:
        """The inverse of `encode`; raises `InvalidSignalError`."""
        try:
            signal = _SIGNALS.decode(content, "a signal channel")
        except DecodeError as error:
            raise InvalidSignalError(f"not a signal: {content[:80]!r}: {error}") from error
        if not all(math.isfinite(number) for number in (signal.rate or 0.0, signal.until or 0.0)):
            raise InvalidSignalError(f"not a signal: {content[:80]!r}: its numbers are not finite")
        return signal


_SIGNALS: Codec[Signal] = Codec(
    Signal, 1, "a signal", "run all applications of the job with the same version; until then it is ignored"
)
_STATE_NAME = "the state of an admission"


def newest_by_pair(signals: Iterable[Signal]) -> dict[tuple[str, str], Signal]:
    """Return the signal with the greatest sequence of each pair: only these need to be sent or kept."""
    newest: dict[tuple[str, str], Signal] = {}
    for signal in signals:
        if signal.pair not in newest or newest[signal.pair].sequence < signal.sequence:
            newest[signal.pair] = signal
    return newest


@dataclass(frozen=True, slots=True)
class ActiveSignal:
    """A signal that is obeyed until `ends`; `since`: when the throttling of the pair began."""

    signal: Signal
    ends: float
    since: float

    def seconds_overdue(self, now: float) -> float:
        """Return the seconds since its lease ended; 0 before that."""
        return max(now - self.ends, 0.0)


class SignalReceiver:
    """The signals that a stage obeys, one per downstream stage; `state` is the `as_json` of an earlier receiver."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        active = from_json_value(tuple[ActiveSignal, ...], (state or {}).get("active", ()), _STATE_NAME)
        self._active = {each.signal.downstream: each for each in active}

    def accept(self, signals: Iterable[Signal], now: float) -> None:
        """Accept received signals, except those whose lease has ended or that are not newer than the active one.

        A release is kept for its lease too, so that an older signal that arrives after it does not throttle again.
        """
        for signal in signals:
            ends = now + LONGEST_LEASE if signal.until is None else min(signal.until, now + LONGEST_LEASE)
            previous = self._active.get(signal.downstream)
            if ends <= now or (previous is not None and signal.sequence <= previous.signal.sequence):
                continue
            is_renewal = previous is not None and not previous.signal.is_release and not signal.is_release
            self._active[signal.downstream] = ActiveSignal(
                signal, ends, previous.since if previous and is_renewal else now
            )

    def active_signals(self) -> list[ActiveSignal]:
        """Return all signals, by downstream stage; also those whose lease has ended, until they are forgotten."""
        return [self._active[name] for name in sorted(self._active)]

    def forget(self, downstream: str) -> None:
        """Remove the signal of a downstream stage."""
        self._active.pop(downstream, None)

    def as_json(self) -> dict[str, Any]:
        """Return the state, from which another instance continues."""
        return {"active": to_json_value(self.active_signals())}


@dataclass(frozen=True, slots=True)
class Demand:
    """The current demand of a stage on one upstream; level 0 without a rate: no throttling."""

    throttle_level: int = 0
    rate: float | None = None
    reason: str = ""

    @property
    def is_release(self) -> bool:
        """Whether it asks for no throttling."""
        return self.throttle_level == 0 and self.rate is None


@dataclass(frozen=True, slots=True)
class _SentSignal:
    """A signal that was sent; `since`: when the throttling of the pair began."""

    signal: Signal
    since: float


class SignalSender:
    """Turns the demands of a stage into signals: immediately on a change, otherwise renewed before their leases end.

    Sequences are at least the clock's milliseconds, so they also increase across a restart without a state. A rate
    counts as changed if it differs by more than 2 %.
    """

    def __init__(self, stage: str, state: Mapping[str, Any] | None = None) -> None:
        self._stage = stage
        sent = from_json_value(tuple[_SentSignal, ...], (state or {}).get("sent", ()), _STATE_NAME)
        self._sent = {each.signal.upstream: (each.signal, each.since) for each in sent}

    def signals_to_send(self, demands: Mapping[str, Demand], now: float) -> tuple[Signal, ...]:
        """Return the signals to send now; none for an upstream that neither was nor is throttled."""
        outgoing = []
        for upstream, demand in demands.items():
            previous, since = self._sent.get(upstream, (None, now))
            if previous is None and demand.is_release:
                continue
            if previous is not None and not self._must_send(previous, demand, now):
                if previous.is_release and (previous.until or now) < now:
                    del self._sent[upstream]
                continue
            sequence = max(int(now * 1000), previous.sequence + 1 if previous else 0)
            signal = Signal(
                self._stage, upstream, sequence, now + LEASE_SECONDS, demand.throttle_level, demand.rate, demand.reason
            )
            self._sent[upstream] = (signal, now if previous is None or previous.is_release else since)
            outgoing.append(signal)
        return tuple(outgoing)

    def active_signals(self) -> list[tuple[Signal, float]]:
        """Return the active signals, with the time since which each pair is throttled; releases are left out."""
        return [each for _, each in sorted(self._sent.items()) if not each[0].is_release]

    def as_json(self) -> dict[str, Any]:
        """Return the state, from which another instance continues."""
        return {"sent": to_json_value([_SentSignal(signal, since) for signal, since in self._sent.values()])}

    @staticmethod
    def _must_send(previous: Signal, demand: Demand, now: float) -> bool:
        if previous.is_release and demand.is_release:
            return False
        if (previous.throttle_level, previous.rate is None) != (demand.throttle_level, demand.rate is None):
            return True
        if (
            previous.rate is not None
            and demand.rate is not None
            and abs(demand.rate - previous.rate) > 0.02 * previous.rate
        ):
            return True
        return (previous.until or now) - now <= LEASE_SECONDS - RENEW_SECONDS
