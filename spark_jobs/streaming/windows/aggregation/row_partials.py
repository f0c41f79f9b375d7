"""Rows for windows that count rows: each is a partial of its own, with its place in the order of the stream.

That order is (time, unit, place in the unit's log): it does not depend on how far units are, or on rounds.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.kernels.hash_tables import Flags
from springline.spark_jobs.streaming.sources.chunk import Chunk
from springline.spark_jobs.streaming.windows.aggregation.accumulators import Totals
from springline.spark_jobs.streaming.windows.aggregation.dictionary import Coder
from springline.spark_jobs.streaming.windows.aggregation.grouping import batch_of, hashes_of_groups
from springline.spark_jobs.streaming.windows.multi_query import Cube

PLACE = ("time", "unit", "position")


class RowPartials:
    """The rows of a round for one cube."""

    def __init__(self, cube: Cube, coder: Coder, unit: int) -> None:
        self.cube = cube
        self._coder = coder
        self._unit = unit
        self._found: list[pa.RecordBatch] = []

    def add(self, chunk: Chunk, position: int, keep: Flags) -> None:
        """Add the rows that the cube's filter lets pass, of those that `keep` (empty: all) says."""
        wanted = keep if keep.size else np.ones(chunk.rows, np.bool_)
        if self.cube.where is not None:
            wanted = wanted & self._coder.holds(self.cube.where)
        rows = np.flatnonzero(wanted)
        if not rows.size:
            return
        groups = np.full(chunk.rows, -1, np.int32)
        groups[rows] = np.arange(1, rows.size + 1)
        totals = Totals(self.cube.measures)
        totals.add(groups, rows.size, self._coder)
        keys = [self._coder.codes(key)[rows].astype(np.int64) for key in self.cube.keys]
        measures = totals.arrays(rows.size, self._coder)
        hashes = hashes_of_groups(self.cube, self._coder, keys, rows.size)
        slices, as_they_are = np.zeros(rows.size, np.int64), np.arange(rows.size)
        batch = batch_of(self.cube, self._coder, slices, hashes, keys, measures, as_they_are)
        places = [chunk.times[rows], np.full(rows.size, self._unit), position + rows]
        for name, values in zip(PLACE, places, strict=True):
            batch = batch.append_column(pa.field(name, pa.int64()), pa.array(values, pa.int64()))
        self._found.append(batch)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, if there are any."""
        if self._found:
            yield pa.Table.from_batches(self._found).combine_chunks().to_batches()[0]
