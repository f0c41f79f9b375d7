"""Types of fields: as a declaration writes them, as SQL calls them, and how their values lie in columns and in Arrow.

    declared                  SQL              in a column                      in Arrow
    boolean                   boolean          0 or 1                           bool
    int                       int              64 bits                          int64
    float                     float            a double                         double
    decimal(12, 2)            decimal(18, 2)   the number times 100             decimal128(18, 2)
    text                      text             UTF-8                            string
    bytes                     bytes            bytes                            binary
    date                      date             days since 1970                  date32
    timestamp, timestamp(ms)  timestamp        microseconds since 1970, UTC     timestamp[us, tz=UTC]

The unit of a timestamp is that of a number in a message; without one, it is a text. All decimals have up to 18 digits:
a value that needs more is refused in a message, and NULL in SQL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.kernels.hash_tables import Ints

MAX_DIGITS = 18  # of a decimal, so that its digits fit 64 bits
MIN_TIMESTAMP, MAX_TIMESTAMP = -62_135_596_800_000_000, 253_402_300_799_999_999  # the years 1 to 9999
MIN_DATE, MAX_DATE = -719_162, 2_932_896

# Kinds of columns, for kernels; JSON's kernel has two more kinds of values.
TEXT, INT, FLOAT, BOOLEAN, DECIMAL, BYTES, DATE, TIMESTAMP, TIMESTAMP_NUMBER = 0, 1, 2, 5, 6, 7, 8, 9, 10

FIELD_TYPES = (
    "boolean", "int", "float", "decimal(12, 2)", "text", "bytes", "date", "timestamp",
    *(f"timestamp({unit})" for unit in ("s", "ms", "us", "ns")),
)  # fmt: skip
"""The types that a declaration may write; of decimals with any digits and decimal places."""

UNIT_SCALES = {"s": 6, "ms": 3, "us": 0, "ns": -3}  # powers of ten from a unit to microseconds
_PLAIN = {"boolean": BOOLEAN, "int": INT, "float": FLOAT, "text": TEXT, "bytes": BYTES, "date": DATE}
_TIMESTAMP = re.compile(r"timestamp(?:\((s|ms|us|ns)\))?")
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)")


class ColumnTypes(NamedTuple):
    """The types of some columns as arrays for kernels.

    Attributes:
        kinds: the kind of each column.
        scales: the power of ten from a number in a message to the one in the column, of decimals and timestamps.
        minima: the least number of each column.
        maxima: the greatest one.
    """

    kinds: Ints
    scales: Ints
    minima: Ints
    maxima: Ints

    @staticmethod
    def of(declared: Sequence[str]) -> ColumnTypes:
        """Return those of declared types.

        Example:
            >>> ColumnTypes.of(["decimal(4, 2)", "timestamp(ms)"]).scales.tolist()
            [2, 3]
        """
        rows = [_column_type(kind) for kind in declared]
        return ColumnTypes(*np.array(rows, np.int64).reshape(-1, 4).T.copy())


def _column_type(declared: str) -> tuple[int, int, int, int]:
    """Return kind, scale, least and greatest number; raises ValueError if there is no such type."""
    low, high = -(1 << 63), (1 << 63) - 1
    if declared in _PLAIN:
        if declared == "date":
            low, high = MIN_DATE, MAX_DATE
        return _PLAIN[declared], 0, low, high
    if match := _TIMESTAMP.fullmatch(declared):
        kind = TIMESTAMP_NUMBER if match[1] else TIMESTAMP
        return kind, UNIT_SCALES.get(match[1] or "", 0), MIN_TIMESTAMP, MAX_TIMESTAMP
    match = _DECIMAL.fullmatch(declared)
    if match is None:
        raise ValueError(f"write {', '.join(FIELD_TYPES[:-1])} or {FIELD_TYPES[-1]}")
    digits, scale = int(match[1]), int(match[2])
    if not 1 <= digits <= MAX_DIGITS or scale > digits:
        raise ValueError(f"a decimal has 1 to {MAX_DIGITS} digits, and as many decimal places at most")
    return DECIMAL, scale, 1 - 10**digits, 10**digits - 1


def fault_of_type(declared: str) -> str:
    """Return why a type cannot be declared; empty if it can."""
    try:
        _column_type(declared)
    except ValueError as error:
        return str(error)
    return ""


@lru_cache(maxsize=1_000)
def sql_type(declared: str) -> str:
    """Return what SQL calls a declared type.

    Example:
        >>> sql_type("timestamp(ms)"), sql_type("decimal(5, 2)")
        ('timestamp', 'decimal(18, 2)')
    """
    kind, scale, *_ = _column_type(declared)
    if kind == DECIMAL:
        return decimal_type(scale)
    return "timestamp" if kind in (TIMESTAMP, TIMESTAMP_NUMBER) else declared


def decimal_type(scale: int) -> str:
    """Return what SQL calls decimals with so many decimal places."""
    return f"decimal({MAX_DIGITS}, {scale})"


def scale_of(kind: str) -> int | None:
    """Return the decimal places of a type; None if it is no decimal."""
    return int(kind.rpartition(",")[2].rstrip(")")) if kind.startswith("decimal") else None


def is_stored_as_number(kind: str) -> bool:
    """Return whether values of a type lie in columns as 64-bit numbers, for sums, comparisons and codes."""
    return kind in ("int", "float", "date", "timestamp") or kind.startswith("decimal")


_ARROW = {
    "boolean": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "text": pa.string(), "bytes": pa.binary(),
    "date": pa.date32(), "null": pa.null(),
}  # fmt: skip


@lru_cache(maxsize=1_000)
def arrow_type(kind: str) -> pa.DataType:
    """Return the type in Arrow of a type that is declared, or that SQL has.

    Example:
        >>> arrow_type("decimal(12, 2)")
        Decimal128Type(decimal128(18, 2))
    """
    if kind in _ARROW:
        return _ARROW[kind]
    scale = scale_of(kind)
    return pa.timestamp("us", "UTC") if scale is None else pa.decimal128(MAX_DIGITS, scale)


def type_name(kind: pa.DataType) -> str:
    """Return what SQL calls a type in Arrow, or else the type's own name."""
    if pa.types.is_decimal128(kind):
        return decimal_type(kind.scale)
    return "timestamp" if pa.types.is_timestamp(kind) else next((n for n, k in _ARROW.items() if k == kind), str(kind))


def stored(array: pa.Array) -> pa.Array:
    """Return values as they lie in columns: integers, doubles or strings; dictionaries as they are.

    Example:
        >>> from datetime import date
        >>> stored(pa.array([date(1970, 1, 2), None])).to_pylist()
        [1, None]
    """
    kind = array.type
    if pa.types.is_boolean(kind) or pa.types.is_date32(kind):
        return (array.view(pa.int32()) if pa.types.is_date32(kind) else array).cast(pa.int64())
    if pa.types.is_timestamp(kind):
        return array.view(pa.int64())
    if pa.types.is_binary(kind):
        return array.view(pa.string())
    if pa.types.is_decimal128(kind):
        if not len(array):
            return pa.array([], pa.int64())
        halves = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array)) : 2]
        return pa.array(halves, mask=_nulls(array))
    return array


def typed(array: pa.Array, kind: str) -> pa.Array:
    """Return values of a type in Arrow; the inverse of `stored`.

    Example:
        >>> typed(pa.array([125, None]), "decimal(18, 2)").to_pylist()
        [Decimal('1.25'), None]
    """
    target = arrow_type(kind)
    if array.type == target:
        return array
    if kind == "boolean":
        return array.cast(target)
    if kind == "date":
        return array.cast(pa.int32()).view(target)
    if kind in ("timestamp", "bytes"):
        return array.view(target)
    halves = np.empty((len(array), 2), np.int64)
    halves[:, 0] = (array.fill_null(0) if array.null_count else array).to_numpy(zero_copy_only=False)
    halves[:, 1] = halves[:, 0] >> 63
    nulls = _nulls(array)
    valid = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    return pa.Array.from_buffers(target, len(array), [valid, pa.py_buffer(halves)])


def _nulls(array: pa.Array) -> np.ndarray | None:
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False)) if array.null_count else None
