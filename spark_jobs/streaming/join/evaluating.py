"""What checked expressions give for rows or for pairs: as the windows' do, but a whole number never wraps around.

Where a sum, a difference, a product or a quotient of whole numbers does not fit 64 bits, the row has no value.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from spark_jobs.streaming.join.forms import LEAST
from spark_jobs.streaming.windows.expressions import Expression
from spark_jobs.streaming.windows.values import parts_of, value

Columns = Mapping[str, pa.Array]
Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def values(expression: Expression, columns: Columns, rows: int) -> pa.Array:
    """Its value for each of so many rows."""
    found = expression.values(columns, rows)
    over = _over(expression, columns, rows)
    return found if over is None else pc.if_else(pa.array(over), pa.scalar(None, found.type), found)


def holds(condition: Expression, columns: Columns, rows: int) -> Mask:
    """In which rows it is true: neither false nor null."""
    found = condition.values(columns, rows).cast(pa.bool_())
    mask = np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False))
    over = _over(condition, columns, rows)
    return mask if over is None else mask & ~over


def ints(array: pa.Array) -> tuple[Ints, Mask]:
    """Whole numbers, and which of them are there."""
    return _filled(array, 0).astype(np.int64, copy=False), _valid(array)


def floats(array: pa.Array) -> tuple[npt.NDArray[np.float64], Mask]:
    """Numbers as doubles, 0.0 for -0.0, and which of them are there and not NaN."""
    found = _filled(array, 0).astype(np.float64) + 0.0
    return found, _valid(array) & ~np.isnan(found)


def _filled(array: pa.Array, instead: int) -> npt.NDArray[np.generic]:
    filled = pc.fill_null(array, pa.scalar(instead, array.type)) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def _valid(array: pa.Array) -> Mask:
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def _over(expression: Expression, columns: Columns, rows: int) -> Mask | None:
    """In which rows a whole number does not fit; None if there is none that could be too large."""
    found: Mask | None = None
    for node in expression.node.find_all(exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Abs, exp.IntDiv):
        parts = [value(part, columns) for part in parts_of(node)]
        if not all(pa.types.is_int64(part.type) for part in parts):
            continue
        arrays = [_filled(pa.repeat(part, rows) if isinstance(part, pa.Scalar) else part, 0) for part in parts]
        over = _overflows(node, arrays)
        found = over if found is None else found | over
    return found if found is not None and found.any() else None


def _overflows(node: exp.Expr, parts: list[npt.NDArray[np.generic]]) -> Mask:
    first = np.asarray(parts[0], np.int64)
    if len(parts) == 1:
        return np.asarray(first == LEAST)
    second = np.asarray(parts[1], np.int64)
    with np.errstate(over="ignore", divide="ignore"):
        if isinstance(node, exp.Add):
            whole = first + second
            return np.asarray(((first ^ whole) & (second ^ whole)) < 0)
        if isinstance(node, exp.Sub):
            whole = first - second
            return np.asarray(((first ^ second) & (first ^ whole)) < 0)
        turned = (first == LEAST) & (second == -1)
        if isinstance(node, exp.IntDiv):
            return np.asarray(turned)
        whole = first * second
        some = np.where(second == 0, 1, second)
        return np.asarray(((whole // np.where(turned, 1, some) != first) & (second != 0)) | turned)
