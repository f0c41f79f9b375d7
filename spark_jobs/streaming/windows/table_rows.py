"""Arrow IPC streams and JSON lines to chunks of rows.

Of an Arrow message the wanted columns must be there, of a type that fits; others may come and go. In JSON a field that
is missing is null.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from spark_jobs.streaming.unitlog.step import DeadLetter, Message
from spark_jobs.streaming.windows.rows import Chunk, Column, Indexed, Numbers, Source, Texts
from spark_jobs.streaming.windows.stream import Stream
from spark_jobs.streaming.windows.tables import Ints

CHUNK_ROWS = 65_536
CHUNK_BYTES = 1 << 20
_TYPES = {"int": pa.int64(), "float": pa.float64(), "text": pa.string()}


def arrow_chunks(
    stream: Stream, wanted: Sequence[str], messages: Iterable[Message], dead: list[DeadLetter]
) -> Iterator[Chunk]:
    """The rows of Arrow IPC streams, some messages of one schema at a time."""
    held: list[tuple[Message, pa.Table]] = []
    rows = 0
    for message in messages:
        try:
            table = pa.ipc.open_stream(pa.py_buffer(message.value)).read_all()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            dead.append(DeadLetter(message.offset, bytes(message.value), f"not an Arrow stream: {error}"))
            continue
        if held and (rows >= CHUNK_ROWS or not table.schema.equals(held[0][1].schema)):
            yield from _joined(stream, wanted, held, dead)
            held, rows = [], 0
        held.append((message, table))
        rows += table.num_rows
    if held:
        yield from _joined(stream, wanted, held, dead)


def json_chunks(
    stream: Stream, wanted: Sequence[str], messages: Iterable[Message], dead: list[DeadLetter]
) -> Iterator[Chunk]:
    """The rows of JSON lines, one object a line, one or many lines a message."""
    held: list[Message] = []
    size = 0
    for message in messages:
        held.append(message)
        size += len(message.value)
        if size >= CHUNK_BYTES:
            yield _json(stream, wanted, held, dead)
            held, size = [], 0
    if held:
        yield _json(stream, wanted, held, dead)


class _Misfit(Exception):
    """A message whose columns are not what was declared."""


def _wanted(stream: Stream, wanted: Sequence[str], table: pa.Table) -> pa.Table:
    columns = []
    for name in wanted:
        if table.schema.get_field_index(name) < 0:
            raise _Misfit(f"column {name} is missing, or there twice; there are {', '.join(table.column_names)}")
        columns.append(_fitted(stream, name, table.column(name)))
    return pa.table(columns, names=list(wanted))


def _fitted(stream: Stream, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """As int64, double, string or a dictionary of strings; a timestamp as the stream's unit."""
    given, kind = column.type, stream.types[name]
    if pa.types.is_timestamp(given) and name == stream.time and kind != "text":
        column = column.cast(pa.timestamp("us", tz=given.tz), safe=False).cast(pa.int64())
        per = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 0.001}[stream.unit]
        return pc.divide(column.cast(pa.float64()), per) if kind == "float" else _whole(column, stream.unit)
    texts = pa.types.is_string(given) or pa.types.is_large_string(given) or given == pa.string_view()
    if kind == "text" and pa.types.is_dictionary(given):
        return column.cast(pa.dictionary(pa.int32(), pa.string())).unify_dictionaries()
    if kind == "text" and texts:
        return column.cast(pa.string())
    numbers = pa.types.is_integer(given) or (kind == "float" and pa.types.is_floating(given))
    if kind != "text" and numbers:
        return column.cast(_TYPES[kind])
    raise _Misfit(f"column {name} is {given}, and {kind} was declared")


def _whole(micros: pa.ChunkedArray, unit: str) -> pa.ChunkedArray:
    if unit == "ns":
        return pc.multiply(micros, 1000)
    return pc.divide(micros, {"s": 1_000_000, "ms": 1_000, "us": 1}[unit])


def _joined(
    stream: Stream, wanted: Sequence[str], held: list[tuple[Message, pa.Table]], dead: list[DeadLetter]
) -> Iterator[Chunk]:
    """One chunk of messages of one schema; each by itself where they do not fit, to find out which."""
    wholes = [table for _, table in held]
    try:
        table = _wanted(stream, wanted, pa.concat_tables(wholes))
    except (_Misfit, pa.ArrowInvalid) as error:
        if len(held) > 1:
            for one in held:
                yield from _joined(stream, wanted, [one], dead)
        else:
            dead.append(DeadLetter(held[0][0].offset, bytes(held[0][0].value), str(error)))
        return
    firsts = np.concatenate([[0], np.cumsum([whole.num_rows for whole in wholes])[:-1]]).astype(np.int64)

    def original(rows: Ints) -> bytes:
        which = int(np.searchsorted(firsts, rows[0], side="right")) - 1
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, wholes[which].schema) as writer:
            writer.write_table(wholes[which].take(pa.array(rows - firsts[which])))
        return bytes(sink.getvalue())

    source = Source([message for message, _ in held], firsts, original)
    yield _chunk(table, source, np.arange(table.num_rows))


def _chunk(table: pa.Table, source: Source, kept: Ints) -> Chunk:
    columns = {name: column_of(table.column(name)) for name in table.column_names}
    return Chunk(np.zeros(table.num_rows, np.int64), columns, source, kept)


def column_of(given: pa.ChunkedArray | pa.Array) -> Column:
    """The values of an Arrow array, without a copy where that can be."""
    array = given.combine_chunks() if isinstance(given, pa.ChunkedArray) else given
    if isinstance(array, pa.ChunkedArray):  # of no chunk at all
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_dictionary(array.type):
        indices = pc.fill_null(array.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        texts = column_of(array.dictionary)
        assert isinstance(texts, Texts)
        return Indexed(texts, indices)
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else np.empty(0, np.bool_)
    if pa.types.is_string(array.type):
        ends = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
        held = array.buffers()[2]
        data = np.frombuffer(held, np.uint8) if held is not None and held.size else np.frombuffer(b"\0", np.uint8)
        lengths = np.diff(ends).astype(np.int32, copy=False)
        starts = ends[:-1].astype(np.int64)
        return Texts(data, starts, np.where(valid, lengths, np.int32(-1)) if valid.size else lengths)
    values = (array.fill_null(0) if array.null_count else array).to_numpy(zero_copy_only=False)
    if values.dtype == np.float64 and np.isnan(values).any():
        valid = ~np.isnan(values) & (valid if valid.size else True)
    return Numbers(values, valid)


def _json(stream: Stream, wanted: Sequence[str], messages: list[Message], dead: list[DeadLetter]) -> Chunk:
    lines: list[bytes] = []
    firsts = []
    for message in messages:
        firsts.append(len(lines))
        lines.extend(line for line in bytes(message.value).split(b"\n") if line.strip())
    source = Source(messages, np.array(firsts, np.int64), lambda rows: b"\n".join(lines[row] for row in rows) + b"\n")
    schema = pa.schema([pa.field(name, _TYPES[stream.types[name]]) for name in wanted])
    table = _parsed(lines, schema)
    if table is not None and table.num_rows == len(lines):
        return _chunk(table, source, np.arange(len(lines)))
    rows: list[dict[str, Any]] = []
    kept: list[int] = []
    for index, line in enumerate(lines):
        try:
            rows.append(_row(line, stream, wanted))
            kept.append(index)
        except (ValueError, _Misfit) as error:
            reason = str(error) if isinstance(error, _Misfit) else "not a JSON object"
            dead.extend(source.letters(np.array([index]), lambda row, place, reason=reason: reason))  # type: ignore[misc]
    return _chunk(pa.Table.from_pylist(rows, schema=schema), source, np.array(kept, np.int64))


def _parsed(lines: list[bytes], schema: pa.Schema) -> pa.Table | None:
    """By pyarrow, all at once; None if some line does not fit."""
    content = b"\n".join(lines)
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    reading = pj.ReadOptions(use_threads=False, block_size=max(len(content) + 1, 1))
    try:
        return pj.read_json(pa.BufferReader(content), read_options=reading, parse_options=options) if lines else None
    except pa.ArrowInvalid:
        return None


def _row(line: bytes, stream: Stream, wanted: Sequence[str]) -> dict[str, Any]:
    told = json.loads(line)
    if not isinstance(told, dict):
        raise ValueError(line)
    row = {name: told.get(name) for name in wanted}
    fits: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "text": (str,)}
    for name, value in row.items():
        kind = stream.types[name]
        good = value is None or (isinstance(value, fits[kind]) and not isinstance(value, bool))
        if not good or (kind == "int" and value is not None and not -(2**63) <= value < 2**63):
            raise _Misfit(f"{name} is no {kind}")
    return row
