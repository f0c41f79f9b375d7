"""Tables of TOML files as typed values: a class declares the keys, and errors name key, value and what is expected."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import inspect

from springline.persistence.text.formatting import format_suggestion

_MAX_VALUE_LENGTH = 100
_FINITE = 1e10  # an upper bound that only excludes infinity
_PATH = re.compile(r" - at `\$(?P<path>[^`]*)`$")
_PATH_PART = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\[\.\.\.\]")


Count = Annotated[int, msgspec.Meta(ge=1)]
"""A whole number of at least 1."""
Seconds = Annotated[float, msgspec.Meta(gt=0, le=_FINITE)]
"""A duration in seconds, above 0 and finite."""
Delay = Annotated[float, msgspec.Meta(ge=0, le=_FINITE)]
"""A duration in seconds, 0 or more, and finite."""
Name = Annotated[str, msgspec.Meta(min_length=1)]
"""A text that is not empty."""


class TomlTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of a table's keys: each attribute is a key, with its type, its default and its description.

    Example:
        >>> class Alarm(TomlTable):
        ...     seconds: float = 60.0
        >>> read_table(Alarm, {"seconds": 5}, "alarms.toml").seconds
        5.0
    """


class InvalidTableError(ValueError):
    """A table that has not the keys or types of its class; the text names the table, the key and what is expected."""

    exit_status = 2


Table = TypeVar("Table", bound=TomlTable)


@dataclass(frozen=True)
class Key:
    """Description of one key, for error messages and the reference.

    `expected` describes its values, `default` is "required" if there is none, `table` is the class of a key that is a
    table.
    """

    name: str
    expected: str
    default: str
    description: str
    table: type[TomlTable] | None


def read_table(model: type[Table], value: Any, where: str) -> Table:
    """Convert a parsed table; raises `InvalidTableError`, whose text begins with `where`.

    A key of another type, a value out of range, an unknown key, a missing key, and a number that is not finite are
    errors.
    """
    if not isinstance(value, Mapping):
        raise InvalidTableError(f"{where}: expected a table, got {_abbreviate(repr(value))}")
    try:
        table = msgspec.convert(value, model)
    except msgspec.ValidationError as error:
        raise InvalidTableError(f"{where}: {_explain(model, value, str(error))}") from None
    for path, number in _infinite_numbers(value):
        raise InvalidTableError(f"{where}: {path} = {number}; expected a finite number")
    return table


def _infinite_numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers in a parsed table that are infinite, or none."""
    if isinstance(value, float) and not math.isfinite(value):
        yield path, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _infinite_numbers(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _infinite_numbers(item, f"{path}[{index}]")


def keys_of(model: type[TomlTable]) -> list[Key]:
    """Return the keys that a class declares, those without a default first."""
    info = inspect.type_info(model)
    assert isinstance(info, inspect.StructType)
    return sorted(map(_key_of, info.fields), key=lambda key: key.default != "required")


def _key_of(field: inspect.Field) -> Key:
    structs = (member.cls for member in _members_of(field.type) if isinstance(member, inspect.StructType))
    table = next((struct for struct in structs if issubclass(struct, TomlTable)), None)
    default = "required" if field.required else _format_default(field)
    return Key(field.encode_name, _format_type(field.type), default, _description_of(field.type), table)


def _format_default(field: inspect.Field) -> str:
    default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    if default is None or isinstance(default, TomlTable):
        return ""
    return _format_value(msgspec.to_builtins(default))


def _format_value(value: Any) -> str:
    """Return a value as TOML writes it."""
    return msgspec.json.encode(value).decode()


def _explain(model: type[TomlTable], value: Any, message: str) -> str:
    """Turn a message of msgspec into one that names key, value and what is expected."""
    match = _PATH.search(message)
    path = match["path"] if match else ""
    reason = message[: match.start()] if match else message
    table: type[TomlTable] | None = model
    key, prefix = None, ""
    for name, place in _PATH_PART.findall(path):
        if name:
            prefix = f"{prefix}.{name}" if prefix else name
            key = None if table is None else next((each for each in keys_of(table) if each.name == name), None)
            table = key.table if key is not None else None
            value = value[name] if isinstance(value, Mapping) and name in value else value
        elif place:
            prefix += f"[{place}]"
            value = value[int(place)] if isinstance(value, list | tuple) else value
    if match_name := re.search(r"(unknown|missing required) field `([^`]+)`", reason):
        subject = f"{prefix}: " if prefix else ""
        return subject + _explain_field(table or model, match_name[1] == "unknown", match_name[2])
    expected = key.expected if key is not None else reason
    return f"{prefix} = {_abbreviate(repr(value))}; expected {expected}"


def _abbreviate(text: str) -> str:
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:_MAX_VALUE_LENGTH]}…"


def _explain_field(model: type[TomlTable], is_unknown: bool, name: str) -> str:
    keys = keys_of(model)
    if is_unknown:
        names = sorted(key.name for key in keys)
        return f"unknown key {name}{format_suggestion(name, names)}; the keys are {', '.join(names)}"
    key = next(key for key in keys if key.name == name)
    return f"the key {name} is missing; expected {key.expected}" + (f": {key.description}" if key.description else "")


def _members_of(described: inspect.Type) -> Iterator[inspect.Type]:
    """Return the alternatives of a union, or the type itself."""
    described = _without_metadata(described)
    if isinstance(described, inspect.UnionType):
        for member in described.types:
            yield from _members_of(member)
    elif not isinstance(described, inspect.NoneType):  # TOML has none: the key is left out
        yield described


def _without_metadata(described: inspect.Type) -> inspect.Type:
    while isinstance(described, inspect.Metadata):
        described = described.type
    return described


def _description_of(described: inspect.Type) -> str:
    description = ""
    while isinstance(described, inspect.Metadata):
        description = description or (described.extra_json_schema or {}).get("description", "")
        described = described.type
    return description


def _format_type(described: inspect.Type) -> str:
    return " or ".join(_format_member(member) for member in _members_of(described))


def _format_member(described: inspect.Type) -> str:
    if isinstance(described, inspect.BoolType):
        return "true or false"
    if isinstance(described, inspect.IntType | inspect.FloatType):
        noun = "whole number" if isinstance(described, inspect.IntType) else "number"
        return f"a {'finite ' if described.le == _FINITE else ''}{noun}{_format_range(described)}"
    if isinstance(described, inspect.EnumType):
        return " or ".join(_format_value(member.value) for member in described.cls)
    if isinstance(described, inspect.LiteralType):
        return " or ".join(_format_value(value) for value in described.values)
    if isinstance(described, inspect.StrType):
        return "a text that is not empty" if described.min_length else "a text"
    if isinstance(described, inspect.TupleType):
        return f"[{', '.join(_format_type(item) for item in described.item_types)}]"
    if isinstance(described, inspect.VarTupleType | inspect.ListType):
        return f"a list, each item {_format_type(described.item_type)}"
    if isinstance(described, inspect.DictType) and not isinstance(described.value_type, inspect.AnyType):
        return f"a table, each value {_format_type(described.value_type)}"
    return "a table"


def _format_range(number: inspect.IntType | inspect.FloatType) -> str:
    lower, upper = number.ge if number.ge is not None else number.gt, number.le if number.le is not None else number.lt
    if lower is None:
        return "" if upper is None else f" {'below' if number.le is None else 'of at most'} {upper:,g}"
    if upper is None or upper == _FINITE:
        return f" {'above' if number.ge is None else 'of at least'} {lower:,g}"
    start = f"above {lower:,g} and" if number.ge is None else f"from {lower:,g}"
    return f" {start} {'to below' if number.le is None else 'to' if number.ge is not None else 'at most'} {upper:,g}"
