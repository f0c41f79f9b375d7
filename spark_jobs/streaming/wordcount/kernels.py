"""Kernels of the word count: find the words of lines, name them, pack them for the units that count them."""

from __future__ import annotations

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.tracking.ids import child_of, root_edge_of

_SEED, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a, 64 bits
_NONE, _ONE = np.uint64(0), np.uint64(1)


@njit(cache=True, nogil=True)
def count_lines(text, starts, ends, lines):  # type: ignore[no-untyped-def]
    """How many lines each message [start, end) of the text has; a line break at its end begins no further line."""
    for message in range(starts.size):
        found = 0
        for i in range(starts[message], ends[message]):
            found += text[i] == 10
        if ends[message] > starts[message] and text[ends[message] - 1] != 10:
            found += 1
        lines[message] = found


@njit(cache=True, nogil=True)
def find_words(text, starts, ends, begins, lengths, of_line, places, hashes):  # type: ignore[no-untyped-def]
    """Where words begin, how long they are, of which line they are and in which place of it; how many there are.

    Words are what stands between bytes up to the space. Lines are numbered through all messages.
    """
    words = 0
    line = -1
    for message in range(starts.size):
        i, end = starts[message], ends[message]
        while i < end:
            line += 1
            place = 0
            while i < end and text[i] != 10:
                if text[i] <= 32:
                    i += 1
                    continue
                begins[words] = i
                found = _SEED
                while i < end and text[i] > 32:
                    found = (found ^ np.uint64(text[i])) * _PRIME
                    i += 1
                lengths[words] = i - begins[words]
                hashes[words] = found ^ (found >> np.uint64(32))
                of_line[words] = line
                places[words] = place
                place += 1
                words += 1
            i += 1
    return words


@njit(cache=True, nogil=True)
def name_words(roots, of_line, places, attempt, ids, values):  # type: ignore[no-untyped-def]
    """The id of each word, and for each line its words' edges in this attempt, XORed."""
    tries = np.uint64(attempt)
    for word in range(of_line.size):
        line = of_line[word]
        ids[word] = child_of(root_edge_of(roots[line], _NONE), _ONE, np.uint64(places[word]))
        values[line] ^= root_edge_of(ids[word], tries)


@njit(cache=True, nogil=True)
def pack(text, begins, lengths, packed, offsets):  # type: ignore[no-untyped-def]
    """The bytes of words one after the other, and where each begins."""
    at = 0
    for i in range(begins.size):
        offsets[i] = at
        for j in range(lengths[i]):
            packed[at + j] = text[begins[i] + j]
        at += lengths[i]
    offsets[begins.size] = at
