"""Keeps a store within a number of bytes, though what it holds is measured now and then only, by walking through it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from springline.persistence.errors import StorageFullError

_MEASURING_SHARE = 0.05  # of the time, at most


@dataclass
class Capacity:
    """The capacity `limit` of the store `name` (bytes, 0: no limit); `measure` returns the bytes in it.

    The store is measured before a file is refused, and at intervals in which it counts what this process writes; what
    other processes write, or anybody deletes, is noticed by the next measurement.
    """

    name: str
    limit: int
    measure: Callable[[], int]
    clock: Callable[[], float] = time.monotonic
    _used_bytes: int = field(default=0, init=False)
    _measure_again_at: float = field(default=float("-inf"), init=False)

    def reserve(self, file: str, size: int) -> None:
        """Count a new file; raises `StorageFullError` if it does not fit."""
        if not self.limit:
            return
        started_at = self.clock()
        if started_at >= self._measure_again_at or self._used_bytes + size > self.limit:
            self._used_bytes = self.measure()
            ended_at = self.clock()
            self._measure_again_at = ended_at + (ended_at - started_at) / _MEASURING_SHARE
        if self._used_bytes + size > self.limit:
            raise StorageFullError(f"{self.name} is full: {file} of {size:,} bytes does not fit")
        self._used_bytes += size
