"""How signals travel between the applications of a job: the contract of all channels, and what they have in common.

Within one application signals are values, and no channel is opened (`regulator`).

Signals may be lost, doubled, late or overtaken on any channel: who obeys them is made for that (`signals`). So sending
never waits for an outage to end, and of what could not be sent only the newest signal of each pair is kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from springline.spark_jobs.streaming.backpressure.signals import Signal, newer


class Channel(Protocol):
    """One end of a channel, for the stages of one application; may be used by several threads."""

    @property
    def trouble(self) -> str:
        """What is wrong now, in words; empty where nothing is."""

    def send(self, signals: Sequence[Signal]) -> None:
        """Put signals under way; returns at once, whether they can be sent now or later."""

    def receive(self, upstream: str) -> list[Signal]:
        """The signals for a stage of this application that have come since this was asked last."""

    def close(self) -> None:
        """Let go of all connections; what is not sent by then is not sent."""


class Inbox:
    """Signals that have come and nobody has asked for yet: of each pair the newest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._come: dict[tuple[str, str], Signal] = {}

    def put(self, signals: Sequence[Signal]) -> None:
        """Keep signals until they are taken."""
        with self._lock:
            self._come = newer([*self._come.values(), *signals])

    def take(self, upstream: str | None = None) -> list[Signal]:
        """The signals for a stage, or all; they are not kept any longer."""
        with self._lock:
            found = [each for each in self._come.values() if upstream in (None, each.upstream)]
            for signal in found:
                del self._come[signal.pair]
            return found


class Threaded:
    """What channels to a server have in common: a thread for each piece of work, and what signals wait in.

    They lie in `_out` until they are sent, which `_wake` tells of, and in `_in` until they are asked for. All threads
    end when `_over` is set; `_troubles` has what is wrong with each piece of work.
    """

    def __init__(self) -> None:
        self._out, self._in = Inbox(), Inbox()
        self._wake, self._over = threading.Event(), threading.Event()
        self._troubles: dict[str, str] = {}
        self._threads: list[threading.Thread] = []

    @property
    def trouble(self) -> str:
        """What is wrong now, in words; see `Channel`."""
        return "; ".join(each for each in self._troubles.values() if each)

    def send(self, signals: Sequence[Signal]) -> None:
        """See `Channel`."""
        self._out.put(signals)
        self._wake.set()

    def receive(self, upstream: str) -> list[Signal]:
        """See `Channel`."""
        return self._in.take(upstream)

    def close(self) -> None:
        """See `Channel`."""
        self._over.set()
        self._wake.set()
        for thread in self._threads:
            thread.join()

    def _start(self, work: Mapping[str, Callable[[], None]]) -> None:
        """Do each piece of work in a thread of its own, which runs until the end."""
        for name, each in work.items():
            self._threads.append(threading.Thread(target=each, name=f"signals-{name}", daemon=True))
            self._threads[-1].start()
