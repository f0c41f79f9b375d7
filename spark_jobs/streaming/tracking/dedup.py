"""Deduplication by tuple id: which tuples of unfinished roots a step has applied, so that none is applied twice.

Used for exactly-once. A tuple's id does not depend on the attempt. Below the low watermarks every root is finished: all
of its tuples were applied, so their ids are dropped, and one that still arrives late is not applied.
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
_SMALL = 8  # most runs of about the same size
_FREE = np.uint64(0)  # no id is 0


@dataclass
class DedupState:
    """The ids in memory, as an open-addressing table, and the runs that the state stores."""

    runs: tuple[pa.RecordBatch, ...] = ()
    table: Ids = field(default_factory=lambda: np.zeros(1 << 10, np.uint64))
    count: int = 0

    @staticmethod
    def of(runs: Sequence[pa.RecordBatch]) -> DedupState:
        """Return the dedup state of the runs of a step's state."""
        state = DedupState(tuple(runs))
        state._fill()
        return state

    def add_new(self, roots: Ids, ids: Ids, low_watermarks: Ids) -> npt.NDArray[np.bool_]:
        """Add ids; return which tuples are to be applied: new ones, of roots that are not below the low watermarks.

        Of duplicates within one call, one is new.
        """
        open_ = _is_not_below(roots, low_watermarks)
        if open_.all():
            return self._add(ids)
        is_new = np.zeros(ids.size, np.bool_)
        is_new[open_] = self._add(ids[open_])
        return is_new

    def with_applied(self, roots: Ids, ids: Ids, low_watermarks: Ids) -> DedupState:
        """Return the state with the new tuples `ids` and `roots`, and without those below the low watermarks."""
        runs = [run for each in self.runs if (run := _drop_below(each, low_watermarks)) is not None]
        if ids.size:
            applied = pa.RecordBatch.from_arrays([pa.array(roots), pa.array(ids)], schema=_SCHEMA)
            if (new_run := _drop_below(applied, low_watermarks)) is not None:
                runs.append(new_run)
        merged = tuple(_merge_runs(runs))
        left = sum(run.num_rows for run in merged)
        if left * 2 < self.count and self.count > 1 << 10:
            return DedupState.of(merged)
        return DedupState(merged, self.table, self.count)

    def _fill(self) -> None:
        total = sum(run.num_rows for run in self.runs)
        self.table, self.count = np.zeros(1 << max((total * 2 + 1).bit_length(), 10), np.uint64), 0
        for run in self.runs:
            self._add(run.column("id").to_numpy())

    def _add(self, ids: Ids) -> npt.NDArray[np.bool_]:
        self._grow(ids.size)
        is_new = np.empty(ids.size, np.bool_)
        self.count += int(_add(self.table, ids, is_new))
        return is_new

    def _grow(self, more: int) -> None:
        if (self.count + more) * 2 <= self.table.size:
            return
        old = self.table[self.table != _FREE]
        self.table = np.zeros(1 << ((self.count + more) * 3).bit_length(), np.uint64)
        _add(self.table, old, np.empty(old.size, np.bool_))


def _is_not_below(roots: Ids, low_watermarks: Ids) -> npt.NDArray[np.bool_]:
    offsets = (roots >> np.uint64(ROW_BITS)) & np.uint64((1 << OFFSET_BITS) - 1)
    is_open: npt.NDArray[np.bool_] = offsets >= low_watermarks[roots >> np.uint64(OFFSET_BITS + ROW_BITS)]
    return is_open


def _drop_below(run: pa.RecordBatch, low_watermarks: Ids) -> pa.RecordBatch | None:
    """Drop the roots below the low watermarks from a run, if they are at least half of it; None if nothing remains."""
    is_open = _is_not_below(run.column("root").to_numpy(), low_watermarks)
    left = int(is_open.sum())
    if not left:
        return None
    return run if left * 2 > run.num_rows else run.filter(pa.array(is_open))


def _merge_runs(runs: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Limit the number of runs: several of about the same size at the end are merged into one."""
    merged = list(runs)
    while (len(merged) > _SMALL and merged[-_SMALL].num_rows <= 4 * merged[-1].num_rows) or len(merged) > 4 * _SMALL:
        last = merged[-_SMALL:]
        combined = pa.Table.from_batches(last).combine_chunks().to_batches()
        merged[-_SMALL:] = combined
    return merged


@njit(cache=True, nogil=True)
def _add(table, ids, is_new):  # type: ignore[no-untyped-def]
    mask = np.uint64(table.size - 1)
    added = 0
    for i in range(ids.size):
        place = ids[i] & mask
        while table[place] != np.uint64(0) and table[place] != ids[i]:
            place = (place + np.uint64(1)) & mask
        is_new[i] = table[place] == np.uint64(0)
        if is_new[i]:
            table[place] = ids[i]
            added += 1
    return added


def read_low_watermarks(versions: Mapping[str, Any]) -> Ids:
    """Return the low watermarks that a round names: an offset for each possible partition."""
    low_watermarks = np.zeros(1 << PARTITION_BITS, np.uint64)
    for partition, offset in versions["low_watermarks"]["low_watermarks"].items():
        low_watermarks[int(partition)] = offset
    return low_watermarks
