"""The flights of 2013 as a stream: every departure at its scheduled time, replayed at a given speed."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from springline.spark_jobs.nycflights import open_text
from springline.spark_jobs.streaming.sources.schema import Field, Stream

_TEXTS = ("carrier", "tailnum", "origin", "dest")
_NUMBERS = ("flight", "dep_delay", "arr_delay", "air_time", "distance")
FIELDS = (
    Field("time", "timestamp"),
    *(Field(name, "text") for name in _TEXTS),
    Field("flight", "int"),
    *(Field(name, "float") for name in _NUMBERS[1:]),
)


@dataclass(frozen=True, slots=True)
class TimedMessage:
    """A message, and the time at which it is due, in seconds after the first one."""

    seconds: float
    value: bytes


def flights_stream(**settings: object) -> Stream:
    """Return the stream `flights`, as CSV; its times are local times of the airports, taken as UTC."""
    return Stream("flights", FIELDS, "time", **settings)  # type: ignore[arg-type]


def messages(*, size: int = 1, speed: float = 3600.0, rows: int | None = None) -> Iterator[TimedMessage]:
    """Yield messages of `size` flights in the order of their times; `speed` is seconds of event time per second.

    `rows` limits the number of flights.
    """
    lines = _lines()[:rows]
    first = _seconds(lines[0]) if lines else 0.0
    left = iter(lines)
    while batch := list(islice(left, size)):
        yield TimedMessage((_seconds(batch[-1]) - first) / speed, ("\n".join(batch) + "\n").encode())


def _lines() -> list[str]:
    """Return all flights as CSV, by time; flights of the same time in the order of the file."""
    lines = []
    with open_text("flights.csv") as file:
        for row in csv.DictReader(file):
            scheduled = int(row["sched_dep_time"])
            time = (
                f"{row['year']}-{int(row['month']):02}-{int(row['day']):02} {scheduled // 100:02}:{scheduled % 100:02}"
            )
            values = [row[name] if row[name] != "NA" else "" for name in (*_TEXTS, *_NUMBERS)]
            lines.append(",".join([time, *values]))
    lines.sort(key=lambda line: line[:16])
    return lines


def _seconds(line: str) -> float:
    return datetime.fromisoformat(line[:16]).replace(tzinfo=UTC).timestamp()
