"""An array that grows and shrinks in place: memory is moved by pages, not copied, and counts once it is written to."""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

_LARGE = 4 << 20  # bytes from which on the processor's large pages are asked for


class Growing:
    """An array in an anonymous mapping of its own, which begins at a page; what is new in it is 0."""

    def __init__(self, dtype: npt.DTypeLike, size: int) -> None:
        self._dtype = np.dtype(dtype)
        self._pages = mmap.mmap(-1, self._bytes(size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._prefer_large_pages(size)
        self.array: npt.NDArray[Any] = np.frombuffer(self._pages, self._dtype, size)

    def resize(self, size: int) -> None:
        """Make it longer or shorter; no other reference to `array` may be held."""
        del self.array
        self._pages.resize(self._bytes(size))
        self._prefer_large_pages(size)
        self.array = np.frombuffer(self._pages, self._dtype, size)

    def _bytes(self, size: int) -> int:
        return max(size * self._dtype.itemsize, 1)

    def _prefer_large_pages(self, size: int) -> None:
        if hasattr(mmap, "MADV_HUGEPAGE") and self._bytes(size) >= _LARGE:
            with suppress(OSError):  # where the system has none, small ones do
                self._pages.madvise(mmap.MADV_HUGEPAGE)
