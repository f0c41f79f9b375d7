"""Kernels that copy texts from where they lie to where they lie together.

Indices are unsigned: of a signed one it is checked whether it counts from the end, which takes ten times as long.
"""

from __future__ import annotations

import numpy as np
from numba import njit


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
    a text is no content.
    """
    for i in range(lengths.size):
        start, length = starts[i], max(np.int64(lengths[i]), np.int64(0))
        if length >= 3 and data[start] == 0xEF and data[start + 1] == 0xBB and data[start + 2] == 0xBF:
            start, length = start + 3, length - 3
        source, to = np.uint64(start), np.uint64(end)
        for j in range(np.uint64(length)):
            packed[to + j] = data[source + j]
        end += length
        packed[end] = 10
        end += 1
        ends[i] = end
    return end
