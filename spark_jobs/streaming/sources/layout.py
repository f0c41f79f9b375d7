"""Layout of a topic's rows: the format of its messages, and the fields with their types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import pyarrow as pa

from springline.persistence.model.invisible_characters import find_invisible

FieldType = Literal["int", "float", "text"]
TimeUnit = Literal["s", "ms", "us", "ns", "iso"]
HEADERS = "_headers."  # followed by the name of a header
_METADATA: Mapping[str, tuple[FieldType, ...]] = {
    "_key": ("text",), "_partition": ("int",), "_offset": ("int",), "_timestamp": ("int", "float"),
}  # fmt: skip
ARROW_TYPES: Mapping[str, pa.DataType] = {"int": pa.int64(), "float": pa.float64(), "text": pa.string()}


@dataclass(frozen=True)
class Layout:
    """How the rows of a topic lie in its messages.

    Args:
        format: the name of the format, as an installed package provides it.
        fields: the type of each field; in CSV they are in this order.
        options: the table `format_options` of the declaration.
        time: the field with the event time, if there is one: a format may convert its own timestamps to it.
        unit: the unit of that field.

    Example:
        >>> Layout("csv", {"word": "text", "n": "int"}, {"delimiter": ";"}).fields["n"]
        'int'
    """

    format: str
    fields: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)
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
        if name in _METADATA and kind not in _METADATA[name]:
            return f"{name} is {kind!r}; write {' or '.join(_METADATA[name])}"
    return ""


def is_metadata(name: str) -> bool:
    """Return whether a field is beside the value of a message; `sources.metadata` lists them."""
    return name in _METADATA or name.startswith(HEADERS)
