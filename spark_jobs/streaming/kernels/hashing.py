"""Loops over rows, compiled by numba; the first call of a process loads them from the cache folder beside this file.

Every loop processes the rows in order and keeps its sums between calls, so results do not depend on how rows are
divided into calls. Hash tables use open addressing, with sizes that are powers of two; a loop that finds its table full
returns the row where it stopped, and is called again from there after the table has grown. Codes begin at 1; 0 is
null.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.kernels.bit_intrinsics import load_8

_MIX_1 = np.uint64(0x9E3779B97F4A7C15)
_MIX_2 = np.uint64(0xD6E8FEB86659FD93)
HIGH = np.uint64(0xFFFFFFFF00000000)
LOW = np.uint64(0x00000000FFFFFFFF)
_32 = np.uint64(32)
_29 = np.uint64(29)


@njit(cache=True, nogil=True, inline="always")
def _tail(data, start, length):  # type: ignore[no-untyped-def]
    """Load fewer than eight bytes as one integer, without reading beyond the array."""
    if start + 8 <= data.size:
        return load_8(data, start) & ((np.uint64(1) << np.uint64(8 * length)) - np.uint64(1))
    value = np.uint64(0)
    for i in range(length):
        value |= np.uint64(data[start + i]) << np.uint64(8 * i)
    return value


@njit(cache=True, nogil=True, inline="always")
def mix(value):  # type: ignore[no-untyped-def]
    """Mix 64 bits; different inputs give different outputs."""
    value ^= value >> _32
    value *= _MIX_2
    value ^= value >> _29
    value *= _MIX_1
    value ^= value >> _32
    return value


@njit(cache=True, nogil=True, inline="always")
def hash_bytes(data, start, length):  # type: ignore[no-untyped-def]
    """Return a hash of bytes that is the same on every machine."""
    hash_value = np.uint64(length) * _MIX_1
    end = start + length
    while start + 8 <= end:
        hash_value = (hash_value ^ load_8(data, start)) * _MIX_2
        hash_value ^= hash_value >> _29
        start += 8
    if start < end:
        hash_value = (hash_value ^ _tail(data, start, end - start)) * _MIX_2
    return mix(hash_value)


@njit(cache=True, nogil=True, inline="always")
def same_bytes(data, start, pool, pool_position, length):  # type: ignore[no-untyped-def]
    while length >= 8:
        if load_8(data, start) != load_8(pool, pool_position):
            return False
        start += 8
        pool_position += 8
        length -= 8
    return length == 0 or _tail(data, start, length) == _tail(pool, pool_position, length)


@njit(cache=True, nogil=True)
def code_texts(data, starts, lengths, first, codes, slots, hashes, ends, pool, count):  # type: ignore[no-untyped-def]
    """Assign a code to each text from row `first` on; a length below 0 is null. Returns the row where it stopped.

    A slot holds the upper half of a hash and a code; the text of code c lies in `pool` from ends[c - 1] to ends[c].
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
            entry = slots[slot]
            code = np.int64(entry & LOW)
            if code == 0:
                code = np.int64(count[0]) + 1
                end = ends[code - 1] + length
                if 2 * code > slots.size or code >= ends.size or end > pool.size:
                    return i
                slots[slot] = (hashed & HIGH) | np.uint64(code)
                hashes[code] = hashed
                for j in range(length):
                    pool[ends[code - 1] + j] = data[start + j]
                ends[code] = end
                count[0] = code
                break
            if (entry ^ hashed) & HIGH == 0:
                pool_start = ends[code - 1]
                if ends[code] - pool_start == length and same_bytes(data, start, pool, pool_start, np.int64(length)):
                    break
            slot = (slot + np.uint64(1)) & mask
        codes[i] = code
    return starts.size


@njit(cache=True, nogil=True)
def rehash_texts(hashes, count, slots):  # type: ignore[no-untyped-def]
    """Fill the empty `slots` of a table that has grown."""
    mask = np.uint64(slots.size - 1)
    for code in range(1, count + 1):
        slot = hashes[code] & mask
        while slots[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = (hashes[code] & HIGH) | np.uint64(code)


@njit(cache=True, nogil=True, inline="always")
def _code_of(key, slot_keys, slot_codes, keys, count):  # type: ignore[no-untyped-def]
    """Return the code of one number, a new code if it has none; 0 if the table is full."""
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
    """Assign a code to each number from row `first` on; it is null where `valid` (empty: all true) is false."""
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
    """Assign a code to each distinct pair of codes; a row with a negative left gets -1."""
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
    """Assign codes to pairs with a table that has an entry for every pair; `keys` must have room for all codes."""
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
def rehash_pairs(keys, count, dense, stride):  # type: ignore[no-untyped-def]
    """Fill the empty entries of a table with another shape."""
    for code in range(1, count + 1):
        dense[np.int64(keys[code] >> _32) * stride + np.int64(keys[code] & LOW)] = code


@njit(cache=True, nogil=True)
def code_slices(times, width, phase, keep, first, codes, slot_keys, slot_codes, keys, count):  # type: ignore[no-untyped-def]
    """Assign to each row the code of its slice's start; -1 where `keep` (empty: all true) is false."""
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
def rehash_numbers(keys, count, slot_keys, slot_codes):  # type: ignore[no-untyped-def]
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
    """Return whether each text equals its counterpart; text i lies in `data` from ends[i] to ends[i + 1]."""
    for i in range(rows.size):
        row, other = rows[i], others[i]
        length = np.int64(ends[row + 1]) - np.int64(ends[row])
        if length != np.int64(ends[other + 1]) - np.int64(ends[other]):
            return False
        if not same_bytes(data, np.int64(ends[row]), data, np.int64(ends[other]), length):
            return False
    return True


@njit(cache=True, nogil=True)
def hash_numbers(keys):  # type: ignore[no-untyped-def]
    """Return a hash of each number."""
    hashes = np.empty_like(keys)
    for i in range(keys.size):
        hashes[i] = mix(keys[i])
    return hashes


@njit(cache=True, nogil=True)
def hash_parts(hashes, parts):  # type: ignore[no-untyped-def]
    """Mix the hash of another key into the hashes of the preceding keys, in place."""
    for i in range(hashes.size):
        hashes[i] = mix((hashes[i] ^ parts[i]) * _MIX_1)


@njit(cache=True, nogil=True)
def mark_late_rows(times, width, phase, lateness, high, is_late):  # type: ignore[no-untyped-def]
    """Mark the rows whose slice an earlier row of this unit has closed; returns the greatest time so far.

    A slice is closed when a row `lateness` after its end has been read; `high` is the greatest time before the first
    row.
    """
    for i in range(times.size):
        time = times[i]
        if time < high:
            end = (time - phase) // width * width + phase + width
            is_late[i] = end + lateness <= high
        else:
            is_late[i] = False
            high = time
    return high
