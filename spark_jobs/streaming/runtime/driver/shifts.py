"""The shifts of a stage as its driver sees them: each next round is planned when every unit has done the one before."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.rounds import Plan
from springline.spark_jobs.streaming.runtime.worker.task_loop import Shift

SECONDS = 600.0  # that a shift lasts
_STALLED_SECONDS = 20.0  # after which a round that not all units have done ends the shift: a task may have no place
_SHORT = 100  # shifts of one round after that, in which tasks take turns
_LOOK_SECONDS = 0.002  # between two looks whether a round is done
_LOST_SECONDS = 0.1  # between two looks whether a state is lost that it goes on from
_PAUSES = ((2.0, 0.005), (10.0, 0.03))  # seconds between two looks for messages, up to so many after the last ones
_REST_SECONDS = 0.1  # and after that: an idle stage costs its broker and a core little


class Shifts:
    """The shifts of one stage, one after another, as its driver sees them.

    Each lasts so many seconds; with 0, one round, and so do some after one in which not all tasks had come to run.
    Nothing is planned while `held()`.
    """

    def __init__(self, planner: Planner, held: Callable[[], bool], seconds: float = SECONDS) -> None:
        self._planner = planner
        self._held = held
        self._seconds = seconds
        self._last: Plan | None = None  # the newest round that was planned here
        self._shift: Shift | None = None
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._error: StreamError | None = None
        self._busy = time.monotonic()  # when there were messages
        self._short = 0  # shifts that last a round, from now on

    def first(self, patience: float) -> Plan | None:
        """The first round of the next shift; None if there is nothing to do for so many seconds.

        The shift before has ended, in all units. Raises what planning raised meanwhile.
        """
        self._close()
        until = time.monotonic() + patience
        while not self._held():
            if (plan := self._next()) is not None:
                self._last = plan
                return plan
            if time.monotonic() > until:
                break
            time.sleep(self._pause())
        return None

    def begin(self, first: Plan) -> Shift:
        """Begin a shift with that round; asked again, it is the same shift."""
        if self._shift is not None and self._shift.first == first:
            return self._shift
        self._close()
        named = self._planner.contents_of(first)
        contents = {first.versions[name]: content for name, content in named.items()}
        lasts = self._seconds > 0 and not self._short
        self._short = max(self._short - 1, 0)
        self._shift = Shift(first, contents, self._planner.next_offset() if lasts else None)
        if lasts:
            self._over.clear()
            self._thread = threading.Thread(target=self._plan, args=(first,), name="shift", daemon=True)
            self._thread.start()
        return self._shift

    def _next(self) -> Plan | None:
        """The round after the newest that every unit has done: that may have been planned already."""
        if self._last is None or not self._planner.is_complete(self._last):
            self._last = self._planner.resume()
        return self._planned_after(self._last)

    def _planned_after(self, last: Plan) -> Plan | None:
        plan = self._planner.after(last)
        if plan is not None and plan.messages:
            self._busy = time.monotonic()
        return plan

    def _pause(self) -> float:
        idle = time.monotonic() - self._busy
        return next((pause for until, pause in _PAUSES if idle < until), _REST_SECONDS)

    def _plan(self, last: Plan) -> None:
        """Plan until the shift is over, and say so."""
        try:
            self._plan_on(last)
            self._planner.end_shift()
        except StreamError as error:
            self._error = error
            with suppress(StreamError):
                self._planner.end_shift()

    def _plan_on(self, last: Plan) -> None:
        units, planned_at = set(last.ranges), time.monotonic()
        until = planned_at + self._seconds
        while set(last.ranges) == units and self._await_end(last):
            rest = max(planned_at + self._planner.pace - time.monotonic(), 0)
            while not self._over.wait(rest) and not self._held() and time.monotonic() < until:
                if (plan := self._planned_after(last)) is not None:
                    self._last = last = plan
                    planned_at = time.monotonic()
                    break
                rest = self._pause()
            else:
                return

    def _await_end(self, plan: Plan) -> bool:
        """Wait until all units have done a round; False if that is not to be waited for."""
        awaited = self._planner.awaited(plan)
        looked = begun = time.monotonic()
        while not awaited.is_over():
            now = time.monotonic()
            if now > begun + _STALLED_SECONDS:
                self._short = _SHORT
                return False
            if now > looked + _LOST_SECONDS:
                looked = now
                if self._held() or self._planner.has_lost(plan):
                    return False
            if self._over.wait(_LOOK_SECONDS):
                return False
        return True

    def _close(self) -> None:
        """End the shift that is under way, if any."""
        if self._thread is not None:
            self._over.set()
            self._thread.join()
            self._thread = None
        self._shift = None
        if (error := self._error) is not None:
            self._error = None
            raise error
