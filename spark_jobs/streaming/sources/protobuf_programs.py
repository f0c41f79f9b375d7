"""Compiler of Protobuf schemas: to tables that say which fields of the records of a message type are read.

Fields are looked up by name, those of nested records and of repeated fields by path. A field without presence is never
null; it has its default where a record lacks it.
"""

from __future__ import annotations

import errno
import subprocess
import sys
import tempfile
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from springline.spark_jobs.streaming.errors import SchemaUnavailableError
from springline.spark_jobs.streaming.kernels.hash_tables import Ints
from springline.spark_jobs.streaming.sources import protobuf_kernels as kernels
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

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

_MAIN = "schema.proto"  # the file of the schema itself, unless it uses one of that name
_PROTOC_SECONDS = 60.0

# Operation and wire type by the number of a type (`FieldDescriptor.TYPE_…`).
_INTEGERS = {
    3: (kernels.INT64, kernels.VARINT), 4: (kernels.UINT64, kernels.VARINT), 5: (kernels.INT32, kernels.VARINT),
    6: (kernels.FIXED64, kernels.BITS64), 7: (kernels.FIXED32, kernels.BITS32), 13: (kernels.UINT32, kernels.VARINT),
    15: (kernels.SFIXED32, kernels.BITS32), 16: (kernels.SFIXED64, kernels.BITS64),
    17: (kernels.SINT, kernels.VARINT), 18: (kernels.SINT, kernels.VARINT),
}  # fmt: skip
_REALS = {1: (kernels.DOUBLE, kernels.BITS64), 2: (kernels.FLOAT, kernels.BITS32)}
_POWERS = (INT, FLOAT, DECIMAL, TIMESTAMP_NUMBER)  # what integers are read as
_BOOL, _STRING, _GROUP, _RECORD, _BYTES, _ENUM = 8, 9, 10, 11, 12, 14
_WIRES = {_BOOL: kernels.VARINT, _GROUP: kernels.GROUP, _ENUM: kernels.VARINT}  # the others have a length
_TIMESTAMP = "google.protobuf.Timestamp"
_DECIMALS = ("confluent.type.Decimal", "confluent.types.Decimal")
_WRAPPERS = frozenset(
    f"google.protobuf.{each}Value"
    for each in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


@dataclass(frozen=True)
class ProtobufProgram(Program):
    """Tables of message types, as `protobuf_kernels` describes them; an entry is the table of a type."""

    tables: Sequence[Ints]
    targets: Ints
    texts: Bytes  # the names of the values of enums
    symbol_numbers: Ints
    symbol_starts: Ints
    symbol_lengths: Ints

    def read(
        self, data: Bytes, texts_at: int, begins: Ints, ends: Ints, entries: Ints, types: ColumnTypes,
        buffers: RecordBuffers,
    ) -> tuple[int, int]:  # fmt: skip
        symbols = self.symbol_numbers, self.symbol_starts + texts_at, self.symbol_lengths
        arguments = (data, begins, ends, entries, *self.tables, self.targets, *symbols, *types, *buffers)
        result: tuple[int, int] = kernels.read_records(*arguments)
        return result


@dataclass
class _Entry:
    """How a field is read; `key` is its number and its wire type."""

    key: int
    operation: int = kernels.SKIP
    operand: int = 0
    size: int = 0
    column: int = 0
    clears: list[tuple[int, int]] = field(default_factory=list)  # (column, 0) or (-1, table)


@dataclass
class _Table:
    """The entries of a message type at a path, and the columns that have a default, with the symbol of an enum."""

    entries: list[_Entry] = field(default_factory=list)
    defaults: list[tuple[int, int]] = field(default_factory=list)


class ProtobufCompiler(Compiler):
    """Compiles schemas of Protobuf for fields, given with their types.

    `name` is the full name of the message type; empty: the record type of `add` says which, or it is the first one.
    Imports are looked up among the references of a schema, and in `folder`.

    Example:
        >>> compiler = ProtobufCompiler({"n": "int"})
        >>> compiler.add(RegisteredSchema("PROTOBUF", 'syntax = "proto3"; message Row { int64 n = 1; }'))
        0
    """

    def __init__(self, fields: Mapping[str, str], name: str = "", folder: Path | None = None) -> None:
        self._names = list(fields)
        self._types = ColumnTypes.of(list(fields.values()))
        self._name = name
        self._folder = folder
        self._tables: list[_Table] = []
        self._symbols: list[tuple[int, bytes]] = []
        self._targets: list[int] = []

    def add(self, schema: RegisteredSchema, record_type: int = 0) -> int:
        tables, symbols, targets = len(self._tables), len(self._symbols), len(self._targets)
        try:
            return self._add_table(_message_type(schema, self._name, record_type, self._folder), "", 1)[0]
        except Exception:
            del self._tables[tables:], self._symbols[symbols:], self._targets[targets:]
            raise

    def program(self) -> ProtobufProgram:
        entries = [entry for table in self._tables for entry in sorted(table.entries, key=lambda entry: entry.key)]
        clears = [pair for entry in entries for pair in entry.clears]
        defaults = [pair for table in self._tables for pair in table.defaults]
        numbers = np.array([number for number, _ in self._symbols], np.int64)
        lengths = np.array([len(name) for _, name in self._symbols], np.int64)
        columns = (
            _ends(len(table.entries) for table in self._tables),
            *(
                np.array([getattr(entry, name) for entry in entries], np.int64)
                for name in ("key", "operation", "operand", "size", "column")
            ),
            _ends(len(entry.clears) for entry in entries),
            *np.array(clears, np.int64).reshape(-1, 2).T.copy(),
            _ends(len(table.defaults) for table in self._tables),
            *np.array(defaults, np.int64).reshape(-1, 2).T.copy(),
        )
        texts = np.frombuffer(b"".join(name for _, name in self._symbols), np.uint8)
        targets = np.array(self._targets, np.int64)
        return ProtobufProgram(columns, targets, texts, numbers, np.cumsum(lengths) - lengths, lengths)

    def _add_table(self, kind: Descriptor, path: str, level: int) -> tuple[int, list[tuple[int, int]]]:
        """Add the table of a message type at a path; returns its number, and all that it and those below it fill."""
        if level == kernels.MAX_LEVELS:
            raise InvalidSchemaError(f"{path} is more than {kernels.MAX_LEVELS - 1} levels deep")
        number, table = len(self._tables), _Table()
        self._tables.append(table)
        filled: list[tuple[int, int]] = [(-1, number)]
        by_oneof: dict[str, list[tuple[list[_Entry], list[tuple[int, int]]]]] = {}
        for part in kind.fields:
            entries, fills = self._read(part, f"{path}{part.name}", table, level)
            table.entries += entries
            filled += fills
            if part.containing_oneof is not None:
                by_oneof.setdefault(part.containing_oneof.name, []).append((entries or [_Entry(_key(part))], fills))
        for members in by_oneof.values():
            if not any(fills for _, fills in members):
                continue
            for own, _ in members:
                for entry in own:
                    entry.clears += [pair for others, fills in members if others is not own for pair in fills]
                    if entry.operation == kernels.SKIP:
                        table.entries.append(entry)
        return number, filled

    def _read(
        self, part: FieldDescriptor, name: str, table: _Table, level: int
    ) -> tuple[list[_Entry], list[tuple[int, int]]]:
        """Return how a field is read, and which columns and tables that fills; nothing if nobody reads it."""
        if name not in self._names and not any(is_below(each, name) for each in self._names):
            return [], []
        if part.is_repeated:
            return self._read_list(part, name, level)
        entries, fills = self._read_one(part, name, level)
        if not part.has_presence and fills:  # as every message has
            (entry,) = entries
            table.defaults.append((entry.column, entry.operand if entry.operation == kernels.ENUM else -1))
        return entries, fills

    def _read_list(self, part: FieldDescriptor, name: str, level: int) -> tuple[list[_Entry], list[tuple[int, int]]]:
        """Return how the items of a repeated field are read that are fields, or have some."""
        key, packed = _key(part), (part.number << 3) | kernels.LENGTH
        indices = indices_below(name, self._names)
        if name in self._names or not indices:
            column = next(c for c, each in enumerate(self._names) if each == name or is_below(each, name))
            mismatch = [_Entry(key, kernels.MISMATCH, column=column)]
            return [*mismatch, *([_Entry(packed, kernels.MISMATCH, column=column)] if packed != key else [])], []
        items = [-1] * (indices[-1] + 2)
        filled: list[tuple[int, int]] = []
        for index in indices:
            entries, fills = self._read_one(part, f"{name}[{index}]", level)
            items[index] = len(self._tables)
            self._tables.append(_Table(entries))
            filled += fills
        every = [_Entry(key, kernels.LIST, len(self._targets), len(items))]
        self._targets += items
        return [*every, *([_Entry(packed, kernels.PACKED, key)] if packed != key else [])], filled

    def _read_one(self, part: FieldDescriptor, name: str, level: int) -> tuple[list[_Entry], list[tuple[int, int]]]:
        """Return how a value is read, and which columns and tables that fills."""
        is_column = name in self._names
        column = next(
            c for c, each in enumerate(self._names) if each == name or (not is_column and is_below(each, name))
        )
        key = _key(part)
        mismatch = [_Entry(key, kernels.MISMATCH, column=column)]
        if part.type == _RECORD:
            return self._read_record(part, name, column, is_column, level) or (mismatch, [])
        entry = self._scalar(part, key, column) if is_column else None
        return (mismatch, []) if entry is None else ([entry], [(column, 0)])

    def _read_record(
        self, part: FieldDescriptor, name: str, column: int, is_column: bool, level: int
    ) -> tuple[list[_Entry], list[tuple[int, int]]] | None:
        kind, key = part.message_type, _key(part)
        if not is_column:
            number, filled = self._add_table(kind, f"{name}.", level + 1)
            return [_Entry(key, kernels.RECORD, number)], filled
        if kind.full_name == _TIMESTAMP and self._types.kinds[column] in (TIMESTAMP, TIMESTAMP_NUMBER):
            return [_Entry(key, kernels.TIMESTAMP, column=column)], [(column, 0)]
        if kind.full_name in _DECIMALS and self._types.kinds[column] == DECIMAL:
            return [_Entry(key, kernels.DECIMAL, column=column)], [(column, 0)]
        if kind.full_name not in _WRAPPERS:
            return None
        value = kind.fields_by_name["value"]
        entry = self._scalar(value, _key(value), column)
        if entry is None:
            return None
        self._tables.append(_Table([entry], [(column, -1)]))
        number = len(self._tables) - 1
        return [_Entry(key, kernels.RECORD, number)], [(-1, number), (column, 0)]

    def _scalar(self, part: FieldDescriptor, key: int, column: int) -> _Entry | None:
        """Return how a value is read; None if its type does not fit."""
        declared, scale = int(self._types.kinds[column]), int(self._types.scales[column])
        if part.type in _INTEGERS and declared in _POWERS:
            return _Entry(key, _INTEGERS[part.type][0], scale, column=column)
        if part.type in _REALS and declared in (FLOAT, TIMESTAMP_NUMBER):
            return _Entry(key, _REALS[part.type][0], column=column)
        if part.type == _BOOL and declared == BOOLEAN:
            return _Entry(key, kernels.BOOL, column=column)
        if part.type == _BYTES and declared == BYTES:
            return _Entry(key, kernels.BYTES, column=column)
        if part.type == _STRING and declared in (TEXT, DECIMAL, DATE, TIMESTAMP):
            return _Entry(key, kernels.TEXT if declared == TEXT else kernels.PARSED_TEXT, column=column)
        if part.type == _ENUM and declared == TEXT:
            first, symbols = len(self._symbols), _symbols(part.enum_type)
            self._symbols += symbols
            return _Entry(key, kernels.ENUM, first, len(symbols), column=column)
        return None


def _symbols(kind: EnumDescriptor) -> list[tuple[int, bytes]]:
    """Return number and name of each value of an enum; the first name of a number, and the default first."""
    names: dict[int, bytes] = {}
    for value in kind.values:
        names.setdefault(value.number, value.name.encode())
    return list(names.items())


def _key(part: FieldDescriptor) -> int:
    kind = part.type
    wire = (_INTEGERS | _REALS)[kind][1] if kind in _INTEGERS or kind in _REALS else _WIRES.get(kind, kernels.LENGTH)
    return int(part.number << 3 | wire)


def _ends(counts: Iterable[int]) -> Ints:
    return np.concatenate([[0], np.cumsum(list(counts), dtype=np.int64)])


def _message_type(schema: RegisteredSchema, name: str, record_type: int, folder: Path | None) -> Descriptor:
    """Return the message type of a schema with this full name, or else at the path of a record type.

    Imports are also looked up in the folder.
    """
    from google.protobuf.descriptor_pool import DescriptorPool

    main, descriptors = _compiled(schema, folder)
    pool = DescriptorPool()
    try:
        for file in descriptors.file:
            pool.Add(file)
        if name:
            return pool.FindMessageTypeByName(name)
        first, *nested = _path(record_type)
        kind = list(pool.FindFileByName(main).message_types_by_name.values())[first]
        for index in nested:
            kind = list(kind.nested_types_by_name.values())[index]
    except (IndexError, KeyError, TypeError, ValueError) as error:
        what = f"message type {name!r}" if name else "such message type"
        raise InvalidSchemaError(f"it has no {what}") from error
    return kind


def _path(record_type: int) -> list[int]:
    """Return the indices of a message type in a schema; see `protobuf_kernels.read_headers`."""
    if record_type == 0:
        return [0]
    if record_type < 0:
        raise IndexError("the path of a message type is too long, or cut")
    content = record_type.to_bytes(8, "little").rstrip(b"\0")
    numbers, number, shift = [], 0, 0
    for byte in content:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(number >> 1 if not number & 1 else -1)
            number = shift = 0
    count, *indices = numbers
    indices += [0] * (count - len(indices))  # zeros at the end are cut with the others
    if min(indices) < 0:
        raise IndexError("negative")
    return indices


def _compiled(schema: RegisteredSchema, folder: Path | None) -> tuple[str, FileDescriptorSet]:
    """Return what `_protoc` does; once for a schema, unless a file that it imports from the folder has changed."""
    key = schema, folder
    with _LOCK:
        if key not in _DESCRIPTORS or _DESCRIPTORS[key][0] != _changed_at(folder, _DESCRIPTORS[key][2]):
            try:
                main, descriptors = _protoc(schema, folder)
            except OSError as error:  # of this host, not of the schema
                raise SchemaUnavailableError(f"a schema of Protobuf cannot be compiled here: {error}") from error
            if len(_DESCRIPTORS) >= _MAX_DESCRIPTORS:
                _DESCRIPTORS.clear()
            _DESCRIPTORS[key] = _changed_at(folder, descriptors), main, descriptors
        return _DESCRIPTORS[key][1:]


_MAX_DESCRIPTORS = 1_000
_DESCRIPTORS: dict[tuple[RegisteredSchema, Path | None], tuple[list[int], str, FileDescriptorSet]] = {}
_LOCK = threading.Lock()


def _changed_at(folder: Path | None, descriptors: FileDescriptorSet) -> list[int]:
    """Return when the imports that are in the folder were changed."""
    files = [folder / each.name for each in descriptors.file] if folder else []
    return [file.stat().st_mtime_ns for file in files if file.exists()]


def _protoc(schema: RegisteredSchema, folder: Path | None) -> tuple[str, FileDescriptorSet]:
    """Return the name of the schema's file and the descriptors of it and of what it uses, by Protobuf's compiler."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    names = {each.name for each in schema.references}
    main = next(name for name in (_MAIN, *(f"schema-{n}.proto" for n in range(len(names)))) if name not in names)
    with tempfile.TemporaryDirectory(prefix="springline-protobuf-") as work:
        source, out = Path(work, "in"), Path(work, "out")
        for name, text in [(main, schema.text), *schema.references]:
            _write_import(source, name, text)
        folders = [source, *([folder] if folder else []), Path(str(files("grpc_tools"))) / "_proto"]
        command = [sys.executable, "-m", "grpc_tools.protoc", *(f"-I{each}" for each in folders)]
        if builtins := _builtins(schema, names):
            Path(work, "builtins").write_bytes(builtins)
            command.append(f"--descriptor_set_in={work}/builtins")
        command += ["--include_imports", f"--descriptor_set_out={out}", main]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_PROTOC_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise InvalidSchemaError(f"its compilation takes more than {_PROTOC_SECONDS:g} s") from error
        if ended.returncode < 0:
            raise OSError(f"protoc was ended by signal {-ended.returncode}")
        if ended.returncode or not out.exists():
            lines = [line for line in ended.stderr.splitlines() if line.strip() and "warning" not in line.lower()]
            raise InvalidSchemaError(lines[0] if lines else f"protoc ended with {ended.returncode}")
        return main, FileDescriptorSet.FromString(out.read_bytes())


def _builtins(schema: RegisteredSchema, names: Collection[str]) -> bytes:
    """Return the descriptors of Confluent's own imports, which are in no registry; empty if a schema uses none."""
    if not any("confluent/" in text for text in (schema.text, *(each.text for each in schema.references))):
        return b""
    from confluent_kafka.schema_registry.confluent import meta_pb2
    from confluent_kafka.schema_registry.confluent.type import decimal_pb2 as type_pb2
    from confluent_kafka.schema_registry.confluent.types import decimal_pb2 as types_pb2
    from google.protobuf import descriptor_pb2

    builtins = descriptor_pb2.FileDescriptorSet()
    for module in (descriptor_pb2, meta_pb2, type_pb2, types_pb2):
        if module.DESCRIPTOR.name not in names:
            builtins.file.add().ParseFromString(module.DESCRIPTOR.serialized_pb)
    return bytes(builtins.SerializeToString())


def _write_import(folder: Path, name: str, text: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise InvalidSchemaError(f"it uses {name!r}, which is no path of an import")
    try:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    except (FileExistsError, IsADirectoryError, NotADirectoryError, ValueError) as error:
        raise InvalidSchemaError(f"it uses {name!r}, which is no path of an import: {error}") from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InvalidSchemaError(f"it uses {name[:40]!r}…, which is too long") from error
        raise
