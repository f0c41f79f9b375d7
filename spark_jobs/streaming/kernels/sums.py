"""Loops that add values to groups, in the order of the rows; rows with a negative group are skipped."""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def add_ones(groups, into):  # type: ignore[no-untyped-def]
    """Count rows."""
    for i in range(groups.size):
        if groups[i] >= 0:
            into[groups[i]] += 1


@njit(cache=True, nogil=True)
def add_counts(groups, valid, into):  # type: ignore[no-untyped-def]
    """Count rows with a value."""
    for i in range(groups.size):
        if groups[i] >= 0:
            into[groups[i]] += valid[i]


@njit(cache=True, nogil=True)
def add_sums(groups, values, valid, into):  # type: ignore[no-untyped-def]
    """Add values to each group; `valid` is empty if all are valid."""
    for i in range(groups.size):
        if groups[i] >= 0 and (valid.size == 0 or valid[i]):
            into[groups[i]] += values[i]


@njit(cache=True, nogil=True)
def add_integers_in_pairs(groups, values, valid, into, remainders):  # type: ignore[no-untyped-def]
    """Add integers, and count the overflows of each 64-bit sum: +1 above, -1 below."""
    for i in range(groups.size):
        if groups[i] >= 0 and (valid.size == 0 or valid[i]):
            group = groups[i]
            value = values[i]
            before = into[group]
            after = np.int64(np.uint64(before) + np.uint64(value))  # unsigned: signed sums are assumed not to overflow
            into[group] = after
            remainders[group] += np.int64(after < before) - np.int64(value < 0)


@njit(cache=True, nogil=True)
def add_sums_in_pairs(groups, values, valid, into, remainders):  # type: ignore[no-untyped-def]
    """Add doubles, and sum the rounding errors of each sum (Knuth's two-sum)."""
    for i in range(groups.size):
        if groups[i] >= 0 and (valid.size == 0 or valid[i]):
            group = groups[i]
            value = values[i]
            before = into[group]
            after = before + value
            part = after - before
            into[group] = after
            remainders[group] += (before - (after - part)) + (value - part)


@njit(cache=True, nogil=True, inline="always")
def _is_less(value, other):  # type: ignore[no-untyped-def]
    zeros = value == 0 and other == 0
    return value < other or (zeros and math.copysign(1.0, value) < math.copysign(1.0, other))


@njit(cache=True, nogil=True)
def keep_min(groups, values, valid, into):  # type: ignore[no-untyped-def]
    """Keep the minimum of each group; negative zero is less than zero, so that the order of rows does not show."""
    for i in range(groups.size):
        if groups[i] >= 0 and (valid.size == 0 or valid[i]) and _is_less(values[i], into[groups[i]]):
            into[groups[i]] = values[i]


@njit(cache=True, nogil=True)
def keep_max(groups, values, valid, into):  # type: ignore[no-untyped-def]
    """Keep the maximum of each group; zero is greater than negative zero, so that the order of rows does not show."""
    for i in range(groups.size):
        if groups[i] >= 0 and (valid.size == 0 or valid[i]) and _is_less(into[groups[i]], values[i]):
            into[groups[i]] = values[i]
