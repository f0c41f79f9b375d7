"""Loops that choose slots: the first call counts them, the second, with `chosen` as long, lists them."""

from __future__ import annotations

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.tracking.ring import arc_of

_NO_ROOT = np.uint64((1 << 64) - 1)
_BORN, _REGISTERED = np.uint32(7), np.uint32(64)


@njit(cache=True, nogil=True)
def born_before(roots, marks, before, chosen):  # type: ignore[no-untyped-def]
    """Slots of roots that were born before a slice; the greatest slice chooses all."""
    count = 0
    for slot in range(roots.size):
        if roots[slot] != _NO_ROOT and marks[slot] >> _BORN < before:
            if chosen.size:
                chosen[count] = slot
            count += 1
    return count


@njit(cache=True, nogil=True)
def held_for_others(roots, owners, acker, chosen):  # type: ignore[no-untyped-def]
    """Slots of roots whose arc is another acker's."""
    count = 0
    for slot in range(roots.size):
        if roots[slot] != _NO_ROOT and owners[arc_of(roots[slot])] != acker:
            if chosen.size:
                chosen[count] = slot
            count += 1
    return count


@njit(cache=True, nogil=True)
def lows(roots, marks, least):  # type: ignore[no-untyped-def]
    """The least registered root of each partition, into `least`."""
    for slot in range(roots.size):
        if roots[slot] != _NO_ROOT and marks[slot] & _REGISTERED:
            partition = roots[slot] >> np.uint64(52)
            if roots[slot] < least[partition]:
                least[partition] = roots[slot]
