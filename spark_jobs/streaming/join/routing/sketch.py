"""Heavy keys of a stream: Misra-Gries counters, as many tuples at once as there are, mergeable and deterministic.

A count is too small by at most `missed`, which is at most the number of tuples divided by the counters + 1 (Agarwal,
Cormode, Huang, Phillips, Wei, Yi: Mergeable summaries, 2012).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from springline.spark_jobs.streaming.join.routing.kernels import slot_of

Ints = npt.NDArray[np.int64]

COUNTERS = 2048
TOP = 200
_FULL = 1 << 15  # keys that are counted at a time: then they are cut down


@dataclass(frozen=True)
class Sketch:
    """Keys in their order with their counts, of `total` tuples."""

    keys: Ints
    counts: Ints
    total: int = 0
    missed: int = 0

    @staticmethod
    def empty() -> Sketch:
        """Of no tuples."""
        return Sketch(np.empty(0, np.int64), np.empty(0, np.int64))

    def counted(self, keys: Ints) -> Sketch:
        """With more tuples; how they are cut into calls may show in what is missed, so do it the same each time."""
        return self._with(keys, np.empty(0, np.int64)) if keys.size else self

    def merged(self, other: Sketch) -> Sketch:
        """The sketch of both streams."""
        return self._with(other.keys, other.counts, other.total, other.missed)

    def top(self, most: int = TOP) -> list[tuple[int, int]]:
        """The heaviest keys with their counts, the heaviest first."""
        order = np.lexsort((self.keys, -self.counts))[:most]
        return [(int(self.keys[at]), int(self.counts[at])) for at in order]

    def as_json(self, most: int = TOP) -> dict[str, Any]:
        """What is told of it."""
        return {"total": self.total, "missed": self.missed, "top": [list(one) for one in self.top(most)]}

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> Sketch:
        """What `as_json` gave, as far as it was told."""
        rows = sorted((key, count) for key, count in told["top"])
        keys, counts = ([row[at] for row in rows] for at in (0, 1))
        return Sketch(np.array(keys, np.int64), np.array(counts, np.int64), told["total"], told["missed"])

    def batch(self) -> pa.RecordBatch:
        """The counters, as a run of a state."""
        return pa.RecordBatch.from_arrays([pa.array(self.keys), pa.array(self.counts)], ["key", "count"])

    @staticmethod
    def of_batch(batch: pa.RecordBatch, total: int, missed: int) -> Sketch:
        """From what `batch` gave."""
        return Sketch(batch.column(0).to_numpy(), batch.column(1).to_numpy(), total, missed)

    def _with(self, keys: Ints, counts: Ints, total: int | None = None, missed: int = 0) -> Sketch:
        slots = _Counting(self.keys, self.counts, keys.size)
        at = slots.count(keys, counts, 0)
        while at < keys.size:
            found, kept, less = slots.cut()
            missed += less
            slots = _Counting(found, kept, keys.size - at)
            at = slots.count(keys, counts, at)
        found, kept, less = slots.cut()
        return Sketch(found, kept, self.total + (keys.size if total is None else total), self.missed + missed + less)


class _Counting:
    """Many counters, hashed."""

    def __init__(self, keys: Ints, counts: Ints, more: int) -> None:
        slots = 2 << min(keys.size + more, _FULL - 1).bit_length()
        self._keys, self._counts = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
        self._taken = np.zeros(slots, np.bool_)
        self._used = 0
        self.count(keys, counts, 0)

    def count(self, keys: Ints, counts: Ints, start: int) -> int:
        """From `start` on until the counters are too many: how far that went. Without counts, each key is 1."""
        at, self._used = _count(keys, counts, start, self._used, self._keys, self._counts, self._taken)
        return int(at)

    def cut(self) -> tuple[Ints, Ints, int]:
        """The counters that stay, in the order of keys, and what each was lowered by."""
        keys, counts = self._keys[self._taken], self._counts[self._taken]
        order = np.argsort(keys)
        keys, counts = keys[order], counts[order]
        if keys.size <= COUNTERS:
            return keys, counts, 0
        less = int(np.partition(counts, keys.size - COUNTERS - 1)[keys.size - COUNTERS - 1])
        stay = counts > less
        return keys[stay], counts[stay] - less, less


def merged(sketches: Iterable[Sketch]) -> Sketch:
    """The sketch of all of some streams."""
    found = Sketch.empty()
    for sketch in sketches:
        found = found.merged(sketch)
    return found


@njit(cache=True, nogil=True)
def _count(keys, counts, start, taken_before, slot_keys, slot_counts, taken):  # type: ignore[no-untyped-def]
    """Count keys from `start` on until the slots are full: how far that went, and how many slots are taken."""
    used, at = taken_before, start
    while at < keys.size and used < _FULL:
        slot = slot_of(keys[at], slot_keys, taken)
        if not taken[slot]:
            taken[slot], slot_keys[slot] = True, keys[at]
            used += 1
        slot_counts[slot] += counts[at] if counts.size else 1
        at += 1
    return at, used
