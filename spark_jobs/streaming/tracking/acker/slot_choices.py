"""Loops that select slots: a first call counts them, a second, with `slots` of that length, lists them."""

from __future__ import annotations

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.tracking.ring import arc_of

_NO_ROOT = np.uint64((1 << 64) - 1)
_TICK_SHIFT, _REGISTERED = np.uint32(7), np.uint32(64)


@njit(cache=True, nogil=True)
def slots_before_tick(roots, marks, before, slots):  # type: ignore[no-untyped-def]
    """Select the slots of roots that were registered before a tick; the greatest tick selects all."""
    count = 0
    for slot in range(roots.size):
        if roots[slot] != _NO_ROOT and marks[slot] >> _TICK_SHIFT < before:
            if slots.size:
                slots[count] = slot
            count += 1
    return count


@njit(cache=True, nogil=True)
def slots_of_other_ackers(roots, owners, acker, slots):  # type: ignore[no-untyped-def]
    """Select the slots of roots whose arc belongs to another acker."""
    count = 0
    for slot in range(roots.size):
        if roots[slot] != _NO_ROOT and owners[arc_of(roots[slot])] != acker:
            if slots.size:
                slots[count] = slot
            count += 1
    return count


@njit(cache=True, nogil=True)
def update_least_roots(roots, marks, least):  # type: ignore[no-untyped-def]
    """Lower `least`, by partition, to the least registered root."""
    for slot in range(roots.size):
        if roots[slot] != _NO_ROOT and marks[slot] & _REGISTERED:
            partition = roots[slot] >> np.uint64(52)
            if roots[slot] < least[partition]:
                least[partition] = roots[slot]
