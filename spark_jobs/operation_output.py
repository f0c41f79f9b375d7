"""Checks what an operation returns before it is written: one table, whose columns Spark can tell apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from springline.spark_jobs.operations import OperationOutput


def fault_of_output(result: object) -> str:
    """Return what is wrong with the return value of an operation, with the remedy; empty if nothing is."""
    if isinstance(result, OperationOutput):
        if not isinstance(result.report, Mapping):
            return f"the report of its OperationOutput is a {type(result.report).__name__}: make it a mapping"
        result = result.frame
    if result is None:
        return "its function returns nothing: end it with `return` and a DataFrame"
    if not isinstance(result, DataFrame):
        kind = type(result)
        return f"its function returns a {kind.__module__}.{kind.__qualname__}: return a DataFrame of Spark"
    return next(_faults_of(result.schema, "the table that it returns"), "")


def _faults_of(dtype: T.DataType, place: str) -> Iterator[str]:
    """Yield the faults of a table, or of a column of structs in it."""
    if isinstance(dtype, T.ArrayType):
        yield from _faults_of(dtype.elementType, place)
    if not isinstance(dtype, T.StructType):
        return
    if not dtype.fields:
        yield f"{place} has no columns: return at least one"
    if "" in dtype.names:
        yield f"{place} has a column without a name: give it one with `alias`"
    counts = Counter(map(str.lower, dtype.names))
    if same := [name for name in dtype.names if counts[name.lower()] > 1]:
        yield (
            f"{place} has the columns {', '.join(map(repr, same))}, whose names are the same for Spark, which ignores "
            "case: rename or drop all but one"
        )
    for field in dtype.fields:
        yield from _faults_of(field.dataType, f"{place}, in its column {field.name!r}")
