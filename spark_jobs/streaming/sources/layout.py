"""Layout of a topic's rows: the format of its messages, and the fields with their types."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from springline.persistence.model.invisible_characters import find_invisible
from springline.spark_jobs.streaming.sources.field_types import fault_of_type

HEADERS = "_headers."  # followed by the name of a header
MAX_INDEX = 999  # of an item of a list that is a field
_INDEX = re.compile(r"\[([0-9]+)\]")
_METADATA = {"_key": ("text", "bytes"), "_partition": ("int",), "_offset": ("int",), "_timestamp": ("timestamp",)}


@dataclass(frozen=True)
class Layout:
    """How the rows of a topic lie in its messages.

    Args:
        format: the name of the format, as an installed package provides it.
        fields: the type of each field, as `field_types` lists them; in CSV they are in this order.
        options: the table `format_options` of the declaration.

    Example:
        >>> Layout("csv", {"word": "text", "n": "int"}, {"delimiter": ";"}).fields["n"]
        'int'
    """

    format: str
    fields: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)


def fault_of_fields(fields: Iterable[tuple[str, str]]) -> str:
    """Return why fields with these names and types cannot be declared; empty if they can."""
    pairs = list(fields)
    if twice := sorted(name for name, times in Counter(name for name, _ in pairs).items() if times > 1):
        return f"{', '.join(twice)} declared twice"
    for name, kind in pairs:
        if find_invisible(name):
            return f"the name {name!r} has an invisible character"
        if fault := fault_of_type(kind):
            return f"{name} is {kind!r}; {fault}"
        if any(int(index) > MAX_INDEX for index in _INDEX.findall(name)):
            return f"{name}: items of a list are fields up to [{MAX_INDEX}]"
        if name in _METADATA and kind not in _METADATA[name]:
            return f"{name} is {kind!r}; write {' or '.join(_METADATA[name])}"
    return ""


def is_metadata(name: str) -> bool:
    """Return whether a field is beside the value of a message; `sources.metadata` lists them."""
    return name in _METADATA or name.startswith(HEADERS)


def is_below(name: str, path: str) -> bool:
    """Return whether a field is part of the object or list at a path: `a.b` and `a[0]` are parts of `a`.

    Example:
        >>> is_below("rows[0].price", "rows"), is_below("rows2", "rows")
        (True, False)
    """
    return name.startswith((f"{path}.", f"{path}["))


def parts_of_path(name: str) -> list[str]:
    """Return the names and indices that a field's name consists of; an index is in brackets.

    Example:
        >>> parts_of_path("user.rows[0].price")
        ['user', 'rows', '[0]', 'price']
    """
    return [part for each in name.split(".") for part in re.split(r"(\[[0-9]+\])", each) if part]


def indices_below(path: str, names: Iterable[str]) -> list[int]:
    """Return which items of the list at a path are fields, or have some.

    Example:
        >>> indices_below("rows", ["rows[2].price", "rows[0]", "id"])
        [0, 2]
    """
    return sorted(
        {int(match[1]) for name in names if (match := _INDEX.match(name, len(path))) and is_below(name, path)}
    )
