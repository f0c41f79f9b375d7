"""Hashes that routers and units share: the bucket of a key, and the part of a key's tuples that a seq belongs to.

Keys are hashed into 4,096 buckets. Blocks of 2^block neighbouring keys share a bucket, so a band of keys covers few.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from springline.spark_jobs.streaming.tracking.ids import mix

BUCKETS = 4096

Ints = npt.NDArray[np.int64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_32, _52 = np.uint64(32), np.uint64(52)


@njit(cache=True, nogil=True, inline="always")
def bucket_in(key, block):  # type: ignore[no-untyped-def]
    """Return the bucket of an int64 key; for kernels."""
    return np.int64(mix(np.uint64(key >> block) + _STEP) >> _52)


@njit(cache=True, nogil=True, inline="always")
def part_in(seq, salt):  # type: ignore[no-untyped-def]
    """Return the part of a seq, from 0 to 2^32 - 1; for kernels. `salt` is a uint64, and 0 where tuples are stored."""
    return np.int64(mix(np.uint64(seq) * _STEP + mix(salt + _STEP)) >> _32)


@njit(cache=True, nogil=True)
def _fill_buckets(keys, block, buckets):  # type: ignore[no-untyped-def]
    for i in range(keys.size):
        buckets[i] = bucket_in(keys[i], block)


@njit(cache=True, nogil=True)
def _fill_parts(seqs, salt, parts):  # type: ignore[no-untyped-def]
    for i in range(seqs.size):
        parts[i] = part_in(seqs[i], salt)


def bucket_of(keys: npt.ArrayLike, block: int = 0) -> Ints:
    """Return the bucket of each key."""
    key_array = np.atleast_1d(np.asarray(keys, np.int64))
    buckets = np.empty(key_array.size, np.int64)
    _fill_buckets(key_array, np.int64(block), buckets)
    return buckets


def part_of(seqs: npt.ArrayLike, salt: int = 0) -> Ints:
    """Return the part of each seq."""
    seq_array = np.atleast_1d(np.asarray(seqs, np.int64))
    parts = np.empty(seq_array.size, np.int64)
    _fill_parts(seq_array, np.uint64(salt), parts)
    return parts
