"""Decoder of Arrow IPC streams to chunks of rows.

Each projected column must exist once, with a compatible type; other columns may vary. Checks that Arrow does
not make when reading are made here before any value is used: texts must be UTF-8, and indices within their dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.kernels.hash_tables import Ints
from springline.spark_jobs.streaming.runtime.message import MessageBatch, MessageRun
from springline.spark_jobs.streaming.runtime.step import DeadLetter
from springline.spark_jobs.streaming.sources.chunk import Chunk, Source, column_of
from springline.spark_jobs.streaming.sources.format import Format
from springline.spark_jobs.streaming.sources.layout import ARROW_TYPES, Layout

CHUNK_ROWS = 65_536
_READ_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class _ArrowMessage(NamedTuple):
    """A batch of one message, and the rows of that."""

    batch: MessageBatch
    table: pa.Table


class Arrow(Format):
    """Rows as record batches in an Arrow IPC stream, one a message."""

    def chunks(self, batches: Iterable[MessageBatch], dead: list[DeadLetter]) -> Iterator[Chunk]:
        for messages, table in _tables(self.layout, self.columns, batches, dead):
            firsts = np.concatenate([[0], np.cumsum([each.table.num_rows for each in messages])[:-1]]).astype(np.int64)
            run = MessageRun([each.batch for each in messages])
            source = Source(run, firsts, _original_rows(run, firsts))
            columns = {name: column_of(table.column(name)) for name in table.column_names}
            yield Chunk(columns, source, np.arange(table.num_rows))


def _tables(
    layout: Layout, projection: Sequence[str], batches: Iterable[MessageBatch], dead: list[DeadLetter]
) -> Iterator[tuple[list[_ArrowMessage], pa.Table]]:
    """Yield several messages with the same schema, and their rows in the types of the declaration."""
    messages: list[_ArrowMessage] = []
    rows = 0
    for one in (each[index : index + 1] for each in map(MessageBatch.filled, batches) for index in range(len(each))):
        table = _try_table(one, dead, "not an Arrow stream", lambda: _table(one[0].value, projection))  # noqa: B023
        if table is None:
            continue
        if messages and (rows >= CHUNK_ROWS or not table.schema.equals(messages[0].table.schema)):
            yield from _joined_tables(layout, projection, messages, dead)
            messages, rows = [], 0
        messages.append(_ArrowMessage(one, table))
        rows += table.num_rows
    if messages:
        yield from _joined_tables(layout, projection, messages, dead)


def _try_table(one: MessageBatch, dead: list[DeadLetter], what: str, make: Callable[[], pa.Table]) -> pa.Table | None:
    """Return the table that `make` creates; on any error, add the message to the dead letters and return None."""
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
    for name in projection:
        if table.schema.get_field_index(name) < 0:
            raise _TypeMismatchError(
                f"column {name} is missing or duplicated; columns: {', '.join(table.column_names)}"
            )
        try:
            for array in table.column(name).chunks:
                if not _is_plain(array):
                    array.validate(full=True)
        except pa.ArrowException as error:
            raise _TypeMismatchError(f"column {name}: {error}") from error
    return table.select(list(projection))


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


def _cast_table(layout: Layout, projection: Sequence[str], table: pa.Table) -> pa.Table:
    return pa.table([_cast(layout, name, table.column(name)) for name in projection], names=list(projection))


def _cast(layout: Layout, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cast to int64, double, string or a dictionary of strings; a timestamp to the layout's unit."""
    source_type, kind = column.type, layout.fields[name]
    if pa.types.is_timestamp(source_type) and name == layout.time and kind != "text":
        return _time_column(column, layout.unit, kind)
    if kind == "text" and pa.types.is_dictionary(source_type) and _is_text(source_type.value_type):
        return column.cast(pa.dictionary(pa.int32(), pa.string())).unify_dictionaries()
    if kind == "text" and _is_text(source_type):
        return column.cast(pa.string())
    numbers = pa.types.is_integer(source_type) or (kind == "float" and pa.types.is_floating(source_type))
    if kind != "text" and numbers:
        return column.cast(ARROW_TYPES[kind])
    raise _TypeMismatchError(f"column {name} is {source_type}, but {kind} was declared")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _time_column(column: pa.ChunkedArray, unit: str, kind: str) -> pa.ChunkedArray:
    """Return timestamps as numbers of a unit: whole ones are rounded down, and null if they exceed 64 bits."""
    valid = np.asarray(column.is_valid())
    values = column.cast(pa.int64()).fill_null(0).to_numpy()
    per, source_per = _PER_SECOND[unit], _PER_SECOND[column.type.unit]
    if kind == "float":  # by microseconds, which doubles hold exactly for three centuries around 1970
        micros = values // 1_000 if column.type.unit == "ns" else values * (1e6 / source_per)
        numbers = micros / (1e6 / per) if per <= 1_000_000 else micros * 1e3
    elif per <= source_per:
        numbers = values // (source_per // per)
    else:
        times = per // source_per
        numbers = values * times
        valid &= numbers // times == values
    return pa.chunked_array([pa.array(numbers, mask=~valid)])


def _joined_tables(
    layout: Layout, projection: Sequence[str], messages: list[_ArrowMessage], dead: list[DeadLetter]
) -> Iterator[tuple[list[_ArrowMessage], pa.Table]]:
    """Yield one table of messages with the same schema; one per message if they do not fit, to find out which."""
    tables = [each.table for each in messages]
    if len(messages) == 1:
        one = messages[0].batch
        table = _try_table(one, dead, "not as declared", lambda: _cast_table(layout, projection, tables[0]))
    else:
        try:
            table = _cast_table(layout, projection, pa.concat_tables(tables))
        except Exception:  # one message does not fit: each is tried and reported alone
            for each in messages:
                yield from _joined_tables(layout, projection, [each], dead)
            return
    if table is not None:
        yield messages, table


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
