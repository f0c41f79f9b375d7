"""Compiler of Avro schemas: to a program that reads some fields of the records that were written in them.

Fields are looked up by name, those of nested records and the items of arrays by path. A union is read by the branch
that is there; null is NULL.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from springline.spark_jobs.streaming.kernels.hash_tables import Ints
from springline.spark_jobs.streaming.sources import avro_kernels as kernels
from springline.spark_jobs.streaming.sources.field_types import (
    BOOLEAN,
    BYTES,
    DATE,
    DECIMAL,
    FLOAT,
    INT,
    TEXT,
    TIMESTAMP,
    TIMESTAMP_NUMBER,
    ColumnTypes,
)
from springline.spark_jobs.streaming.sources.layout import indices_below, is_below
from springline.spark_jobs.streaming.sources.record_format import (
    Bytes,
    Compiler,
    InvalidSchemaError,
    Program,
    RecordBuffers,
)
from springline.spark_jobs.streaming.sources.schema_registry import RegisteredSchema

_SCALES = {
    f"{kind}-{unit}": scale
    for kind in ("timestamp", "local-timestamp")
    for unit, scale in (("millis", 3), ("micros", 0), ("nanos", -3))
}  # powers of ten to microseconds
_MAX_OPERATIONS = 100_000  # records that contain others twice, and so on, take more than any schema has
_MAX_DEPTH = 64  # of records, unions and lists in a schema


@dataclass(frozen=True)
class AvroProgram(Program):
    """Operations of schemas, as `avro_kernels` describes them; an entry is the first operation of a schema."""

    operations: Ints
    operands: Ints
    columns: Ints
    sizes: Ints
    targets: Ints
    texts: Bytes  # the symbols of enums
    symbol_starts: Ints
    symbol_lengths: Ints

    def read(
        self, data: Bytes, texts_at: int, begins: Ints, ends: Ints, entries: Ints, types: ColumnTypes,
        buffers: RecordBuffers,
    ) -> tuple[int, int]:  # fmt: skip
        result: tuple[int, int] = kernels.read_records(
            data, begins, ends, entries, self.operations, self.operands, self.columns, self.sizes, self.targets,
            self.symbol_starts + texts_at, self.symbol_lengths, *types, *buffers,
        )  # fmt: skip
        return result


class AvroCompiler(Compiler):
    """Compiles schemas of Avro for fields, given with their types.

    Example:
        >>> schema = '{"type": "record", "name": "Row", "fields": [{"name": "n", "type": "long"}]}'
        >>> compiler = AvroCompiler({"n": "int"})
        >>> entry = compiler.add(RegisteredSchema("AVRO", schema))
        >>> compiler.program().operations[entry:].tolist() == [kernels.NUMBER, kernels.END]
        True
    """

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._names = list(fields)
        self._types = ColumnTypes.of(list(fields.values()))
        self._lines: list[list[int]] = []  # operation, operand, column, size
        self._targets: list[int] = []
        self._symbols: list[bytes] = []
        self._named: dict[str, Any] = {}  # definition and namespace of the types of a schema, by full name
        self._limit = 0
        self._entries: dict[str, int] = {}  # where the records begin that are being skipped
        self._calls: set[str] = set()  # those of them that contain themselves

    def add(self, schema: RegisteredSchema, record_type: int = 0) -> int:
        lines, targets, symbols = len(self._lines), len(self._targets), len(self._symbols)
        self._named, self._limit = {}, lines + _MAX_OPERATIONS
        self._entries.clear()
        self._calls.clear()
        try:
            for reference in schema.references:
                self._declare(_parse(reference.text), "", 0)
            self._read_record(_parse(schema.text), 0, "")
            self._write(kernels.END)
        except Exception as error:
            del self._lines[lines:], self._targets[targets:], self._symbols[symbols:]
            if isinstance(error, (AttributeError, KeyError, OverflowError, TypeError, ValueError)):  # a part is missing
                raise InvalidSchemaError(f"no schema of Avro: {type(error).__name__}: {error}") from error
            raise
        return lines

    def program(self) -> AvroProgram:
        operations, operands, columns, sizes = np.array(self._lines, np.int64).reshape(-1, 4).T.copy()
        lengths = np.array([len(symbol) for symbol in self._symbols], np.int64)
        return AvroProgram(
            operations, operands, columns, sizes, np.array(self._targets, np.int64),
            np.frombuffer(b"".join(self._symbols), np.uint8), np.cumsum(lengths) - lengths, lengths,
        )  # fmt: skip

    def _write(self, operation: int, operand: int = 0, column: int = 0, size: int = 0) -> int:
        if len(self._lines) == self._limit:
            raise InvalidSchemaError(f"it has more than {_MAX_OPERATIONS:,} values in a record")
        self._lines.append([operation, operand, column, size])
        return len(self._lines) - 1

    # ---- types

    def _resolve(self, schema: Any, space: str, depth: int) -> tuple[str, Any, str]:
        """Return the name of a type, its definition and the namespace in it; a union is named `union`."""
        if depth > _MAX_DEPTH:
            raise InvalidSchemaError(f"it has more than {_MAX_DEPTH} levels")
        if isinstance(schema, list):
            return "union", schema, space
        if isinstance(schema, str):
            for name in (schema,) if "." in schema else (f"{space}.{schema}", schema):
                if name in self._named:
                    definition, space = self._named[name]
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
            self._named[full_name] = ({**schema, "type": "record" if kind == "error" else kind}, space)
            return self._named[full_name][0]["type"], schema, space
        if kind in ("array", "map"):
            return kind, schema, space
        if isinstance(kind, str) and kind in _PRIMITIVES:
            return kind, schema, space
        return self._resolve(kind, space, depth + 1)

    def _declare(self, schema: Any, space: str, depth: int) -> None:
        """Register the types that a schema defines, for those that use it."""
        if isinstance(schema, str):  # a name
            return
        kind, definition, space = self._resolve(schema, space, depth)
        parts = definition if kind == "union" else ()
        if kind == "record":
            parts = [part["type"] for part in _parts_of(definition)]
        elif kind in ("array", "map"):
            parts = [definition["items" if kind == "array" else "values"]]
        for part in parts:
            self._declare(part, space, depth + 1)

    # ---- what is read of it

    def _read_record(self, schema: Any, depth: int, space: str) -> None:
        """Write what reads a whole record; the type must be a record, or a union with records."""
        kind, definition, space = self._resolve(schema, space, depth)
        if kind == "union":
            self._branches(definition, lambda branch: self._read_record(branch, depth + 1, space))
        elif kind == "record":
            for part in _parts_of(definition):
                self._read(part["type"], part["name"], depth + 1, space)
        elif kind != "null":
            raise InvalidSchemaError(f"it is {kind!r}, no record")

    def _read(self, schema: Any, name: str, depth: int, space: str) -> None:
        """Write what reads a value at a path: of a field, or with fields below it."""
        if name in self._names:
            self._read_value(schema, name, depth, space)
        elif any(is_below(each, name) for each in self._names):
            self._read_nested(schema, name, depth, space)
        else:
            self._skip(schema, depth, space)

    def _read_nested(self, schema: Any, name: str, depth: int, space: str) -> None:
        kind, definition, space = self._resolve(schema, space, depth)
        if kind == "union":
            self._branches(definition, lambda branch: self._read_nested(branch, name, depth + 1, space))
        elif kind == "record" and any(each.startswith(f"{name}.") for each in self._names):
            for part in _parts_of(definition):
                self._read(part["type"], f"{name}.{part['name']}", depth + 1, space)
        elif kind == "array" and (indices := indices_below(name, self._names)):
            self._read_list(definition["items"], name, indices, depth, space)
        elif kind != "null":
            column = next(c for c, each in enumerate(self._names) if is_below(each, name))
            self._write(kernels.MISMATCH, column=column)

    def _read_value(self, schema: Any, name: str, depth: int, space: str) -> None:
        kind, definition, space = self._resolve(schema, space, depth)
        column = self._names.index(name)
        declared, scale = int(self._types.kinds[column]), int(self._types.scales[column])
        logical = definition.get("logicalType") if isinstance(definition, dict) else None
        is_decimal = logical == "decimal" and kind in ("bytes", "fixed")
        if kind == "union":
            self._branches(definition, lambda branch: self._read_value(branch, name, depth + 1, space))
        elif kind in ("int", "long") and (power := _power(declared, scale, logical)) is not None:
            self._write(kernels.NUMBER, power, column)
        elif kind in ("float", "double") and declared in (FLOAT, TIMESTAMP_NUMBER):
            self._write(kernels.REAL, 4 if kind == "float" else 8, column)
        elif kind == "boolean" and declared == BOOLEAN:
            self._write(kernels.BOOLEAN, column=column)
        elif kind == "string" and declared in (TEXT, DATE, TIMESTAMP, DECIMAL):
            self._write(kernels.TEXT if declared == TEXT else kernels.PARSED_TEXT, column=column)
        elif is_decimal and declared == DECIMAL:
            power = scale - int(definition.get("scale", 0))
            self._write(kernels.DECIMAL, power, column, _size_of(kind, definition) if kind == "fixed" else -1)
        elif kind == "bytes" and declared == BYTES:
            self._write(kernels.BYTES, column=column)
        elif kind == "fixed" and declared == BYTES:
            self._write(kernels.FIXED, _size_of(kind, definition), column)
        elif kind == "enum" and declared == TEXT:
            symbols = [str(symbol).encode() for symbol in definition.get("symbols", ())]
            self._write(kernels.ENUM, len(self._symbols), column, len(symbols))
            self._symbols += symbols
        elif kind != "null":
            self._write(kernels.MISMATCH, column=column)

    def _read_list(self, items: Any, name: str, indices: Sequence[int], depth: int, space: str) -> None:
        """Write what reads some items of an array, and skips the others."""
        self._write(kernels.LIST)
        at = self._write(kernels.BLOCKS, size=1)
        choice, first = self._write(kernels.ITEM, len(self._targets), size=indices[-1] + 2), len(self._targets)
        self._targets += [len(self._lines)] * (indices[-1] + 2)  # to what skips
        self._skip(items, depth + 1, space)
        if len(self._lines) == choice + 1:
            raise InvalidSchemaError(_NO_BYTES)
        ends = [self._write(kernels.JUMP)]
        for index in indices:
            self._targets[first + index] = len(self._lines)
            self._read(items, f"{name}[{index}]", depth + 1, space)
            ends.append(self._write(kernels.JUMP))
        for end in ends:
            self._lines[end][1] = len(self._lines)
        self._write(kernels.ITEM_END, at)
        self._lines[at][1] = len(self._lines)

    def _branches(self, union: Sequence[Any], write: Callable[[Any], None]) -> None:
        at, first = self._write(kernels.UNION, len(self._targets), size=len(union)), len(self._targets)
        self._targets += [0] * len(union)
        ends = []
        for number, branch in enumerate(union):
            self._targets[first + number] = len(self._lines)
            write(branch)
            ends.append(self._write(kernels.JUMP))
        assert self._lines[at][1] == first
        for end in ends:
            self._lines[end][1] = len(self._lines)

    # ---- what is skipped

    def _skip(self, schema: Any, depth: int, space: str) -> None:
        kind, definition, space = self._resolve(schema, space, depth)
        if kind == "union":
            self._branches(definition, lambda branch: self._skip(branch, depth + 1, space))
        elif kind == "record":
            self._skip_record(definition, depth, space)
        elif kind in ("array", "map"):
            self._skip_blocks(definition, kind, depth, space)
        elif kind in ("int", "long", "enum"):
            self._write(kernels.SKIP_VARINT)
        elif kind in ("string", "bytes"):
            self._write(kernels.SKIP_TEXT)
        elif size := _size_of(kind, definition):
            self._write(kernels.SKIP, size)

    def _skip_record(self, definition: Any, depth: int, space: str) -> None:
        """Write what skips a record; if it contains itself, as operations that are called."""
        name = str(definition.get("name", ""))
        name = name if "." in name or not space else f"{space}.{name}"
        if name in self._entries:
            self._calls.add(name)
            self._write(kernels.CALL, self._entries[name])
            return
        lines, targets = len(self._lines), len(self._targets)
        self._entries[name] = lines + 2
        for part in _parts_of(definition):
            self._skip(part["type"], depth + 1, space)
        if name in self._calls:
            del self._lines[lines:], self._targets[targets:]
            self._write(kernels.CALL, lines + 2)
            over = self._write(kernels.JUMP)
            for part in _parts_of(definition):
                self._skip(part["type"], depth + 1, space)
            self._write(kernels.RETURN)
            self._lines[over][1] = len(self._lines)
            self._calls.remove(name)
        del self._entries[name]

    def _skip_blocks(self, definition: Any, kind: str, depth: int, space: str) -> None:
        at = self._write(kernels.BLOCKS)
        if kind == "map":
            self._write(kernels.SKIP_TEXT)
        self._skip(definition["items" if kind == "array" else "values"], depth + 1, space)
        if len(self._lines) == at + 1:  # without bytes, their number does not bound how long it takes to skip them
            raise InvalidSchemaError(_NO_BYTES)
        self._write(kernels.ITEM_END, at)
        self._lines[at][1] = len(self._lines)


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidSchemaError(f"not JSON: {error}") from error


def _power(declared: int, scale: int, logical: Any) -> int | None:
    """Return the power of ten from an integer in a record to the number in a column; None if it does not fit."""
    if declared in (INT, FLOAT):
        return 0
    if declared == DATE:
        return 0 if logical == "date" else None
    if declared in (TIMESTAMP, TIMESTAMP_NUMBER) and logical in _SCALES:
        return _SCALES[logical]
    return scale if declared in (DECIMAL, TIMESTAMP_NUMBER) else None


_NO_BYTES = "it has lists of items without any bytes"
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
