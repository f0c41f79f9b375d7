"""Loops over keys and tuples, compiled by numba: hashes, the order of keys, merging, and the search for candidates.

Keys are int64 over their whole range, so differences of keys are taken as uint64 and never overflow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.kernels.hashing import hash_bytes, mix

_SEED = np.uint64(0x9E3779B97F4A7C15)
_LEAST: Any = np.int64(-(1 << 63))
_GREATEST: Any = np.int64((1 << 63) - 1)
BLOCK = 64  # keys between two entries of an index
_DIGIT = 11  # bits of a key that one pass sorts by
_LOW_DIGIT = np.uint64((1 << _DIGIT) - 1)


@njit(cache=True, nogil=True)
def mix_in(hashes, numbers):  # type: ignore[no-untyped-def]
    """Take whole numbers into hashes, row by row."""
    for i in range(hashes.size):
        hashes[i] = mix((hashes[i] + _SEED) ^ mix(np.uint64(numbers[i])))


@njit(cache=True, nogil=True)
def mix_in_texts(hashes, offsets, text):  # type: ignore[no-untyped-def]
    """Take texts into hashes, row by row; text i lies from offsets[i] to offsets[i + 1]."""
    for i in range(hashes.size):
        start = np.int64(offsets[i])
        hashes[i] = mix((hashes[i] + _SEED) ^ hash_bytes(text, start, np.int64(offsets[i + 1]) - start))


@njit(cache=True, nogil=True)
def order_of(keys):  # type: ignore[no-untyped-def]
    """The order that sorts keys, those that are equal as they come; by digits, skipping what all have in common."""
    count = keys.size
    order, other = np.empty(count, np.int32), np.empty(count, np.int32)
    now, then = np.empty(count, np.uint64), np.empty(count, np.uint64)
    least, greatest = _GREATEST, _LEAST  # of no keys
    for i in range(count):
        least = min(least, keys[i])
        greatest = max(greatest, keys[i])
    for i in range(count):
        order[i] = i
        now[i] = np.uint64(keys[i]) - np.uint64(least)
    span = np.uint64(greatest) - np.uint64(least)
    starts = np.empty((1 << _DIGIT) + 1, np.int64)
    for place in range(0, 64, _DIGIT):
        by = np.uint64(place)
        if span >> by == 0:
            break
        starts[:] = 0
        for i in range(count):
            starts[np.int64((now[i] >> by) & _LOW_DIGIT) + 1] += 1
        for before in range(1 << _DIGIT):
            starts[before + 1] += starts[before]
        for i in range(count):
            digit = np.int64((now[i] >> by) & _LOW_DIGIT)
            at = starts[digit]
            starts[digit] = at + 1
            other[at] = order[i]
            then[at] = now[i]
        order, other = other, order
        now, then = then, now
    return order


@njit(cache=True, nogil=True)
def merge_order(keys, seqs, other_keys, other_seqs, second):  # type: ignore[no-untyped-def]
    """Merge two sorted runs by (key, seq): whether each place of the merged run is of the second one."""
    i = j = at = 0
    while i < keys.size and j < other_keys.size:
        equal = other_keys[j] == keys[i]
        take = (other_keys[j] < keys[i]) | (equal & (other_seqs[j] < seqs[i]))
        second[at] = take
        j += take
        i += not take
        at += 1
    second[at:] = i == keys.size


@njit(cache=True, nogil=True)
def interleave(first, other, second, merged):  # type: ignore[no-untyped-def]
    """The values of two runs, neither of them empty, in the order that `merge_order` found.

    Without a branch on what comes next, which no processor can foretell: both are read, and one is taken.
    """
    i = j = 0
    first_last, other_last = first.size - 1, other.size - 1
    for at in range(second.size):
        take = second[at]
        here, there = first[min(i, first_last)], other[min(j, other_last)]
        merged[at] = there if take else here
        j += take
        i += not take


@njit(cache=True, nogil=True)
def rows_of(second, first_rows, rows):  # type: ignore[no-untyped-def]
    """The same order as row numbers of the two runs, one after the other."""
    i, j = 0, first_rows
    for at in range(second.size):
        if second[at]:
            rows[at] = j
            j += 1
        else:
            rows[at] = i
            i += 1


@njit(cache=True, nogil=True)
def search(keys, index, probes, low, high, has_low, has_high, first, end):  # type: ignore[no-untyped-def]
    """For each of the sorted probes, which of the sorted keys are in [probe + low, probe + high]: [first, end).

    `index` is every `BLOCK`-th key. What is beyond int64 is beyond all keys.
    """
    if has_low:
        _passed(keys, index, probes, low, False, first)
    else:
        first[:] = 0
    if not has_high:
        end[:] = keys.size
    elif has_low and low == 0 and high == 0:
        for i in range(probes.size):
            found = first[i] < keys.size and keys[first[i]] == probes[i]
            end[i] = _end_of(keys, first[i]) if found else first[i]
    else:
        _passed(keys, index, probes, high, True, end)
        for i in range(probes.size):
            end[i] = max(end[i], first[i])


@njit(cache=True, nogil=True)
def _passed(keys, index, probes, shift, equal, found):  # type: ignore[no-untyped-def]
    """For each probe the first place whose key is greater than probe + shift, or with `equal` false, not less.

    First the blocks, galloping over the index: each search goes on from where the last one ended, in steps that
    double. Then the places within blocks, in a loop without branches on keys, so that the processor waits for the
    memory of several probes at a time.
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
        found[i] = at = low
    for i in range(probes.size):
        if probes[i] < least or probes[i] > greatest:
            found[i] = 0 if probes[i] < least else keys.size
            continue
        bound = probes[i] + shift
        place = max(found[i] - 1, 0) * BLOCK
        left = min(BLOCK, keys.size - place)
        while left > 0:
            half = (left + 1) >> 1
            key = keys[place + half - 1]
            place += half * ((key < bound) | (equal & (key == bound)))
            left -= half
        found[i] = place


@njit(cache=True, nogil=True, inline="always")
def _end_of(keys, begin):  # type: ignore[no-untyped-def]
    """The first place behind `begin` that has another key than that."""
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
def expand(first, end, probe, skip, of_probe, of_store):  # type: ignore[no-untyped-def]
    """Write candidate pairs out, from the `skip`-th of a probe on, until there is no room: where it stopped, how many.

    What it returns is (probe, skip, pairs): where to go on.
    """
    pairs, room = 0, of_probe.size
    while probe < first.size:
        at = first[probe] + skip
        upto = min(end[probe], at + room - pairs)
        for place in range(at, upto):
            of_probe[pairs] = probe
            of_store[pairs] = place
            pairs += 1
        if upto < end[probe]:
            return probe, upto - first[probe], pairs
        probe += 1
        skip = 0
    return probe, 0, pairs
