"""Schedules for DAGs whose data ends."""

from __future__ import annotations

from datetime import date
from typing import Any

from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction
from airflow.timetables.trigger import CronTriggerTimetable
from pendulum import UTC, DateTime


class DailyUntil(CronTriggerTimetable):
    """Daily up to `last`, such as 2013-12-31, in UTC; otherwise like Airflow's default `@daily`.

    With a DAG's own `end_date`, every run that starts later would have no tasks, even one that is triggered manually
    today for an earlier day: it would succeed at once and have done nothing.
    """

    def __init__(self, last: str) -> None:
        super().__init__("@daily", timezone=UTC)
        try:
            self.last = date.fromisoformat(last)
        except ValueError as wrong:
            raise ValueError(f"not a date: {last!r}; write it as 2013-12-31") from wrong

    def serialize(self) -> dict[str, Any]:
        """Return the data that `deserialize` reads."""
        return {"last": self.last.isoformat()}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> DailyUntil:
        """Return the schedule that Airflow has stored."""
        return cls(data["last"])

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """Return the next day's run; None after the last day."""
        end = DateTime(self.last.year, self.last.month, self.last.day, tzinfo=UTC)
        latest = end if restriction.latest is None else min(end, restriction.latest)
        return super().next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction._replace(latest=latest)
        )
