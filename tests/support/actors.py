"""Actors: functions that run step by step, so that a test decides how several of them interleave."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Killed(BaseException):
    """Raised in an actor that was killed, when its stage is cleared at last; it is not handled."""


class Actor:
    """Runs `act` in a thread that moves only during `advance`, from one `pause` to the next.

    So exactly one of all actors moves at any time, and a schedule can be played again. An actor that
    is killed stays where it was: it clears nothing up, as a process that was killed.
    """

    def __init__(self, name: str, act: Callable[[], object]) -> None:
        self.name = name
        self.at = "the beginning"
        self.result: object = None
        self.error: BaseException | None = None
        self.killed = False
        self.finished = False
        self._act = act
        self._go = threading.Semaphore(0)
        self._stopped = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def pause(self, point: str, location: str) -> None:
        """Wait here for the next `advance`; to be called by what the actor does."""
        if self.killed or threading.current_thread() is not self._thread:
            return
        self.at = f"{point} {location}"
        self._stopped.release()
        self._go.acquire()
        if self.killed:
            raise Killed

    def advance(self) -> None:
        """Let it go on to its next pause, or to its end."""
        assert not self.finished and not self.killed
        self._go.release()
        self._stopped.acquire()

    def finish(self) -> None:
        """Let it go on to its end."""
        while not self.finished:
            self.advance()

    def kill(self) -> None:
        """Let it never go on."""
        self.killed = True

    def clear(self) -> None:
        """End its thread, after everything was checked."""
        self.killed = True
        self._go.release()
        self._thread.join()

    def _run(self) -> None:
        self._go.acquire()
        try:
            if not self.killed:
                self.result = self._act()
        except BaseException as error:
            self.error = error
        self.finished = True
        self._stopped.release()
