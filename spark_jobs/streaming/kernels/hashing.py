"""Loops over rows, compiled by numba: the first call of a process takes them from the cache beside this file.

Every loop goes through the rows in their order and keeps its sums from call to call, so it does not matter how rows
are cut into calls. Tables are open addressing in powers of two; a loop that finds its table full returns the row that
it stopped at, and goes on there when the table has grown. Codes begin at 1; 0 stands for null.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.kernels.bit_intrinsics import load_8

_MIX_1 = np.uint64(0x9E3779B97F4A7C15)
_MIX_2 = np.uint64(0xD6E8FEB86659FD93)
_HIGH = np.uint64(0xFFFFFFFF00000000)
_LOW = np.uint64(0x00000000FFFFFFFF)
_32 = np.uint64(32)
_29 = np.uint64(29)


@njit(cache=True, nogil=True, inline="always")
def _tail(data, start, length):  # type: ignore[no-untyped-def]
    """Fewer than eight bytes as one number, reading no byte beyond the array."""
    if start + 8 <= data.size:
        return load_8(data, start) & ((np.uint64(1) << np.uint64(8 * length)) - np.uint64(1))
    found = np.uint64(0)
    for i in range(length):
        found |= np.uint64(data[start + i]) << np.uint64(8 * i)
    return found


@njit(cache=True, nogil=True, inline="always")
def mix(value):  # type: ignore[no-untyped-def]
    """Spread 64 bits; different numbers stay different."""
    value ^= value >> _32
    value *= _MIX_2
    value ^= value >> _29
    value *= _MIX_1
    value ^= value >> _32
    return value


@njit(cache=True, nogil=True, inline="always")
def hash_bytes(data, start, length):  # type: ignore[no-untyped-def]
    """A hash of bytes that is the same on every machine."""
    found = np.uint64(length) * _MIX_1
    end = start + length
    while start + 8 <= end:
        found = (found ^ load_8(data, start)) * _MIX_2
        found ^= found >> _29
        start += 8
    if start < end:
        found = (found ^ _tail(data, start, end - start)) * _MIX_2
    return mix(found)


@njit(cache=True, nogil=True, inline="always")
def _same(data, start, pool, at, length):  # type: ignore[no-untyped-def]
    while length >= 8:
        if load_8(data, start) != load_8(pool, at):
            return False
        start += 8
        at += 8
        length -= 8
    return length == 0 or _tail(data, start, length) == _tail(pool, at, length)


@njit(cache=True, nogil=True)
def code_texts(data, starts, lengths, first, codes, slots, hashes, ends, pool, count):  # type: ignore[no-untyped-def]
    """Give each text from row `first` on its code; a length below 0 is null. Returns the row that it stopped at.

    `slots` hold the upper half of a hash above a code; the text of code c lies in `pool` from ends[c - 1] to ends[c].
    """
    mask = np.uint64(slots.size - 1)
    for i in range(first, starts.size):
        length = lengths[i]
        if length < 0:
            codes[i] = 0
            continue
        start = starts[i]
        hashed = hash_bytes(data, start, np.int64(length))
        slot = hashed & mask
        while True:
            held = slots[slot]
            code = np.int64(held & _LOW)
            if code == 0:
                code = np.int64(count[0]) + 1
                end = ends[code - 1] + length
                if 2 * code > slots.size or code >= ends.size or end > pool.size:
                    return i
                slots[slot] = (hashed & _HIGH) | np.uint64(code)
                hashes[code] = hashed
                for j in range(length):
                    pool[ends[code - 1] + j] = data[start + j]
                ends[code] = end
                count[0] = code
                break
            if (held ^ hashed) & _HIGH == 0:
                at = ends[code - 1]
                if ends[code] - at == length and _same(data, start, pool, at, np.int64(length)):
                    break
            slot = (slot + np.uint64(1)) & mask
        codes[i] = code
    return starts.size


@njit(cache=True, nogil=True)
def place_texts(hashes, count, slots):  # type: ignore[no-untyped-def]
    """Fill the empty `slots` of a table that has grown."""
    mask = np.uint64(slots.size - 1)
    for code in range(1, count + 1):
        slot = hashes[code] & mask
        while slots[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = (hashes[code] & _HIGH) | np.uint64(code)


@njit(cache=True, nogil=True, inline="always")
def _code_of(key, slot_keys, slot_codes, keys, count):  # type: ignore[no-untyped-def]
    """The code of one number, a new one if it has none; 0 if the table is full."""
    mask = np.uint64(slot_codes.size - 1)
    slot = mix(key) & mask
    while True:
        code = np.int64(slot_codes[slot])
        if code == 0:
            code = np.int64(count[0]) + 1
            if 2 * code > slot_codes.size or code >= keys.size:
                return np.int64(0)
            slot_keys[slot] = key
            slot_codes[slot] = code
            keys[code] = key
            count[0] = code
            return code
        if slot_keys[slot] == key:
            return code
        slot = (slot + np.uint64(1)) & mask


@njit(cache=True, nogil=True)
def code_numbers(values, valid, first, codes, slot_keys, slot_codes, keys, count):  # type: ignore[no-untyped-def]
    """Give each number from row `first` on its code; where `valid` (empty: everywhere) is false it is null."""
    for i in range(first, values.size):
        if valid.size and not valid[i]:
            codes[i] = 0
            continue
        code = _code_of(np.uint64(values[i]), slot_keys, slot_codes, keys, count)
        if code == 0:
            return i
        codes[i] = code
    return values.size


@njit(cache=True, nogil=True)
def code_pairs(left, right, first, codes, slot_keys, slot_codes, keys, count):  # type: ignore[no-untyped-def]
    """Give each pair of codes a code of its own; a row whose left is negative is left out, and gets -1."""
    for i in range(first, left.size):
        if left[i] < 0:
            codes[i] = -1
            continue
        key = (np.uint64(left[i]) << _32) | np.uint64(right[i])
        code = _code_of(key, slot_keys, slot_codes, keys, count)
        if code == 0:
            return i
        codes[i] = code
    return left.size


@njit(cache=True, nogil=True)
def code_pairs_densely(left, right, codes, dense, stride, keys, count):  # type: ignore[no-untyped-def]
    """The same with a table that has a place for every pair; there is room for all codes."""
    for i in range(left.size):
        if left[i] < 0:
            codes[i] = -1
            continue
        place = left[i] * stride + right[i]
        code = dense[place]
        if code == 0:
            count[0] += 1
            code = count[0]
            dense[place] = code
            keys[code] = (np.uint64(left[i]) << _32) | np.uint64(right[i])
        codes[i] = code


@njit(cache=True, nogil=True)
def place_pairs(keys, count, dense, stride):  # type: ignore[no-untyped-def]
    """Fill the empty places of a table of another shape."""
    for code in range(1, count + 1):
        dense[np.int64(keys[code] >> _32) * stride + np.int64(keys[code] & _LOW)] = code


@njit(cache=True, nogil=True)
def code_slices(times, width, phase, keep, first, codes, slot_keys, slot_codes, keys, count):  # type: ignore[no-untyped-def]
    """Give each row the code of its slice's beginning; -1 where `keep` (empty: everywhere) is false."""
    begin = np.int64(1)
    end = np.int64(0)
    code = np.int64(0)
    for i in range(first, times.size):
        if keep.size and not keep[i]:
            codes[i] = -1
            continue
        time = times[i]
        if time < begin or time >= end:
            begin = (time - phase) // width * width + phase
            end = begin + width
            code = _code_of(np.uint64(begin), slot_keys, slot_codes, keys, count)
            if code == 0:
                return i
        codes[i] = code
    return times.size


@njit(cache=True, nogil=True)
def place_numbers(keys, count, slot_keys, slot_codes):  # type: ignore[no-untyped-def]
    """Fill the empty slots of a table that has grown."""
    mask = np.uint64(slot_codes.size - 1)
    for code in range(1, count + 1):
        slot = mix(keys[code]) & mask
        while slot_codes[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        slot_keys[slot] = keys[code]
        slot_codes[slot] = code


@njit(cache=True, nogil=True)
def same_texts(data, ends, rows, others):  # type: ignore[no-untyped-def]
    """Whether each text is the same as another; text i lies in `data` from ends[i] to ends[i + 1]."""
    for i in range(rows.size):
        row, other = rows[i], others[i]
        length = np.int64(ends[row + 1]) - np.int64(ends[row])
        if length != np.int64(ends[other + 1]) - np.int64(ends[other]):
            return False
        if not _same(data, np.int64(ends[row]), data, np.int64(ends[other]), length):
            return False
    return True


@njit(cache=True, nogil=True)
def hash_numbers(keys):  # type: ignore[no-untyped-def]
    """A hash of each number."""
    hashes = np.empty_like(keys)
    for i in range(keys.size):
        hashes[i] = mix(keys[i])
    return hashes


@njit(cache=True, nogil=True)
def hash_parts(hashes, parts):  # type: ignore[no-untyped-def]
    """Mix the hash of one more key into those of the keys before it."""
    for i in range(hashes.size):
        hashes[i] = mix((hashes[i] ^ parts[i]) * _MIX_1)


@njit(cache=True, nogil=True)
def late(times, width, phase, lateness, high, found):  # type: ignore[no-untyped-def]
    """Mark the rows whose slice was closed by an earlier row of this unit; returns the greatest time so far.

    A slice is closed when a row `lateness` after its end has been seen; `high` is the greatest time before the first.
    """
    for i in range(times.size):
        time = times[i]
        if time < high:
            end = (time - phase) // width * width + phase + width
            found[i] = end + lateness <= high
        else:
            found[i] = False
            high = time
    return high
