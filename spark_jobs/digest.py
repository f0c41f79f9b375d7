"""The logical digest of a table: equal for equal rows, independent of order, partitions and file format.

Text: `table1:DIGITS:ROWS:SCHEMA:SUM`, for example `table1:9:842:5d41402abc4b2a76:1f3a29.2c901b.3077aa`.

- DIGITS: number of significant decimal digits of floats that are compared; 17 and more means every bit.
- ROWS: the number of rows, decimal.
- SCHEMA: hash of the columns' names and types, in order (16 hexadecimal digits); nullability is ignored.
- SUM: every row has a 64-bit hash; its upper 21, middle 21 and lower 22 bits are summed over all rows separately
  (hexadecimal), so that order and partitioning do not matter, duplicate rows do, and up to 2^41 rows fit.

A row's hash is Spark's xxhash64 over its normalized columns, each after whether it is null: -0.0 equals 0.0, all NaN
are equal, floats are rounded to DIGITS. Times are microseconds, decimals are their unscaled digits (the scale
is in SCHEMA). Structs are hashed field by field, arrays element by element in order. Maps, which have no order, and
types without a hash are rejected with `DigestError`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql import types as T

from springline.spark_jobs.errors import DigestError

_HASH_PARTS = ((43, 0x1FFFFF), (22, 0x1FFFFF), (0, 0x3FFFFF))  # shift and mask of each part of a row's hash
_MAX_ROUNDED = 1e290  # rounding multiplies; larger floats are not rounded
_EXACT_DIGITS = 16
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


def observe_digest(frame: DataFrame, observation: Observation, digits: int) -> DataFrame:
    """Return `frame`, whose digest is observed when it is written; raises `DigestError`."""
    schema = frame.schema
    names = {name.lower() for name in schema.names}
    name = next(free for i in count() if (free := f"hash{i}") not in names)
    hashed = frame.select("*", row_hash(schema, digits).alias(name))
    return hashed.observe(observation, *digest_metrics(F.col(name))).drop(name)


def digest_of_table(frame: DataFrame, *, digits: int) -> TableDigest:
    """Compute the digest of a table in a separate pass; raises `DigestError`."""
    schema = frame.schema
    hashed = frame.select(row_hash(schema, digits).alias("hash"))
    return digest_of(schema, digits, hashed.agg(*digest_metrics(F.col("hash"))).collect()[0].asDict())


def digest_metrics(hashes: Column) -> list[Column]:
    """Return the aggregates of a column of `row_hash`, which is computed once for all of them."""
    parts = (F.shiftrightunsigned(hashes, shift).bitwiseAND(F.lit(mask)) for shift, mask in _HASH_PARTS)
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


def row_hash(schema: T.StructType, digits: int) -> Column:
    """Return the hash of a row; raises `DigestError` for a column that has none.

    It is SQL, since a Python object for each part of it takes longer than the whole write of a wide table.
    """
    parts = [part for field in schema for part in _parts(_quoted(field.name), field.dataType, field.name, digits)]
    return F.expr(f"xxhash64({', '.join(parts)})")


def _parts(value: str, dtype: T.DataType, name: str, digits: int, depth: int = 0) -> Iterator[str]:
    """Yield what is hashed of a value: whether it is null, since a null alone leaves xxhash64 unchanged, and its parts.

    `value` is an expression; `name` is its name in errors, and `depth` the number of arrays around it.
    """
    yield f"isnull({value})"
    if isinstance(dtype, T.StructType):
        for field in dtype:
            yield from _parts(f"{value}.{_quoted(field.name)}", field.dataType, f"{name}.{field.name}", digits, depth)
    elif isinstance(dtype, T.ArrayType):
        element = f"e{depth}"
        parts = ", ".join(_parts(element, dtype.elementType, f"{name}[]", digits, depth + 1))
        yield f"size({value})"
        yield f"transform({value}, {element} -> struct({parts}))"
    elif isinstance(dtype, T.FloatType | T.DoubleType):
        yield _rounded(f"double({value})", digits)
    elif isinstance(dtype, _UNCHANGED_TYPES):
        yield value
    else:
        raise DigestError(
            f"column {name!r} is of type {dtype.simpleString()}, whose rows have no digest:"
            " turn it into columns, structs or arrays"
        )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _rounded(value: str, digits: int) -> str:
    """Round a double to fewer bits (Veltkamp's splitting); xxhash64 treats -0.0 as 0.0."""
    if digits >= _EXACT_DIGITS:
        return value
    factor = float((1 << 53 - math.ceil(digits * math.log2(10))) + 1)
    big = f"{value} * {factor!r}D"
    return f"if(abs({value}) < {_MAX_ROUNDED!r}D, {big} - ({big} - {value}), {value})"
