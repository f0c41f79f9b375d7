"""Avro: one record a message, in the schema that it was written with.

With a schema registry each message begins with a zero and the id of that schema (Confluent's wire format). Fields are
found by name, those of nested records by path: so a schema may gain fields, lose them, and change their order. A union
is read by the branch that is there; null is NULL. A value whose type does not fit that of the declaration is a dead
letter, as in other formats.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from springline.spark_jobs.streaming.kernels.hash_tables import Ints
from springline.spark_jobs.streaming.runtime.message import MessageBatch, MessageRun
from springline.spark_jobs.streaming.runtime.step import DeadLetter
from springline.spark_jobs.streaming.sources import avro_kernels as kernels
from springline.spark_jobs.streaming.sources.chunk import Chunk, Column, NumberColumn, Source, TextColumn
from springline.spark_jobs.streaming.sources.errors import InvalidFormatError
from springline.spark_jobs.streaming.sources.format import Format, FormatOptions
from springline.spark_jobs.streaming.sources.layout import Layout

_MESSAGES = 4_096  # decoded at once
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_TIMES = {"timestamp-millis": 1_000, "timestamp-micros": 1_000_000, "timestamp-nanos": 1_000_000_000}
_MAX_OPERATIONS = 100_000  # records that contain others twice, and so on, take more than any schema has
_MAX_DEPTH = 64  # of records, unions and lists in a schema

_REASONS = {
    kernels.ENDS: "the record ends inside a value, at byte {0}",
    kernels.GOES_ON: "the record has ended at byte {0}, and more bytes follow",
    kernels.LONG_NUMBER: "no number at byte {0}",
    kernels.OUT_OF_RANGE: "the schema has no such branch or symbol, at byte {0}",
    kernels.NO_UTF8: "not UTF-8, at byte {0}",
}


class InvalidSchemaError(Exception):
    """Raised for a schema that is no Avro, or that cannot be read."""


class AvroOptions(FormatOptions, frozen=True):
    """Keys of `format_options` of Avro."""

    schema: Annotated[
        str, Meta(description="file of the schema of all messages, if they do not begin with the id of a schema")
    ] = ""


class Avro(Format):
    """Records in Avro's binary encoding, one a message."""

    Options = AvroOptions

    def __init__(self, layout: Layout, columns: Sequence[str]) -> None:
        super().__init__(layout, columns)
        if not self.options.schema:
            raise InvalidFormatError("format_options of avro: give `schema`, the file of the schema")
        try:
            text = Path(self.options.schema).read_text(encoding="utf-8")
            fields = tuple((name, layout.fields[name]) for name in self.columns)
            self._program = compile_schema(text, fields, layout.time, layout.unit)
        except (OSError, UnicodeDecodeError, InvalidSchemaError) as error:
            raise InvalidFormatError(f"format_options of avro: schema = {self.options.schema!r}: {error}") from error

    def chunks(self, batches: Iterable[MessageBatch], dead: list[DeadLetter]) -> Iterator[Chunk]:
        for batch in batches:
            own = batch.filled()
            for first in range(0, len(own), _MESSAGES):
                yield self._chunk(own[first : first + _MESSAGES], dead)

    def _chunk(self, messages: MessageBatch, dead: list[DeadLetter]) -> Chunk:
        program, many, width = self._program, len(messages), len(self.columns)
        data = messages.data
        symbol_starts = program.symbol_starts
        if program.symbols.size:  # texts of a chunk lie together
            data, symbol_starts = np.concatenate([data, program.symbols]), symbol_starts + data.size
        starts, lengths = np.empty((width, many), np.int64), np.empty((width, many), np.int32)
        ints, floats = np.empty((width, many), np.int64), np.empty((width, many), np.float64)
        valid, rows, faults = np.empty((width, many), np.bool_), np.empty(many, np.int64), np.empty((many, 3), np.int64)
        good, bad = kernels.read_records(
            data, messages.starts, messages.starts + messages.lengths, np.zeros(many, np.int64), program.operations,
            program.operands, program.columns, program.sizes, program.targets, symbol_starts, program.symbol_lengths,
            starts, lengths, ints, floats, valid, rows, faults,
        )  # fmt: skip
        for index, code, position in faults[:bad].tolist():
            message = messages[index]
            dead.append(DeadLetter.of(message, self._reason(code, position - int(messages.starts[index]))))
        columns: dict[str, Column] = {}
        for c, name in enumerate(self.columns):
            kind = self.layout.fields[name]
            if kind == "text":
                columns[name] = TextColumn(data, starts[c, :good], lengths[c, :good])
            else:
                flags = valid[c, :good]
                numbers = (ints if kind == "int" else floats)[c, :good]
                columns[name] = NumberColumn(numbers, flags if not flags.all() else flags[:0])
        read = rows[:good]

        def original(of: Ints) -> bytes:
            return bytes(messages[int(read[of[0]])].value)

        source = Source(MessageRun([messages]), np.searchsorted(read, np.arange(many)), original)
        return Chunk(columns, source, np.arange(good))

    def _reason(self, code: int, position: int) -> str:
        if code >= 0:
            name = self.columns[code]
            return f"{name} is no {self.layout.fields[name]}, at byte {position}"
        return _REASONS[code].format(position)


@dataclass(frozen=True)
class Program:
    """What reads records of a schema; `kernels` describes the operations."""

    operations: Ints
    operands: Ints
    columns: Ints
    sizes: Ints
    targets: Ints
    symbols: Any
    symbol_starts: Ints
    symbol_lengths: Ints


@cache
def compile_schema(text: str, fields: tuple[tuple[str, str], ...], time: str = "", unit: str = "s") -> Program:
    """Return the program that reads fields, given with their types, from records of a schema; `time` is in `unit`.

    Raises `InvalidSchemaError`.
    """
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidSchemaError(f"not JSON: {error}") from error
    compiler = _Compiler(dict(fields), [name for name, _ in fields], time, unit)
    try:
        compiler.read_object(schema, "", 0)
        return compiler.program()
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:  # a part of it is missing
        raise InvalidSchemaError(f"no schema of Avro: {type(error).__name__}: {error}") from error


@dataclass
class _Compiler:
    """Writes the operations of a program; `names` are the fields by column."""

    kinds: Mapping[str, str]
    names: Sequence[str]
    time: str
    unit: str
    lines: list[list[int]] = field(default_factory=list)  # operation, operand, column, size
    targets: list[int] = field(default_factory=list)
    symbols: list[bytes] = field(default_factory=list)
    named: dict[str, Any] = field(default_factory=dict)  # types by full name, and those of which a definition is open

    def program(self) -> Program:
        """Return the program that was written."""
        self._write(kernels.END)
        operations, operands, columns, sizes = np.array(self.lines, np.int64).T.copy()
        lengths = np.array([len(symbol) for symbol in self.symbols], np.int64)
        return Program(
            operations, operands, columns, sizes, np.array(self.targets, np.int64),
            np.frombuffer(b"".join(self.symbols), np.uint8), np.cumsum(lengths) - lengths, lengths,
        )  # fmt: skip

    def _write(self, operation: int, operand: int = 0, column: int = 0, size: int = 0) -> int:
        if len(self.lines) == _MAX_OPERATIONS:
            raise InvalidSchemaError(f"it has more than {_MAX_OPERATIONS:,} values in a record")
        self.lines.append([operation, operand, column, size])
        return len(self.lines) - 1

    # ---- types

    def _resolve(self, schema: Any, space: str, depth: int) -> tuple[str, Any, str]:
        """Return the name of a type, its definition and the namespace in it; a union is named `union`."""
        if depth > _MAX_DEPTH:
            raise InvalidSchemaError(f"it has more than {_MAX_DEPTH} levels, or contains itself")
        if isinstance(schema, list):
            return "union", schema, space
        if isinstance(schema, str):
            for name in (schema, f"{space}.{schema}"):
                if name in self.named:
                    definition, space = self.named[name]
                    return definition["type"], definition, space
            if schema in _PRIMITIVES:
                return schema, {"type": schema}, space
            raise InvalidSchemaError(f"there is no type {schema!r}")
        if not isinstance(schema, dict) or "type" not in schema:
            raise InvalidSchemaError(f"{json.dumps(schema)[:60]} is no type")
        kind = schema["type"]
        if kind in ("record", "error", "enum", "fixed"):
            full_name = str(schema.get("name", ""))
            if "." not in full_name and (inner := schema.get("namespace", space)):
                full_name = f"{inner}.{full_name}"
            space = full_name.rpartition(".")[0]
            self.named[full_name] = ({**schema, "type": "record" if kind == "error" else kind}, space)
            return self.named[full_name][0]["type"], schema, space
        if kind in ("array", "map"):
            return kind, schema, space
        if isinstance(kind, str) and kind in _PRIMITIVES:
            return kind, schema, space
        return self._resolve(kind, space, depth + 1)

    # ---- what is wanted of it

    def read_object(self, schema: Any, path: str, depth: int, space: str = "") -> None:
        """Write what reads the fields below a path; the type must be a record, or a union with records."""
        kind, definition, space = self._resolve(schema, space, depth)
        if kind == "union":
            self._branches(definition, lambda branch: self.read_object(branch, path, depth + 1, space))
        elif kind == "record":
            for part in _parts_of(definition):
                name = f"{path}{part['name']}"
                if name in self.kinds:
                    self._read_value(part["type"], name, depth + 1, space)
                elif any(path_below.startswith(f"{name}.") for path_below in self.names):
                    self.read_object(part["type"], f"{name}.", depth + 1, space)
                else:
                    self._skip(part["type"], depth + 1, space)
        elif kind != "null":
            if not path:
                raise InvalidSchemaError(f"it is {kind!r}, no record")
            self._write(kernels.MISMATCH, column=next(c for c, name in enumerate(self.names) if name.startswith(path)))

    def _read_value(self, schema: Any, name: str, depth: int, space: str) -> None:
        kind, definition, space = self._resolve(schema, space, depth)
        column, declared = self.names.index(name), self.kinds[name]
        if kind == "union":
            self._branches(definition, lambda branch: self._read_value(branch, name, depth + 1, space))
        elif kind in ("int", "long") and declared != "text":
            self._read_integer(definition, name, column)
        elif kind in ("float", "double") and declared == "float":
            self._write(kernels.FLOAT if kind == "float" else kernels.DOUBLE, column=column)
        elif kind == "string" and declared == "text":
            self._write(kernels.TEXT, column=column)
        elif kind == "enum" and declared == "text":
            symbols = [str(symbol).encode() for symbol in definition.get("symbols", ())]
            self._write(kernels.ENUM, len(self.symbols), column, len(symbols))
            self.symbols += symbols
        elif kind != "null":
            self._write(kernels.MISMATCH, column=column)

    def _read_integer(self, definition: Any, name: str, column: int) -> None:
        per_second = _TIMES.get(definition.get("logicalType", ""))
        if self.kinds[name] == "float":
            self._write(kernels.INT_TO_FLOAT, column=column)
        elif per_second and name == self.time and self.unit in _PER_SECOND and _PER_SECOND[self.unit] != per_second:
            own = _PER_SECOND[self.unit]
            factor = own // per_second if own > per_second else -(per_second // own)
            self._write(kernels.SCALED_INT, factor, column)
        else:
            self._write(kernels.INT, column=column)

    def _branches(self, union: Sequence[Any], write: Any) -> None:
        at, first = self._write(kernels.UNION, len(self.targets), size=len(union)), len(self.targets)
        self.targets += [0] * len(union)
        ends = []
        for number, branch in enumerate(union):
            self.targets[first + number] = len(self.lines)
            write(branch)
            ends.append(self._write(kernels.JUMP))
        assert self.lines[at][1] == first
        for end in ends:
            self.lines[end][1] = len(self.lines)

    # ---- what is not wanted

    def _skip(self, schema: Any, depth: int, space: str) -> None:
        kind, definition, space = self._resolve(schema, space, depth)
        if kind == "union":
            self._branches(definition, lambda branch: self._skip(branch, depth + 1, space))
        elif kind == "record":
            for part in _parts_of(definition):
                self._skip(part["type"], depth + 1, space)
        elif kind in ("array", "map"):
            self._skip_blocks(definition, kind, depth, space)
        elif kind in ("int", "long", "enum"):
            self._write(kernels.SKIP_VARINT)
        elif kind in ("string", "bytes"):
            self._write(kernels.SKIP_TEXT)
        elif size := _size_of(kind, definition):
            self._write(kernels.SKIP, size)

    def _skip_blocks(self, definition: Any, kind: str, depth: int, space: str) -> None:
        at = self._write(kernels.BLOCKS)
        if kind == "map":
            self._write(kernels.SKIP_TEXT)
        self._skip(definition["items" if kind == "array" else "values"], depth + 1, space)
        if len(self.lines) == at + 1:  # without bytes, their number does not bound how long it takes to skip them
            raise InvalidSchemaError("it has lists of items without any bytes")
        self._write(kernels.ITEM_END, at)
        self.lines[at][1] = len(self.lines)


_SIZES = {"boolean": 1, "float": 4, "double": 8}
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


def _size_of(kind: str, definition: Any) -> int:
    """Return the bytes of a type whose values all have the same number of them."""
    if kind != "fixed":
        return _SIZES.get(kind, 0)
    size: Any = definition["size"]
    if not isinstance(size, int) or not 0 <= size < 1 << 31:
        raise InvalidSchemaError(f"the size of the type {definition.get('name')!r} is {size!r}")
    return size


def _parts_of(definition: Any) -> Sequence[Any]:
    parts = definition.get("fields")
    if not isinstance(parts, list) or not all(
        isinstance(each, dict) and {"name", "type"} <= each.keys() for each in parts
    ):
        raise InvalidSchemaError(f"the record {definition.get('name')!r} has no fields")
    return parts
