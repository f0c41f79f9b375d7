"""Drives the shifts of a stage: each next round is planned when every unit has completed the previous one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from springline.spark_jobs.streaming.runtime.worker.task_loop import TaskLoop

TASK_LOOP_SECONDS = 600.0  # duration of a shift
_STALLED_SECONDS = 20.0  # after which a round that not all units have completed ends the shift: a task may have no slot
_SHORT_LOOPS = 100  # shifts of one round after that, in which tasks take turns
_POLL_SECONDS = 0.002  # between two checks whether a round is complete
_LOST_SECONDS = 0.1  # between two checks whether a state is lost that the round needs
_PAUSES = ((2.0, 0.005), (10.0, 0.03))  # (seconds since the last messages, seconds between two polls for messages)
_IDLE_PAUSE_SECONDS = 0.1  # after that, so that an idle stage costs little CPU of broker and driver


class TaskLoopDriver:
    """Drives the consecutive shifts of one stage.

    Each lasts `seconds` seconds, or one round with 0 seconds and for some time after a round for which not all tasks
    had a slot. Nothing is planned while `is_paused()`.
    """

    def __init__(self, planner: Planner, is_paused: Callable[[], bool], seconds: float = TASK_LOOP_SECONDS) -> None:
        self._planner = planner
        self._is_paused = is_paused
        self._seconds = seconds
        self._last: RoundPlan | None = None  # the newest round that was planned here
        self._task_loop: TaskLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._error: StreamError | None = None
        self._last_busy = time.monotonic()  # when there were messages last
        self._short_loops_left = 0  # next shifts that last one round

    def first(self, timeout: float) -> RoundPlan | None:
        """Return the first round of the next shift; None if there is nothing to do for `timeout` seconds.

        The previous shift has ended in all units. Raises the error with which its planning failed, if any.
        """
        self._close()
        until = time.monotonic() + timeout
        while not self._is_paused():
            if (plan := self._next()) is not None:
                self._last = plan
                return plan
            if time.monotonic() > until:
                break
            time.sleep(self._pause())
        return None

    def begin(self, first: RoundPlan) -> TaskLoop:
        """Begin a shift with that round; a repeated call returns the same shift."""
        if self._task_loop is not None and self._task_loop.first == first:
            return self._task_loop
        self._close()
        named = self._planner.broadcast_values_of(first)
        broadcast_values = {first.versions[name]: content for name, content in named.items()}
        is_long = self._seconds > 0 and not self._short_loops_left
        self._short_loops_left = max(self._short_loops_left - 1, 0)
        self._task_loop = TaskLoop(first, broadcast_values, self._planner.next_offset() if is_long else None)
        if is_long:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._plan, args=(first,), name="shift", daemon=True)
            self._thread.start()
        return self._task_loop

    def _next(self) -> RoundPlan | None:
        """Return the round after the newest that every unit has completed; it may have been planned already."""
        if self._last is None or not self._planner.is_complete(self._last):
            self._last = self._planner.resume()
        return self._plan_after(self._last)

    def _plan_after(self, last: RoundPlan) -> RoundPlan | None:
        plan = self._planner.after(last)
        if plan is not None and plan.messages:
            self._last_busy = time.monotonic()
        return plan

    def _pause(self) -> float:
        idle = time.monotonic() - self._last_busy
        return next((pause for until, pause in _PAUSES if idle < until), _IDLE_PAUSE_SECONDS)

    def _plan(self, last: RoundPlan) -> None:
        """Plan rounds until the shift is over, and log its end."""
        try:
            self._plan_rounds(last)
            self._planner.end_task_loop()
        except StreamError as error:
            self._error = error
            with suppress(StreamError):
                self._planner.end_task_loop()

    def _plan_rounds(self, last: RoundPlan) -> None:
        units, planned_at = set(last.ranges), time.monotonic()
        until = planned_at + self._seconds
        while set(last.ranges) == units and self._await_end(last):
            rest = max(planned_at + self._planner.min_round_interval - time.monotonic(), 0)
            while not self._stopping.wait(rest) and not self._is_paused() and time.monotonic() < until:
                if (plan := self._plan_after(last)) is not None:
                    self._last = last = plan
                    planned_at = time.monotonic()
                    break
                rest = self._pause()
            else:
                return

    def _await_end(self, plan: RoundPlan) -> bool:
        """Wait until all units have completed a round; returns False if the shift must end instead."""
        completion = self._planner.completion_of(plan)
        checked_at = started_at = time.monotonic()
        while not completion.is_complete():
            now = time.monotonic()
            if now > started_at + _STALLED_SECONDS:
                self._short_loops_left = _SHORT_LOOPS
                return False
            if now > checked_at + _LOST_SECONDS:
                checked_at = now
                if self._is_paused() or self._planner.has_lost_state(plan):
                    return False
            if self._stopping.wait(_POLL_SECONDS):
                return False
        return True

    def _close(self) -> None:
        """End the current shift, if any."""
        if self._thread is not None:
            self._stopping.set()
            self._thread.join()
            self._thread = None
        self._task_loop = None
        if (error := self._error) is not None:
            self._error = None
            raise error
