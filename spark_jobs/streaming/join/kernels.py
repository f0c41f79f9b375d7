"""Loops over keys and tuples, compiled by numba: hashing, sorting and merging by key, and the search for candidates.

Keys are int64 over their whole range, so differences of keys are computed as uint64 and never overflow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.kernels.hashing import hash_bytes, mix

_SEED = np.uint64(0x9E3779B97F4A7C15)
_LEAST: Any = np.int64(-(1 << 63))
_GREATEST: Any = np.int64((1 << 63) - 1)
BLOCK = 64  # keys per entry of an index
_DIGIT = 11  # bits of a key that one pass of the radix sort uses
_LOW_DIGIT = np.uint64((1 << _DIGIT) - 1)


@njit(cache=True, nogil=True)
def mix_in(hashes, numbers):  # type: ignore[no-untyped-def]
    """Mix integers into hashes, row by row."""
    for i in range(hashes.size):
        hashes[i] = mix((hashes[i] + _SEED) ^ mix(np.uint64(numbers[i])))


@njit(cache=True, nogil=True)
def mix_in_texts(hashes, offsets, text):  # type: ignore[no-untyped-def]
    """Mix texts into hashes, row by row; text i is at offsets[i] to offsets[i + 1]."""
    for i in range(hashes.size):
        start = np.int64(offsets[i])
        hashes[i] = mix((hashes[i] + _SEED) ^ hash_bytes(text, start, np.int64(offsets[i + 1]) - start))


@njit(cache=True, nogil=True)
def sort_order(keys):  # type: ignore[no-untyped-def]
    """Return the stable order that sorts keys: a radix sort on the differences to the least key, over their span."""
    count = keys.size
    order, next_order = np.empty(count, np.int32), np.empty(count, np.int32)
    digits, next_digits = np.empty(count, np.uint64), np.empty(count, np.uint64)
    least, greatest = _GREATEST, _LEAST  # the values for no keys
    for i in range(count):
        least = min(least, keys[i])
        greatest = max(greatest, keys[i])
    for i in range(count):
        order[i] = i
        digits[i] = np.uint64(keys[i]) - np.uint64(least)
    span = np.uint64(greatest) - np.uint64(least)
    starts = np.empty((1 << _DIGIT) + 1, np.int64)
    for shift in range(0, 64, _DIGIT):
        shift_bits = np.uint64(shift)
        if span >> shift_bits == 0:
            break
        starts[:] = 0
        for i in range(count):
            starts[np.int64((digits[i] >> shift_bits) & _LOW_DIGIT) + 1] += 1
        for before in range(1 << _DIGIT):
            starts[before + 1] += starts[before]
        for i in range(count):
            digit = np.int64((digits[i] >> shift_bits) & _LOW_DIGIT)
            at = starts[digit]
            starts[digit] = at + 1
            next_order[at] = order[i]
            next_digits[at] = digits[i]
        order, next_order = next_order, order
        digits, next_digits = next_digits, digits
    return order


@njit(cache=True, nogil=True)
def merge_order(keys, places, other_keys, other_places, second):  # type: ignore[no-untyped-def]
    """Merge two sorted runs by (key, place): set `second` to whether each row of the result is from the second one."""
    i = j = at = 0
    while i < keys.size and j < other_keys.size:
        equal = other_keys[j] == keys[i]
        take = (other_keys[j] < keys[i]) | (equal & (other_places[j] < places[i]))
        second[at] = take
        j += take
        i += not take
        at += 1
    second[at:] = i == keys.size


@njit(cache=True, nogil=True)
def interleave(first, other, second, merged):  # type: ignore[no-untyped-def]
    """Merge the values of two non-empty runs in the order that `merge_order` found.

    The loop reads both values and selects one, without a branch on the order, which no processor could predict.
    """
    i = j = 0
    first_last, other_last = first.size - 1, other.size - 1
    for at in range(second.size):
        take = second[at]
        first_value, other_value = first[min(i, first_last)], other[min(j, other_last)]
        merged[at] = other_value if take else first_value
        j += take
        i += not take


@njit(cache=True, nogil=True)
def search_ranges(keys, index, probes, low, high, has_low, has_high, first, end):  # type: ignore[no-untyped-def]
    """Find for each sorted probe the range [first, end) of sorted keys in [probe + low, probe + high].

    `index` is every `BLOCK`-th key. A bound beyond int64 is beyond all keys.
    """
    if has_low:
        _first_beyond(keys, index, probes, low, False, first)
    else:
        first[:] = 0
    if not has_high:
        end[:] = keys.size
    elif has_low and low == 0 and high == 0:
        for i in range(probes.size):
            is_match = first[i] < keys.size and keys[first[i]] == probes[i]
            end[i] = _end_of_key(keys, first[i]) if is_match else first[i]
    else:
        _first_beyond(keys, index, probes, high, True, end)
        for i in range(probes.size):
            end[i] = max(end[i], first[i])


@njit(cache=True, nogil=True)
def _first_beyond(keys, index, probes, shift, equal, positions):  # type: ignore[no-untyped-def]
    """Find for each probe the first place whose key is greater than probe + shift, or, if not `equal`, not less.

    First the blocks are found by galloping over the index: each search starts where the previous one ended, in steps
    that double. Then the places within blocks are found in a loop without branches on keys, so that the memory accesses
    of several probes overlap.
    """
    least, greatest = _LEAST - min(shift, 0), _GREATEST - max(shift, 0)
    at = 0
    for i in range(probes.size):
        bound = min(max(probes[i], least), greatest) + shift
        low = high = at
        step = 1
        while high < index.size and (index[high] < bound or (equal and index[high] == bound)):
            low = high + 1
            high += step
            step += step
        high = min(high, index.size)
        while low < high:
            middle = (low + high) >> 1
            if index[middle] < bound or (equal and index[middle] == bound):
                low = middle + 1
            else:
                high = middle
        positions[i] = at = low
    for i in range(probes.size):
        if probes[i] < least or probes[i] > greatest:
            positions[i] = 0 if probes[i] < least else keys.size
            continue
        bound = probes[i] + shift
        place = max(positions[i] - 1, 0) * BLOCK
        left = min(BLOCK, keys.size - place)
        while left > 0:
            half = (left + 1) >> 1
            key = keys[place + half - 1]
            place += half * ((key < bound) | (equal & (key == bound)))
            left -= half
        positions[i] = place


@njit(cache=True, nogil=True, inline="always")
def _end_of_key(keys, begin):  # type: ignore[no-untyped-def]
    """Return the first place after `begin` with a different key."""
    key = keys[begin]
    low, high, step = begin, begin + 1, 1
    while high < keys.size and keys[high] == key:
        low = high
        high += step
        step += step
    high = min(high, keys.size)
    low += 1
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] == key:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def expand_pairs(first, end, probe, skip, of_probe, of_store):  # type: ignore[no-untyped-def]
    """Write candidate pairs from the `skip`-th candidate of `probe` on, until the output is full.

    Returns (probe, skip, pairs): the position to continue from, and the number of pairs written.
    """
    pairs, capacity = 0, of_probe.size
    while probe < first.size:
        at = first[probe] + skip
        upto = min(end[probe], at + capacity - pairs)
        for place in range(at, upto):
            of_probe[pairs] = probe
            of_store[pairs] = place
            pairs += 1
        if upto < end[probe]:
            return probe, upto - first[probe], pairs
        probe += 1
        skip = 0
    return probe, 0, pairs
