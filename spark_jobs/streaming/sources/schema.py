"""A declared stream: the fields of its rows, which one is the time, and its rules for odd times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args

import msgspec

from springline.persistence.model.names import unseen_in
from springline.spark_jobs.streaming.sources.errors import InvalidStreamError
from springline.spark_jobs.streaming.sources.layout import (
    FieldType,
    Form,
    Layout,
    TimeUnit,
    fault_of_delimiter,
    fault_of_fields,
)

MICROS = 1_000_000  # event times are whole microseconds since 1970, UTC
UNIT_MICROS: Mapping[str, float] = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}


class Field(msgspec.Struct, frozen=True, array_like=True):
    """One field of a row; int is 64 bits wide, float is a double. As JSON it is a list, as a declaration has it."""

    name: str
    type: FieldType


@dataclass(frozen=True)
class Stream:
    """What the rows of a topic are, declared once.

    `time` names the field that holds the time of the event; its unit counts from 1970, or is `iso` for text such as
    `2013-01-31 23:59:59.5` (UTC unless it ends in an offset, which is refused). Rows outside [earliest, latest), or
    more than `ahead` after the clock of the round that reads them, are dead letters: one row from the year 2099 would
    otherwise close every window. None: however far ahead they are.

    `lateness` is how long a slice stays open after it has ended, unless a query says otherwise (LATE). `idle` is
    after how long without rows (by the clock of the rounds) a unit no longer holds the others back; None: never.
    `retain` is how long slices are kept for ad hoc queries beyond what windows need. All in seconds.
    """

    name: str
    fields: tuple[Field, ...]
    time: str
    unit: TimeUnit = "s"
    form: Form = "csv"
    delimiter: str = ","
    earliest: float = 946_684_800.0  # the year 2000
    latest: float = 4_102_444_800.0  # the year 2100
    ahead: float | None = 86_400.0
    lateness: float = 0.0
    idle: float | None = 10.0
    retain: float = 0.0

    def __post_init__(self) -> None:
        """Raises `InvalidStreamError`."""
        names = [field.name for field in self.fields]
        if unseen_in(self.name):
            raise InvalidStreamError(f"stream {self.name!r}: the name {self.name!r} has a character that nobody sees")
        if fault := fault_of_fields((field.name, field.type) for field in self.fields):
            raise InvalidStreamError(f"stream {self.name!r}: {fault}")
        if self.time not in names:
            raise InvalidStreamError(
                f"stream {self.name!r}: its time, {self.time!r}, is none of its fields {', '.join(names)}"
            )
        if self.unit not in get_args(TimeUnit) or self.form not in get_args(Form):
            raise InvalidStreamError(
                f"stream {self.name!r}: a unit is one of {get_args(TimeUnit)}, a form of {get_args(Form)}"
            )
        if (self.unit == "iso") != (self.types[self.time] == "text"):
            raise InvalidStreamError(
                f"stream {self.name!r}: {self.time} is {self.types[self.time]}, with the unit {self.unit}"
            )
        if fault := fault_of_delimiter(self.delimiter):
            raise InvalidStreamError(f"stream {self.name!r}: {fault}")
        if min(self.lateness, self.retain) < 0 or self.latest <= self.earliest:
            raise InvalidStreamError(
                f"stream {self.name!r}: lateness and retain are not negative, and latest is after earliest"
            )

    @property
    def types(self) -> dict[str, FieldType]:
        """The type of each field."""
        return {field.name: field.type for field in self.fields}

    @property
    def layout(self) -> Layout:
        """How its rows are written."""
        return Layout(self.form, self.types, self.delimiter, self.time, self.unit)

    @property
    def meaning(self) -> list[Any]:
        """What slices of this stream depend on: where it changes, they start anew."""
        return [self.name, [[field.name, field.type] for field in self.fields], self.time, self.unit]

    @staticmethod
    def from_table(told: Mapping[str, Any]) -> Stream:
        """From a table of a declaration; what is not told has its default. Raises `InvalidStreamError`."""
        known = {field.name for field in fields(Stream)}
        if odd := sorted(set(told) - known):
            raise InvalidStreamError(
                f"stream {told.get('name')!r}: {', '.join(odd)} means nothing here; known: {sorted(known)}"
            )
        if missing := [name for name in ("name", "fields", "time") if name not in told]:
            raise InvalidStreamError(f"stream {told.get('name')!r}: {', '.join(missing)} must be declared")
        return Stream(**{**told, "fields": tuple(Field(name, kind) for name, kind in told["fields"])})


def to_micros(seconds: float) -> int:
    """Whole microseconds."""
    return round(seconds * MICROS)
