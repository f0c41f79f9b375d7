"""Sketch of a stream's heavy keys: Misra-Gries counters in batches, mergeable and deterministic.

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
_FULL = 1 << 15  # maximum number of counters before they are cut down


@dataclass(frozen=True)
class Sketch:
    """Sorted keys with their counts, of `total` tuples."""

    keys: Ints
    counts: Ints
    total: int = 0
    missed: int = 0

    @staticmethod
    def empty() -> Sketch:
        """Return the sketch of no tuples."""
        return Sketch(np.empty(0, np.int64), np.empty(0, np.int64))

    def with_keys(self, keys: Ints) -> Sketch:
        """Add tuples. Their distribution over calls may change `missed`, so it must be the same in a replay."""
        return self._with(keys, np.empty(0, np.int64)) if keys.size else self

    def union(self, other: Sketch) -> Sketch:
        """Return the sketch of both streams."""
        return self._with(other.keys, other.counts, other.total, other.missed)

    def top(self, most: int = TOP) -> list[tuple[int, int]]:
        """Return the heaviest keys with their counts, the heaviest first."""
        order = np.lexsort((self.keys, -self.counts))[:most]
        return [(int(self.keys[index]), int(self.counts[index])) for index in order]

    def as_json(self, most: int = TOP) -> dict[str, Any]:
        """Return the `most` heaviest keys and the totals as JSON, for reports."""
        return {"total": self.total, "missed": self.missed, "top": [list(one) for one in self.top(most)]}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Sketch:
        """Restore from `as_json`, with the keys that it contains."""
        rows = sorted((key, count) for key, count in raw["top"])
        keys, counts = ([row[column] for row in rows] for column in (0, 1))
        return Sketch(np.array(keys, np.int64), np.array(counts, np.int64), raw["total"], raw["missed"])

    def to_batch(self) -> pa.RecordBatch:
        """Return the counters as a run of a state."""
        return pa.RecordBatch.from_arrays([pa.array(self.keys), pa.array(self.counts)], ["key", "count"])

    @staticmethod
    def from_batch(batch: pa.RecordBatch, total: int, missed: int) -> Sketch:
        """Restore from `to_batch`."""
        return Sketch(batch.column(0).to_numpy(), batch.column(1).to_numpy(), total, missed)

    def _with(self, keys: Ints, counts: Ints, total: int | None = None, missed: int = 0) -> Sketch:
        counters = _CounterTable(self.keys, self.counts, keys.size)
        position = counters.count(keys, counts, 0)
        while position < keys.size:
            top_keys, top_counts, lowered_by = counters.cut_down()
            missed += lowered_by
            counters = _CounterTable(top_keys, top_counts, keys.size - position)
            position = counters.count(keys, counts, position)
        top_keys, top_counts, lowered_by = counters.cut_down()
        return Sketch(
            top_keys,
            top_counts,
            self.total + (keys.size if total is None else total),
            self.missed + missed + lowered_by,
        )


class _CounterTable:
    """Hash table of counters."""

    def __init__(self, keys: Ints, counts: Ints, more: int) -> None:
        slots = 2 << min(keys.size + more, _FULL - 1).bit_length()
        self._keys, self._counts = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
        self._is_used = np.zeros(slots, np.bool_)
        self._used = 0
        self.count(keys, counts, 0)

    def count(self, keys: Ints, counts: Ints, start: int) -> int:
        """Count keys from `start` until the table is full; returns the next position. Without counts, each key is 1."""
        position, self._used = _count_keys(keys, counts, start, self._used, self._keys, self._counts, self._is_used)
        return int(position)

    def cut_down(self) -> tuple[Ints, Ints, int]:
        """Return the remaining counters, sorted by key, and the amount by which each was lowered."""
        keys, counts = self._keys[self._is_used], self._counts[self._is_used]
        order = np.argsort(keys)
        keys, counts = keys[order], counts[order]
        if keys.size <= COUNTERS:
            return keys, counts, 0
        lowered_by = int(np.partition(counts, keys.size - COUNTERS - 1)[keys.size - COUNTERS - 1])
        stays = counts > lowered_by
        return keys[stays], counts[stays] - lowered_by, lowered_by


def merge_sketches(sketches: Iterable[Sketch]) -> Sketch:
    """Return the sketch of the union of streams."""
    union = Sketch.empty()
    for sketch in sketches:
        union = union.union(sketch)
    return union


@njit(cache=True, nogil=True)
def _count_keys(keys, counts, start, used_before, slot_keys, slot_counts, is_used):  # type: ignore[no-untyped-def]
    """Count keys from `start` until the slots are full; returns the next position and the number of used slots."""
    used, position = used_before, start
    while position < keys.size and used < _FULL:
        slot = slot_of(keys[position], slot_keys, is_used)
        if not is_used[slot]:
            is_used[slot], slot_keys[slot] = True, keys[position]
            used += 1
        slot_counts[slot] += counts[position] if counts.size else 1
        position += 1
    return position, used
