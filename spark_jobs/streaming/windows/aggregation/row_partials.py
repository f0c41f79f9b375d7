"""Partials of rows for count windows: each row is one partial, with its position in the order of the stream.

The order is (time, partition, position in the partition): it depends neither on the progress of units nor on rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.kernels.hash_tables import Flags, Ints
from springline.spark_jobs.streaming.sources.chunk import Chunk
from springline.spark_jobs.streaming.windows.aggregation.accumulators import Accumulators
from springline.spark_jobs.streaming.windows.aggregation.dictionary import DictionaryEncoder
from springline.spark_jobs.streaming.windows.aggregation.grouping import batch_of, hashes_of_groups
from springline.spark_jobs.streaming.windows.multi_query import Cube

ORDER_COLUMNS = ("time", "partition", "position")


class RowPartials:
    """The rows of a round for one cube."""

    def __init__(self, cube: Cube, encoder: DictionaryEncoder) -> None:
        self.cube = cube
        self._encoder = encoder
        self._batches: list[pa.RecordBatch] = []

    def add(self, chunk: Chunk, places: Sequence[Ints], keep: Flags) -> None:
        """Add the rows that pass the cube's filter, of those that `keep` selects (empty: all).

        `places` are the partition of each row, and its position there.
        """
        selected_flags = keep if keep.size else np.ones(chunk.rows, np.bool_)
        if self.cube.where is not None:
            selected_flags = selected_flags & self._encoder.holds(self.cube.where)
        rows = np.flatnonzero(selected_flags)
        if not rows.size:
            return
        groups = np.full(chunk.rows, -1, np.int32)
        groups[rows] = np.arange(1, rows.size + 1)
        accumulators = Accumulators(self.cube.measures)
        accumulators.add(groups, rows.size, self._encoder)
        keys = [self._encoder.codes(key)[rows].astype(np.int64) for key in self.cube.keys]
        measures = accumulators.arrays(rows.size, self._encoder)
        hashes = hashes_of_groups(self.cube.keys, self._encoder, keys, rows.size)
        slices, order = np.zeros(rows.size, np.int64), np.arange(rows.size)
        batch = batch_of(self.cube.keys, self.cube.measures, self._encoder, slices, hashes, keys, measures, order)
        for name, values in zip(ORDER_COLUMNS, (chunk.times[rows], *(place[rows] for place in places)), strict=True):
            batch = batch.append_column(pa.field(name, pa.int64()), pa.array(values, pa.int64()))
        self._batches.append(batch)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows as one batch, if there are any."""
        if self._batches:
            yield pa.Table.from_batches(self._batches).combine_chunks().to_batches()[0]
