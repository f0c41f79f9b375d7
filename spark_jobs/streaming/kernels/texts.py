"""Kernels that copy texts from where they lie to where they lie together."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def gather(data, starts, lengths, offsets, packed):  # type: ignore[no-untyped-def]
    """Copy the bytes of texts into `packed`, each to its offset."""
    for i in range(lengths.size):
        start, to = starts[i], offsets[i]
        for j in range(lengths[i]):
            packed[to + j] = data[start + j]


@njit(cache=True, nogil=True)
def gather_lines(data, starts, lengths, packed, end, ends):  # type: ignore[no-untyped-def]
    """Copy texts into `packed` from `end` on, each with a line end; returns where the last one ends.

    `ends` gets the end of each with its line end. A length below 0 is an empty text. A byte order mark at the start of
    a text is no content.
    """
    for i in range(lengths.size):
        start, length = starts[i], max(lengths[i], np.int32(0))
        if length >= 3 and data[start] == 0xEF and data[start + 1] == 0xBB and data[start + 2] == 0xBF:
            start, length = start + 3, length - np.int32(3)
        for j in range(length):
            packed[end + j] = data[start + j]
        end += length
        packed[end] = 10
        end += 1
        ends[i] = end
    return end
