"""Layout of a topic's rows: the format of its messages, and the fields with their types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import pyarrow as pa

from springline.persistence.model.invisible_characters import find_invisible

FieldType = Literal["int", "float", "text"]
TimeUnit = Literal["s", "ms", "us", "ns", "iso"]
Form = Literal["csv", "arrow", "json"]
ARROW_TYPES: Mapping[str, pa.DataType] = {"int": pa.int64(), "float": pa.float64(), "text": pa.string()}


@dataclass(frozen=True)
class Layout:
    """A message format and the fields of its rows; in CSV, the fields are in this order.

    In Arrow the field `time`, if one is named, may be a timestamp: it is converted to a number of the unit.
    """

    form: str
    fields: Mapping[str, str]
    delimiter: str = ","
    time: str = ""
    unit: TimeUnit = "s"


def fault_of_fields(fields: Iterable[tuple[str, str]]) -> str:
    """Return why fields with these names and types cannot be declared; empty if they can."""
    pairs = list(fields)
    if twice := sorted(name for name, times in Counter(name for name, _ in pairs).items() if times > 1):
        return f"{', '.join(twice)} declared twice"
    for name, kind in pairs:
        if find_invisible(name):
            return f"the name {name!r} has an invisible character"
        if kind not in get_args(FieldType):
            return f"{name} is {kind!r}; write int, float or text"
    return ""


def fault_of_delimiter(delimiter: object) -> str:
    """Return why a delimiter cannot separate CSV fields; empty if it can."""
    fits = isinstance(delimiter, str) and len(delimiter) == 1 and delimiter.isascii() and delimiter not in '"\r\n'
    return "" if fits else f"{delimiter!r} cannot be a delimiter"
