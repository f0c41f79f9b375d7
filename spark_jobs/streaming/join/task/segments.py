"""Segments: the stored rows of one side of a task, as immutable Arrow batches in the order in which they were appended.

A batch has the columns key, seq and unit, then those that the side carries: 64-bit numbers and texts. Rows that were
dropped are marked as dead, and stay until the segment is removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.spark_jobs.streaming.join.task import row_kernels as kernels

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

_KEY, _SEQ, _UNIT = range(3)


@dataclass(eq=False)
class Segment:
    """Consecutive rows, the first of them at the place `first`; `dead` marks dropped rows, if there are any."""

    first: int
    batch: pa.RecordBatch
    dead: Flags | None = None

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    @property
    def end(self) -> int:
        """The place after the last row."""
        return self.first + len(self)

    @property
    def keys(self) -> Ints:
        """The keys."""
        return numbers_of(self.batch, _KEY)

    @property
    def seqs(self) -> Ints:
        """The seqs."""
        return numbers_of(self.batch, _SEQ)

    @property
    def units(self) -> npt.NDArray[np.uint8]:
        """The unit that stores each row."""
        return np.asarray(self.batch.column(_UNIT).to_numpy())

    @cached_property
    def bytes(self) -> int:
        """Bytes of all values, including those of dead rows."""
        return bytes_of(self.batch)

    @cached_property
    def least(self) -> int:
        """The least seq."""
        return int(self.seqs.min())

    @cached_property
    def greatest(self) -> int:
        """The greatest seq."""
        return int(self.seqs.max())

    @property
    def dead_rows(self) -> int:
        """The number of dead rows."""
        return 0 if self.dead is None else int(np.count_nonzero(self.dead))

    @property
    def dead_positions(self) -> Ints:
        """The positions of dead rows, ascending."""
        return np.empty(0, np.int64) if self.dead is None else np.flatnonzero(self.dead) + self.first

    @property
    def live_rows(self) -> Ints:
        """The rows that are not dead, ascending."""
        return np.arange(len(self)) if self.dead is None else np.flatnonzero(~self.dead)

    def garbage_rows(self, purged: int) -> int:
        """Return how many rows are dead or have seqs below `purged`."""
        if self.least >= purged:
            return self.dead_rows
        is_garbage = self.seqs < purged
        return int(np.count_nonzero(is_garbage if self.dead is None else is_garbage | self.dead))

    def mark_dead(self, rows: Ints) -> None:
        """Mark rows as dead."""
        self.dead = np.zeros(len(self), np.bool_) if self.dead is None else self.dead
        self.dead[rows] = True

    def replace_batch(self, batch: pa.RecordBatch) -> None:
        """Replace the batch by an equal one that lies elsewhere, such as in a memory-mapped file."""
        if batch is not self.batch:
            self.batch = batch
            self.__dict__.pop("buffers", None)

    @cached_property
    def buffers(self) -> npt.NDArray[np.int64]:
        """For each column its values, validity bitmap, offset of the bitmap, and text data, as addresses; 0: none."""
        return np.array([_addresses_of(column) for column in self.batch.columns], np.int64)


def concat_segments(segments: Sequence[Segment]) -> Segment:
    """Return consecutive segments as one."""
    batch = pa.concat_batches([segment.batch for segment in segments])
    dead = None
    if any(segment.dead is not None for segment in segments):
        dead = np.concatenate([np.zeros(len(each), np.bool_) if each.dead is None else each.dead for each in segments])
    return Segment(segments[0].first, batch, dead)


@dataclass(frozen=True)
class SegmentTable:
    """The segments of a store as arrays for loops; places are counted from `origin`, and `end` is the next one."""

    segments: Sequence[Segment]
    origin: int
    end: int
    firsts: Ints = field(init=False)
    least: Ints = field(init=False)
    buffers: Ints = field(init=False)
    directory: npt.NDArray[np.int32] = field(init=False)

    def __post_init__(self) -> None:
        firsts = np.array([*(each.first for each in self.segments), self.end], np.int64) - self.origin
        blocks = np.arange(firsts[0], firsts[-1], 1 << kernels.BLOCK_BITS)
        object.__setattr__(self, "firsts", firsts)
        object.__setattr__(self, "least", np.array([each.least for each in self.segments], np.int64))
        object.__setattr__(
            self,
            "buffers",
            np.array([each.buffers for each in self.segments], np.int64).transpose(2, 1, 0).copy()
            if self.segments
            else np.zeros((4, 3, 0), np.int64),
        )
        object.__setattr__(self, "directory", (np.searchsorted(firsts, blocks, "right") - 1).astype(np.int32))

    @property
    def keys(self) -> Ints:
        """The addresses of the keys of each segment."""
        return np.asarray(self.buffers[0, _KEY])

    @property
    def seqs(self) -> Ints:
        """The addresses of the seqs of each segment."""
        return np.asarray(self.buffers[0, _SEQ])

    def text_sizes(self, segments: Rows, rows: Rows) -> Ints:
        """Return the bytes of all texts of each row."""
        sizes = np.zeros(rows.size, np.int64)
        for index, column in enumerate(self.segments[0].batch.schema):
            if pa.types.is_string(column.type):
                kernels.add_text_sizes(self.buffers[0, index], segments, rows, sizes)
        return sizes

    def take_columns(self, segments: Rows, rows: Rows, names: Mapping[str, str]) -> dict[str, pa.Array]:
        """Return columns of rows, renamed: `names` maps new names to stored ones."""
        return {name: self._take(segments, rows, stored) for name, stored in names.items()}

    def _take(self, segments: Rows, rows: Rows, name: str) -> pa.Array:
        schema = self.segments[0].batch.schema
        index = schema.get_field_index(name)
        values, bitmaps, offsets, data = self.buffers[:, index]
        validity, nulls = None, 0
        if bitmaps.any():
            is_valid = np.empty(rows.size, np.bool_)
            nulls = kernels.take_validity(bitmaps, offsets, segments, rows, is_valid)
            validity = pa.py_buffer(np.packbits(is_valid, bitorder="little")) if nulls else None
        column_type = schema.field(index).type
        if not pa.types.is_string(column_type):
            numbers = np.empty(rows.size, np.int64)
            kernels.take_numbers(values, segments, rows, numbers)
            return pa.Array.from_buffers(column_type, rows.size, [validity, pa.py_buffer(numbers)], nulls)
        sizes = np.zeros(rows.size, np.int64)
        kernels.add_text_sizes(values, segments, rows, sizes)
        ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        text = np.empty(int(ends[-1]), np.uint8)
        kernels.take_texts(values, data, segments, rows, ends, text)
        buffers = [validity, pa.py_buffer(ends), pa.py_buffer(text)]
        return pa.Array.from_buffers(column_type, rows.size, buffers, nulls)


def numbers_of(batch: pa.RecordBatch, column: int) -> Ints:
    """Return a column of integers without nulls as a view."""
    return np.asarray(batch.column(column).to_numpy())


def bytes_of(batch: pa.RecordBatch) -> int:
    """Return the bytes of all values, on which merges decide: Arrow's own size depends on a batch's origin."""
    return sum(_bytes_of(column) for column in batch.columns)


def _bytes_of(column: pa.Array) -> int:
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        places = column.buffers()[1]
        if not len(column):
            return 0
        ends = np.frombuffer(places, np.int32)[[column.offset, column.offset + len(column)]]
        return int(4 * len(column) + ends[1] - ends[0])
    return int(column.type.bit_width * len(column) // 8)


def _addresses_of(column: pa.Array) -> tuple[int, int, int, int]:
    validity, values, *data = column.buffers()
    bitmap = validity.address if validity is not None and column.null_count else 0
    width = 4 if pa.types.is_string(column.type) else int(column.type.bit_width) // 8
    text = data[0].address if data and data[0] is not None else 0
    return values.address + width * column.offset, bitmap, column.offset, text
