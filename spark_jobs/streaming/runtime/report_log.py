"""Reads the reports of a stage's units from their topic: which rounds are complete, and what was counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from springline.persistence.errors import DecodeError, FormatVersionError
from springline.spark_jobs.streaming.runtime.history import History
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.message_log import MessageLog
from springline.spark_jobs.streaming.runtime.report import UnitReport
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from springline.spark_jobs.streaming.runtime.stage import Stage


class ReportSource(Protocol):
    """Returns the newest reports of stages, for monitoring and control."""

    def reports(self, stage: str) -> Mapping[int, UnitReport]:
        """Return the newest report of each unit of a stage that has one."""


class StageReports:
    """The newest reports of one stage's units, as far as they were read. Not thread-safe.

    Both ways to read raise `FormatVersionError` for a report of another version of Springline, and what the log raises.
    """

    def __init__(self, stage: Stage, log: MessageLog) -> None:
        self._topic = stage.reports
        self._log = log
        self._next_offset: int | None = None
        self.newest: dict[int, UnitReport] = {}

    def catch_up(self) -> None:
        """Read all reports that were sent since the last call."""
        bounds = self._log.offset_bounds(self._topic)[0]
        start = max(self._next_offset or 0, bounds.low)
        self._add(self._log.fetch(self._topic, 0, start, bounds.high))
        self._next_offset = max(start, bounds.high)

    def follow(self, seconds: float = 0.0) -> None:
        """Read the reports that have arrived here; if there are none, wait up to `seconds` for the next."""
        if self._next_offset is None:
            self.catch_up()
            return
        self.add(self._log.follow(self._topic, 0, self._next_offset, seconds))

    def next_place(self) -> tuple[str, int]:
        """Return the topic and the offset of the next report; those before it are read first."""
        if self._next_offset is None:
            self.catch_up()
        return self._topic, self._next_offset or 0

    def add(self, messages: Sequence[Message]) -> None:
        """Add the messages that follow in the topic."""
        if messages:
            self._add(messages)
            self._next_offset = messages[-1].offset + 1

    def _add(self, messages: Iterable[Message]) -> None:
        for message in messages:
            try:
                report = UnitReport.decode(message.value, f"{self._topic} at offset {message.offset}")
            except FormatVersionError:
                raise
            except DecodeError:  # of another writer
                continue
            newest = self.newest.get(report.unit)
            if newest is None or report.round_id >= newest.round_id:
                self.newest[report.unit] = report

    def is_complete(self, plan: RoundPlan) -> bool:
        """Return whether every unit has reported a round, or a later one."""
        return plan.starts_incarnation or all(
            unit in self.newest and self.newest[unit].round_id >= plan.round_id for unit in range(plan.units)
        )

    def newest_complete(self, history: History) -> RoundPlan | None:
        """Return the newest round of the newest incarnation that every unit has completed; None before the first."""
        last = history.last
        for round_id in sorted(history.plans, reverse=True):
            plan = history.plans[round_id]
            if last is None or plan.incarnation < last.incarnation:
                break
            if self.is_complete(plan):
                return plan
        return None


class ReportReader:
    """A `ReportSource` that reads the newest reports from the log at each call. Not thread-safe."""

    def __init__(self, stages: Iterable[Stage], log: MessageLog) -> None:
        self._stages = {stage.name: StageReports(stage, log) for stage in stages}

    def reports(self, stage: str) -> Mapping[int, UnitReport]:
        """Return the newest report of each unit of a stage that has one; raises what `StageReports` raises."""
        self._stages[stage].catch_up()
        return self._stages[stage].newest
