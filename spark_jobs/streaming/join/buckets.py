"""Which bucket a key is in, and which part of a key's tuples a seq is in: hashes that routers and units agree on.

Keys are hashed into 4,096 buckets, whole blocks of 2^block neighbours into one, so that a band of keys is in few.
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
    """The bucket of an int64 key, for kernels."""
    return np.int64(mix(np.uint64(key >> block) + _STEP) >> _52)


@njit(cache=True, nogil=True, inline="always")
def part_in(seq, salt):  # type: ignore[no-untyped-def]
    """The part of a seq, from 0 to 2^32 - 1, for kernels; `salt` is a uint64, and 0 where tuples are stored."""
    return np.int64(mix(np.uint64(seq) * _STEP + mix(salt + _STEP)) >> _32)


@njit(cache=True, nogil=True)
def _buckets(keys, block, found):  # type: ignore[no-untyped-def]
    for i in range(keys.size):
        found[i] = bucket_in(keys[i], block)


@njit(cache=True, nogil=True)
def _parts(seqs, salt, found):  # type: ignore[no-untyped-def]
    for i in range(seqs.size):
        found[i] = part_in(seqs[i], salt)


def bucket_of(keys: npt.ArrayLike, block: int = 0) -> Ints:
    """The bucket of each key."""
    given = np.atleast_1d(np.asarray(keys, np.int64))
    found = np.empty(given.size, np.int64)
    _buckets(given, np.int64(block), found)
    return found


def part_of(seqs: npt.ArrayLike, salt: int = 0) -> Ints:
    """The part of each seq."""
    given = np.atleast_1d(np.asarray(seqs, np.int64))
    found = np.empty(given.size, np.int64)
    _parts(given, np.uint64(salt), found)
    return found
