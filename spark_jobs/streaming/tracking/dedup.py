"""Which tuples of unfinished roots a step has applied: under exactly-once none is applied a second time.

A tuple is known by its id, in which there is no attempt. Below the low-water marks every root is finished: all of its
tuples were applied, so what is remembered of those is forgotten, and one that comes late all the same is not applied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from springline.spark_jobs.streaming.tracking.ids import Ids
from springline.spark_jobs.streaming.tracking.root_id import OFFSET_BITS, PARTITION_BITS, ROW_BITS

_SCHEMA = pa.schema([pa.field("root", pa.uint64(), nullable=False), pa.field("id", pa.uint64(), nullable=False)])
_SMALL = 8  # runs that may be of about the same size
_FREE = np.uint64(0)  # no id is 0


@dataclass
class Remembered:
    """The ids in memory, as a table of open addressing, beside the runs that the state holds."""

    runs: tuple[pa.RecordBatch, ...] = ()
    table: Ids = field(default_factory=lambda: np.zeros(1 << 10, np.uint64))
    count: int = 0

    @staticmethod
    def of(runs: Sequence[pa.RecordBatch]) -> Remembered:
        """What a state holds."""
        found = Remembered(tuple(runs))
        found._fill()
        return found

    def fresh(self, roots: Ids, ids: Ids, marks: Ids) -> npt.NDArray[np.bool_]:
        """Which tuples are to be applied: those not known so far, of roots that are not below the marks.

        One that comes twice is fresh once.
        """
        open_ = _not_below(roots, marks)
        if open_.all():
            return self._add(ids)
        found = np.zeros(ids.size, np.bool_)
        found[open_] = self._add(ids[open_])
        return found

    def after(self, roots: Ids, ids: Ids, marks: Ids) -> Remembered:
        """With the tuples that were fresh, and without those below the marks."""
        runs = [run for each in self.runs if (run := _above(each, marks)) is not None]
        if ids.size:
            fresh = pa.RecordBatch.from_arrays([pa.array(roots), pa.array(ids)], schema=_SCHEMA)
            if (kept := _above(fresh, marks)) is not None:
                runs.append(kept)
        merged = tuple(_merged(runs))
        left = sum(run.num_rows for run in merged)
        if left * 2 < self.count and self.count > 1 << 10:
            return Remembered.of(merged)
        return Remembered(merged, self.table, self.count)

    def _fill(self) -> None:
        total = sum(run.num_rows for run in self.runs)
        self.table, self.count = np.zeros(1 << max((total * 2 + 1).bit_length(), 10), np.uint64), 0
        for run in self.runs:
            self._add(run.column("id").to_numpy())

    def _add(self, ids: Ids) -> npt.NDArray[np.bool_]:
        self._grow(ids.size)
        found = np.empty(ids.size, np.bool_)
        self.count += int(_add(self.table, ids, found))
        return found

    def _grow(self, more: int) -> None:
        if (self.count + more) * 2 <= self.table.size:
            return
        old = self.table[self.table != _FREE]
        self.table = np.zeros(1 << ((self.count + more) * 3).bit_length(), np.uint64)
        _add(self.table, old, np.empty(old.size, np.bool_))


def _not_below(roots: Ids, marks: Ids) -> npt.NDArray[np.bool_]:
    offsets = (roots >> np.uint64(ROW_BITS)) & np.uint64((1 << OFFSET_BITS) - 1)
    found: npt.NDArray[np.bool_] = offsets >= marks[roots >> np.uint64(OFFSET_BITS + ROW_BITS)]
    return found


def _above(run: pa.RecordBatch, marks: Ids) -> pa.RecordBatch | None:
    """A run without roots below the marks, where that is at least half of it; None where that is all."""
    kept = _not_below(run.column("root").to_numpy(), marks)
    left = int(kept.sum())
    if not left:
        return None
    return run if left * 2 > run.num_rows else run.filter(pa.array(kept))


def _merged(runs: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Few runs: where several at the end are of about the same size, they become one."""
    found = list(runs)
    while (len(found) > _SMALL and found[-_SMALL].num_rows <= 4 * found[-1].num_rows) or len(found) > 4 * _SMALL:
        last = found[-_SMALL:]
        whole = pa.Table.from_batches(last).combine_chunks().to_batches()
        found[-_SMALL:] = whole
    return found


@njit(cache=True, nogil=True)
def _add(table, ids, fresh):  # type: ignore[no-untyped-def]
    mask = np.uint64(table.size - 1)
    added = 0
    for i in range(ids.size):
        place = ids[i] & mask
        while table[place] != np.uint64(0) and table[place] != ids[i]:
            place = (place + np.uint64(1)) & mask
        fresh[i] = table[place] == np.uint64(0)
        if fresh[i]:
            table[place] = ids[i]
            added += 1
    return added


def marks_of(versions: Mapping[str, Any]) -> Ids:
    """The low-water marks that a round names: an offset for each partition that there can be."""
    marks = np.zeros(1 << PARTITION_BITS, np.uint64)
    for partition, offset in versions["low"]["lows"].items():
        marks[int(partition)] = offset
    return marks
