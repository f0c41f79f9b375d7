"""Loops over the slot table: growing cuckoo hashing with buckets of eight slots, each root in one of two buckets.

A bucket's roots are one cache line, its values another, its marks half of one. Hashes are computed, and cache lines
prefetched, one block ahead. Buckets are numbered as in linear hashing (Litwin, 1980): a table grows by one bucket,
which takes roots from one other. A mark holds attempt (6 bits), registered (1) and tick (25): the 4 bytes of the
paper's task id. A loop without space for a root returns the row at which it stopped, and continues there when the table
has grown.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.tracking.acker.cpu_intrinsics import prefetch
from springline.spark_jobs.streaming.tracking.ids import mix

WIDTH = 8
FILL = 0.9
NO_ROOT = np.uint64((1 << 64) - 1)
COUNT, BUCKETS, STALE, COMPLETED = range(4)  # indices in `state`

_SALT = np.uint64(0x8CB92BA72F3D8DD7)
_32, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_ATTEMPT, _REGISTERED = np.uint32(63), np.uint32(64)
_BLOCK, _STEPS = 64, 200


@njit(cache=True, nogil=True, inline="always")
def bucket_mask(buckets):  # type: ignore[no-untyped-def]
    """Return the mask of the smallest power of two that is at least `buckets`."""
    mask = np.int64(1)
    while mask < buckets:
        mask <<= 1
    return mask - 1


@njit(cache=True, nogil=True, inline="always")
def _bucket(part, buckets, mask):  # type: ignore[no-untyped-def]
    bucket = np.int64(part) & mask
    return bucket if bucket < buckets else bucket & (mask >> 1)


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
    """Return the slot of a root in one bucket, or -1."""
    begin = bucket * WIDTH
    matching_place = np.int64(-1)
    for place in range(WIDTH):
        matching_place = np.int64(place) if roots[begin + place] == root else matching_place
    return matching_place if matching_place < 0 else begin + matching_place


@njit(cache=True, nogil=True, inline="always")
def _find(roots, root, hashed, buckets, mask):  # type: ignore[no-untyped-def]
    slot = _in_bucket(roots, _first(hashed, buckets, mask), root)
    other = _in_bucket(roots, _second(hashed, buckets, mask), root)  # always: cheaper than a misprediction
    return slot if slot >= 0 else other


@njit(cache=True, nogil=True, inline="always")
def _swap(roots, values, marks, slot, root, value, mark):  # type: ignore[no-untyped-def]
    previous = roots[slot], values[slot], marks[slot]
    roots[slot], values[slot], marks[slot] = root, value, mark
    return previous


@njit(cache=True, nogil=True)
def _insert(roots, values, marks, root, value, mark, hashed, buckets, mask):  # type: ignore[no-untyped-def]
    """Put a new root in one of its buckets; False, with the table unchanged, if moving others makes no space."""
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
        for other in range(bucket * WIDTH, bucket * WIDTH + WIDTH):  # prefer one that can move at once
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
def _merge_marks(stored_mark, mark):  # type: ignore[no-untyped-def]
    """Return the mark of two parts of one attempt: the tick is the registration's, or the earlier of two alike."""
    if (stored_mark ^ mark) & _REGISTERED:
        return stored_mark if stored_mark & _REGISTERED else mark
    return stored_mark if stored_mark <= mark else mark


@njit(cache=True, nogil=True)
def update(roots, values, marks, state, ids, added, added_marks, first, completed, completed_marks):  # type: ignore[no-untyped-def]
    """XOR what is added for each id from row `first` on, and free completed slots; return the row at which it stopped.

    `added` and `added_marks` are as long as `ids`, or have one value for all. Completed roots are written to
    `completed` and `completed_marks` from index state[COMPLETED] on.
    """
    buckets = state[BUCKETS]
    mask = bucket_mask(buckets)
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
                stored_mark = marks[slot]
                if (stored_mark ^ mark) & _ATTEMPT == 0:
                    value ^= values[slot]
                    mark = _merge_marks(stored_mark, mark)
                elif stored_mark & _ATTEMPT > mark & _ATTEMPT:
                    state[STALE] += 1
                    continue
            if value == 0 and mark & _REGISTERED:
                completed[state[COMPLETED]], completed_marks[state[COMPLETED]] = root, mark
                state[COMPLETED] += 1
                if slot >= 0:
                    roots[slot] = NO_ROOT
                    state[COUNT] -= 1
            elif slot >= 0:
                values[slot], marks[slot] = value, mark
            elif state[COUNT] < most and _insert(
                roots, values, marks, root, value, mark, hashes[i - begin], buckets, mask
            ):
                state[COUNT] += 1
            else:
                return i
    return ids.size


@njit(cache=True, nogil=True)
def split(roots, values, marks, state, buckets):  # type: ignore[no-untyped-def]
    """Grow to `buckets`: each new bucket takes its roots from the one that had held them."""
    while state[BUCKETS] < buckets:
        new = state[BUCKETS]
        before = bucket_mask(new)
        state[BUCKETS] = new + 1
        mask = bucket_mask(new + 1)
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
    """Find the slot of each id, -1 if it has none."""
    buckets = state[BUCKETS]
    mask = bucket_mask(buckets)
    for begin in range(0, ids.size, _BLOCK):
        end = min(begin + _BLOCK, ids.size)
        for i in range(begin, end):
            prefetch(roots, _first(_hash(ids[i]), buckets, mask) * WIDTH)
            prefetch(roots, _second(_hash(ids[i]), buckets, mask) * WIDTH)
        for i in range(begin, end):
            slots[i] = _find(roots, ids[i], _hash(ids[i]), buckets, mask)
