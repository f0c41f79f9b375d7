"""Rows of a batch as lines of JSON: by msgspec for small batches, by Polars for large ones, with the same bytes.

A call of Polars costs about 0.2 ms whatever the size of the batch, msgspec about 0.4 µs a value. Polars writes null for
a number that JSON lacks, so batches with such numbers, and nested values, are written by msgspec whatever their size.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from springline.persistence.text.visible_text import name_numbers

SMALL_VALUES = 1_000  # up to which msgspec takes less CPU time than Polars

_FIRST_EXPONENT = 1e16  # the least float that is written with an exponent
_EPOCH = datetime(1970, 1, 1)
_ENCODER = msgspec.json.Encoder(decimal_format="number")


def json_lines(batch: pa.RecordBatch) -> bytes:
    r"""Encode each row as a line with an object of its columns.

    Times and dates are text, and so are the numbers that JSON lacks: "Infinity", "-Infinity" and "NaN". Floats of less
    than 64 bits are written as the double with the same value, bytes in base64, decimals as numbers with all digits.

    >>> json_lines(pa.record_batch({"word": ["a"], "ratio": [float("inf")]}))
    b'{"word":"a","ratio":"Infinity"}\n'
    """
    for index, field in enumerate(batch.schema):
        if pa.types.is_float16(field.type) or pa.types.is_float32(field.type):
            batch = batch.set_column(index, field.name, batch.column(index).cast(pa.float64()))
    is_small = batch.num_rows * batch.num_columns <= SMALL_VALUES
    if (is_small or any(map(_needs_names, batch.columns))) and (lines := encode_small(batch)) is not None:
        return lines
    return encode_large(batch)


def _needs_names(column: pa.Array) -> bool:
    """Return whether a column may have values that Polars writes otherwise."""
    if pa.types.is_nested(column.type) or pa.types.is_decimal(column.type) or pa.types.is_binary(column.type):
        return True
    return pa.types.is_float64(column.type) and pc.all(pc.is_finite(column)).as_py() is False


def encode_large(batch: pa.RecordBatch) -> bytes:
    """Encode rows of any types that Polars can write."""
    import polars as pl  # imported here, since it starts a thread, and workers are forked before

    sink = io.BytesIO()
    frame = pl.from_arrow(batch)
    assert isinstance(frame, pl.DataFrame)
    frame.write_ndjson(sink)
    return sink.getvalue()


def encode_small(batch: pa.RecordBatch) -> bytes | None:
    """Encode rows as `encode_large` does, without it; None if a column has a type or values that only it can write."""
    names = batch.schema.names
    if not names or not all(names) or len(set(names)) < len(names):
        return None
    columns = []
    for column in batch.columns:
        values_of = _nested if pa.types.is_nested(column.type) else _VALUES.get(column.type)
        values_of = _values if pa.types.is_decimal(column.type) else values_of
        values = None if values_of is None else values_of(column)
        if values is None:
            return None
        columns.append(values)
    return _ENCODER.encode_lines([dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)])


def _values(column: pa.Array) -> list[Any]:
    """Return values that msgspec writes as Polars does."""
    values: list[Any] = column.to_pylist()
    return values


def _nested(column: pa.Array) -> list[Any]:
    values: list[Any] = name_numbers(column.to_pylist())
    return values


def _numbers(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist() if column.null_count else column.to_numpy().tolist()
    return values


def _floats(column: pa.Array) -> list[Any]:
    """Return floats; as text those that JSON lacks, and those with a positive exponent, whose sign msgspec omits."""
    values = _numbers(column)
    for row in np.flatnonzero(~(np.abs(column.to_numpy(zero_copy_only=False)) < _FIRST_EXPONENT)).tolist():
        if values[row] is not None:
            is_finite = math.isfinite(values[row])
            values[row] = msgspec.Raw(repr(values[row]).encode()) if is_finite else name_numbers(values[row])
    return values


def _times(column: pa.Array) -> list[Any] | None:
    """Return times as text; None if a year has not four digits."""
    separator, zone = (" ", "") if column.type.tz is None else ("T", "+00:00")

    def text(micros: int) -> str:
        instant = _EPOCH + timedelta(microseconds=micros)
        precision = "seconds" if not instant.microsecond else "milliseconds" if not micros % 1000 else "microseconds"
        return instant.isoformat(separator, precision) + zone

    return _texts(column.view(pa.int64()), text)


def _dates(column: pa.Array) -> list[Any] | None:
    return _texts(column.view(pa.int32()), lambda days: (_EPOCH + timedelta(days=days)).date().isoformat())


def _texts(column: pa.Array, text: Callable[[int], str]) -> list[Any] | None:
    """Return the text of each number, computed once for each distinct one; None where a date is out of range."""
    values = _numbers(column)
    try:
        texts = {value: None if value is None else text(value) for value in set(values)}
    except OverflowError:
        return None
    return [texts[value] for value in values]


_VALUES: Mapping[pa.DataType, Callable[[pa.Array], list[Any] | None]] = {
    **dict.fromkeys([kind() for kind in (pa.int8, pa.int16, pa.int32, pa.int64)], _numbers),
    **dict.fromkeys([kind() for kind in (pa.uint8, pa.uint16, pa.uint32, pa.uint64)], _numbers),
    pa.float64(): _floats,
    pa.timestamp("us"): _times,
    pa.timestamp("us", "UTC"): _times,
    pa.date32(): _dates,
    **dict.fromkeys([pa.string(), pa.large_string(), pa.bool_(), pa.null(), pa.binary()], _values),
}
