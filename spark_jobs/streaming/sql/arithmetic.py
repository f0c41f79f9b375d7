"""SQL arithmetic over columns of numbers: undefined results are null, and no row can raise an error.

Integers are 64 bits wide: a result that overflows is null, and so is a division by zero. A result that is not a number
(inf - inf, 0 * inf) is null too: there is no NaN. round() rounds as in DuckDB, ties away from zero. Decimals are
integers with a scale here, and have up to 18 digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Values = Any  # a pyarrow array or scalar; pyarrow has no type hints
Numbers = npt.NDArray[Any]
NullMask = npt.NDArray[np.bool_] | None  # which results are undefined; None: none
_LEAST = np.int64(-(2**63))
_SAFE = 9.2e18  # a product that is below this in doubles fits 64 bits
_BEYOND = 2.0**63
_DECIMAL_LIMIT = 10**18
_DAY = 86_400_000_000  # microseconds


def apply_kernel(kernel: Callable[..., tuple[Numbers, NullMask]], parts: Sequence[Values]) -> Values:
    """Apply a kernel to numbers of one type; null where an argument is null, a scalar if all arguments are scalars."""
    is_scalar = all(isinstance(part, pa.Scalar) for part in parts)
    with np.errstate(all="ignore"):
        results, nulls = kernel(*(as_numpy(part) for part in parts))
    for part in parts:
        if isinstance(part, pa.Scalar):
            nulls = nulls if part.is_valid else np.ones(results.shape, np.bool_)
        elif part.null_count:
            null_inputs = ~np.asarray(part.is_valid().to_numpy(zero_copy_only=False))
            nulls = null_inputs if nulls is None else nulls | null_inputs
    if results.dtype == np.float64 and (nans := np.isnan(results)).any():
        nulls = nans if nulls is None else nulls | nans
    mask = np.broadcast_to(nulls, results.shape) if nulls is not None and nulls.any() else None
    array = pa.array(results, mask=mask)
    return array[0] if is_scalar else array


def as_numpy(part: Values) -> Numbers:
    """Return numbers as a numpy array, with 0 for null; a scalar gives an array of one element."""
    if isinstance(part, pa.Scalar):
        kind = np.float64 if pa.types.is_floating(part.type) else np.int64
        return np.array([part.as_py() if part.is_valid else 0], kind)
    filled = pc.fill_null(part, pa.scalar(0, part.type)) if part.null_count else part
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def is_number(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def add(left: Numbers, right: Numbers) -> tuple[Numbers, NullMask]:
    """Return left + right."""
    total = left + right
    return total, None if total.dtype == np.float64 else ((left ^ total) & (right ^ total)) < 0


def subtract(left: Numbers, right: Numbers) -> tuple[Numbers, NullMask]:
    """Return left - right."""
    difference = left - right
    return difference, None if difference.dtype == np.float64 else ((left ^ right) & (left ^ difference)) < 0


def multiply(left: Numbers, right: Numbers) -> tuple[Numbers, NullMask]:
    """Return left * right."""
    product = left * right
    if product.dtype == np.float64:
        return product, None
    nulls = np.abs(left.astype(np.float64) * right) >= _SAFE
    for row in np.flatnonzero(nulls).tolist():  # few, if any
        exact = int(left[row if left.size > 1 else 0]) * int(right[row if right.size > 1 else 0])
        nulls[row] = exact != int(product[row])
    return product, nulls


def divide(left: Numbers, right: Numbers) -> tuple[Numbers, NullMask]:
    """Return left / right, of doubles."""
    return left / right, right == 0


def divide_truncating(left: Numbers, right: Numbers) -> tuple[Numbers, NullMask]:
    """Return left // right: the quotient, truncated towards zero."""
    if left.dtype == np.float64:
        return np.trunc(left / right), right == 0
    divisor, nulls = _divisor(left, right)
    return (left - np.fmod(left, divisor)) // divisor, nulls


def remainder(left: Numbers, right: Numbers) -> tuple[Numbers, NullMask]:
    """Return left % right: the remainder of //, with the sign of `left`."""
    if left.dtype == np.float64:
        return np.fmod(left, right), None
    divisor, nulls = _divisor(left, right)
    return np.fmod(left, divisor), nulls


def _divisor(left: Numbers, right: Numbers) -> tuple[Numbers, NullMask]:
    """Return a divisor that is safe for every row, and the rows where the true divisor gives no 64-bit result."""
    nulls = (right == 0) | ((right == -1) & (left == _LEAST))
    return np.where(nulls, 1, right), nulls


def negate(values: Numbers) -> tuple[Numbers, NullMask]:
    """Return -x."""
    return -values, None if values.dtype == np.float64 else values == _LEAST


def absolute_value(values: Numbers) -> tuple[Numbers, NullMask]:
    """Return abs(x)."""
    return np.abs(values), None if values.dtype == np.float64 else values == _LEAST


def floor(values: Numbers) -> tuple[Numbers, NullMask]:
    """Return floor(x)."""
    return (np.floor(values) if values.dtype == np.float64 else values), None


def ceil(values: Numbers) -> tuple[Numbers, NullMask]:
    """Return ceil(x)."""
    return (np.ceil(values) if values.dtype == np.float64 else values), None


def round_to(digits: int) -> Callable[[Numbers], tuple[Numbers, NullMask]]:
    """Return the kernel of round(x, digits); a value is unchanged if the scaled one exceeds the range of doubles."""

    def kernel(values: Numbers) -> tuple[Numbers, NullMask]:
        if values.dtype != np.float64:
            return values, None
        scale = 10.0**digits
        scaled = values * scale
        integral = np.trunc(scaled)
        integral += np.where(np.abs(scaled - integral) >= 0.5, np.sign(scaled), 0.0)
        rounded_values = integral / scale
        return np.where(np.isfinite(rounded_values), rounded_values, values), None

    return kernel


def as_integer(values: Numbers) -> tuple[Numbers, NullMask]:
    """Return the nearest integer, ties to even; null outside 64 bits."""
    fits = (values >= -_BEYOND) & (values < _BEYOND)
    return np.rint(np.where(fits, values, 0)).astype(np.int64), ~fits


def as_double(values: Numbers) -> tuple[Numbers, NullMask]:
    """Return the nearest double."""
    return values.astype(np.float64), None


def limited(digits: Numbers) -> tuple[Numbers, NullMask]:
    """Return the digits of decimals; null if there are more than 18."""
    return digits, (digits >= _DECIMAL_LIMIT) | (digits <= -_DECIMAL_LIMIT)


def scaled_to_double(scale: int) -> Callable[[Numbers], tuple[Numbers, NullMask]]:
    """Return the kernel that divides the digits of decimals by 10^scale."""
    return lambda digits: (digits / 10.0**scale, None)


def with_places(places: int, scale: int) -> Callable[[Numbers], tuple[Numbers, NullMask]]:
    """Return the kernel that turns the digits of decimals with `places` decimal places into those of `scale`.

    Places that there are no longer are rounded, ties away from zero; what overflows 64 bits is null.
    """

    def kernel(digits: Numbers) -> tuple[Numbers, NullMask]:
        if scale >= places:
            return multiply(digits, np.full(1, 10 ** (scale - places)))
        divisor = 10 ** (places - scale)
        cut = np.fmod(digits, divisor)
        quotient = (digits - cut) // divisor
        return quotient + np.where(2 * np.abs(cut) >= divisor, np.sign(digits), 0), None

    return kernel


def floor_places(places: int) -> Callable[[Numbers], tuple[Numbers, NullMask]]:
    """Return the kernel of floor() for the digits of decimals."""
    return lambda digits: (digits // 10**places, None)


def ceil_places(places: int) -> Callable[[Numbers], tuple[Numbers, NullMask]]:
    """Return the kernel of ceil() for the digits of decimals."""
    return lambda digits: (-(-digits // 10**places), None)


def as_digits(scale: int) -> Callable[[Numbers], tuple[Numbers, NullMask]]:
    """Return the kernel that turns doubles into the digits of decimals, rounded, ties away from zero."""

    def kernel(values: Numbers) -> tuple[Numbers, NullMask]:
        scaled, _ = round_to(0)(values * 10.0**scale)
        fits = np.abs(scaled) < _DECIMAL_LIMIT
        return np.where(fits, scaled, 0).astype(np.int64), ~fits

    return kernel


def days(micros: Numbers) -> tuple[Numbers, NullMask]:
    """Return the days of timestamps."""
    return micros // _DAY, None


def midnights(dates: Numbers) -> tuple[Numbers, NullMask]:
    """Return the timestamps at which days begin."""
    return dates * _DAY, None
