"""Base class of formats that decode batches of messages to Arrow record batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal, Inexact, localcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from springline.spark_jobs.streaming.kernels.hash_tables import Ints
from springline.spark_jobs.streaming.runtime.message import MessageBatch, MessageRun
from springline.spark_jobs.streaming.runtime.step import DeadLetter
from springline.spark_jobs.streaming.sources.chunk import Chunk, Source, column_of
from springline.spark_jobs.streaming.sources.field_types import (
    MAX_DIGITS,
    ColumnTypes,
    arrow_type,
    stored,
)
from springline.spark_jobs.streaming.sources.format import Format
from springline.spark_jobs.streaming.sources.layout import Layout

_MESSAGES = 8_192  # decoded at once
_MAX_SHOWN = 60  # characters of a value in a reason
_INTS = range(-(1 << 63), 1 << 63)


class Decoded(NamedTuple):
    """What a `BatchFormat` has read from a batch of messages.

    Attributes:
        rows: the valid rows, in the order of their messages, with the columns of the schema.
        messages: for each row the index of its message in the batch; they ascend.
        faults: by index of a message, why it has no rows.

    Example:
        >>> import pyarrow as pa
        >>> Decoded(pa.record_batch({"n": [3]}), [1], {0: "it is empty"}).rows.num_rows
        1
    """

    rows: pa.RecordBatch
    messages: Ints | Sequence[int]
    faults: Mapping[int, str]


class BatchFormat(Format):
    """A format that decodes a batch of messages at a time, to an Arrow record batch.

    Whatever `decode` raises for a batch, its messages are decoded one by one, and become dead letters if it raises
    again. A message without a value is not passed to it.

    Args:
        layout: the fields of the rows, with their types, and the options that a job declares for the format.
        columns: the names of the fields that are read, in the order of the fields.

    Attributes:
        schema: the columns to return: the fields that are read, in the types of Arrow that `field_types` lists.

    Example:
        >>> from springline.formats import decode_records
        >>> class Pairs(BatchFormat):  # "n=3" is a row
        ...     def decode(self, messages):
        ...         return decode_records(self.schema, messages, lambda value: {"n": int(value.partition(b"=")[2])})
    """

    def __init__(self, layout: Layout, columns: Sequence[str]) -> None:
        super().__init__(layout, columns)
        self.schema = pa.schema([(name, arrow_type(layout.fields[name])) for name in columns])
        self._types = ColumnTypes.of([layout.fields[name] for name in columns])

    @abstractmethod
    def decode(self, messages: MessageBatch) -> Decoded:
        """Return the rows of some messages of one partition, whose bytes are in `data`, at `starts`, as `lengths`."""

    def part(self, value: bytes, rows: Sequence[int]) -> bytes:
        """Return a message with only these rows of a message, counted from 0: a dead letter of them.

        If messages have several rows, override it: the whole message is returned.
        """
        return value

    def chunks(self, batches: Iterable[MessageBatch], dead: list[DeadLetter]) -> Iterator[Chunk]:
        for batch in batches:
            own = batch.filled()
            for first in range(0, len(own), _MESSAGES):
                yield from self._chunks(own[first : first + _MESSAGES], dead)

    def _chunks(self, messages: MessageBatch, dead: list[DeadLetter]) -> Iterator[Chunk]:
        try:
            decoded = self.decode(messages)
            rows, faults, message_of_row = decoded.rows, decoded.faults, np.asarray(decoded.messages, np.int64)
            self._validate(decoded, message_of_row, len(messages))
        except Exception as error:
            if len(messages) > 1:
                for index in range(len(messages)):
                    yield from self._chunks(messages[index : index + 1], dead)
            else:
                dead.append(DeadLetter.of(messages[0], f"not {self.layout.format}: {type(error).__name__}: {error}"))
            return
        dead.extend(DeadLetter.of(messages[index], reason) for index, reason in sorted(faults.items()))
        firsts = np.searchsorted(message_of_row, np.arange(len(messages)))
        source = Source(MessageRun([messages]), firsts, self._original(messages, message_of_row, firsts))
        columns = {name: column_of(rows.column(name)) for name in self.columns}
        yield Chunk(columns, source, np.arange(rows.num_rows))

    def _validate(self, decoded: Decoded, places: Ints, messages: int) -> None:
        """Raise `ValueError` for what contradicts itself, and for values that Arrow does not check when it is made."""
        rows, faults = decoded.rows, decoded.faults
        if rows.schema.names != self.schema.names or rows.schema.types != self.schema.types:
            raise ValueError(f"decode returned the columns {rows.schema}; expected {self.schema}")
        rows.validate(full=True)
        for name, array, low, high in zip(
            self.columns, rows.columns, self._types.minima, self._types.maxima, strict=True
        ):
            numbers = stored(array)
            if pa.types.is_integer(numbers.type) and numbers.null_count < len(numbers):
                extent = pc.min_max(numbers)
                if extent["min"].as_py() < low or extent["max"].as_py() > high:
                    raise ValueError(f"{name} is no {self.layout.fields[name]}: a value is out of range")
        if places.size != rows.num_rows or (places.size and not 0 <= places[0] <= places[-1] < messages):
            raise ValueError("decode returned other messages than those of the rows")
        if (np.diff(places) < 0).any() or np.isin(places, list(faults)).any():
            raise ValueError("decode returned messages that do not ascend, or rows of a message with a fault")

    def _original(self, messages: MessageBatch, message_of_row: Ints, firsts: Ints) -> Callable[[Ints], bytes]:
        def original(rows: Ints) -> bytes:
            index = int(message_of_row[rows[0]])
            value = bytes(messages[index].value)
            return self.part(value, (rows - firsts[index]).tolist())

        return original


def decode_records(schema: pa.Schema, messages: MessageBatch, read: Callable[[bytes], Mapping[str, Any]]) -> Decoded:
    """Decode messages of one record each with a function from bytes to values by name.

    A name that is missing is null, and so is NaN; a name that is not in the schema is ignored. Values are those of
    Python: bool, int, float or int, Decimal or int, str, bytes, date, and datetime with a zone; a boolean is no number.

    Args:
        schema: the columns to return.
        messages: those of one partition.
        read: returns the values of a message; whatever it raises is a fault of that message, and so is a value of
            another type.

    Example:
        >>> import pyarrow as pa
        >>> from springline.formats import Message, MessageBatch
        >>> values = [Message(0, b"3"), Message(1, b"x")]
        >>> decoded = decode_records(
        ...     pa.schema([("n", pa.int64())]), MessageBatch.of(values), lambda value: {"n": int(value)}
        ... )
        >>> decoded.rows.to_pylist(), decoded.faults
        ([{'n': 3}], {1: "invalid literal for int() with base 10: b'x'"})
    """
    columns: list[list[Any]] = [[] for _ in schema]
    places: list[int] = []
    faults: dict[int, str] = {}
    takers = [(name, _taker(kind)) for name, kind in zip(schema.names, schema.types, strict=True)]
    for index in range(len(messages)):
        try:
            record = read(bytes(messages[index].value))
            row = [take(name, record.get(name)) for name, take in takers]
        except Exception as error:  # whatever the bytes are
            faults[index] = str(error) or type(error).__name__
            continue
        places.append(index)
        for column, value in zip(columns, row, strict=True):
            column.append(value)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
    return Decoded(pa.record_batch(arrays, schema=schema), np.array(places, np.int64), faults)


def _taker(kind: pa.DataType) -> Callable[[str, Any], Any]:
    if pa.types.is_decimal(kind):
        return partial(_take_decimal, scale=kind.scale)
    name, python, fits = _PYTHON_TYPES[kind]

    def take(field: str, value: Any) -> Any:
        if value is None or value != value:
            return None
        if isinstance(value, python) and (python is bool or not isinstance(value, bool)) and fits(value):
            return float(value) if python is _NUMBER else value
        raise _mismatch(field, name, value)

    return take


def _take_decimal(field: str, value: Any, scale: int) -> Decimal | None:
    if value is None or value != value:
        return None
    if isinstance(value, Decimal | int) and not isinstance(value, bool):
        with localcontext() as context:
            context.prec, context.traps[Inexact] = MAX_DIGITS, True
            with suppress(ArithmeticError):
                return Decimal(value).quantize(Decimal(1).scaleb(-scale))
    raise _mismatch(field, f"decimal with {scale} decimal places", value)


def _mismatch(name: str, kind: str, value: Any) -> ValueError:
    shown = repr(value)
    return ValueError(f"{name} is no {kind}: {shown if len(shown) <= _MAX_SHOWN else f'{shown[:_MAX_SHOWN]}…'}")


def _has_zone(value: datetime) -> bool:
    return value.utcoffset() is not None


_NUMBER = int | float
_PYTHON_TYPES: Mapping[pa.DataType, tuple[str, Any, Callable[[Any], bool]]] = {
    pa.bool_(): ("boolean", bool, lambda value: True),
    pa.int64(): ("int", int, lambda value: value in _INTS),
    pa.float64(): ("float", _NUMBER, lambda value: True),
    pa.string(): ("text", str, lambda value: "\0" not in value),
    pa.binary(): ("bytes", bytes, lambda value: True),
    pa.date32(): ("date", date, lambda value: not isinstance(value, datetime)),
    pa.timestamp("us", "UTC"): ("timestamp", datetime, _has_zone),
}
