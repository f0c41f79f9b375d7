"""Arithmetic of SQL over columns of numbers: what has no value is null, and nothing that a row holds raises.

Whole numbers are 64 bits wide: a result beyond them is null, and so is one of a division by zero. A result that is not
a number (inf - inf, 0 * inf) is null too: there is no NaN. round() rounds as in DuckDB, ties away from zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Values = Any  # an array or a scalar of pyarrow, which has no types
Numbers = npt.NDArray[Any]
Lost = npt.NDArray[np.bool_] | None  # which results do not fit; None: all do
_LEAST = np.int64(-(2**63))
_SAFE = 9.2e18  # a product that doubles put below this fits 64 bits
_BEYOND = 2.0**63


def worked_out(kernel: Callable[..., tuple[Numbers, Lost]], parts: Sequence[Values]) -> Values:
    """What a kernel gives for numbers of one type, null where one of them is; a scalar where all are scalars."""
    lone = all(isinstance(part, pa.Scalar) for part in parts)
    with np.errstate(all="ignore"):
        found, lost = kernel(*(plain(part) for part in parts))
    for part in parts:
        if isinstance(part, pa.Scalar):
            lost = lost if part.is_valid else np.ones(found.shape, np.bool_)
        elif part.null_count:
            gone = ~np.asarray(part.is_valid().to_numpy(zero_copy_only=False))
            lost = gone if lost is None else lost | gone
    if found.dtype == np.float64 and (odd := np.isnan(found)).any():
        lost = odd if lost is None else lost | odd
    mask = np.broadcast_to(lost, found.shape) if lost is not None and lost.any() else None
    array = pa.array(found, mask=mask)
    return array[0] if lone else array


def plain(part: Values) -> Numbers:
    """Numbers as numpy has them, 0 for null; one of a scalar."""
    if isinstance(part, pa.Scalar):
        kind = np.float64 if pa.types.is_floating(part.type) else np.int64
        return np.array([part.as_py() if part.is_valid else 0], kind)
    filled = pc.fill_null(part, pa.scalar(0, part.type)) if part.null_count else part
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type holds numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def added(left: Numbers, right: Numbers) -> tuple[Numbers, Lost]:
    """left + right."""
    whole = left + right
    return whole, None if whole.dtype == np.float64 else ((left ^ whole) & (right ^ whole)) < 0


def subtracted(left: Numbers, right: Numbers) -> tuple[Numbers, Lost]:
    """left - right."""
    whole = left - right
    return whole, None if whole.dtype == np.float64 else ((left ^ right) & (left ^ whole)) < 0


def multiplied(left: Numbers, right: Numbers) -> tuple[Numbers, Lost]:
    """left * right."""
    whole = left * right
    if whole.dtype == np.float64:
        return whole, None
    lost = np.abs(left.astype(np.float64) * right) >= _SAFE
    for row in np.flatnonzero(lost).tolist():  # few, if any
        exact = int(left[row if left.size > 1 else 0]) * int(right[row if right.size > 1 else 0])
        lost[row] = exact != int(whole[row])
    return whole, lost


def divided(left: Numbers, right: Numbers) -> tuple[Numbers, Lost]:
    """left / right, of doubles."""
    return left / right, right == 0


def cut_off(left: Numbers, right: Numbers) -> tuple[Numbers, Lost]:
    """left // right: the quotient without what is behind the point."""
    if left.dtype == np.float64:
        return np.trunc(left / right), right == 0
    some, lost = _divisor(left, right)
    return (left - np.fmod(left, some)) // some, lost


def remainder(left: Numbers, right: Numbers) -> tuple[Numbers, Lost]:
    """left % right: what // leaves, with the sign of `left`."""
    if left.dtype == np.float64:
        return np.fmod(left, right), None
    some, lost = _divisor(left, right)
    return np.fmod(left, some), lost


def _divisor(left: Numbers, right: Numbers) -> tuple[Numbers, Lost]:
    """A divisor by which all can be divided, and where the true one does not give 64 bits."""
    lost = (right == 0) | ((right == -1) & (left == _LEAST))
    return np.where(lost, 1, right), lost


def negated(given: Numbers) -> tuple[Numbers, Lost]:
    """-x."""
    return -given, None if given.dtype == np.float64 else given == _LEAST


def absolute(given: Numbers) -> tuple[Numbers, Lost]:
    """abs(x)."""
    return np.abs(given), None if given.dtype == np.float64 else given == _LEAST


def floored(given: Numbers) -> tuple[Numbers, Lost]:
    """floor(x)."""
    return (np.floor(given) if given.dtype == np.float64 else given), None


def raised(given: Numbers) -> tuple[Numbers, Lost]:
    """ceil(x)."""
    return (np.ceil(given) if given.dtype == np.float64 else given), None


def rounded(digits: int) -> Callable[[Numbers], tuple[Numbers, Lost]]:
    """round(x, digits): as it is where that is beyond doubles."""

    def kernel(given: Numbers) -> tuple[Numbers, Lost]:
        if given.dtype != np.float64:
            return given, None
        scale = 10.0**digits
        scaled = given * scale
        whole = np.trunc(scaled)
        whole += np.where(np.abs(scaled - whole) >= 0.5, np.sign(scaled), 0.0)
        found = whole / scale
        return np.where(np.isfinite(found), found, given), None

    return kernel


def as_whole(given: Numbers) -> tuple[Numbers, Lost]:
    """The nearest whole number, of two the even one; none beyond 64 bits."""
    fits = (given >= -_BEYOND) & (given < _BEYOND)
    return np.rint(np.where(fits, given, 0)).astype(np.int64), ~fits


def as_double(given: Numbers) -> tuple[Numbers, Lost]:
    """The nearest double."""
    return given.astype(np.float64), None
