"""An array that grows in place: room is reserved ahead, and counts once it is written to.

Where the system can, what is in use lies on the processor's large pages: small ones cost more than the memory they map
when it is read at random.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

_AHEAD = 8  # room that is reserved, as a multiple of what is asked for
_LARGE = 2 << 20
_COLLAPSE = 25  # Linux 6.1: now, and without a lasting wish for a part of the mapping, which could not be moved then


class Growing:
    """An array in an anonymous mapping of its own, which begins at a page; what is new in it is 0."""

    def __init__(self, dtype: npt.DTypeLike, size: int) -> None:
        self._dtype = np.dtype(dtype)
        self._pages = mmap.mmap(-1, self._room(size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.array: npt.NDArray[Any] = np.frombuffer(self._pages, self._dtype, size)
        self._large = 0

    def grow(self, size: int) -> None:
        """Make it longer; no other reference to `array` may be held."""
        self._prefer_large_pages()
        del self.array
        if size * self._dtype.itemsize > len(self._pages):
            self._pages.resize(self._room(size))
            self._large = 0
        self.array = np.frombuffer(self._pages, self._dtype, size)

    def _room(self, size: int) -> int:
        return max(size * self._dtype.itemsize * _AHEAD, _LARGE)

    def _prefer_large_pages(self) -> None:
        """Put the pieces that are in use to their end on large pages."""
        first = -self.array.ctypes.data % _LARGE
        begin = max(self._large, first)
        length = (self.array.nbytes - begin) // _LARGE * _LARGE
        if length > 0:
            self._large = begin + length
            with suppress(OSError, AttributeError):  # where the system has none, small ones do
                self._pages.madvise(_COLLAPSE, begin, length)
