"""Kernels of the word count: find the words of lines, and pack them for the counting units."""

from __future__ import annotations

import numpy as np
from numba import njit

_SEED, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a, 64 bits


@njit(cache=True, nogil=True)
def count_lines(text, starts, ends, lines):  # type: ignore[no-untyped-def]
    """Count the lines of each message [start, end) of the text; a line break at its end begins no further line."""
    for message in range(starts.size):
        line_count = 0
        for i in range(starts[message], ends[message]):
            line_count += text[i] == 10
        if ends[message] > starts[message] and text[ends[message] - 1] != 10:
            line_count += 1
        lines[message] = line_count


@njit(cache=True, nogil=True)
def find_words(text, starts, ends, begins, lengths, hashes, line_ends):  # type: ignore[no-untyped-def]
    """Find the words: their start, length, and hash; return their number.

    Words are separated by bytes up to the space. Lines are numbered over all messages; `line_ends` gets the number of
    words up to the end of each.
    """
    word_count = 0
    line = 0
    for message in range(starts.size):
        i, end = starts[message], ends[message]
        while i < end:
            while i < end and text[i] != 10:
                if text[i] <= 32:
                    i += 1
                    continue
                begins[word_count] = i
                hash_value = _SEED
                while i < end and text[i] > 32:
                    hash_value = (hash_value ^ np.uint64(text[i])) * _PRIME
                    i += 1
                lengths[word_count] = i - begins[word_count]
                hashes[word_count] = hash_value ^ (hash_value >> np.uint64(32))
                word_count += 1
            line_ends[line] = word_count
            line += 1
            i += 1
    return word_count


@njit(cache=True, nogil=True)
def pack_words(text, begins, lengths, packed, offsets):  # type: ignore[no-untyped-def]
    """Copy the bytes of words one after the other, and store the offset of each."""
    offset = 0
    for i in range(begins.size):
        offsets[i] = offset
        to, start = np.uint64(offset), np.uint64(begins[i])
        for j in range(np.uint64(lengths[i])):  # unsigned: see `kernels.texts`
            packed[to + j] = text[start + j]
        offset += lengths[i]
    offsets[begins.size] = offset
