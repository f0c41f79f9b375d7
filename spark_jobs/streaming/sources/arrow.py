"""Arrow IPC streams to chunks of rows.

The wanted columns must be there, each once, of a type that fits; others may come and go. What Arrow does not check as
it reads is checked here before anything looks at values: a text that is not UTF-8, an index beyond its dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from springline.spark_jobs.streaming.kernels.hash_tables import Ints
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Message
from springline.spark_jobs.streaming.sources.chunk import Chunk, Source, column_of
from springline.spark_jobs.streaming.sources.layout import ARROW_TYPES, Layout

CHUNK_ROWS = 65_536
_Held = list[tuple[Message, pa.Table]]


def arrow_chunks(
    layout: Layout, wanted: Sequence[str], messages: Iterable[Message], dead: list[DeadLetter]
) -> Iterator[Chunk]:
    """The rows of Arrow IPC streams, some messages of one schema at a time."""
    held: _Held = []
    rows = 0
    for message in messages:
        table = _kept(message, dead, "not an Arrow stream", lambda: _table(message, wanted))  # noqa: B023
        if table is None:
            continue
        if held and (rows >= CHUNK_ROWS or not table.schema.equals(held[0][1].schema)):
            yield from _joined(layout, wanted, held, dead)
            held, rows = [], 0
        held.append((message, table))
        rows += table.num_rows
    if held:
        yield from _joined(layout, wanted, held, dead)


def _kept(message: Message, dead: list[DeadLetter], what: str, make: Callable[[], pa.Table]) -> pa.Table | None:
    """A table that can be made; else the message is a dead letter, whatever Arrow has raised."""
    try:
        return make()
    except _TypeMismatchError as error:
        reason = str(error)
    except Exception as error:
        reason = f"{what}: {error}"
    dead.append(DeadLetter(message.offset, bytes(message.value), reason))
    return None


class _TypeMismatchError(Exception):
    """A message whose columns are not what was declared."""


def _table(message: Message, wanted: Sequence[str]) -> pa.Table:
    """The wanted columns of a message, checked to the last value."""
    table = pa.ipc.open_stream(pa.py_buffer(message.value)).read_all()
    for name in wanted:
        if table.schema.get_field_index(name) < 0:
            raise _TypeMismatchError(
                f"column {name} is missing, or there twice; there are {', '.join(table.column_names)}"
            )
        try:
            for array in table.column(name).chunks:
                if not _is_plain(array):
                    array.validate(full=True)
        except pa.ArrowException as error:
            raise _TypeMismatchError(f"column {name}: {error}") from error
    return table.select(list(wanted))


def _is_plain(array: pa.Array) -> bool:
    """Whether an array is sound at a glance, as texts of ASCII are; Arrow takes several times as long to see that."""
    if not pa.types.is_string(array.type) or len(array) == 0:
        return False
    array.validate()  # that the buffers are there, as long as they must be
    ends = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    texts = memoryview(array.buffers()[2] or b"")[ends[0] : ends[-1]]
    return (
        bool(ends[0] >= 0 and (ends[1:] >= ends[:-1]).all())
        and len(texts) == ends[-1] - ends[0]
        and bytes(texts).isascii()
    )


def _fitted(layout: Layout, wanted: Sequence[str], table: pa.Table) -> pa.Table:
    return pa.table([_cast(layout, name, table.column(name)) for name in wanted], names=list(wanted))


def _cast(layout: Layout, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """As int64, double, string or a dictionary of strings; a timestamp as the layout's unit."""
    given, kind = column.type, layout.fields[name]
    if pa.types.is_timestamp(given) and name == layout.time and kind != "text":
        column = column.cast(pa.timestamp("us", tz=given.tz), safe=given.unit != "ns").cast(pa.int64())
        per = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 0.001}[layout.unit]
        return pc.divide(column.cast(pa.float64()), per) if kind == "float" else _whole(column, layout.unit)
    if kind == "text" and pa.types.is_dictionary(given) and _is_text(given.value_type):
        return column.cast(pa.dictionary(pa.int32(), pa.string())).unify_dictionaries()
    if kind == "text" and _is_text(given):
        return column.cast(pa.string())
    numbers = pa.types.is_integer(given) or (kind == "float" and pa.types.is_floating(given))
    if kind != "text" and numbers:
        return column.cast(ARROW_TYPES[kind])
    raise _TypeMismatchError(f"column {name} is {given}, and {kind} was declared")


def _is_text(given: pa.DataType) -> bool:
    return bool(pa.types.is_string(given) or pa.types.is_large_string(given) or pa.types.is_string_view(given))


def _whole(micros: pa.ChunkedArray, unit: str) -> pa.ChunkedArray:
    if unit == "ns":
        return pc.multiply_checked(micros, 1000)
    return pc.divide(micros, {"s": 1_000_000, "ms": 1_000, "us": 1}[unit])


def _joined(layout: Layout, wanted: Sequence[str], held: _Held, dead: list[DeadLetter]) -> Iterator[Chunk]:
    """One chunk of messages of one schema; each by itself where they do not fit, to find out which."""
    wholes = [table for _, table in held]
    if len(held) == 1:
        table = _kept(held[0][0], dead, "not as declared", lambda: _fitted(layout, wanted, wholes[0]))
    else:
        try:
            table = _fitted(layout, wanted, pa.concat_tables(wholes))
        except Exception:  # one of them, which is told of then
            for one in held:
                yield from _joined(layout, wanted, [one], dead)
            return
    if table is None:
        return
    firsts = np.concatenate([[0], np.cumsum([whole.num_rows for whole in wholes])[:-1]]).astype(np.int64)

    def original(rows: Ints) -> bytes:
        which = int(np.searchsorted(firsts, rows[0], side="right")) - 1
        return _some_rows(held[which][0].value, rows - firsts[which])

    source = Source([message for message, _ in held], firsts, original)
    columns = {name: column_of(table.column(name)) for name in table.column_names}
    yield Chunk(columns, source, np.arange(table.num_rows))


def _some_rows(value: bytes | memoryview, rows: Ints) -> bytes:
    """A message of some rows of another; all of it, where a column that nobody wanted does not bear that."""
    try:
        table = pa.ipc.open_stream(pa.py_buffer(value)).read_all()
        table.validate(full=True)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.take(pa.array(rows)))
        return bytes(sink.getvalue())
    except Exception:
        return bytes(value)
