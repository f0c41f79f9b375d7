"""Runs: tuples of one side in the order of (key, seq), immutable, as Arrow batches; how they are made and merged.

The first two columns of a batch are key and seq, the others what goes with a tuple. Its schema's metadata tells the
greatest seq; the least and the greatest key are the first and the last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.spark_jobs.streaming.join.condition.checked_arithmetic import Ints
from springline.spark_jobs.streaming.join.kernels import BLOCK, interleave, merge_order, order_of, rows_of

_GREATEST = b"greatest seq"


@dataclass(frozen=True, eq=False)
class Run:
    """A batch of tuples in order, of which none is left out; its columns as numbers are views of it."""

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
        told = (self.batch.schema.metadata or {}).get(_GREATEST)
        return int(self.seqs.max()) if told is None else int(told)

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
        """Bytes of a row beside its texts."""
        texts = sum(1 for column in self.batch.columns if pa.types.is_string(column.type))
        return 4 * texts + sum(
            int(column.type.bit_width) // 8 for column in self.batch.columns if not pa.types.is_string(column.type)
        )

    @cached_property
    def index(self) -> Ints:
        """Every so manieth key: few enough to stay in the processor's cache."""
        return np.ascontiguousarray(self.keys[::BLOCK])

    def bound(self, row: int) -> tuple[int, int]:
        """The key and the seq of a row."""
        return int(self.keys[row]), int(self.seqs[row])

    def below(self, bound: tuple[int, int]) -> int:
        """How many tuples come before a key and a seq."""
        equal = self.between((bound[0], bound[0]))
        return int(equal.start) + int(np.searchsorted(self.seqs[equal], bound[1]))

    def between(self, keys: tuple[int, int]) -> slice:
        """Where the tuples of keys in [low, high] are."""
        low, high = keys
        return slice(int(np.searchsorted(self.keys, low)), int(np.searchsorted(self.keys, high, "right")))

    def text_bytes(self, rows: npt.NDArray[np.integer]) -> Ints:
        """How many bytes of text each of the given rows has."""
        found = np.zeros(rows.size, np.int64)
        for column in self.batch.columns:
            if pa.types.is_string(column.type):
                ends = np.frombuffer(column.buffers()[1], np.int32)[column.offset :]
                found += ends[rows + 1] - ends[rows]
        return found

    def taken(self, rows: npt.NDArray[np.integer], names: Mapping[str, str]) -> dict[str, pa.Array]:
        """Columns under other names, with the given rows alone."""
        chosen = pa.array(rows)
        return {name: self.batch.column(stored).take(chosen) for name, stored in names.items()}


def bytes_of(batch: pa.RecordBatch) -> int:
    """The bytes of all values, by which steps decide: Arrow's own count depends on where a batch has come from."""
    return sum(_bytes_of(column) for column in batch.columns)


def _bytes_of(column: pa.Array) -> int:
    if pa.types.is_string(column.type):
        places = column.buffers()[1]
        if not len(column):
            return 0
        ends = np.frombuffer(places, np.int32)[[column.offset, column.offset + len(column)]]
        return int(4 * len(column) + ends[1] - ends[0])
    return int(column.type.bit_width * len(column) // 8)


def run_of(batch: pa.RecordBatch, greatest: int | None = None) -> Run:
    """A batch that is in order, as a run that knows its greatest seq."""
    seqs = batch.column(1).to_numpy()
    told = int(seqs.max()) if greatest is None else greatest
    return Run(batch.replace_schema_metadata({_GREATEST: str(told)}))


def sorted_run(batches: Sequence[pa.RecordBatch]) -> Run | None:
    """Tuples in any order as a run; None if there are none."""
    filled = [batch.replace_schema_metadata(None) for batch in batches if batch.num_rows]
    if not filled:
        return None
    # Messages of one sender come in the order of seqs, so that this is in order but for its beginning.
    filled.sort(key=lambda batch: batch.column(1)[0].as_py())
    whole = filled[0] if len(filled) == 1 else pa.concat_batches(filled)
    keys, seqs = whole.column(0).to_numpy(), whole.column(1).to_numpy()
    if (seqs[1:] > seqs[:-1]).all():
        order = order_of(keys)
    else:
        order = order_of(seqs)
        order = order[order_of(keys[order])]
    return run_of(whole.take(pa.array(order)))


def merged(first: Run, other: Run) -> Run:
    """Two runs as one."""
    second = np.empty(len(first) + len(other), np.bool_)
    merge_order(first.keys, first.seqs, other.keys, other.seqs, second)
    rows: npt.NDArray[np.int64] | None = None
    arrays = []
    for here, there in zip(first.batch.columns, other.batch.columns, strict=True):
        if (
            pa.types.is_primitive(here.type)
            and not pa.types.is_boolean(here.type)
            and not here.null_count
            and not there.null_count
        ):
            whole = np.empty(second.size, here.type.to_pandas_dtype())
            interleave(here.to_numpy(), there.to_numpy(), second, whole)
            arrays.append(pa.array(whole))
            continue
        if rows is None:
            rows = np.empty(second.size, np.int64)
            rows_of(second, len(first), rows)
        arrays.append(pa.concat_arrays([here, there]).take(pa.array(rows)))
    batch = pa.RecordBatch.from_arrays(arrays, schema=first.batch.schema.remove_metadata())
    return run_of(batch, max(first.greatest, other.greatest))


def joined(runs: Sequence[Run | None]) -> Run | None:
    """Some runs as one; None if there are none."""
    found: Run | None = None
    for run in runs:
        if run is not None:
            found = run if found is None else merged(found, run)
    return found
