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
        dates.append(info.logical_date.date().isoformat())
        last = info.data_interval
    return dates


def test_every_day_up_to_the_last_and_no_more(schedule):
    """As for a DAG that catches up, or a backfill."""
    assert days(schedule, TimeRestriction(FIRST, None, catchup=True)) == ["2013-01-01", "2013-01-02", "2013-01-03"]


def test_a_run_is_called_by_its_day(schedule):
    """As that of `@daily`: the day is what the data are of."""
    info = schedule.next_dagrun_info(
        last_automated_data_interval=None, restriction=TimeRestriction(FIRST, None, catchup=True)
    )
    assert info.logical_date == info.run_after == FIRST


def test_an_earlier_end_holds(schedule):
    """A backfill's own."""
    assert days(schedule, TimeRestriction(FIRST, datetime(2013, 1, 2), catchup=True)) == ["2013-01-01", "2013-01-02"]


def test_days_that_are_past_are_not_scheduled_without_catching_up(schedule):
    """Unpausing such a DAG starts nothing; were the last day to come, today's run would start."""
    restriction = TimeRestriction(FIRST, None, catchup=False)
    assert days(schedule, restriction) == []
    assert len(days(DailyUntil(now().add(days=30).date().isoformat()), restriction, most=1)) == 1


def test_a_last_day_that_is_none_is_named():
    """When the DAG's file is read."""
    with pytest.raises(ValueError, match="2013-02-30"):
        DailyUntil("2013-02-30")
