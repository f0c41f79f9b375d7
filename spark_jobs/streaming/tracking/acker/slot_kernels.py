"""Loops over the table of slots: buckets of eight, each root in one of two (cuckoo hashing), as many as are needed.

A bucket's roots are one cache line, its values another, its marks half of one. Hashes are computed, and lines asked
for, a block ahead. Buckets are numbered as in linear hashing (Litwin, 1980): a table grows by one bucket, which takes
from one other. A mark holds attempt (6 bits), registered (1) and the number of the slice of time (25): the 4 bytes of
the paper's task id. A loop that has no room for a root returns the row that it stopped at, and goes on there when the
table has grown.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.tracking.acker.processor import prefetch
from springline.spark_jobs.streaming.tracking.ids import mix

WIDTH = 8
FILL = 0.9
NO_ROOT = np.uint64((1 << 64) - 1)
COUNT, BUCKETS, STALE, DONE = range(4)  # places in `state`

_SALT = np.uint64(0x8CB92BA72F3D8DD7)
_32, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_ATTEMPT, _REGISTERED = np.uint32(63), np.uint32(64)
_BLOCK, _STEPS = 64, 200


@njit(cache=True, nogil=True, inline="always")
def span_of(buckets):  # type: ignore[no-untyped-def]
    """The mask of the smallest power of two with room for all buckets."""
    mask = np.int64(1)
    while mask < buckets:
        mask <<= 1
    return mask - 1


@njit(cache=True, nogil=True, inline="always")
def _bucket(part, buckets, mask):  # type: ignore[no-untyped-def]
    at = np.int64(part) & mask
    return at if at < buckets else at & (mask >> 1)


@njit(cache=True, nogil=True, inline="always")
def _first(hashed, buckets, mask):  # type: ignore[no-untyped-def]
    return _bucket(hashed & _LOW, buckets, mask)


@njit(cache=True, nogil=True, inline="always")
def _second(hashed, buckets, mask):  # type: ignore[no-untyped-def]
    return _bucket(hashed >> _32, buckets, mask)


@njit(cache=True, nogil=True, inline="always")
def _hash(root):  # type: ignore[no-untyped-def]
    return mix(root ^ _SALT)


@njit(cache=True, nogil=True, inline="always")
def _in_bucket(roots, bucket, root):  # type: ignore[no-untyped-def]
    """The slot of a root in one bucket, or -1."""
    begin = bucket * WIDTH
    found = np.int64(-1)
    for place in range(WIDTH):
        found = np.int64(place) if roots[begin + place] == root else found
    return found if found < 0 else begin + found


@njit(cache=True, nogil=True, inline="always")
def _find(roots, root, hashed, buckets, mask):  # type: ignore[no-untyped-def]
    slot = _in_bucket(roots, _first(hashed, buckets, mask), root)
    other = _in_bucket(roots, _second(hashed, buckets, mask), root)  # always: cheaper than to guess wrong
    return slot if slot >= 0 else other


@njit(cache=True, nogil=True, inline="always")
def _swap(roots, values, marks, slot, root, value, mark):  # type: ignore[no-untyped-def]
    held = roots[slot], values[slot], marks[slot]
    roots[slot], values[slot], marks[slot] = root, value, mark
    return held


@njit(cache=True, nogil=True)
def _place(roots, values, marks, root, value, mark, hashed, buckets, mask):  # type: ignore[no-untyped-def]
    """Put a root that is not there in one of its buckets; False, and all as it was, if others cannot make room."""
    path = np.empty(_STEPS, np.int64)
    bucket = _first(hashed, buckets, mask)
    for step in range(_STEPS):
        slot = _in_bucket(roots, bucket, NO_ROOT)
        if slot < 0 and step == 0:
            bucket = _second(hashed, buckets, mask)
            slot = _in_bucket(roots, bucket, NO_ROOT)
        if slot >= 0:
            _swap(roots, values, marks, slot, root, value, mark)
            return True
        slot = bucket * WIDTH + np.int64((hashed + np.uint64(step) * np.uint64(5)) % np.uint64(WIDTH))
        for other in range(bucket * WIDTH, bucket * WIDTH + WIDTH):
            moved = _hash(roots[other])
            prefetch(roots, _first(moved, buckets, mask) * WIDTH)
            prefetch(roots, _second(moved, buckets, mask) * WIDTH)
        for other in range(bucket * WIDTH, bucket * WIDTH + WIDTH):  # one that can go elsewhere at once, if any can
            moved = _hash(roots[other])
            first, second = _first(moved, buckets, mask), _second(moved, buckets, mask)
            if _in_bucket(roots, second if bucket == first else first, NO_ROOT) >= 0:
                slot = other
                break
        path[step] = slot
        root, value, mark = _swap(roots, values, marks, slot, root, value, mark)
        hashed = _hash(root)
        first, second = _first(hashed, buckets, mask), _second(hashed, buckets, mask)
        bucket = second if bucket == first else first
    for step in range(_STEPS - 1, -1, -1):
        root, value, mark = _swap(roots, values, marks, path[step], root, value, mark)
    return False


@njit(cache=True, nogil=True, inline="always")
def _joined(held, mark):  # type: ignore[no-untyped-def]
    """The mark of two parts of one attempt: the slice is the registration's, or the earlier of two alike."""
    if (held ^ mark) & _REGISTERED:
        return held if held & _REGISTERED else mark
    return held if held <= mark else mark


@njit(cache=True, nogil=True)
def update(roots, values, marks, state, ids, added, added_marks, first, done, done_marks):  # type: ignore[no-untyped-def]
    """XOR what is added for each id from row `first` on, and free what is complete; returns the row it stopped at.

    `added` and `added_marks` are as long as `ids`, or hold one for all. What is complete goes to `done` and
    `done_marks` from place state[DONE] on.
    """
    buckets = state[BUCKETS]
    mask = span_of(buckets)
    most = np.int64(buckets * WIDTH * FILL)
    value_step, mark_step = np.int64(added.size > 1), np.int64(added_marks.size > 1)
    hashes = np.empty(_BLOCK, np.uint64)
    for begin in range(first, ids.size, _BLOCK):
        end = min(begin + _BLOCK, ids.size)
        for i in range(begin, end):
            hashed = _hash(ids[i])
            hashes[i - begin] = hashed
            slot = _first(hashed, buckets, mask) * WIDTH
            prefetch(roots, slot)
            prefetch(values, slot)
            prefetch(marks, slot)
            prefetch(roots, _second(hashed, buckets, mask) * WIDTH)
        for i in range(begin, end):
            root, value, mark = ids[i], added[i * value_step], added_marks[i * mark_step]
            slot = _find(roots, root, hashes[i - begin], buckets, mask)
            if slot >= 0:
                held = marks[slot]
                if (held ^ mark) & _ATTEMPT == 0:
                    value ^= values[slot]
                    mark = _joined(held, mark)
                elif held & _ATTEMPT > mark & _ATTEMPT:
                    state[STALE] += 1
                    continue
            if value == 0 and mark & _REGISTERED:
                done[state[DONE]], done_marks[state[DONE]] = root, mark
                state[DONE] += 1
                if slot >= 0:
                    roots[slot] = NO_ROOT
                    state[COUNT] -= 1
            elif slot >= 0:
                values[slot], marks[slot] = value, mark
            elif state[COUNT] < most and _place(
                roots, values, marks, root, value, mark, hashes[i - begin], buckets, mask
            ):
                state[COUNT] += 1
            else:
                return i
    return ids.size


@njit(cache=True, nogil=True)
def split(roots, values, marks, state, buckets):  # type: ignore[no-untyped-def]
    """Go on to `buckets`: each new one takes from the one that stood in for it."""
    while state[BUCKETS] < buckets:
        new = state[BUCKETS]
        before = span_of(new)
        state[BUCKETS] = new + 1
        mask = span_of(new + 1)
        old = new & (mask >> 1)
        for slot in range(new * WIDTH, new * WIDTH + WIDTH):
            roots[slot] = NO_ROOT
        to = new * WIDTH
        for slot in range(old * WIDTH, old * WIDTH + WIDTH):
            if roots[slot] != NO_ROOT:
                hashed = _hash(roots[slot])
                part = hashed & _LOW if _first(hashed, new, before) == old else hashed >> _32
                if _bucket(part, new + 1, mask) == new:
                    roots[to], values[to], marks[to] = roots[slot], values[slot], marks[slot]
                    roots[slot] = NO_ROOT
                    to += 1


@njit(cache=True, nogil=True)
def find(roots, state, ids, slots):  # type: ignore[no-untyped-def]
    """The slot of each id, -1 where it has none."""
    buckets = state[BUCKETS]
    mask = span_of(buckets)
    for begin in range(0, ids.size, _BLOCK):
        end = min(begin + _BLOCK, ids.size)
        for i in range(begin, end):
            prefetch(roots, _first(_hash(ids[i]), buckets, mask) * WIDTH)
            prefetch(roots, _second(_hash(ids[i]), buckets, mask) * WIDTH)
        for i in range(begin, end):
            slots[i] = _find(roots, ids[i], _hash(ids[i]), buckets, mask)
