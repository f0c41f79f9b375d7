"""Evaluation of checked expressions for rows or pairs, as in windows, with results as numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from springline.spark_jobs.streaming.sources.field_types import stored
from springline.spark_jobs.streaming.sql.arithmetic import as_numpy
from springline.spark_jobs.streaming.sql.expressions import Expression

Columns = Mapping[str, pa.Array]
Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def is_true(condition: Expression, columns: Columns, rows: int) -> Mask:
    """Return a mask of the rows in which the condition is true: neither false nor null."""
    values = condition.values(columns, rows)
    if not pa.types.is_boolean(values.type):
        values = values.cast(pa.bool_())
    return np.asarray((pc.fill_null(values, False) if values.null_count else values).to_numpy(zero_copy_only=False))


def ints(values: pa.Array) -> tuple[Ints, Mask]:
    """Return values that lie in columns as integers, and a mask of those that are not null."""
    array = stored(values)
    return as_numpy(array).astype(np.int64, copy=False), _valid(array)


def floats(array: pa.Array) -> tuple[npt.NDArray[np.float64], Mask]:
    """Return numbers as doubles, with 0.0 for -0.0, and a mask of those that are not null."""
    if pa.types.is_decimal(array.type):
        return as_numpy(stored(array)) / 10.0**array.type.scale + 0.0, _valid(array)
    return as_numpy(array).astype(np.float64) + 0.0, _valid(array)


def without_nan(array: pa.Array) -> pa.Array:
    """Return a column of a side with NaN replaced by null."""
    if not pa.types.is_floating(array.type) or not (odd := np.isnan(as_numpy(array))).any():
        return array
    return pc.if_else(pa.array(odd), pa.scalar(None, array.type), array)


def _valid(array: pa.Array) -> Mask:
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
