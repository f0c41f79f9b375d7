"""Formats with one record a message, in the schema that it was written with: the shared part.

Each message begins with the id of its schema in the schema registry, or all have the schema of a file. A compiler turns
schemas into a program that reads the fields of the records; fields are found by name, those of nested records by path.
So a schema may gain fields, lose them, and change their order. A value whose type does not fit that of the declaration
is a dead letter, as in other formats.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from springline.spark_jobs.streaming.kernels.hash_tables import Ints
from springline.spark_jobs.streaming.runtime.message import MessageBatch, MessageRun
from springline.spark_jobs.streaming.runtime.step import DeadLetter
from springline.spark_jobs.streaming.sources.chunk import Chunk, Column, NumberColumn, Source, TextColumn
from springline.spark_jobs.streaming.sources.errors import InvalidFormatError
from springline.spark_jobs.streaming.sources.field_types import BYTES, FLOAT, TEXT, ColumnTypes
from springline.spark_jobs.streaming.sources.format import Format, FormatOptions
from springline.spark_jobs.streaming.sources.layout import Layout
from springline.spark_jobs.streaming.sources.schema_registry import (
    ID_BYTES,
    RegisteredSchema,
    SchemaRegistry,
    UnknownSchemaError,
    configured_registry,
    schema_ids,
)

_MESSAGES = 4_096  # decoded at once
_UNKNOWN_SECONDS = 10.0  # until the registry is asked again for the id of a schema that it does not have
_MAX_UNREADABLE = 10_000  # schemas that are remembered as such

Bytes = npt.NDArray[np.uint8]


class InvalidSchemaError(Exception):
    """Raised for a schema of another kind, or one that cannot be read."""


class RecordOptions(FormatOptions, frozen=True):
    """Keys of `format_options` of a format of records."""

    schema: Annotated[
        str,
        Meta(description="file of the schema of all messages, if they do not begin with its id in the schema registry"),
    ] = ""


class RecordBuffers(NamedTuple):
    """The arrays that records are read into, with one entry per column and good record.

    Texts have `lengths` bytes at `starts` (a negative length is null); doubles are in `floats`, other numbers in
    `ints`, and null where `valid` is false. `rows` says which records are good. `faults` has (record, code, position)
    of the others; a code of 0 or more is the column whose value is none of its type.
    """

    starts: Ints
    lengths: npt.NDArray[np.int32]
    ints: Ints
    floats: npt.NDArray[np.float64]
    valid: npt.NDArray[np.bool_]
    rows: Ints
    faults: Ints

    @staticmethod
    def of(columns: int, records: int) -> RecordBuffers:
        """Allocate for a number of columns and records."""
        shape = (columns, records)
        return RecordBuffers(
            np.empty(shape, np.int64), np.empty(shape, np.int32), np.empty(shape, np.int64),
            np.empty(shape, np.float64), np.empty(shape, np.bool_), np.empty(records, np.int64),
            np.empty((records, 3), np.int64),
        )  # fmt: skip


class Program(ABC):
    """What reads the records of some schemas. `texts` are bytes that its texts may lie in, after those of messages."""

    texts: Bytes

    @abstractmethod
    def read(
        self, data: Bytes, texts_at: int, begins: Ints, ends: Ints, entries: Ints, types: ColumnTypes,
        buffers: RecordBuffers,
    ) -> tuple[int, int]:  # fmt: skip
        """Read records, each from `begins` to `ends` in `data` by the schema of its entry; below 0, it is left out.

        `types` are those of the columns; `texts` lie at `texts_at` in `data`. Returns the numbers of good and of bad
        records.
        """


class Compiler(ABC):
    """Compiles schemas, one after another, into one program for the fields of a layout, which are columns."""

    @abstractmethod
    def add(self, schema: RegisteredSchema, record_type: int = 0) -> int:
        """Compile a schema; returns its entry in the program. `record_type` is as `RecordFormat.headers` returned it.

        Raises `InvalidSchemaError`; the program is then what it was.
        """

    @abstractmethod
    def program(self) -> Program:
        """Return the program of all schemas so far."""


class RecordFormat(Format):
    """Records of schemas, one a message.

    Attributes:
        kind: what a schema registry calls such schemas.
        reasons: why a record is refused, by the code of its fault; `{0}` is the byte.
    """

    Options = RecordOptions
    kind: ClassVar[str]
    reasons: ClassVar[Mapping[int, str]]

    def __init__(self, layout: Layout, columns: Sequence[str]) -> None:
        super().__init__(layout, columns)
        self._types = ColumnTypes.of([layout.fields[name] for name in columns])
        self._schemas: _FileSchema | _RegisteredSchemas
        if self.options.schema:
            self._schemas = _FileSchema(self)
        else:
            self._schemas = _RegisteredSchemas(self, self._registry())

    @abstractmethod
    def compiler(self) -> Compiler:
        """Return a new compiler for its columns."""

    def headers(self, messages: MessageBatch, ids: Ints) -> tuple[Ints, Ints]:
        """Return which record type of its schema each is of, and where its content begins, after the id and more.

        `ids` are those of the schemas, -1 for none.
        """
        return np.zeros(len(messages), np.int64), messages.starts + ID_BYTES

    def chunks(self, batches: Iterable[MessageBatch], dead: list[DeadLetter]) -> Iterator[Chunk]:
        for batch in batches:
            own = batch.filled()
            for first in range(0, len(own), _MESSAGES):
                yield self._chunk(own[first : first + _MESSAGES], dead)

    def _chunk(self, messages: MessageBatch, dead: list[DeadLetter]) -> Chunk:
        written = self._schemas.of(messages)
        many, data, texts = len(messages), messages.data, written.program.texts
        if texts.size:  # those of a chunk lie together
            data = np.concatenate([data, texts])
        buffers = RecordBuffers.of(len(self.columns), many)
        ends = messages.starts + messages.lengths
        good, bad = written.program.read(
            data, messages.data.size, written.begins, ends, written.entries, self._types, buffers
        )
        reasons = dict(written.refused)
        for index, code, position in buffers.faults[:bad].tolist():
            reasons[index] = self._reason(code, position - int(messages.starts[index]))
        dead.extend(DeadLetter.of(messages[index], reasons[index]) for index in sorted(reasons))
        columns: dict[str, Column] = {}
        for c, (name, kind) in enumerate(zip(self.columns, self._types.kinds.tolist(), strict=True)):
            if kind in (TEXT, BYTES):
                columns[name] = TextColumn(data, buffers.starts[c, :good], buffers.lengths[c, :good])
            else:
                flags = buffers.valid[c, :good]
                numbers = (buffers.floats if kind == FLOAT else buffers.ints)[c, :good]
                columns[name] = NumberColumn(numbers, flags if not flags.all() else flags[:0])
        read = buffers.rows[:good]

        def original(of: Ints) -> bytes:
            return bytes(messages[int(read[of[0]])].value)

        source = Source(MessageRun([messages]), np.searchsorted(read, np.arange(many)), original)
        return Chunk(columns, source, np.arange(good))

    def _reason(self, code: int, position: int) -> str:
        if code >= 0:
            name = self.columns[code]
            return f"{name} is no {self.layout.fields[name]}, at byte {position}"
        return self.reasons[code].format(position)

    def _registry(self) -> SchemaRegistry:
        registry = configured_registry()
        if registry is None:
            raise InvalidFormatError(
                f"{self.layout.format}: set SPRINGLINE_SCHEMA_REGISTRY to the address of the schema registry, or give "
                'the file of the schema as format_options = { schema = "FILE" }'
            )
        return registry


class _Written(NamedTuple):
    """How messages were written: the program that reads them, the entry of each in it (-1: it cannot be read), where
    their content begins, and why some are refused.
    """

    program: Program
    entries: Ints
    begins: Ints
    refused: Mapping[int, str]


class _FileSchema:
    """The schema of all messages, from a file."""

    def __init__(self, row_format: RecordFormat) -> None:
        compiler, file = row_format.compiler(), row_format.options.schema
        try:
            schema = RegisteredSchema(row_format.kind, Path(file).read_text(encoding="utf-8"))
            compiler.add(schema)
        except (OSError, ValueError, InvalidSchemaError) as error:
            where = f"format_options of {row_format.layout.format}: schema = {file!r}"
            raise InvalidFormatError(f"{where}: {error}") from error
        self._program = compiler.program()

    def of(self, messages: MessageBatch) -> _Written:
        """Return how messages were written."""
        return _Written(self._program, np.zeros(len(messages), np.int64), messages.starts, {})


class _RegisteredSchemas:
    """Schemas by their id in a registry: each is compiled once. Usable by several threads."""

    def __init__(self, row_format: RecordFormat, registry: SchemaRegistry) -> None:
        self._kind = row_format.kind
        self._headers = row_format.headers
        self._compiler = row_format.compiler()
        self._registry = registry
        self._program = self._compiler.program()
        self._entries: dict[tuple[int, int], int] = {}  # by id and record type
        self._unreadable: dict[tuple[int, int], tuple[str, float]] = {}  # why, and until when (monotonic)
        self._lock = threading.Lock()

    def of(self, messages: MessageBatch) -> _Written:
        """Return how messages were written; raises `SchemaUnavailableError`."""
        ids = schema_ids(messages)
        types, begins = self._headers(messages, ids)
        with self._lock:
            if ids.size and (ids == ids[0]).all() and (types == types[0]).all():
                groups: Iterable[tuple[Any, int, int]] = [(slice(None), int(ids[0]), int(types[0]))]
            else:
                groups = _groups(ids, types)
            entries = np.full(len(messages), -1, np.int64)
            refused: dict[int, str] = {}
            for which, schema_id, record_type in groups:
                entries[which], reason = self._compiled(schema_id, record_type)
                if reason:
                    refused |= dict.fromkeys(np.arange(len(messages))[which].tolist(), reason)
            return _Written(self._program, entries, begins, refused)

    def _compiled(self, schema_id: int, record_type: int) -> tuple[int, str]:
        """Return the entry of a schema in the program, or -1 and why there is none."""
        if schema_id < 0:
            return -1, "it does not begin with the id of a schema: a zero and four bytes"
        key = schema_id, record_type
        if key in self._entries:
            return self._entries[key], ""
        reason, until = self._unreadable.get(key, ("", 0.0))
        if time.monotonic() < until:
            return -1, reason
        until = float("inf")
        try:
            schema = self._registry.schema(schema_id)
            if schema.kind != self._kind:
                raise InvalidSchemaError(f"it is {schema.kind}, not {self._kind}")
            self._entries[key] = self._compiler.add(schema, record_type)
            self._program = self._compiler.program()
            return self._entries[key], ""
        except UnknownSchemaError as error:
            reason, until = str(error), time.monotonic() + _UNKNOWN_SECONDS
        except InvalidSchemaError as error:
            reason = str(error)
        if len(self._unreadable) >= _MAX_UNREADABLE:
            self._unreadable.clear()
        self._unreadable[key] = f"schema {schema_id}: {reason}", until
        return -1, self._unreadable[key][0]


def _groups(ids: Ints, types: Ints) -> Iterator[tuple[Ints, int, int]]:
    """Yield the places of each pair of id and record type, with that pair."""
    order = np.lexsort((types, ids))
    starts = np.flatnonzero(np.diff(ids[order], prepend=-2) | np.diff(types[order], prepend=-2))
    for which in np.split(order, starts[1:]):
        if which.size:
            yield which, int(ids[which[0]]), int(types[which[0]])
