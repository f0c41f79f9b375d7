"""Runs: immutable Arrow batches of tuples of one side, sorted by (key, seq); how they are built and merged.

The first two columns of a batch are key and seq, the others the columns that the side carries. The greatest seq is in
its schema's metadata; the least and the greatest key are the first and the last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.spark_jobs.streaming.join.condition.checked_arithmetic import Ints
from springline.spark_jobs.streaming.join.kernels import BLOCK, interleave, merge_order, merged_rows, sort_order

_GREATEST = b"greatest seq"


@dataclass(frozen=True, eq=False)
class SortedRun:
    """A complete sorted batch of tuples; its numeric columns are zero-copy views."""

    batch: pa.RecordBatch

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    @cached_property
    def keys(self) -> Ints:
        """The keys, ascending."""
        return np.asarray(self.batch.column(0).to_numpy())

    @cached_property
    def seqs(self) -> Ints:
        """The seqs, ascending among equal keys."""
        return np.asarray(self.batch.column(1).to_numpy())

    @cached_property
    def greatest(self) -> int:
        """The greatest seq."""
        stored = (self.batch.schema.metadata or {}).get(_GREATEST)
        return int(self.seqs.max()) if stored is None else int(stored)

    @cached_property
    def bytes(self) -> int:
        """Bytes of all values."""
        return bytes_of(self.batch)

    @cached_property
    def least(self) -> int:
        """The least seq."""
        return int(self.seqs.min())

    @cached_property
    def width(self) -> int:
        """Bytes of a row without its texts."""
        texts = sum(1 for column in self.batch.columns if pa.types.is_string(column.type))
        return 4 * texts + sum(
            int(column.type.bit_width) // 8 for column in self.batch.columns if not pa.types.is_string(column.type)
        )

    @cached_property
    def index(self) -> Ints:
        """Every `BLOCK`-th key: few enough to stay in the processor's cache."""
        return np.ascontiguousarray(self.keys[::BLOCK])

    def bound(self, row: int) -> tuple[int, int]:
        """Return the key and the seq of a row."""
        return int(self.keys[row]), int(self.seqs[row])

    def below(self, bound: tuple[int, int]) -> int:
        """Return how many tuples precede a (key, seq)."""
        equal = self.between((bound[0], bound[0]))
        return int(equal.start) + int(np.searchsorted(self.seqs[equal], bound[1]))

    def between(self, keys: tuple[int, int]) -> slice:
        """Return the rows with keys in [low, high]."""
        low, high = keys
        return slice(int(np.searchsorted(self.keys, low)), int(np.searchsorted(self.keys, high, "right")))

    def text_bytes(self, rows: npt.NDArray[np.integer]) -> Ints:
        """Return the bytes of text of each of the given rows."""
        sizes = np.zeros(rows.size, np.int64)
        for column in self.batch.columns:
            if pa.types.is_string(column.type):
                ends = np.frombuffer(column.buffers()[1], np.int32)[column.offset :]
                sizes += ends[rows + 1] - ends[rows]
        return sizes

    def take_columns(self, rows: npt.NDArray[np.integer], names: Mapping[str, str]) -> dict[str, pa.Array]:
        """Return columns with only the given rows, renamed: `names` maps new names to stored ones."""
        indices = pa.array(rows)
        return {name: self.batch.column(stored).take(indices) for name, stored in names.items()}


def bytes_of(batch: pa.RecordBatch) -> int:
    """Return the bytes of all values, on which compaction decides: Arrow's own size depends on a batch's origin."""
    return sum(_bytes_of(column) for column in batch.columns)


def _bytes_of(column: pa.Array) -> int:
    if pa.types.is_string(column.type):
        places = column.buffers()[1]
        if not len(column):
            return 0
        ends = np.frombuffer(places, np.int32)[[column.offset, column.offset + len(column)]]
        return int(4 * len(column) + ends[1] - ends[0])
    return int(column.type.bit_width * len(column) // 8)


def run_of(batch: pa.RecordBatch, greatest: int | None = None) -> SortedRun:
    """Return a sorted batch as a run with its greatest seq in the metadata."""
    seqs = batch.column(1).to_numpy()
    greatest_seq = int(seqs.max()) if greatest is None else greatest
    return SortedRun(batch.replace_schema_metadata({_GREATEST: str(greatest_seq)}))


def sorted_run(batches: Sequence[pa.RecordBatch]) -> SortedRun | None:
    """Sort tuples into a run; None if there are none."""
    filled = [batch.replace_schema_metadata(None) for batch in batches if batch.num_rows]
    if not filled:
        return None
    # Messages of one sender arrive in the order of seqs, so sorting by the first seq often sorts all.
    filled.sort(key=lambda batch: batch.column(1)[0].as_py())
    combined = filled[0] if len(filled) == 1 else pa.concat_batches(filled)
    keys, seqs = combined.column(0).to_numpy(), combined.column(1).to_numpy()
    if (seqs[1:] > seqs[:-1]).all():
        order = sort_order(keys)
    else:
        order = sort_order(seqs)
        order = order[sort_order(keys[order])]
    return run_of(combined.take(pa.array(order)))


def merge_runs(first: SortedRun, other: SortedRun) -> SortedRun:
    """Merge two runs."""
    second = np.empty(len(first) + len(other), np.bool_)
    merge_order(first.keys, first.seqs, other.keys, other.seqs, second)
    rows: npt.NDArray[np.int64] | None = None
    arrays = []
    for first_column, other_column in zip(first.batch.columns, other.batch.columns, strict=True):
        if (
            pa.types.is_primitive(first_column.type)
            and not pa.types.is_boolean(first_column.type)
            and not first_column.null_count
            and not other_column.null_count
        ):
            values = np.empty(second.size, first_column.type.to_pandas_dtype())
            interleave(first_column.to_numpy(), other_column.to_numpy(), second, values)
            arrays.append(pa.array(values))
            continue
        if rows is None:
            rows = np.empty(second.size, np.int64)
            merged_rows(second, len(first), rows)
        arrays.append(pa.concat_arrays([first_column, other_column]).take(pa.array(rows)))
    batch = pa.RecordBatch.from_arrays(arrays, schema=first.batch.schema.remove_metadata())
    return run_of(batch, max(first.greatest, other.greatest))


def merge_all(runs: Sequence[SortedRun | None]) -> SortedRun | None:
    """Merge runs; None if there are none."""
    union: SortedRun | None = None
    for run in runs:
        if run is not None:
            union = run if union is None else merge_runs(union, run)
    return union
