"""The logical digest of a table: equal for equal rows, independent of order, partitions and file format.

Text: `table1:DIGITS:ROWS:SCHEMA:SUM`, for example `table1:9:842:5d41402abc4b2a76:1f3a29.2c901b.3077aa`.

- DIGITS: number of significant decimal digits of floats that are compared; 17 and more means every bit.
- ROWS: the number of rows, decimal.
- SCHEMA: hash of the columns' names and types, in order (16 hexadecimal digits); nullability is ignored.
- SUM: every row has a 64-bit hash; its upper 21, middle 21 and lower 22 bits are summed over all rows separately
  (hexadecimal), so that order and partitioning do not matter, duplicate rows do, and up to 2^41 rows fit.

A row's hash is Spark's xxhash64 over its normalized columns: nulls are distinguished by position, -0.0 equals 0.0,
all NaN are equal, floats are rounded to DIGITS. Times are microseconds, decimals are their unscaled digits (the scale
is in SCHEMA). Structs are hashed field by field, arrays element by element in order. Maps, which have no order, and
types without a hash are rejected with `DigestError`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from springline.spark_jobs.errors import DigestError

_HASH_PARTS = ((43, 0x1FFFFF), (22, 0x1FFFFF), (0, 0x3FFFFF))  # shift and mask of each part of a row's hash
_MAX_ROUNDED = 1e290  # rounding multiplies; larger floats are not rounded
_EXACT_DIGITS = 16
_MASK_BITS = 60
_UNCHANGED_TYPES = (
    T.BooleanType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.DecimalType, T.StringType, T.CharType,
    T.VarcharType, T.BinaryType, T.DateType, T.TimestampType, T.TimestampNTZType,
)  # fmt: skip


@dataclass(frozen=True)
class TableDigest:
    """A digest in its parts."""

    digits: int
    rows: int
    schema: str
    sums: tuple[int, ...]

    def __str__(self) -> str:
        return f"table1:{self.digits}:{self.rows}:{self.schema}:{'.'.join(f'{part:x}' for part in self.sums)}"


def digest_metrics(schema: T.StructType, digits: int) -> list[Column]:
    """Return the aggregates to observe while the table is written; raises `DigestError`."""
    row = _row_hash(schema, digits)
    parts = (F.shiftrightunsigned(row, shift).bitwiseAND(F.lit(mask)) for shift, mask in _HASH_PARTS)
    sums = (F.sum(part).alias(f"sum{i}") for i, part in enumerate(parts))
    return [F.count(F.lit(1)).alias("rows"), *sums]


def digest_of(schema: T.StructType, digits: int, observed_metrics: Mapping[str, Any]) -> TableDigest:
    """Build the digest from the observed aggregates."""
    sums = tuple(observed_metrics[f"sum{i}"] or 0 for i in range(len(_HASH_PARTS)))
    return TableDigest(digits, observed_metrics["rows"], schema_hash(schema), sums)


def schema_hash(schema: T.StructType) -> str:
    """Return the hash of the columns' names and types, in order."""
    return hashlib.blake2b(_type_text(schema).encode(), digest_size=8).hexdigest()


def _type_text(dtype: T.DataType) -> str:
    if isinstance(dtype, T.StructType):
        return f"struct({','.join(f'{field.name!r}:{_type_text(field.dataType)}' for field in dtype)})"
    if isinstance(dtype, T.ArrayType):
        return f"array({_type_text(dtype.elementType)})"
    if isinstance(dtype, T.CharType | T.VarcharType):
        return "string"  # their type after writing and reading
    return dtype.simpleString()


def _row_hash(schema: T.StructType, digits: int) -> Column:
    nulls: list[Column] = []
    values: list[Column] = []
    for field in schema:
        quoted = "`" + field.name.replace("`", "``") + "`"
        for is_null, value in _leaves(F.col(quoted), field.dataType, field.name, digits):
            nulls.append(is_null)
            values.extend(value)
    return F.xxhash64(*_null_masks(nulls), *values)


def _leaves(column: Column, dtype: T.DataType, name: str, digits: int) -> Iterator[tuple[Column, tuple[Column, ...]]]:
    """Yield the leaves of a column: whether each is null, and the values to hash."""
    if isinstance(dtype, T.StructType):
        yield F.isnull(column), ()
        for field in dtype:
            yield from _leaves(column.getField(field.name), field.dataType, f"{name}.{field.name}", digits)
    elif isinstance(dtype, T.ArrayType):
        element = partial(_element_struct, dtype=dtype.elementType, name=f"{name}[]", digits=digits)
        yield F.isnull(column), (F.size(column), F.transform(column, lambda value: element(value)))
    elif isinstance(dtype, T.FloatType | T.DoubleType):
        yield F.isnull(column), (_round_to_digits(column.cast("double"), digits),)
    elif isinstance(dtype, _UNCHANGED_TYPES):
        yield F.isnull(column), (column,)
    else:
        raise DigestError(
            f"column {name!r} is of type {dtype.simpleString()}, whose rows have no digest:"
            " turn it into columns, structs or arrays"
        )


def _element_struct(value: Column, *, dtype: T.DataType, name: str, digits: int) -> Column:
    """Convert an element of an array to a struct in which a null is distinguishable."""
    leaves = list(_leaves(value, dtype, name, digits))
    fields = [*(is_null for is_null, _ in leaves), *(one for _, values in leaves for one in values)]
    return F.struct(*(one.alias(f"f{i}") for i, one in enumerate(fields)))


def _null_masks(nulls: list[Column]) -> Iterator[Column]:
    """Yield integers whose bits mark the leaves that are null, because a null leaves xxhash64 unchanged."""
    for start in range(0, len(nulls), _MASK_BITS):
        chunk = nulls[start : start + _MASK_BITS]
        bits = [
            F.when(is_null, F.lit(1 << i).cast("bigint")).otherwise(F.lit(0).cast("bigint"))
            for i, is_null in enumerate(chunk)
        ]
        while len(bits) > 1:  # pairwise: Spark Connect takes no deeply nested expressions
            bits = [one.bitwiseOR(other) for one, other in zip(bits[::2], bits[1::2], strict=False)] + bits[
                len(bits) // 2 * 2 :
            ]
        yield bits[0]


def _round_to_digits(column: Column, digits: int) -> Column:
    """Round a double to fewer bits (Veltkamp's splitting); xxhash64 treats -0.0 as 0.0."""
    if digits >= _EXACT_DIGITS:
        return column
    factor = float((1 << 53 - math.ceil(digits * math.log2(10))) + 1)
    big = column * F.lit(factor)
    return F.when(F.abs(column) < F.lit(_MAX_ROUNDED), big - (big - column)).otherwise(column)
