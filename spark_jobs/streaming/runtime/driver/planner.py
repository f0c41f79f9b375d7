"""The planner of a stage: decides each next round once, and logs it before any part of it runs.

Up to two rounds are open, planned and not completed by every unit: a round is planned when the round before the last is
complete. So a step can run while the round before it is committed. A driver that opens the rounds log fences the
previous one, so that rounds have one writer. Rounds that were planned and not run are reused unchanged by the next
driver. `history` reads the log.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from springline.spark_jobs.streaming.runtime.driver.admission import AdmissionLimit, FixedAdmission, SizeLimit
from springline.spark_jobs.streaming.runtime.history import (
    BROADCAST_INTERVAL,
    BroadcastValue,
    History,
    Line,
    TaskLoopEnd,
    read_history,
    write_line,
)
from springline.spark_jobs.streaming.runtime.message_log import NO_ROUND, Appender, MessageLog, RoundId
from springline.spark_jobs.streaming.runtime.report_log import StageReports
from springline.spark_jobs.streaming.runtime.rounds import (
    IDLE_SECONDS,
    TICK_SECONDS,
    RoundPlan,
    consumer_lag,
    initial_plan,
    next_round,
    start_offsets,
)
from springline.spark_jobs.streaming.runtime.stage import Stage

_SLOWER = 0.5  # speed of the rounds' clock while it is ahead, since it must not go back


class Planner:
    """Plans the rounds of one stage; `now` returns the time, `read_broadcast_values` the current values to broadcast.

    `admission_limit` limits the messages of each round; by default, each unit's messages are limited by the stage's
    `max_messages_per_round`. A round has about `round_bytes` at most, by the sizes of earlier messages; None: as many
    as are admitted. A partition that is added to the topic is in the next round.
    """

    def __init__(
        self,
        stage: Stage,
        log: MessageLog,
        now: Callable[[], float],
        read_broadcast_values: Callable[[], Mapping[str, BroadcastValue]],
        *,
        latest: bool = False,
        admission_limit: AdmissionLimit | None = None,
        round_bytes: int | None = None,
    ) -> None:
        self._stage = stage
        self._admission_limit = admission_limit or FixedAdmission(stage.max_messages_per_round, stage.units)
        self._log = log
        self._reports = StageReports(stage, log)
        self._now = now
        self._read_broadcast_values = read_broadcast_values
        self._latest = latest
        self._size_limit = None if round_bytes is None else SizeLimit(round_bytes)
        self._open_log: tuple[Appender, History] | None = None
        self.has_lag = False  # whether messages were waiting when the last round was to be planned
        self._next_offset = 0
        self._upstream_offset: int | None = None  # of the next report of the stage that sends to this one
        self._ends: dict[int, int] = {}  # the end of each partition when the last round was to be planned
        self._newest_round: tuple[RoundId, float] = (NO_ROUND, 0.0)  # the newest round, and when it was planned

    @property
    def min_round_interval(self) -> float:
        """Minimum seconds between the starts of two rounds."""
        return self._stage.min_round_interval

    def begin(self) -> RoundPlan:
        """Return the round after which the units continue: the newest that is complete in every unit, or the start."""
        _, history = self._open()
        self._reports.catch_up()
        return self._start(self._reports.newest_complete(history))

    def after(self, last: RoundPlan) -> RoundPlan | None:
        """Return the round after `last`; None if there is nothing to do. Raises as `next_round` and the log do."""
        appender, history = self._open()
        if (logged := history.after(last)) is not None:
            self._admission_limit.on_round_planned(logged, self._now())
            return logged
        stage = self._stage
        topics = self._log.ids(*stage.consumed_topics)
        offset_bounds = self._log.offset_bounds(stage.topic)
        broadcast_values = self._read_broadcast_values()
        hashes = {name: each.hash for name, each in broadcast_values.items()}
        self._ends = {partition: bounds.high for partition, bounds in offset_bounds.items()}
        now = self._now()
        lag = consumer_lag(last, offset_bounds)
        max_messages = self._admission_limit.max_messages(lag, now)
        if self._size_limit is not None:
            max_messages = self._size_limit.apply(max_messages, lag, self._reports.newest.values())
        self.has_lag = any(lag.values())
        with stage.with_remedy():
            clock = self._clock(last, now)
            plan = next_round(
                last,
                offset_bounds,
                max_messages,
                clock,
                hashes,
                log=stage.topic,
                topics=topics,
                due_clock=self._due_clock(last),
            )
        if plan is None:
            return None
        is_full_broadcast = plan.number % BROADCAST_INTERVAL == 0
        # Values that earlier rounds named, but not the last one, are logged again: tasks may lack them.
        changed = {
            name: each
            for name, each in broadcast_values.items()
            if is_full_broadcast or each.hash != last.broadcast_hashes.get(name)
        }
        new = {each.hash: each for each in changed.values()}
        self._append(appender, [*new.values(), plan])
        history.broadcast_values |= {digest: each.value for digest, each in new.items()}
        previous = history.plans.get(last.previous_round_id)
        history.retain(*([previous] if previous else []), last, plan)
        self._admission_limit.on_round_planned(plan, now)
        self._newest_round = (plan.round_id, now)
        return plan

    def due_in(self, last: RoundPlan) -> float:
        """Return the seconds after which a round is needed after `last` though there may be no messages: when a timer
        is due; 0 or less at once, also when a broadcast value has changed.
        """
        hashes = {name: each.hash for name, each in self._read_broadcast_values().items()}
        if hashes != dict(last.broadcast_hashes):
            return 0.0
        return self._due_clock(last) - self._clock(last, self._now())

    def _due_clock(self, last: RoundPlan) -> float:
        """Return the clock at which a round is needed though there are no messages, by the timers of the units."""
        if not self.is_complete(last):
            return last.clock + TICK_SECONDS
        reports = self._reports.newest
        timers = [reports[unit].round.timer if unit in reports else 0.0 for unit in range(last.units)]
        earliest = min((timer for timer in timers if timer is not None), default=math.inf)
        return min(max(earliest, last.clock + TICK_SECONDS), last.clock + IDLE_SECONDS)

    def _clock(self, last: RoundPlan, now: float) -> float:
        """Return the clock of the round after `last`: `now`, or while that is behind the last clock, half as fast until
        it is not.

        Otherwise, after a machine's clock was ahead for a moment, the rounds' clock would stand still for as long as it
        was ahead.
        """
        round_id, since = self._newest_round
        if round_id != last.round_id or now < since:
            self._newest_round = (last.round_id, since := now)
        return max(now, last.clock + (now - since) * _SLOWER)

    def broadcast_values_of(self, plan: RoundPlan) -> dict[str, Any]:
        """Return the broadcast values of a round, by name."""
        return self._open()[1].broadcast_values_of(plan)

    def open_rounds(self, first: RoundPlan) -> tuple[RoundPlan, ...]:
        """Return a planned round and the rounds that are already planned after it."""
        return self._open()[1].open_rounds(first)

    def is_complete(self, plan: RoundPlan, seconds: float = 0.0) -> bool:
        """Return whether every unit has completed a round, after waiting up to `seconds` for the next report."""
        if not self._reports.is_complete(plan):
            self._reports.follow(seconds)
        return self._reports.is_complete(plan)

    @property
    def follows_upstream(self) -> bool:
        """Whether one stage alone sends to this one, so that its reports say when there may be messages."""
        return len(self._stage.upstream_reports) == 1

    def await_messages(self, seconds: float) -> bool:
        """Wait until there may be messages that no round has, up to `seconds`; return whether there may be.

        They are there once the one stage that sends to this one has reported a round, or once the topic has them.
        """
        if not self.follows_upstream:
            return not self._ends or self._log.await_messages(self._stage.topic, self._ends, seconds)
        topic = self._stage.upstream_reports[0]
        if self._upstream_offset is None:
            self._upstream_offset = self._log.offset_bounds(topic)[0].high
            return True
        messages = self._log.follow(topic, 0, self._upstream_offset, seconds)
        if messages:
            self._upstream_offset = messages[-1].offset + 1
        return bool(messages)

    def next_offset(self) -> int:
        """Return the offset after the last line of the rounds log; the next line has this offset or a later one.

        It is derived from appended lines, since the log may report a commit slightly later.
        """
        self._open()
        return self._next_offset

    def end_task_loop(self) -> None:
        """Log the end of the task loop for all readers of the rounds log."""
        self._append(self._open()[0], [TaskLoopEnd()])

    def _start(self, complete: RoundPlan | None) -> RoundPlan:
        """Return `complete` if it is given; else the first round, which is planned if there is none yet."""
        if complete is not None:
            return complete
        appender, history = self._open()
        if history.plans:
            return history.plans[min(history.plans)]
        topics = self._log.ids(*self._stage.consumed_topics)
        starts = start_offsets(self._log.offset_bounds(self._stage.topic), latest=self._latest)
        plan = initial_plan(starts, topics=topics, units=self._stage.units)
        self._append(appender, [plan])
        history.plans[plan.round_id] = plan
        return plan

    def _open(self) -> tuple[Appender, History]:
        if self._open_log is None:
            appender = self._log.appender(self._stage.rounds, self._stage.rounds)  # fences other drivers before reading
            self._open_log = (appender, read_history(self._stage, self._log))
            self._append(appender, [TaskLoopEnd()])  # for tasks that follow the previous driver
        return self._open_log

    def _append(self, appender: Appender, lines: Sequence[Line]) -> None:
        self._next_offset = appender.append([write_line(line) for line in lines]) + 1
