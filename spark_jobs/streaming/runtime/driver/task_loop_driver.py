"""Drives the task loops of a stage: a round is planned when every unit has completed the round before the last.

planned      | round 1 | round 2 |         | round 3 |
completed                        | round 1 |         | round 2

States are where the units run. When they are to be saved, for a savepoint or before the application ends, the task loop
ends, and a short one saves them: its only round is the last one, which is complete.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.message_log import RoundId
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from springline.spark_jobs.streaming.runtime.worker.task_loop import TaskLoop

TASK_LOOP_SECONDS = 600.0  # duration of a task loop
_STALLED_SECONDS = (
    20.0  # after which a round that not all units have completed ends the task loop: a task may have no slot
)
# Task loops of one round after that, in which tasks take turns: few, as a busy machine may be the reason; twice as many
# each time that it happens again.
_SHORT_LOOPS, _MOST_SHORT_LOOPS = 4, 128
_POLL_SECONDS = 0.1  # between two checks whether the task loop must end, without a report of a unit
_IDLE_POLL_SECONDS = 0.25  # the same while there are no messages
_POLLED_SECONDS = 1.0  # after the last messages, in which the topic is asked for more; after that they are waited for
_MIN_PAUSE, _MAX_PAUSE = 0.005, 0.2  # seconds between two polls for messages: an idle stage costs little CPU
_PAUSE_SHARE = 0.1  # of the time since the last messages were planned


@dataclass(frozen=True)
class SaveRequest:
    """A request to save the states of a stage after the round `round_id`; None: after the newest complete one."""

    round_id: RoundId | None = None


@dataclass(frozen=True)
class TaskLoopStart:
    """How a task loop begins: with its first round, and with the round after which it saves the states, if any."""

    first: RoundPlan
    save: RoundId | None = None


class TaskLoopDriver:
    """Drives the consecutive task loops of one stage.

    Args:
        planner: plans the rounds.
        is_paused: whether to plan nothing now.
        seconds: the duration of a task loop. With 0 seconds, and for some time after a round for which not all tasks
            had a slot, it is one round.
        save_request: returns the request to save the states, if there is one.
    """

    def __init__(
        self, planner: Planner, is_paused: Callable[[], bool], seconds: float = TASK_LOOP_SECONDS,
        save_request: Callable[[], SaveRequest | None] = lambda: None,
    ) -> None:  # fmt: skip
        self._planner = planner
        self._is_paused = is_paused
        self._seconds = seconds
        self._save_request = save_request
        self._saved: RoundId | None = None  # the round whose states were saved last
        self._last: RoundPlan | None = None  # the newest round that was planned here
        self._task_loop: TaskLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._error: StreamError | None = None
        self._last_busy = time.monotonic()  # when there were messages last
        self._short_loops = _SHORT_LOOPS  # task loops that last one round, after the next stall
        self._short_loops_left = 0  # of which so many are still to come

    def first(self, timeout: float) -> TaskLoopStart | None:
        """Return how the next task loop begins; None if there is nothing to do for `timeout` seconds.

        The previous task loop has ended in all units. Raises the error with which its planning failed, if any.
        """
        self._close()
        if (saving := self._next_save()) is not None:
            return saving
        until = time.monotonic() + timeout
        while not self._must_end():
            if (plan := self._next()) is not None:
                self._last = plan
                return TaskLoopStart(plan)
            if time.monotonic() > until:
                break
            time.sleep(self._await_messages(until))
        return None

    def begin(self, start: TaskLoopStart) -> TaskLoop:
        """Begin a task loop; a repeated call returns the same task loop."""
        current = self._task_loop
        if current is not None and (current.rounds[0], current.save) == (start.first, start.save):
            return current
        self._close()
        first = start.first
        rounds = self._planner.open_rounds(first) if start.save is None else (first,)
        broadcast_values = {
            plan.broadcast_hashes[name]: value
            for plan in rounds
            for name, value in self._planner.broadcast_values_of(plan).items()
        }
        is_long = self._seconds > 0 and not self._short_loops_left and start.save is None
        self._short_loops_left = max(self._short_loops_left - 1, 0)
        next_offset = self._planner.next_offset() if is_long else None
        self._task_loop = TaskLoop(rounds, broadcast_values, next_offset, start.save)
        self._last = rounds[-1]
        if is_long:
            self._thread = threading.Thread(target=self._plan, args=(rounds,), name="task-loop", daemon=True)
            self._thread.start()
        return self._task_loop

    def _must_end(self) -> bool:
        """Return whether no further round is to be planned in this loop: because of a pause, or to save the states."""
        request = self._save_request()
        return self._is_paused() or (request is not None and request.round_id not in (None, self._saved))

    def _next_save(self) -> TaskLoopStart | None:
        """Return a task loop that saves the requested states, once for each round; None if there is nothing to save."""
        if (request := self._save_request()) is None:
            return None
        complete = self._planner.begin()
        round_id = request.round_id or complete.round_id
        if complete.starts_incarnation or round_id == self._saved:
            return None
        self._saved = round_id
        return TaskLoopStart(complete, round_id)

    def _next(self) -> RoundPlan | None:
        """Return the round after the newest that every unit has completed; it may have been planned already."""
        if self._last is None or not self._planner.is_complete(self._last):
            self._last = self._planner.begin()
        return self._plan_after(self._last)

    def _plan_after(self, last: RoundPlan) -> RoundPlan | None:
        plan = self._planner.after(last)
        if plan is not None and plan.messages:
            self._last_busy = time.monotonic()
        return plan

    def _await_messages(self, until: float) -> float:
        """Wait until there may be messages, or a round is due; or return the seconds after which to look again."""
        planner, idle_seconds = self._planner, time.monotonic() - self._last_busy
        if planner.has_lag or not (planner.follows_upstream or idle_seconds > _POLLED_SECONDS):
            return min(max(idle_seconds * _PAUSE_SHARE, _MIN_PAUSE), _MAX_PAUSE)
        wait = 0.0
        while not planner.await_messages(wait) and time.monotonic() < until:
            due_in = 0.0 if self._last is None else planner.due_in(self._last)
            if self._stopping.is_set() or self._must_end() or due_in <= 0:
                break
            wait = min(due_in, _IDLE_POLL_SECONDS if idle_seconds > _POLLED_SECONDS else _POLL_SECONDS)
        return 0.0

    def _plan(self, rounds: Sequence[RoundPlan]) -> None:
        """Plan rounds after those that are open until the task loop is over, and log its end."""
        try:
            self._plan_rounds(rounds)
            self._planner.end_task_loop()
        except StreamError as error:
            self._error = error
            with suppress(StreamError):
                self._planner.end_task_loop()

    def _plan_rounds(self, rounds: Sequence[RoundPlan]) -> None:
        open_rounds = deque(rounds)
        planned_at = time.monotonic()
        until = planned_at + self._seconds
        while self._await_room(open_rounds):
            rest = max(planned_at + self._planner.min_round_interval - time.monotonic(), 0)
            while not self._stopping.wait(rest) and not self._must_end() and time.monotonic() < until:
                if (plan := self._plan_after(open_rounds[-1])) is not None:
                    open_rounds.append(plan)
                    self._last = plan
                    planned_at = time.monotonic()
                    break
                rest = self._await_messages(until)
            else:
                return

    def _await_room(self, open_rounds: deque[RoundPlan]) -> bool:
        """Wait until at most one round is open; returns False if the task loop must end instead."""
        while len(open_rounds) > 1:
            if not self._await_end(open_rounds[0]):
                return False
            open_rounds.popleft()
        return True

    def _await_end(self, plan: RoundPlan) -> bool:
        """Wait until all units have completed a round; returns False if the task loop must end instead."""
        until = time.monotonic() + _STALLED_SECONDS
        while not self._planner.is_complete(plan, _POLL_SECONDS):
            if time.monotonic() > until:
                self._short_loops_left = self._short_loops
                self._short_loops = min(2 * self._short_loops, _MOST_SHORT_LOOPS)
                return False
            if self._stopping.is_set() or self._must_end():
                return False
        self._short_loops = _SHORT_LOOPS
        return True

    def _close(self) -> None:
        """End the current task loop, if any."""
        if self._thread is not None:
            self._stopping.set()
            self._thread.join()
            self._stopping.clear()
            self._thread = None
        self._task_loop = None
        if (error := self._error) is not None:
            self._error = None
            raise error
