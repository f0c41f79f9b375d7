"""Kernels that copy texts from where they lie to where they lie together.

Indices are unsigned: of a signed one it is checked whether it counts from the end, which takes ten times as long.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.kernels.bit_intrinsics import copy_32

SPARE_BYTES = 32


@njit(cache=True, nogil=True)
def gather(data, starts, lengths, offsets, packed):  # type: ignore[no-untyped-def]
    """Copy the bytes of texts into `packed`, each to its offset."""
    for i in range(lengths.size):
        start, to = np.uint64(starts[i]), np.uint64(offsets[i])
        for j in range(np.uint64(max(lengths[i], np.int64(0)))):
            packed[to + j] = data[start + j]


@njit(cache=True, nogil=True)
def gather_lines(data, starts, lengths, packed, end, ends):  # type: ignore[no-untyped-def]
    """Copy texts into `packed` from `end` on, each with a line end; returns where the last one ends.

    `ends` gets the end of each with its line end. A length below 0 is an empty text. A byte order mark at the start of
    a text is no content. `packed` has `SPARE_BYTES` more than it needs.
    """
    wide = data.size - 32  # up to which 32 bytes can be read
    for i in range(lengths.size):
        start, length = starts[i], max(np.int64(lengths[i]), np.int64(0))
        if length >= 3 and data[start] == 0xEF and data[start + 1] == 0xBB and data[start + 2] == 0xBF:
            start, length = start + 3, length - 3
        position, to, stop = start, end, start + length
        while position < stop and position <= wide:
            copy_32(data, position, packed, to)
            position += 32
            to += 32
        while position < stop:
            packed[to] = data[position]
            position += 1
            to += 1
        end += length
        packed[end] = 10
        end += 1
        ends[i] = end
    return end
