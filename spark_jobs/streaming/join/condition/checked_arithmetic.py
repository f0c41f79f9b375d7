"""What checked expressions give for rows or for pairs, worked out as in windows; their numbers as numpy has them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from springline.spark_jobs.streaming.sql.arithmetic import plain
from springline.spark_jobs.streaming.sql.expressions import Expression

Columns = Mapping[str, pa.Array]
Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def holds(condition: Expression, columns: Columns, rows: int) -> Mask:
    """In which of so many rows it is true: neither false nor null."""
    found = condition.values(columns, rows).cast(pa.bool_())
    return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False))


def ints(array: pa.Array) -> tuple[Ints, Mask]:
    """Whole numbers, and which of them are there."""
    return plain(array).astype(np.int64, copy=False), _valid(array)


def floats(array: pa.Array) -> tuple[npt.NDArray[np.float64], Mask]:
    """Numbers as doubles, 0.0 for -0.0, and which of them are there."""
    return plain(array).astype(np.float64) + 0.0, _valid(array)


def without_nan(array: pa.Array) -> pa.Array:
    """A column of a side with null for NaN."""
    if not pa.types.is_floating(array.type) or not (odd := np.isnan(plain(array))).any():
        return array
    return pc.if_else(pa.array(odd), pa.scalar(None, array.type), array)


def _valid(array: pa.Array) -> Mask:
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
