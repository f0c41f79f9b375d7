"""The planner of a stage: decides each next round once, and writes it down before anything of it runs.

A driver that opens the rounds log fences off the one before: rounds have one writer. What was planned and not run is
planned again as it was, by whichever driver goes on. `history` reads the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from springline.spark_jobs.streaming.errors import MissingStateError
from springline.spark_jobs.streaming.runtime.driver.admission import Admitting, Fixed
from springline.spark_jobs.streaming.runtime.history import (
    CONTENTS_EVERY,
    Content,
    History,
    Line,
    ShiftEnd,
    newest_complete,
    read_history,
    write_line,
)
from springline.spark_jobs.streaming.runtime.message_log import Appender, Log
from springline.spark_jobs.streaming.runtime.rounds import (
    Extent,
    Plan,
    beginning,
    next_round,
    starts_of,
    waiting,
)
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.state_store import Versions

_SLOWER = 0.5  # speed of the rounds' clock while it is ahead, since it cannot go back


class Awaited:
    """The end of a round: it is over when every unit has done it; those that have are not looked at again."""

    def __init__(self, plan: Plan, versions: list[Versions]) -> None:
        self._plan = plan
        self._left = versions

    def is_over(self) -> bool:
        """Whether no unit is left."""
        while self._left and self._left[-1].written(*self._plan.order):
            self._left.pop()
        return not self._left


class Planner:
    """Plans the rounds of one stage; `now` gives the time, `contents` what rounds are to name, newest first.

    `admitting` bounds what they admit; without it, each unit's messages are bounded by the stage's `admitted`. With
    `units`, they are of the first so many units alone: those that a topic gets meanwhile wait until the application
    knows of them.
    """

    def __init__(
        self,
        stage: Stage,
        log: Log,
        now: Callable[[], float],
        contents: Callable[[], Mapping[str, Content]],
        *,
        latest: bool = False,
        admitting: Admitting | None = None,
        units: int | None = None,
    ) -> None:
        self._stage = stage
        self._admitting = admitting or Fixed(stage.admitted)
        self._log = log
        self._now = now
        self._contents = contents
        self._latest = latest
        self._units = units
        self._opened: tuple[Appender, History] | None = None
        self._next = 0
        self._planned: tuple[tuple[int, int], float] = ((0, 0), 0.0)  # the newest round, and when that was

    @property
    def pace(self) -> float:
        """Seconds between the beginnings of two rounds, at least."""
        return self._stage.pace

    def begin(self) -> Plan:
        """Where a driver without memory goes on: after the newest round whose state is there, or at the start."""
        _, history = self._open()
        return self._start(newest_complete(self._stage, history))

    def resume(self) -> Plan:
        """Where the units of a stage go on: after the newest round, or the one before where that is not run yet.

        Raises `MissingStateError` where the states after both are lost in some unit: an application that is started
        anew brings them back (`recovery`). Rounds before those are never run here again: what they sent has arrived,
        and may be cut by now.
        """
        _, history = self._open()
        found, last = newest_complete(self._stage, history), history.last
        if last is not None and (found is None or found.order not in (last.order, last.before)):
            raise MissingStateError(
                f"{self._stage.id}: the state after round {last.number - 1} is not there in every unit any more; "
                "it is brought back when the job is started again"
            )
        return self._start(found)

    def after(self, last: Plan) -> Plan | None:
        """The round after `last`; None while there is nothing to do. Raises what `next_round` and the log raise."""
        appender, history = self._open()
        if (logged := history.after(last)) is not None:
            self._admitting.planned(logged, self._now())
            return logged
        stage = self._stage
        topics = self._log.ids(*stage.offsets_of)
        extents = self._extents()
        contents = self._contents()
        versions = {name: content.hash for name, content in contents.items()}
        now = self._now()
        admitted = self._admitting.admitted(waiting(last, extents), now)
        with stage.telling_what_helps():
            clock = self._clock(last, now)
            plan = next_round(last, extents, admitted, clock, versions, log=stage.topic, topics=topics)
        if plan is None:
            return None
        again = plan.number % CONTENTS_EVERY == 0
        # What was named before, but not by the last round, is told once more: who follows a shift may not know it.
        changed = {name: each for name, each in contents.items() if again or each.hash != last.versions.get(name)}
        new = {each.hash: each for each in changed.values()}
        self._append(appender, [*new.values(), plan])
        history.contents |= {digest: content.value for digest, content in new.items()}
        history.keep(last, plan)
        self._admitting.planned(plan, now)
        self._planned = (plan.order, now)
        return plan

    def _clock(self, last: Plan, now: float) -> float:
        """The clock of the round after `last`: `now`, or where that is before the last one's, slower until it is not.

        A machine's clock that was ahead for a moment would else let the rounds' stand for as long as it was ahead.
        """
        order, since = self._planned
        if order != last.order or now < since:
            self._planned = (last.order, since := now)
        return max(now, last.clock + (now - since) * _SLOWER)

    def contents_of(self, plan: Plan) -> dict[str, Any]:
        """What the versions that a round names stand for."""
        return self._open()[1].contents_of(plan)

    def is_complete(self, plan: Plan) -> bool:
        """Whether every unit has done a round."""
        stage = self._stage
        return all(stage.versions(unit).written(*plan.order) for unit in plan.ranges)

    def awaited(self, plan: Plan) -> Awaited:
        """The end of a round that has been planned, to be asked for again and again."""
        return Awaited(plan, [self._stage.versions(unit) for unit in plan.ranges])

    def has_lost(self, plan: Plan) -> bool:
        """Whether some unit cannot do a round: the state that it goes on from is not there."""
        stage = self._stage
        found = [stage.versions(unit) for unit in plan.ranges if unit not in plan.new]
        return not all(each.written(*plan.before) or each.written(*plan.order) for each in found)

    def next_offset(self) -> int:
        """The offset in the rounds log after the last line, at which or after which the next one will be.

        It is known from what was appended: the log itself may tell of a commit a moment later.
        """
        self._open()
        return self._next

    def end_shift(self) -> None:
        """Let whoever follows the rounds log end."""
        self._append(self._open()[0], [ShiftEnd()])

    def _start(self, complete: Plan | None) -> Plan:
        """The round that is complete, if there is one; else the first one, which is planned where nothing is yet."""
        if complete is not None:
            return complete
        appender, history = self._open()
        if history.plans:
            return history.plans[min(history.plans)]
        topics = self._log.ids(*self._stage.offsets_of)
        plan = beginning(starts_of(self._extents(), latest=self._latest), topics=topics)
        self._append(appender, [plan])
        history.plans[plan.order] = plan
        return plan

    def _extents(self) -> Mapping[int, Extent]:
        """What the units hold that the application knows."""
        extents = self._log.extents(self._stage.topic)
        return {unit: each for unit, each in extents.items() if self._units is None or unit < self._units}

    def _open(self) -> tuple[Appender, History]:
        if self._opened is None:
            appender = self._log.appender(self._stage.rounds, self._stage.rounds)  # first: nobody else appends then
            self._opened = (appender, read_history(self._stage, self._log))
            self._append(appender, [ShiftEnd()])  # for those that follow the driver before
        return self._opened

    def _append(self, appender: Appender, lines: Sequence[Line]) -> None:
        self._next = appender.append([write_line(line) for line in lines]) + 1
