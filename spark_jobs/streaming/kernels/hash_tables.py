"""Hash tables that assign codes to distinct texts, numbers or pairs: 1, 2, 3, … in the order of first appearance."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.spark_jobs.streaming.kernels.block_lookups import code_texts_in_blocks
from springline.spark_jobs.streaming.kernels.hashing import (
    code_numbers,
    code_pairs,
    code_pairs_densely,
    code_slices,
    code_texts,
    hash_numbers,
    rehash_numbers,
    rehash_pairs,
    rehash_texts,
)

Codes = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]
EVERYWHERE: Flags = np.empty(0, np.bool_)
_MAX_DENSE = 1 << 18  # entries: one megabyte, which fits a core's cache
_CACHED_TEXTS = 4_096  # a table of more is looked up in blocks
NULL_HASH = np.uint64(0x9AE16A3B2F90404F)


class TextTable:
    """Codes of texts."""

    def __init__(self) -> None:
        self._count = np.zeros(1, np.int64)
        self._slots = np.zeros(256, np.uint64)
        self._hashes = np.zeros(128, np.uint64)
        self._ends = np.zeros(128, np.int64)
        self._pool = np.zeros(4096, np.uint8)

    def __len__(self) -> int:
        return int(self._count[0])

    def codes(self, data: npt.NDArray[np.uint8], starts: Ints, lengths: npt.NDArray[np.int32]) -> Codes:
        """Return the code of each text in `data`; 0 if its length is negative."""
        codes = np.empty(starts.size, np.int32)
        next_row = 0
        while True:
            table = (self._slots, self._hashes, self._ends, self._pool, self._count)
            code_rows = code_texts if len(self) < _CACHED_TEXTS else code_texts_in_blocks
            next_row = code_rows(data, starts, lengths, next_row, codes, *table)
            if next_row == starts.size:
                return codes
            self._grow(int(lengths[next_row]))

    def texts(self) -> pa.Array:
        """Return the text of each code; position 0 is null."""
        count = len(self)
        offsets = np.concatenate([[0], self._ends[: count + 1]])
        valid = np.packbits(np.arange(count + 1) > 0, bitorder="little")
        pool = self._pool[: self._ends[count]]
        buffers = [pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(pool.copy())]
        return pa.Array.from_buffers(pa.large_string(), count + 1, buffers).cast(pa.string())

    def hashes(self) -> UInt64s:
        """Return a hash of each code's text, the same in every process; position 0 is for null."""
        hashes = self._hashes[: len(self) + 1].copy()
        hashes[0] = NULL_HASH
        return hashes

    def _grow(self, needed: int) -> None:
        count = len(self)
        if 2 * (count + 1) > self._slots.size:
            self._slots = np.zeros(self._slots.size * 4, np.uint64)
            rehash_texts(self._hashes, count, self._slots)
        if count + 1 >= self._ends.size:
            self._ends = _extended_copy(self._ends, self._ends.size * 4)
            self._hashes = _extended_copy(self._hashes, self._ends.size)
        if self._ends[count] + needed > self._pool.size:
            self._pool = _extended_copy(self._pool, max(self._pool.size * 2, int(self._ends[count]) + needed))


class NumberTable:
    """Codes of 64-bit numbers, or of slices."""

    def __init__(self) -> None:
        self._count = np.zeros(1, np.int64)
        self._slot_keys = np.zeros(256, np.uint64)
        self._slot_codes = np.zeros(256, np.int32)
        self._keys = np.zeros(128, np.uint64)

    def __len__(self) -> int:
        return int(self._count[0])

    def codes(self, values: Ints | UInt64s, valid: Flags = EVERYWHERE) -> Codes:
        """Return the code of each number; 0 where `valid` is false."""
        codes = np.empty(values.size, np.int32)
        next_row = 0
        while (next_row := code_numbers(values, valid, next_row, codes, *self._table())) < values.size:
            self._grow()
        return codes

    def slices(self, times: Ints, width: int, phase: int, keep: Flags = EVERYWHERE) -> Codes:
        """Return the code of the slice of each time; -1 where `keep` is false."""
        codes = np.empty(times.size, np.int32)
        next_row = 0
        while (next_row := code_slices(times, width, phase, keep, next_row, codes, *self._table())) < times.size:
            self._grow()
        return codes

    def numbers(self) -> Ints:
        """Return the number of each code; position 0 is for null."""
        return self._keys[: len(self) + 1].view(np.int64)

    def hashes(self) -> UInt64s:
        """Return a hash of each code's number, the same in every process; position 0 is for null."""
        hashes: UInt64s = hash_numbers(self._keys[: len(self) + 1])
        hashes[0] = NULL_HASH
        return hashes

    def _table(self) -> tuple[UInt64s, Codes, UInt64s, Ints]:
        return self._slot_keys, self._slot_codes, self._keys, self._count

    def _grow(self) -> None:
        size = self._slot_codes.size * 4
        self._keys = _extended_copy(self._keys, size // 2)
        self._slot_keys = np.zeros(size, np.uint64)
        self._slot_codes = np.zeros(size, np.int32)
        rehash_numbers(self._keys, len(self), self._slot_keys, self._slot_codes)


class PairTable:
    """Codes of pairs of codes: a dense table with an entry for every pair while it is small, otherwise a hash table."""

    def __init__(self) -> None:
        self._count = np.zeros(1, np.int64)
        self._keys = np.zeros(128, np.uint64)
        self._dense = np.zeros(0, np.int32)
        self._stride = 1
        self._slot_keys = np.zeros(0, np.uint64)
        self._slot_codes = np.zeros(0, np.int32)

    def __len__(self) -> int:
        return int(self._count[0])

    def codes(self, left: Codes, right: Codes, lefts: int, rights: int) -> Codes:
        """Return the code of each pair, -1 where left is negative; left is at most `lefts`, right at most `rights`."""
        codes = np.empty(left.size, np.int32)
        if not self._slot_codes.size and self._fits_dense(lefts, rights):
            dense = (self._dense, self._stride, self._keys, self._count)
            code_pairs_densely(left, right, codes, *dense)
            return codes
        next_row = 0
        while next_row < left.size:
            if 2 * (len(self) + 1) > self._slot_codes.size or len(self) + 1 >= self._keys.size:
                self._grow()
            table = (self._slot_keys, self._slot_codes, self._keys, self._count)
            next_row = code_pairs(left, right, next_row, codes, *table)
        return codes

    def pairs(self) -> tuple[Ints, Ints]:
        """Return the pair of each code."""
        keys = self._keys[: len(self) + 1]
        return (keys >> np.uint64(32)).view(np.int64), (keys & np.uint64(0xFFFFFFFF)).view(np.int64)

    def _fits_dense(self, lefts: int, rights: int) -> bool:
        """Enlarge the dense table for all such pairs; return False if there are too many."""
        if rights < self._stride and (lefts + 1) * self._stride <= self._dense.size:
            return True
        stride = max(self._stride, 1 << rights.bit_length())
        size = stride << lefts.bit_length()
        if size > _MAX_DENSE:
            self._dense = self._dense[:0]
            return False
        self._dense, self._stride = np.zeros(size, np.int32), stride
        self._keys = _extended_copy(self._keys, max(size + 1, self._keys.size))
        rehash_pairs(self._keys, len(self), self._dense, stride)
        return True

    def _grow(self) -> None:
        size = max(self._slot_codes.size * 4, 1 << (4 * len(self)).bit_length(), 1024)
        self._keys = _extended_copy(self._keys, max(size // 2, self._keys.size))
        self._slot_keys, self._slot_codes = np.zeros(size, np.uint64), np.zeros(size, np.int32)
        rehash_numbers(self._keys, len(self), self._slot_keys, self._slot_codes)


def _extended_copy(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    grown = np.zeros(size, array.dtype)
    grown[: array.size] = array
    return grown
