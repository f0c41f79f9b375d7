"""Loops over candidates and columns of stored rows that lie in many segments, compiled by numba.

A row's place counts from 1 over all segments; `firsts` has the first place of each segment, and after it the place
after the last one. `directory` has for every block of 2^BLOCK_BITS places the segment of the block's first place.
Columns are given by the addresses of their values in each segment.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.kernels.addresses import load_int32, load_int64, load_uint8, prefetch_int64

BLOCK_BITS = 12
_GROUP = 64  # candidates whose keys are prefetched together


@njit(cache=True, nogil=True, inline="always")
def _segment_of(place, firsts, directory):  # type: ignore[no-untyped-def]
    at = directory[(place - firsts[0]) >> BLOCK_BITS]
    while place >= firsts[at + 1]:
        at += 1
    return at


@njit(cache=True, nogil=True)
def match_candidates(  # type: ignore[no-untyped-def]
    probe_keys, probe_seqs, probes, places, firsts, directory, keys, seqs, least, fresh, expired, equal, selected,
    segments, rows,
):  # fmt: skip
    """Find the candidates that match: with an equal key if `equal`, earlier than the probe, and not expired.

    Places from `fresh` on are of the probes' round; all before are of earlier ones. `least` has the least seq of each
    segment. Writes the indices of matching candidates, their segments and rows in these; returns how many.
    """
    count = 0
    of_group, in_segment = np.empty(_GROUP, np.int32), np.empty(_GROUP, np.int64)
    for begin in range(0, places.size, _GROUP):
        many = min(_GROUP, places.size - begin)
        for i in range(many):
            place = np.int64(places[begin + i])
            segment = _segment_of(place, firsts, directory)
            of_group[i] = segment
            in_segment[i] = place - firsts[segment]
            if equal:
                prefetch_int64(keys[segment], in_segment[i])
        for i in range(many):
            segment, row, probe = of_group[i], in_segment[i], probes[begin + i]
            is_match = True
            if equal:
                is_match = load_int64(keys[segment], row) == probe_keys[probe]
            if firsts[segment] + row >= fresh or least[segment] < expired:
                seq = load_int64(seqs[segment], row)
                is_match &= (seq < probe_seqs[probe]) & (seq >= expired)
            selected[count] = begin + i
            segments[count] = segment
            rows[count] = row
            count += is_match
    return count


@njit(cache=True, nogil=True)
def take_numbers(values, segments, rows, target):  # type: ignore[no-untyped-def]
    """Take 8-byte values of rows."""
    for i in range(rows.size):
        target[i] = load_int64(values[segments[i]], rows[i])


@njit(cache=True, nogil=True)
def take_validity(bitmaps, offsets, segments, rows, target):  # type: ignore[no-untyped-def]
    """Take whether rows have a value; a segment without a bitmap (address 0) has all. Returns the number of nulls."""
    nulls = 0
    for i in range(rows.size):
        bitmap = bitmaps[segments[i]]
        target[i] = True
        if bitmap != 0:
            bit = offsets[segments[i]] + rows[i]
            target[i] = (load_uint8(bitmap, bit >> 3) >> (bit & 7)) & 1
        nulls += not target[i]
    return nulls


@njit(cache=True, nogil=True)
def add_text_sizes(ends, segments, rows, sizes):  # type: ignore[no-untyped-def]
    """Add the bytes of the texts of rows to `sizes`."""
    for i in range(rows.size):
        places: Any = ends[segments[i]]
        sizes[i] += load_int32(places, rows[i] + 1) - load_int32(places, rows[i])


@njit(cache=True, nogil=True)
def take_texts(ends, data, segments, rows, target_ends, target):  # type: ignore[no-untyped-def]
    """Take the texts of rows, one after another; `target_ends` has their ends after a 0."""
    for i in range(rows.size):
        places: Any = ends[segments[i]]
        start, text = load_int32(places, rows[i]), data[segments[i]]
        to = target_ends[i]
        for at in range(target_ends[i + 1] - to):
            target[to + at] = load_uint8(text, start + at)
