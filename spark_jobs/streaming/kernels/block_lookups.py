"""Look-ups of texts in a hash table that exceeds a core's cache, in blocks of rows; the codes are those of `hashing`.

A block passes through short loops without branches, one for each memory access of a look-up: the processor then waits
for many cache misses at once instead of one after the other. Rows that these loops do not resolve, which are new texts
and collisions, follow one by one, in order, in the loop of `code_texts`: as a function that both call, it would take
twice as long for a small table. For a table that fits the cache, the plain loop is quicker. Look-ups of numbers do not
gain from it, since their loop has little else to wait for.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.kernels.hashing import HIGH, LOW, hash_bytes, same_bytes

BLOCK_ROWS = 512  # the scratch arrays of a block fit the smallest cache


@njit(cache=True, nogil=True)
def code_texts_in_blocks(data, starts, lengths, first, codes, slots, hashes, ends, pool, count):  # type: ignore[no-untyped-def]
    """Assign a code to each text from row `first` on, as `code_texts` does. Returns the row where it stopped."""
    mask = np.uint64(slots.size - 1)
    block_hashes = np.empty(BLOCK_ROWS, np.uint64)
    entries = np.empty(BLOCK_ROWS, np.uint64)
    places = np.empty(BLOCK_ROWS, np.int64)
    for begin in range(first, starts.size, BLOCK_ROWS):
        rows = min(BLOCK_ROWS, starts.size - begin)
        for i in range(rows):
            block_hashes[i] = hash_bytes(data, starts[begin + i], np.int64(max(lengths[begin + i], 0)))
        for i in range(rows):
            entries[i] = slots[block_hashes[i] & mask]
        for i in range(rows):
            code = np.int64(entries[i] & LOW)
            place = ends[max(code - 1, 0)]
            same = (code > 0) & ((entries[i] ^ block_hashes[i]) & HIGH == 0)
            places[i] = place if same & (ends[code] - place == lengths[begin + i]) else -1
        for i in range(rows):
            row = begin + i
            length = lengths[row]
            if length < 0:
                codes[row] = 0
                continue
            start = starts[row]
            if places[i] >= 0 and same_bytes(data, start, pool, places[i], np.int64(length)):
                codes[row] = entries[i] & LOW
                continue
            hashed = block_hashes[i]
            slot = hashed & mask
            while True:
                entry = slots[slot]
                code = np.int64(entry & LOW)
                if code == 0:
                    code = np.int64(count[0]) + 1
                    end = ends[code - 1] + length
                    if 2 * code > slots.size or code >= ends.size or end > pool.size:
                        return row
                    slots[slot] = (hashed & HIGH) | np.uint64(code)
                    hashes[code] = hashed
                    for j in range(length):
                        pool[ends[code - 1] + j] = data[start + j]
                    ends[code] = end
                    count[0] = code
                    break
                if (entry ^ hashed) & HIGH == 0:
                    pool_start = ends[code - 1]
                    if ends[code] - pool_start == length and same_bytes(
                        data, start, pool, pool_start, np.int64(length)
                    ):
                        break
                slot = (slot + np.uint64(1)) & mask
            codes[row] = code
    return starts.size
