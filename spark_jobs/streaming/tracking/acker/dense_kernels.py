"""Loops over blocks of check values: one uint64 for each root of a range that this acker holds, 0 if it is completed.

A range is a row of numbers, indexed by the constants below. Its roots are on consecutive places of the ring: the rows
of one message on consecutive arcs (ORDER 0), the first rows of messages on consecutive places of messages (ORDER 1). So
the position of a root's value is a difference of two ranks, and the root of a value is found with one access to the
inverse.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.tracking.acker.cpu_intrinsics import load_at, prefetch_at, store_at
from springline.spark_jobs.streaming.tracking.ring import arc_of, message_place

FIRST, MESSAGES, ROWS, ORDER, PLACE, RING, ADDRESS, UNFINISHED, TICK = range(9)
COLUMNS = 9

_16, _48_BITS = np.uint64(16), np.uint64((1 << 48) - 1)
_ROW = np.uint64((1 << 16) - 1)
_ZERO = np.uint64(0)
_BLOCK = 64


@njit(cache=True, nogil=True, inline="always")
def _before(ranks, place, steps):  # type: ignore[no-untyped-def]
    """Return how many places of the acker are among the `steps` places from `place` on."""
    end = place + steps
    return (end >> 12) * ranks[4096] + ranks[end & 4095] - ranks[place]


@njit(cache=True, nogil=True)
def places(ranks, place, steps):  # type: ignore[no-untyped-def]
    """`_before` for callers outside of kernels."""
    return _before(ranks, place, steps)


@njit(cache=True, nogil=True)
def place_of(root, order):  # type: ignore[no-untyped-def]
    """Return the place on the ring of a range that begins with this root, in one of both orders."""
    return np.int64(message_place(root) if order else arc_of(root))


@njit(cache=True, nogil=True, inline="always")
def _search(ranges, message):  # type: ignore[no-untyped-def]
    """Return the last range that begins at a message or before it; -1 if none does."""
    low, high = np.int64(0), np.int64(len(ranges))
    while low < high:
        middle = (low + high) >> 1
        if ranges[middle, FIRST] <= message:
            low = middle + 1
        else:
            high = middle
    return low - 1


@njit(cache=True, nogil=True, inline="always")
def _locate(ranges, ranks, root, last):  # type: ignore[no-untyped-def]
    """Return the range of a root (`last` is tried first) and the address of its value, 0 if there is none."""
    message, row = np.int64(root >> _16), np.int64(root & _ROW)
    if last < 0 or not ranges[last, FIRST] <= message < ranges[last, FIRST] + ranges[last, MESSAGES]:
        last = _search(ranges, message)
        if last < 0 or message >= ranges[last, FIRST] + ranges[last, MESSAGES]:
            return last, _ZERO
    if row >= ranges[last, ROWS]:
        return last, _ZERO
    own = ranks[ranges[last, RING], ranges[last, ORDER]]
    place, steps = ranges[last, PLACE], message - ranges[last, FIRST] + row
    position = (place + steps) & 4095
    if own[position + 1] == own[position]:
        return last, _ZERO
    return last, np.uint64(ranges[last, ADDRESS] + 8 * _before(own, place, steps))


@njit(cache=True, nogil=True)
def locate(ranges, ranks, roots, range_indices, addresses):  # type: ignore[no-untyped-def]
    """Find the range and the address of each root's value; address 0 if there is none."""
    last = np.int64(-1)
    for i in range(roots.size):
        last, addresses[i] = _locate(ranges, ranks, roots[i], last)
        range_indices[i] = last


@njit(cache=True, nogil=True)
def ack(ranges, ranks, roots, added, is_unfinished, completed, completed_ticks):  # type: ignore[no-untyped-def]
    """XOR into the value of each root; return how many became 0, which are listed in `completed`.

    `is_unfinished` is false if there is no value, or it was 0 already. `added` is as long as `roots`, or has one value
    for all.
    """
    step = np.int64(added.size > 1)
    holders, addresses = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.uint64)
    last, count = np.int64(-1), np.int64(0)
    for begin in range(0, roots.size, _BLOCK):
        end = min(begin + _BLOCK, roots.size)
        for i in range(begin, end):
            last, address = _locate(ranges, ranks, roots[i], last)
            holders[i - begin], addresses[i - begin] = last, address
            prefetch_at(address)
        for i in range(begin, end):
            address = addresses[i - begin]
            value = load_at(address) if address else _ZERO
            is_unfinished[i] = value != _ZERO
            if value != _ZERO:
                value ^= added[i * step]
                store_at(address, value)
                if value == _ZERO:
                    ranges[holders[i - begin], UNFINISHED] -= 1
                    completed[count], completed_ticks[count] = roots[i], ranges[holders[i - begin], TICK]
                    count += 1
    return count


@njit(cache=True, nogil=True)
def exchange(ranges, holders, addresses, values):  # type: ignore[no-untyped-def]
    """Swap each value with the one at its address; a root without an address gets 0."""
    for i in range(addresses.size):
        if addresses[i]:
            previous = load_at(addresses[i])
            store_at(addresses[i], values[i])
            ranges[holders[i], UNFINISHED] += np.int64(values[i] != _ZERO) - np.int64(previous != _ZERO)
            values[i] = previous
        else:
            values[i] = _ZERO


@njit(cache=True, nogil=True)
def roots_at(first, order, place, ranks, inverse, positions):  # type: ignore[no-untyped-def]
    """Return the roots whose values are at positions of a range."""
    roots = np.empty(positions.size, np.uint64)
    total, skipped = ranks[4096], ranks[place]
    for i in range(positions.size):
        nth = skipped + positions[i]
        turn = nth // total
        steps = turn * 4096 + inverse[nth - turn * total] - place
        roots[i] = (np.uint64(first + steps) << _16) if order else (np.uint64(first) << _16) + np.uint64(steps)
    return roots


@njit(cache=True, nogil=True)
def places_of(roots):  # type: ignore[no-untyped-def]
    """Return the place of each root's message."""
    message_places = np.empty(roots.size, np.int64)
    for i in range(roots.size):
        message_places[i] = message_place(roots[i])
    return message_places
