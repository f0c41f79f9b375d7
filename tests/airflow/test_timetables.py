"""A schedule that ends, and lets people be free."""

from __future__ import annotations

import pytest
from airflow.serialization.decoders import decode_timetable
from airflow.serialization.encoders import encode_timetable
from airflow.timetables.base import TimeRestriction
from pendulum import datetime, now

from springline.airflow.timetables import DailyUntil

FIRST = datetime(2013, 1, 1)


@pytest.fixture
def schedule():
    """As Airflow keeps it and reads it again."""
    return decode_timetable(encode_timetable(DailyUntil("2013-01-03")))


def days(schedule, restriction, most=10):
    """The days that are scheduled, in order."""
    dates = []
    last = None
    while len(dates) < most and (
        info := schedule.next_dagrun_info(last_automated_data_interval=last, restriction=restriction)
    ):
        assert info.logical_date == info.run_after, "a run is called by its day, as that of `@daily`"
        dates.append(info.logical_date.date().isoformat())
        last = info.data_interval
    return dates


@pytest.mark.parametrize(("end", "last"), [(None, 3), (datetime(2013, 1, 2), 2)])
def test_every_day_up_to_the_last_and_no_more(schedule, end, last):
    """As for a DAG that catches up; an earlier end, such as that of a backfill, holds."""
    scheduled_days = days(schedule, TimeRestriction(FIRST, end, catchup=True))
    assert scheduled_days == ["2013-01-01", "2013-01-02", "2013-01-03"][:last]


def test_days_that_are_past_are_not_scheduled_without_catching_up(schedule):
    """Unpausing such a DAG starts nothing; were the last day to come, today's run would start."""
    restriction = TimeRestriction(FIRST, None, catchup=False)
    assert days(schedule, restriction) == []
    assert len(days(DailyUntil(now().add(days=30).date().isoformat()), restriction, most=1)) == 1


def test_a_last_day_that_is_none_is_named():
    """When the DAG's file is read."""
    with pytest.raises(ValueError, match="2013-02-30"):
        DailyUntil("2013-02-30")
