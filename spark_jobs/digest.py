"""The logical digest of a table: the same for the same rows, whatever their order, partitions and file format.

Text: `table1:DIGITS:ROWS:SCHEMA:SUM`, for example `table1:9:842:5d41402abc4b2a76:1f3a29.2c901b.3077aa`.

- DIGITS: significant decimal digits of floats that count; 17 and more means every bit.
- ROWS: the number of rows, decimal.
- SCHEMA: hash of the columns' names and types, in their order (16 hexadecimal digits); whether a column may be
  null does not count.
- SUM: every row has a 64-bit hash; its upper 21, middle 21 and lower 22 bits are summed over all rows apart
  (hexadecimal), so that neither order nor cutting matters, a row that stands there twice does, and 2^41 rows fit.

A row's hash is Spark's xxhash64 over its columns, made even first: nulls are told apart by place, -0.0 is 0.0,
all NaN are one, floats are rounded to DIGITS. Times are microseconds, decimals their unscaled digits (the scale
is in SCHEMA). Structs count field by field, arrays element by element in order. Maps have no order and others
no hash: they are refused with `DigestError`.
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

_SUMS = ((43, 0x1FFFFF), (22, 0x1FFFFF), (0, 0x3FFFFF))  # shift and mask of each part of a row's hash
_HUGE = 1e290  # rounding multiplies; beyond this floats stay as they are
_EXACT = 16
_MASK_BITS = 60
_AS_THEY_ARE = (
    T.BooleanType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.DecimalType, T.StringType, T.CharType,
    T.VarcharType, T.BinaryType, T.DateType, T.TimestampType, T.TimestampNTZType,
)  # fmt: skip


@dataclass(frozen=True)
class TableDigest:
    """A digest, taken apart."""

    digits: int
    rows: int
    schema: str
    sums: tuple[int, ...]

    def __str__(self) -> str:
        return f"table1:{self.digits}:{self.rows}:{self.schema}:{'.'.join(f'{part:x}' for part in self.sums)}"


def metrics(schema: T.StructType, digits: int) -> list[Column]:
    """The aggregates to observe while the table is written; raises `DigestError`."""
    row = _row_hash(schema, digits)
    parts = (F.shiftrightunsigned(row, shift).bitwiseAND(F.lit(mask)) for shift, mask in _SUMS)
    sums = (F.sum(part).alias(f"sum{i}") for i, part in enumerate(parts))
    return [F.count(F.lit(1)).alias("rows"), *sums]


def digest_of(schema: T.StructType, digits: int, observed: Mapping[str, Any]) -> TableDigest:
    """The digest that the observed aggregates amount to."""
    sums = tuple(observed[f"sum{i}"] or 0 for i in range(len(_SUMS)))
    return TableDigest(digits, observed["rows"], schema_hash(schema), sums)


def schema_hash(schema: T.StructType) -> str:
    """The hash of the columns' names and types, in their order."""
    return hashlib.blake2b(_type_text(schema).encode(), digest_size=8).hexdigest()


def _type_text(dtype: T.DataType) -> str:
    if isinstance(dtype, T.StructType):
        return f"struct({','.join(f'{field.name!r}:{_type_text(field.dataType)}' for field in dtype)})"
    if isinstance(dtype, T.ArrayType):
        return f"array({_type_text(dtype.elementType)})"
    if isinstance(dtype, T.CharType | T.VarcharType):
        return "string"  # what they are once they were written and read
    return dtype.simpleString()


def _row_hash(schema: T.StructType, digits: int) -> Column:
    nulls: list[Column] = []
    values: list[Column] = []
    for field in schema:
        quoted = "`" + field.name.replace("`", "``") + "`"
        for is_null, value in _parts(F.col(quoted), field.dataType, field.name, digits):
            nulls.append(is_null)
            values.extend(value)
    return F.xxhash64(*_masks(nulls), *values)


def _parts(column: Column, dtype: T.DataType, name: str, digits: int) -> Iterator[tuple[Column, tuple[Column, ...]]]:
    """The leaves of a column: whether each is null, and what is hashed of it."""
    if isinstance(dtype, T.StructType):
        yield F.isnull(column), ()
        for field in dtype:
            yield from _parts(column.getField(field.name), field.dataType, f"{name}.{field.name}", digits)
    elif isinstance(dtype, T.ArrayType):
        element = partial(_element, dtype=dtype.elementType, name=f"{name}[]", digits=digits)
        yield F.isnull(column), (F.size(column), F.transform(column, lambda value: element(value)))
    elif isinstance(dtype, T.FloatType | T.DoubleType):
        yield F.isnull(column), (_rounded(column.cast("double"), digits),)
    elif isinstance(dtype, _AS_THEY_ARE):
        yield F.isnull(column), (column,)
    else:
        raise DigestError(
            f"column {name!r} is of type {dtype.simpleString()}, whose rows have no digest:"
            " turn it into columns, structs or arrays"
        )


def _element(value: Column, *, dtype: T.DataType, name: str, digits: int) -> Column:
    """An element of an array as a struct that tells null from nothing."""
    parts = list(_parts(value, dtype, name, digits))
    fields = [*(is_null for is_null, _ in parts), *(one for _, values in parts for one in values)]
    return F.struct(*(one.alias(f"f{i}") for i, one in enumerate(fields)))


def _masks(nulls: list[Column]) -> Iterator[Column]:
    """Whole numbers whose bits say which leaves are null: a null by itself leaves xxhash64 unchanged."""
    for start in range(0, len(nulls), _MASK_BITS):
        some = nulls[start : start + _MASK_BITS]
        bits = [
            F.when(is_null, F.lit(1 << i).cast("bigint")).otherwise(F.lit(0).cast("bigint"))
            for i, is_null in enumerate(some)
        ]
        while len(bits) > 1:  # pairwise: Spark Connect takes no deeply nested expressions
            bits = [one.bitwiseOR(other) for one, other in zip(bits[::2], bits[1::2], strict=False)] + bits[
                len(bits) // 2 * 2 :
            ]
        yield bits[0]


def _rounded(column: Column, digits: int) -> Column:
    """A double to its nearest neighbour of fewer bits (Veltkamp's splitting); xxhash64 takes -0.0 for 0.0."""
    if digits >= _EXACT:
        return column
    factor = float((1 << 53 - math.ceil(digits * math.log2(10))) + 1)
    big = column * F.lit(factor)
    return F.when(F.abs(column) < F.lit(_HUGE), big - (big - column)).otherwise(column)
