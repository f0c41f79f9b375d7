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

from springline.spark_jobs.streaming.tracking.ids import mix

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
        return [(key, count) for key, count in self._top(most).tolist()]

    def as_json(self, most: int = TOP) -> dict[str, Any]:
        """Return the `most` heaviest keys and the totals as JSON, for reports."""
        return {"total": self.total, "missed": self.missed, "top": self._top(most).tolist()}

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

    def _top(self, most: int) -> Ints:
        """Return the heaviest keys with their counts as rows; of equal counts, the least keys first."""
        order = np.argsort(-self.counts, kind="stable")[:most]
        return np.stack((self.keys[order], self.counts[order]), axis=1)

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
    """Hash table of counters: counters in the order of their keys' first tuples, and the counter of each slot."""

    def __init__(self, keys: Ints, counts: Ints, more: int) -> None:
        most = min(keys.size + more, _FULL)
        self._keys, self._counts = np.empty(most, np.int64), np.empty(most, np.int64)
        self._slots = np.full(2 << max(most - 1, 0).bit_length(), -1, np.int32)
        self._used = 0
        self.count(keys, counts, 0)

    def count(self, keys: Ints, counts: Ints, start: int) -> int:
        """Count keys from `start` until the table is full; returns the next position. Without counts, each key is 1."""
        position, self._used = _count_keys(keys, counts, start, self._used, self._slots, self._keys, self._counts)
        return int(position)

    def cut_down(self) -> tuple[Ints, Ints, int]:
        """Return the remaining counters, sorted by key, and the amount by which each was lowered."""
        keys, counts, lowered_by = self._keys[: self._used], self._counts[: self._used], 0
        if keys.size > COUNTERS:
            lowered_by = int(np.partition(counts, keys.size - COUNTERS - 1)[keys.size - COUNTERS - 1])
            stays = counts > lowered_by
            keys, counts = keys[stays], counts[stays] - lowered_by
        order = np.argsort(keys)
        return keys[order], counts[order], lowered_by


def merge_sketches(sketches: Iterable[Sketch]) -> Sketch:
    """Return the sketch of the union of streams."""
    union = Sketch.empty()
    for sketch in sketches:
        union = union.union(sketch)
    return union


@njit(cache=True, nogil=True)
def _count_keys(keys, counts, start, used_before, slots, counter_keys, counters):  # type: ignore[no-untyped-def]
    """Count keys from `start` until `_FULL` counters are used; returns the next position and how many are used."""
    used, position = used_before, start
    last = np.int64(slots.size - 1)
    while position < keys.size and used < _FULL:
        key = keys[position]
        slot = np.int64(mix(np.uint64(key)) & np.uint64(last))
        while slots[slot] >= 0 and counter_keys[slots[slot]] != key:
            slot = (slot + 1) & last
        counter = slots[slot]
        if counter < 0:
            counter = slots[slot] = used
            counter_keys[counter], counters[counter] = key, 0
            used += 1
        counters[counter] += counts[position] if counts.size else 1
        position += 1
    return position, used
