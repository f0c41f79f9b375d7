"""A declared stream: the fields of its rows, its time field, and its rules for implausible times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args

import msgspec

from springline.persistence.model.invisible_characters import find_invisible
from springline.spark_jobs.streaming.sources.errors import InvalidStreamError
from springline.spark_jobs.streaming.sources.layout import (
    FieldType,
    Form,
    Layout,
    TimeUnit,
    fault_of_delimiter,
    fault_of_fields,
)

MICROS = 1_000_000  # event times are integer microseconds since 1970, UTC
UNIT_MICROS: Mapping[str, float] = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}


class Field(msgspec.Struct, frozen=True, array_like=True):
    """One field of a row; int is 64 bits wide, float is a double. In JSON it is a list, as in a declaration."""

    name: str
    type: FieldType


@dataclass(frozen=True)
class Stream:
    """The declaration of a topic's rows.

    `time` names the field with the event time; `time_format` is its unit since 1970, or `iso` for text such as
    `2013-01-31 23:59:59.5` (UTC; a text with an offset is refused). Rows outside [min_event_time, max_event_time), or
    more than `max_future_skew` ahead of the clock of the round that reads them, become dead letters: otherwise one row
    from the year 2099 would close every window. With `max_future_skew` None there is no such limit.

    `lateness` is how long a slice stays open after its end, unless a query overrides it (LATE). `idle_timeout` is the
    time without rows (by the clock of the rounds) after which a unit no longer holds back the watermark; None: never.
    `adhoc_retention` is how long slices are kept for ad hoc queries beyond what windows need. All are in seconds.
    """

    name: str
    fields: tuple[Field, ...]
    time: str
    time_format: TimeUnit = "s"
    format: Form = "csv"
    delimiter: str = ","
    min_event_time: float = 946_684_800.0  # the year 2000
    max_event_time: float = 4_102_444_800.0  # the year 2100
    max_future_skew: float | None = 86_400.0
    lateness: float = 0.0
    idle_timeout: float | None = 10.0
    adhoc_retention: float = 0.0

    def __post_init__(self) -> None:
        """Validate the declaration; raises `InvalidStreamError`."""
        names = [field.name for field in self.fields]
        if find_invisible(self.name):
            raise InvalidStreamError(f"stream {self.name!r}: the name {self.name!r} has a character that nobody sees")
        if fault := fault_of_fields((field.name, field.type) for field in self.fields):
            raise InvalidStreamError(f"stream {self.name!r}: {fault}")
        if self.time not in names:
            raise InvalidStreamError(
                f"stream {self.name!r}: its time, {self.time!r}, is none of its fields {', '.join(names)}"
            )
        if self.time_format not in get_args(TimeUnit) or self.format not in get_args(Form):
            raise InvalidStreamError(
                f"stream {self.name!r}: time_format is one of {get_args(TimeUnit)}, format of {get_args(Form)}"
            )
        if (self.time_format == "iso") != (self.types[self.time] == "text"):
            raise InvalidStreamError(
                f"stream {self.name!r}: {self.time} is {self.types[self.time]}, with the time_format {self.time_format}"
            )
        if fault := fault_of_delimiter(self.delimiter):
            raise InvalidStreamError(f"stream {self.name!r}: {fault}")
        if min(self.lateness, self.adhoc_retention) < 0 or self.max_event_time <= self.min_event_time:
            raise InvalidStreamError(
                f"stream {self.name!r}: lateness and adhoc_retention are not negative, "
                "and max_event_time is after min_event_time"
            )

    @property
    def types(self) -> dict[str, FieldType]:
        """The type of each field."""
        return {field.name: field.type for field in self.fields}

    @property
    def layout(self) -> Layout:
        """The layout of its rows."""
        return Layout(self.format, self.types, self.delimiter, self.time, self.time_format)

    @property
    def meaning(self) -> list[Any]:
        """The parts of the declaration that slices depend on: if they change, slices start from scratch."""
        return [self.name, [[field.name, field.type] for field in self.fields], self.time, self.time_format]

    @staticmethod
    def from_table(table: Mapping[str, Any]) -> Stream:
        """Read a stream from a table of a declaration; missing entries have defaults. Raises `InvalidStreamError`."""
        allowed = {field.name for field in fields(Stream)}
        if odd := sorted(set(table) - allowed):
            raise InvalidStreamError(
                f"stream {table.get('name')!r}: {', '.join(odd)} means nothing here; known: {sorted(allowed)}"
            )
        if missing := [name for name in ("name", "fields", "time") if name not in table]:
            raise InvalidStreamError(f"stream {table.get('name')!r}: {', '.join(missing)} must be declared")
        return Stream(**{**table, "fields": tuple(Field(name, kind) for name, kind in table["fields"])})


def to_micros(seconds: float) -> int:
    """Convert seconds to integer microseconds."""
    return round(seconds * MICROS)
