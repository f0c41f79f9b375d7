"""A declared stream: the fields of its rows, its time field, and its rules for implausible times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from springline.persistence.model.invisible_characters import find_invisible
from springline.persistence.model.toml_table import Delay, Name, Seconds, TomlTable
from springline.spark_jobs.streaming.sources.errors import InvalidFormatError, InvalidStreamError
from springline.spark_jobs.streaming.sources.field_types import sql_type
from springline.spark_jobs.streaming.sources.format import open_format
from springline.spark_jobs.streaming.sources.layout import Layout, fault_of_fields

MICROS = 1_000_000  # event times are integer microseconds since 1970, UTC
MIN_EVENT_TIME, MAX_EVENT_TIME = 946_684_800.0, 4_102_444_800.0  # the years 2000 and 2100, in seconds since 1970
MAX_FUTURE_SKEW = 86_400.0  # seconds
_Instant = Annotated[float, Meta(ge=-6e10, le=2.5e11)]  # seconds since 1970, in the years 69 to 9892


class Field(msgspec.Struct, frozen=True, array_like=True):
    """One field of a row; `field_types` lists the types. In JSON it is a list, as in a declaration."""

    name: str
    type: str


@dataclass(frozen=True)
class Stream:
    """The declaration of a topic's rows.

    `time` names the field with the event time, a timestamp. Rows outside [min_event_time, max_event_time), or more than
    `max_future_skew` ahead of the clock of the round that reads them, become dead letters: otherwise one row from the
    year 2099 would close every window. With `max_future_skew` None there is no such limit.

    `lateness` is how long a slice stays open after its end, unless a query overrides it (LATE). `idle_timeout` is the
    time without rows (by the clock of the rounds) after which a unit no longer holds back the watermark; None: never.
    `adhoc_retention` is how long slices are kept for ad hoc queries beyond what windows need. All are in seconds.
    """

    name: str
    fields: tuple[Field, ...]
    time: str
    format: str = "csv"
    format_options: Mapping[str, Any] = field(default_factory=dict)
    min_event_time: float = MIN_EVENT_TIME
    max_event_time: float = MAX_EVENT_TIME
    max_future_skew: float | None = MAX_FUTURE_SKEW
    lateness: float = 0.0
    idle_timeout: float | None = 10.0
    adhoc_retention: float = 0.0

    def __post_init__(self) -> None:
        """Validate the declaration; raises `InvalidStreamError`."""
        names = [field.name for field in self.fields]
        if find_invisible(self.name):
            raise InvalidStreamError(f"stream {self.name!r}: the name {self.name!r} has an invisible character")
        if fault := fault_of_fields((field.name, field.type) for field in self.fields):
            raise InvalidStreamError(f"stream {self.name!r}: {fault}")
        if self.time not in names:
            raise InvalidStreamError(
                f"stream {self.name!r}: its time, {self.time!r}, is not one of its fields {', '.join(names)}"
            )
        if self.sql_types[self.time] != "timestamp":
            raise InvalidStreamError(
                f"stream {self.name!r}: its time, {self.time}, is {self.types[self.time]}; declare it as timestamp for "
                "texts such as 2013-01-31 23:59:59, or as timestamp(s), (ms), (us) or (ns) for numbers since 1970"
            )
        try:
            open_format(self.layout, names)
        except InvalidFormatError as error:
            raise InvalidStreamError(f"stream {self.name!r}: {error}") from error
        if min(self.lateness, self.adhoc_retention) < 0 or self.max_event_time <= self.min_event_time:
            raise InvalidStreamError(
                f"stream {self.name!r}: lateness and adhoc_retention must not be negative, "
                "and max_event_time must be after min_event_time"
            )

    @property
    def types(self) -> dict[str, str]:
        """The type of each field, as declared."""
        return {field.name: field.type for field in self.fields}

    @property
    def sql_types(self) -> dict[str, str]:
        """The type of each field in SQL."""
        return {field.name: sql_type(field.type) for field in self.fields}

    @property
    def layout(self) -> Layout:
        """The layout of its rows."""
        return Layout(self.format, self.types, self.format_options)

    @property
    def meaning(self) -> list[Any]:
        """The parts of the declaration that slices depend on: if they change, slices start from scratch."""
        return [self.name, [[field.name, field.type] for field in self.fields], self.time]

    @staticmethod
    def from_keys(name: str, keys: StreamKeys) -> Stream:
        """Return the stream that a job's keys declare; raises `InvalidStreamError`."""
        values = {field.name: getattr(keys, field.name) for field in fields(Stream) if field.name != "name"}
        return Stream(name, **{**values, "fields": tuple(Field(*field) for field in keys.fields)})


class RowKeys(TomlTable, frozen=True, kw_only=True):
    """Keys that describe the rows of a topic."""

    fields: Annotated[
        tuple[tuple[str, str], ...],
        Meta(
            description='name and type of each field, such as `["price", "float"]`: boolean, int, float, '
            "decimal(12, 2), text, bytes, date, timestamp (a text), timestamp(ms) (a number since 1970; also s, us, "
            "ns); of CSV in the order of the columns"
        ),
    ]
    format: Annotated[
        str,
        Meta(description="format of the messages: csv, json, arrow, avro, protobuf, or one of an installed package"),
    ] = "csv"
    format_options: Annotated[
        dict[str, Any], Meta(description='options of the format, such as `{ delimiter = ";" }` of csv')
    ] = msgspec.field(default_factory=dict)


class StreamKeys(RowKeys, frozen=True, kw_only=True):
    """Keys of `stream` in a job of windows: the rows of its topic, and their event time."""

    time: Annotated[Name, Meta(description="field that holds the event time, a timestamp")]
    min_event_time: Annotated[
        _Instant, Meta(description="rows before it go to the dead-letter queue; in seconds since 1970")
    ] = MIN_EVENT_TIME
    max_event_time: Annotated[
        _Instant, Meta(description="rows from it on go to the dead-letter queue; in seconds since 1970")
    ] = MAX_EVENT_TIME
    max_future_skew: Annotated[
        Seconds, Meta(description="rows more than so many seconds ahead of the clock go to the dead-letter queue")
    ] = MAX_FUTURE_SKEW
    lateness: Annotated[
        Delay, Meta(description="seconds that a window stays open after its end; LATE in a query overrides it")
    ] = 0.0
    idle_timeout: Annotated[
        Seconds, Meta(description="seconds without rows after which a unit no longer holds back the watermark")
    ] = 10.0
    adhoc_retention: Annotated[
        Delay, Meta(description="seconds that slices are kept for ad hoc queries beyond what windows need")
    ] = 0.0


def to_micros(seconds: float) -> int:
    """Convert seconds to integer microseconds."""
    return round(seconds * MICROS)
