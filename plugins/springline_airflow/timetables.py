"""Schedules for DAGs whose data have an end."""

from __future__ import annotations

from datetime import date
from typing import Any

from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction
from airflow.timetables.trigger import CronTriggerTimetable
from pendulum import UTC, DateTime


class DailyUntil(CronTriggerTimetable):
    """Every day up to `last`, as 2013-12-31, in UTC: `@daily`, as Airflow understands it by default.

    A DAG's own `end_date` keeps every later run from having tasks, one that is triggered by hand today for an earlier
    day too: it would succeed at once and have done nothing.
    """

    def __init__(self, last: str) -> None:
        super().__init__("@daily", timezone=UTC)
        try:
            self.last = date.fromisoformat(last)
        except ValueError as wrong:
            raise ValueError(f"no day: {last!r}, wanted as 2013-12-31") from wrong

    def serialize(self) -> dict[str, Any]:
        """What `deserialize` makes it from again."""
        return {"last": self.last.isoformat()}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> DailyUntil:
        """The schedule that Airflow has kept."""
        return cls(data["last"])

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """The next day's run; none after the last day."""
        end = DateTime(self.last.year, self.last.month, self.last.day, tzinfo=UTC)
        latest = end if restriction.latest is None else min(end, restriction.latest)
        return super().next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction._replace(latest=latest)
        )
