"""Signal channels between the applications of a job: the interface of all channels, and their common parts.

Within one application signals are passed as values, and no channel is opened (`regulator`).

Signals may be lost, duplicated, late or reordered on any channel; receivers handle that (`signals`). So sending never
blocks on an outage, and of the unsent signals only the newest of each pair is kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from springline.spark_jobs.streaming.backpressure.signals import Signal, newest_by_pair


class Channel(Protocol):
    """One end of a channel, for the stages of one application; thread-safe."""

    @property
    def last_error(self) -> str:
        """Description of the current error; empty if there is none."""

    def send(self, signals: Sequence[Signal]) -> None:
        """Queue signals to be sent; returns immediately, whether or not they can be sent now."""

    def receive(self, upstream: str) -> list[Signal]:
        """Return the signals for a stage of this application that arrived since the last call."""

    def close(self) -> None:
        """Close all connections; unsent signals are dropped."""


class SignalBuffer:
    """Buffer of signals that were not taken yet: the newest of each pair."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[tuple[str, str], Signal] = {}

    def put(self, signals: Sequence[Signal]) -> None:
        """Add signals until they are taken."""
        with self._lock:
            self._newest = newest_by_pair([*self._newest.values(), *signals])

    def take(self, upstream: str | None = None) -> list[Signal]:
        """Remove and return the signals for a stage, or all signals."""
        with self._lock:
            signals = [each for each in self._newest.values() if upstream in (None, each.upstream)]
            for signal in signals:
                del self._newest[signal.pair]
            return signals


class ThreadedChannel:
    """Common part of channels to a server: one thread per activity, and signal buffers.

    Signals wait in `_outgoing` until they are sent, which `_wake` triggers, and in `_incoming` until they are received.
    All threads end when `_over` is set; `_errors` has the current error of each activity.
    """

    def __init__(self) -> None:
        self._outgoing, self._incoming = SignalBuffer(), SignalBuffer()
        self._wake, self._over = threading.Event(), threading.Event()
        self._errors: dict[str, str] = {}
        self._threads: list[threading.Thread] = []

    @property
    def last_error(self) -> str:
        """Description of the current errors; see `Channel`."""
        return "; ".join(each for each in self._errors.values() if each)

    def send(self, signals: Sequence[Signal]) -> None:
        """See `Channel`."""
        self._outgoing.put(signals)
        self._wake.set()

    def receive(self, upstream: str) -> list[Signal]:
        """See `Channel`."""
        return self._incoming.take(upstream)

    def close(self) -> None:
        """See `Channel`."""
        self._over.set()
        self._wake.set()
        for thread in self._threads:
            thread.join()

    def _start(self, targets: Mapping[str, Callable[[], None]]) -> None:
        """Run each target in its own thread until the channel is closed."""
        for name, target in targets.items():
            self._threads.append(threading.Thread(target=target, name=f"signals-{name}", daemon=True))
            self._threads[-1].start()
