"""From messages of a source's topic to a table of typed rows, with what cannot be used as dead letters.

A message holds rows: CSV lines (without quoted line ends), JSON objects, one a line, or an Arrow IPC stream. Rows that
do not fit what was declared are found by halving, so that the parser that reads the good ones judges the bad ones too.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson

from spark_jobs.streaming.join.predicate import Relation
from spark_jobs.streaming.unitlog.step import DeadLetter, Message
from spark_jobs.streaming.windows.expressions import ARROW

FORMS = ("csv", "arrow", "json")
_REASON = 500  # characters of why a line cannot be used, which may cite the line
_MAYBE_NULL = re.compile(rb"\}\s*null")  # behind an object on its line; or in a text
_ODD = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OSError)


@dataclass(frozen=True)
class Source:
    """Where a relation's rows come from: a topic, and the form of its messages; CSV has the fields in their order."""

    topic: str
    relation: Relation
    form: str = "csv"
    delimiter: str = ","

    @property
    def schema(self) -> pa.Schema:
        """The fields with their types."""
        return pa.schema([(name, ARROW[kind]) for name, kind in self.relation.fields.items()])

    def as_json(self) -> dict[str, Any]:
        """For the arguments of a step."""
        told = {"topic": self.topic, "form": self.form, "delimiter": self.delimiter}
        return {**told, "relation": self.relation.as_json()}

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> Source:
        """The inverse of `as_json`; raises `BadRelation`."""
        return Source(told["topic"], Relation.from_json(told["relation"]), told["form"], told["delimiter"])


class Rows(NamedTuple):
    """The good rows in their order, and the letters."""

    table: pa.Table
    dead: list[DeadLetter]


def read(source: Source, messages: Sequence[Message], wanted: Sequence[str]) -> Rows:
    """The wanted columns of all rows of some messages."""
    schema = pa.schema([source.schema.field(name) for name in wanted])
    dead: list[DeadLetter] = []
    if source.form == "arrow":
        tables = [table for message in messages if (table := _arrow(message, schema, dead)) is not None]
    else:
        parse = _csv if source.form == "csv" else _json
        lines = [_Line(message, line) for message in messages for line in _lines(message.value)]
        tables = _parsed(lines, lambda some: parse(some, source, schema), source, dead)
    return Rows(pa.concat_tables([schema.empty_table(), *tables]), dead)


class _Line(NamedTuple):
    """A line, and the message that it is of."""

    message: Message
    content: bytes


def _lines(value: bytes | memoryview) -> list[bytes]:
    return [line for line in bytes(value).split(b"\n") if line.strip()]


def _parsed(
    lines: Sequence[_Line], parse: Callable[[Sequence[_Line]], pa.Table], source: Source, dead: list[DeadLetter]
) -> list[pa.Table]:
    """Tables of the good lines, in their order."""
    if not lines:
        return []
    try:
        table = parse(lines)
        if table.num_rows == len(lines):
            return [table]
        trouble = f"it holds {table.num_rows} rows, and a row is a line"
    except _ODD as error:
        trouble = str(error)
    if len(lines) == 1:
        ((message, content),) = lines
        dead.append(DeadLetter(message.offset, content, (_why(content, source) or trouble)[:_REASON]))
        return []
    half = len(lines) // 2
    return [*_parsed(lines[:half], parse, source, dead), *_parsed(lines[half:], parse, source, dead)]


def _csv(lines: Sequence[_Line], source: Source, schema: pa.Schema) -> pa.Table:
    # With a line end behind the last line too: without, Arrow takes an empty field there for a quoted one.
    content = b"\n".join([*(line.content for line in lines), b""])
    if content.count(b'"') % 2 and any(_is_open(line.content, source.delimiter) for line in lines):
        raise pa.ArrowInvalid("a quote is open at the end of the line")
    declared, wanted = source.schema, schema.names
    if lines[0].content.rstrip(b"\r").count(source.delimiter.encode()) == len(declared):
        # A delimiter at the end of each line, as TPC's generators write them; there is nothing behind it.
        declared, wanted = declared.append(pa.field("", pa.null())), [*wanted, ""]
    table = pacsv.read_csv(
        pa.BufferReader(content),
        pacsv.ReadOptions(use_threads=False, column_names=declared.names, block_size=len(content) + 1),
        pacsv.ParseOptions(delimiter=source.delimiter),
        pacsv.ConvertOptions(
            column_types=declared, include_columns=wanted, null_values=[""], strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )  # fmt: skip
    return table.select(schema.names)


def _json(lines: Sequence[_Line], source: Source, schema: pa.Schema) -> pa.Table:
    content = b"\n".join([line.content for line in lines])
    # Arrow's parser does not survive a null where an object should be.
    every = _MAYBE_NULL.search(content) is not None
    if not all(_is_object(line.content) if every else line.content.lstrip()[:1] == b"{" for line in lines):
        raise pa.ArrowInvalid("no JSON object")
    reading = pajson.ReadOptions(use_threads=False, block_size=len(content) + 1)
    options = pajson.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    table = pajson.read_json(pa.BufferReader(content), reading, options).select(schema.names)
    table.validate(full=True)  # whether texts are UTF-8
    return table


def _arrow(message: Message, schema: pa.Schema, dead: list[DeadLetter]) -> pa.Table | None:
    try:
        table = pa.ipc.open_stream(pa.py_buffer(message.value)).read_all()
    except _ODD as error:
        dead.append(DeadLetter(message.offset, bytes(message.value), f"no Arrow stream: {error}"))
        return None
    for field in schema:
        count = table.column_names.count(field.name)
        if count != 1:
            reason = f"column {field.name} is there {count} times; there are {', '.join(table.column_names)}"
        elif not _fits(given := table.schema.field(field.name).type, field.type):
            reason = f"column {field.name} is {given}, and {field.type} was declared"
        else:
            continue
        dead.append(DeadLetter(message.offset, bytes(message.value), reason))
        return None
    try:
        table = table.select(schema.names)
        table.validate(full=True)
        return table.cast(schema)
    except _ODD as error:
        dead.append(DeadLetter(message.offset, bytes(message.value), str(error)))
        return None


def _fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_string(wanted):
        texts = given.value_type if pa.types.is_dictionary(given) else given
        return bool(pa.types.is_string(texts) or pa.types.is_large_string(texts) or pa.types.is_string_view(texts))
    return bool(pa.types.is_integer(given) or (pa.types.is_floating(wanted) and pa.types.is_floating(given)))


def _why(content: bytes, source: Source) -> str:
    """What is wrong with a line, as far as that can be told."""
    try:
        text = content.decode().rstrip("\r")
    except UnicodeDecodeError as error:
        return f"no UTF-8: {error.reason} at byte {error.start}"
    if source.form == "json":
        try:
            told: Any = json.loads(text)
        except ValueError as error:
            return f"no JSON object: {error}"
        if not isinstance(told, dict):
            return "no JSON object"
        odd = (
            (name, kind, told[name])
            for name, kind in source.relation.fields.items()
            if not _holds(told.get(name), kind)
        )
        return next((f"{name} is no {kind}: {json.dumps(value)}" for name, kind, value in odd), "")
    try:
        cells = next(csv.reader([text], delimiter=source.delimiter), [])
    except csv.Error:  # a field that is too long for it
        return ""
    if len(cells) == len(source.relation.fields) + 1 and not cells[-1]:
        cells = cells[:-1]
    if len(cells) != len(source.relation.fields):
        return f"{len(cells)} fields, and {len(source.relation.fields)} were declared"
    for cell, (name, kind) in zip(cells, source.relation.fields.items(), strict=True):
        if kind != "text" and cell and not _is(cell, kind):
            return f"{name} is no {kind}: {cell!r}"
    return ""


def _is_open(line: bytes, delimiter: str) -> bool:
    """Whether a quoted field has no end; Arrow's parser takes the end of what it is given for that."""
    if line.count(b'"') % 2 == 0:
        return False
    try:
        next(csv.reader([line.decode("latin-1")], delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        return "end of data" in str(error)
    return False


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _holds(value: Any, kind: str) -> bool:
    """Whether a JSON value is of a kind, or null."""
    if value is None:
        return True
    if kind == "text":
        return isinstance(value, str)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return (whole and -(2**63) <= value < 2**63) or (kind == "float" and isinstance(value, float))


def _is(cell: str, kind: str) -> bool:
    try:
        return (kind == "float" and float(cell) is not None) or -(2**63) <= int(cell) < 2**63
    except ValueError:
        return False
