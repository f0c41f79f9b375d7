"""How the rows of a topic are written: the form of its messages, and the fields with their types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

FieldType = Literal["int", "float", "text"]
TimeUnit = Literal["s", "ms", "us", "ns", "iso"]
Form = Literal["csv", "arrow", "json"]
FORMS: tuple[Form, ...] = get_args(Form)


@dataclass(frozen=True)
class Layout:
    """A form of messages, and what their rows hold; CSV has the fields in their order.

    In Arrow the field `time`, if one is named, may be a timestamp: it becomes a number of the unit.
    """

    form: str
    fields: Mapping[str, str]
    delimiter: str = ","
    time: str = ""
    unit: TimeUnit = "s"
