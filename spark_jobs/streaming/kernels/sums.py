"""Loops that add values to groups, in the order of the rows; a group below 0 is left out."""

from __future__ import annotations

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
    """Add whole numbers; `valid` is empty where all are."""
    for i in range(groups.size):
        if groups[i] >= 0 and (valid.size == 0 or valid[i]):
            into[groups[i]] += values[i]


@njit(cache=True, nogil=True)
def add_wholes_in_pairs(groups, values, valid, into, rests):  # type: ignore[no-untyped-def]
    """Add whole numbers, and count how often each sum went beyond 64 bits: up counts 1, down -1."""
    for i in range(groups.size):
        if groups[i] >= 0 and (valid.size == 0 or valid[i]):
            group = groups[i]
            value = values[i]
            before = into[group]
            after = np.int64(np.uint64(before) + np.uint64(value))  # the compiler takes it that signed ones fit
            into[group] = after
            rests[group] += np.int64(after < before) - np.int64(value < 0)


@njit(cache=True, nogil=True)
def add_sums_in_pairs(groups, values, valid, into, rests):  # type: ignore[no-untyped-def]
    """Add doubles, and what rounding leaves of each sum (Knuth's two-sum)."""
    for i in range(groups.size):
        if groups[i] >= 0 and (valid.size == 0 or valid[i]):
            group = groups[i]
            value = values[i]
            before = into[group]
            after = before + value
            part = after - before
            into[group] = after
            rests[group] += (before - (after - part)) + (value - part)


@njit(cache=True, nogil=True)
def keep_least(groups, values, valid, into):  # type: ignore[no-untyped-def]
    """Keep the least value."""
    for i in range(groups.size):
        if groups[i] >= 0 and (valid.size == 0 or valid[i]) and values[i] < into[groups[i]]:
            into[groups[i]] = values[i]


@njit(cache=True, nogil=True)
def keep_greatest(groups, values, valid, into):  # type: ignore[no-untyped-def]
    """Keep the greatest value."""
    for i in range(groups.size):
        if groups[i] >= 0 and (valid.size == 0 or valid[i]) and values[i] > into[groups[i]]:
            into[groups[i]] = values[i]
