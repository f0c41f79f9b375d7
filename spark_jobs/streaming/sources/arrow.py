"""Decoder of Arrow IPC streams to chunks of rows.

Each projected column must exist once, with a compatible type; other columns may vary. Checks that Arrow does
not make when reading are made here before any value is used: texts must be UTF-8, and indices within their dictionary.
A message whose columns have other types is refused as a whole, a row with a value out of range alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Context
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from springline.spark_jobs.streaming.kernels.hash_tables import EVERYWHERE, Flags, Ints
from springline.spark_jobs.streaming.runtime.message import MessageBatch, MessageRun
from springline.spark_jobs.streaming.runtime.step import DeadLetter
from springline.spark_jobs.streaming.sources.chunk import (
    Chunk,
    Column,
    NumberColumn,
    Source,
    TextColumn,
    column_of,
    column_of_texts,
)
from springline.spark_jobs.streaming.sources.field_types import (
    DECIMAL,
    TIMESTAMP_NUMBER,
    UNIT_SCALES,
    ColumnTypes,
    arrow_type,
    sql_type,
)
from springline.spark_jobs.streaming.sources.format import Format
from springline.spark_jobs.streaming.sources.layout import Layout, parts_of_path
from springline.spark_jobs.streaming.sources.value_kernels import scale_doubles, scale_numbers

_T = TypeVar("_T")

CHUNK_ROWS = 65_536
_READ_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)
_Read = dict[str, tuple[Column, Flags]]
"""The columns by name, each with which of its values are of its type (empty: all)."""


class _ArrowMessage(NamedTuple):
    """A batch of one message, and the rows of that."""

    batch: MessageBatch
    table: pa.Table


class Arrow(Format):
    """Rows as record batches in an Arrow IPC stream, one a message."""

    def chunks(self, batches: Iterable[MessageBatch], dead: list[DeadLetter]) -> Iterator[Chunk]:
        for messages, read in _tables(self.layout, self.columns, batches, dead):
            firsts = np.concatenate([[0], np.cumsum([each.table.num_rows for each in messages])[:-1]]).astype(np.int64)
            run = MessageRun([each.batch for each in messages])
            source = Source(run, firsts, _original_rows(run, firsts))
            rows = sum(each.table.num_rows for each in messages)
            chunk = Chunk({name: column for name, (column, _) in read.items()}, source, np.arange(rows))
            for name, (_, good) in read.items():
                left = good[chunk.source_rows] if good.size else good
                chunk = chunk.without(left, f"{name} is no {self.layout.fields[name]}", dead)
            yield chunk


def _tables(
    layout: Layout, projection: Sequence[str], batches: Iterable[MessageBatch], dead: list[DeadLetter]
) -> Iterator[tuple[list[_ArrowMessage], _Read]]:
    """Yield several messages with the same schema, and their columns in the types of the declaration."""
    messages: list[_ArrowMessage] = []
    rows = 0
    for one in (each[index : index + 1] for each in map(MessageBatch.filled, batches) for index in range(len(each))):
        table = _try(one, dead, "not an Arrow stream", lambda: _table(one[0].value, projection))  # noqa: B023
        if table is None:
            continue
        if messages and (rows >= CHUNK_ROWS or not table.schema.equals(messages[0].table.schema)):
            yield from _joined_tables(layout, projection, messages, dead)
            messages, rows = [], 0
        messages.append(_ArrowMessage(one, table))
        rows += table.num_rows
    if messages:
        yield from _joined_tables(layout, projection, messages, dead)


def _try(one: MessageBatch, dead: list[DeadLetter], what: str, make: Callable[[], _T]) -> _T | None:
    """Return what `make` creates; on any error, add the message to the dead letters and return None."""
    try:
        return make()
    except _TypeMismatchError as error:
        reason = str(error)
    except Exception as error:
        reason = f"{what}: {error}"
    dead.append(DeadLetter.of(one[0], reason))
    return None


class _TypeMismatchError(Exception):
    """Raised for a message whose columns differ from the declaration."""


def _table(value: bytes | memoryview, projection: Sequence[str]) -> pa.Table:
    """Read the projected columns of a message, with all values validated."""
    table = pa.ipc.open_stream(pa.py_buffer(value), options=_READ_OPTIONS).read_all()
    columns = []
    for name in projection:
        path = [name] if table.schema.get_field_index(name) >= 0 else parts_of_path(name)
        if table.schema.get_field_index(path[0]) < 0:
            raise _TypeMismatchError(
                f"column {name} is missing or duplicated; columns: {', '.join(table.column_names)}"
            )
        try:
            column = table.column(path[0])
            for array in column.chunks:
                if not _is_plain(array):
                    array.validate(full=True)
            for part in path[1:]:
                arrays = [_part(array, part) for array in column.chunks] or [_part(pa.array([], column.type), part)]
                column = pa.chunked_array(arrays)
        except (pa.ArrowException, KeyError, _TypeMismatchError) as error:
            raise _TypeMismatchError(f"column {name}: {error}") from error
        columns.append(column)
    return pa.table(columns, names=list(projection))


_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


def _part(array: pa.Array, part: str) -> pa.Array:
    """Return a field of structs, or an item of lists given as `[0]`; null where there is none.

    Raises `_TypeMismatchError` if they are none.
    """
    if not part.startswith("["):
        if not pa.types.is_struct(array.type):
            raise _TypeMismatchError(f"{part} is no part of {array.type}")
        return pc.struct_field(array, part)
    if not any(is_list(array.type) for is_list in _LISTS):
        raise _TypeMismatchError(f"{part} is no item of {array.type}")
    lists = array if pa.types.is_large_list(array.type) else array.cast(pa.list_(array.type.value_type))
    bounds, index = lists.offsets.to_numpy(), int(part[1:-1])
    is_there = (np.diff(bounds) > index) & np.asarray(lists.is_valid())
    return lists.values.take(pa.array(bounds[:-1] + index, mask=~is_there))


def _is_plain(array: pa.Array) -> bool:
    """Return whether a quick check proves an array valid, as for ASCII texts; Arrow's check is several times slower."""
    if not pa.types.is_string(array.type) or len(array) == 0:
        return False
    array.validate()  # checks the existence and size of the buffers
    ends = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    texts = memoryview(array.buffers()[2] or b"")[ends[0] : ends[-1]]
    return (
        bool(ends[0] >= 0 and (ends[1:] >= ends[:-1]).all())
        and len(texts) == ends[-1] - ends[0]
        and bytes(texts).isascii()
    )


def _columns(layout: Layout, projection: Sequence[str], table: pa.Table) -> _Read:
    return {name: _column(name, layout.fields[name], table.column(name)) for name in projection}


def _column(name: str, declared: str, column: pa.ChunkedArray) -> tuple[Column, Flags]:
    """Return a column in the declared type; raises if its type does not fit."""
    source_type, kind = column.type, sql_type(declared)
    is_text = _is_text(source_type.value_type if pa.types.is_dictionary(source_type) else source_type)
    if kind == "text" and is_text:
        is_coded = pa.types.is_dictionary(source_type)
        target = pa.dictionary(pa.int32(), pa.string()) if is_coded else pa.string()
        cast = column.cast(target)
        return column_of(cast.unify_dictionaries() if is_coded else cast), EVERYWHERE
    is_integer = pa.types.is_integer(source_type)
    if (kind in ("int", "float") and is_integer) or (kind == "float" and pa.types.is_floating(source_type)):
        return column_of(column.cast(arrow_type(kind))), EVERYWHERE
    if kind in _SAME and _SAME[kind](source_type):
        return column_of(column.cast(arrow_type(kind))), EVERYWHERE
    if kind == "date" or kind == "timestamp" or kind.startswith("decimal"):
        if is_text:
            texts = column_of(column.cast(pa.string()))
            assert isinstance(texts, TextColumn)
            return column_of_texts(texts, declared)
        return _numbers(name, declared, column)
    raise _TypeMismatchError(f"column {name} is {source_type}, but {declared} was declared")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    return bool(is_binary or pa.types.is_fixed_size_binary(kind))


_SAME: Mapping[str, Callable[[pa.DataType], bool]] = {"boolean": pa.types.is_boolean, "bytes": _is_bytes}


def _numbers(name: str, declared: str, column: pa.ChunkedArray) -> tuple[Column, Flags]:
    """Return dates, timestamps or decimals, from columns of these types, or of numbers for which a unit is declared."""
    types, source_type = ColumnTypes.of([declared]), column.type
    kind, scale, low, high = (int(each[0]) for each in types)
    power = 0
    if declared == "date" and pa.types.is_date(source_type):
        numbers = column.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    elif declared.startswith("timestamp") and pa.types.is_timestamp(source_type):
        numbers, power = column.cast(pa.int64()), UNIT_SCALES[source_type.unit]
    elif declared.startswith("decimal") and pa.types.is_decimal(source_type) and _is_sound(source_type):
        return _decimals(column, scale, low, high)
    elif kind in (DECIMAL, TIMESTAMP_NUMBER) and pa.types.is_integer(source_type):
        numbers, power = column.cast(pa.int64()), scale
    elif kind == TIMESTAMP_NUMBER and pa.types.is_floating(source_type):
        numbers = column.cast(pa.float64())
    else:
        raise _TypeMismatchError(f"column {name} is {source_type}, but {declared} was declared")
    plain = column_of(numbers)
    assert isinstance(plain, NumberColumn)
    values, good = np.empty(len(column), np.int64), np.empty(len(column), np.bool_)
    if plain.values.dtype == np.float64:
        scale_doubles(plain.values, scale, low, high, values, good)
    else:
        scale_numbers(plain.values, power, kind, low, high, values, good)
    if plain.valid.size:
        good |= ~plain.valid
    return NumberColumn(values, plain.valid), good


def _is_sound(kind: pa.DataType) -> bool:
    """Return whether a type of decimals is one: Arrow reads others from messages, and casting them ends the process."""
    return bool(0 <= kind.scale <= kind.precision <= (76 if pa.types.is_decimal256(kind) else 38))


def _decimals(column: pa.ChunkedArray, scale: int, low: int, high: int) -> tuple[Column, Flags]:
    """Return decimals with the declared number of decimal places; those that have more of them do not fit."""
    try:
        wide = column.cast(pa.decimal128(38, scale)).combine_chunks()
        halves = np.frombuffer(wide.buffers()[1] or b"", np.int64)[2 * wide.offset : 2 * (wide.offset + len(wide))]
        values, over = halves[::2].copy(), halves[1::2]
        good = (over == values >> 63) & (low <= values) & (values <= high)
    except pa.ArrowInvalid:
        exact = [None if each is None else each.scaleb(scale, _WIDE) for each in column.to_pylist()]
        fits = [each is None or (each == each.to_integral_value() and low <= each <= high) for each in exact]
        good = np.array(fits, np.bool_)
        values = np.array([int(each or 0) if fit else 0 for each, fit in zip(exact, fits, strict=True)], np.int64)
    valid = np.asarray(column.is_valid()) if column.null_count else EVERYWHERE
    values = np.where(good & valid if valid.size else good, values, 0)
    return NumberColumn(values, valid), good | ~valid if valid.size else good


_WIDE = Context(prec=100, Emin=-1_000, Emax=1_000)


def _joined_tables(
    layout: Layout, projection: Sequence[str], messages: list[_ArrowMessage], dead: list[DeadLetter]
) -> Iterator[tuple[list[_ArrowMessage], _Read]]:
    """Yield the columns of messages with the same schema; of each message if they do not fit, to find out which."""
    tables = [each.table for each in messages]
    if len(messages) == 1:
        one = messages[0].batch
        read = _try(one, dead, "not as declared", lambda: _columns(layout, projection, tables[0]))
    else:
        try:
            read = _columns(layout, projection, pa.concat_tables(tables))
        except Exception:  # one message does not fit: each is tried and reported alone
            for each in messages:
                yield from _joined_tables(layout, projection, [each], dead)
            return
    if read is not None:
        yield messages, read


def _original_rows(run: MessageRun, firsts: Ints) -> Callable[[Ints], bytes]:
    """Return a function that returns the bytes of given rows of one message; `firsts` are the messages' first rows."""

    def original(rows: Ints) -> bytes:
        which = int(np.searchsorted(firsts, rows[0], side="right")) - 1
        return _some_rows(run[which].value, rows - firsts[which])

    return original


def _some_rows(value: bytes | memoryview, rows: Ints) -> bytes:
    """Return a message with some rows of another; the whole one if a column outside the projection prevents it."""
    try:
        table = pa.ipc.open_stream(pa.py_buffer(value)).read_all()
        table.validate(full=True)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.take(pa.array(rows)))
        return bytes(sink.getvalue())
    except Exception:
        return bytes(value)
