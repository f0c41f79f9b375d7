"""Days of a DAG: each begins and ends in the DAG's own time zone."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

_OFFSET = re.compile(r'name="([+-]\d{2}:\d{2})"')  # how Airflow's API names a zone that is only an offset


def parse_zone(name: str) -> tzinfo:
    """Return the time zone that Airflow's API names; raises `ValueError` or `KeyError` if it is unknown here."""
    if offset := _OFFSET.search(name):
        return timezone(datetime.strptime(offset[1], "%z").utcoffset() or timedelta())
    return ZoneInfo(name)


def day_begin(day: date, zone: tzinfo) -> str:
    """Return the first instant of a day, in ISO 8601 with the offset of the zone."""
    return datetime.combine(day, time.min, zone).isoformat()


def day_end(day: date, zone: tzinfo) -> str:
    """Return the last instant of a day; where clocks are put back at midnight, the later one of that name."""
    return datetime.combine(day, time.max.replace(fold=1), zone).isoformat()


def local_minute(instant: str, zone: tzinfo) -> str:
    """Return an instant of Airflow's API as the zone's clocks show it."""
    return f"{datetime.fromisoformat(instant).astimezone(zone):%Y-%m-%d %H:%M}"
