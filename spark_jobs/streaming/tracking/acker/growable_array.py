"""An array that grows in place: address space is reserved ahead, and uses memory only when it is written.

If the system supports it, the used part is on large pages: with small ones, random reads cost more for the address
translation than for the memory.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

_AHEAD = 8  # space that is reserved, as a multiple of the requested
_LARGE = 2 << 20
_COLLAPSE = 25  # Linux 6.1: once, without lasting advice for a part of the mapping, which could not be moved then


class GrowableArray:
    """An array in a separate anonymous mapping, which begins at a page; new elements are 0."""

    def __init__(self, dtype: npt.DTypeLike, size: int) -> None:
        self._dtype = np.dtype(dtype)
        self._pages = mmap.mmap(-1, self._reserved_bytes(size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.array: npt.NDArray[Any] = np.frombuffer(self._pages, self._dtype, size)
        self._large = 0

    def grow(self, size: int) -> None:
        """Enlarge the array; no other reference to `array` may exist."""
        self._prefer_large_pages()
        del self.array
        if size * self._dtype.itemsize > len(self._pages):
            self._pages.resize(self._reserved_bytes(size))
            self._large = 0
        self.array = np.frombuffer(self._pages, self._dtype, size)

    def _reserved_bytes(self, size: int) -> int:
        return max(size * self._dtype.itemsize * _AHEAD, _LARGE)

    def _prefer_large_pages(self) -> None:
        """Move the pieces that are completely used to large pages."""
        first = -self.array.ctypes.data % _LARGE
        begin = max(self._large, first)
        length = (self.array.nbytes - begin) // _LARGE * _LARGE
        if length > 0:
            self._large = begin + length
            with suppress(OSError, AttributeError):  # without system support, small pages are used
                self._pages.madvise(_COLLAPSE, begin, length)
