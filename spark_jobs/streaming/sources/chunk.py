"""Decoded rows: columns of a chunk of rows, as numpy has them and as Arrow does, and where each row came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from springline.spark_jobs.streaming.kernels.hash_tables import EVERYWHERE, Flags, Ints
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Message

_TIMELESS: Ints = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Numbers:
    """A column of int64 or float64; where `valid` is false it is null (empty: nowhere). NaN counts as null."""

    values: npt.NDArray[Any]
    valid: Flags = field(default_factory=lambda: EVERYWHERE)

    def taken(self, rows: Any) -> Numbers:
        """Only those rows, given by index or by a flag each."""
        return Numbers(self.values[rows], self.valid[rows] if self.valid.size else self.valid)


@dataclass(frozen=True, slots=True)
class Texts:
    """A column of UTF-8 texts that lie in `data`; a length below 0 is null."""

    data: npt.NDArray[np.uint8]
    starts: Ints
    lengths: npt.NDArray[np.int32]

    def taken(self, rows: Any) -> Texts:
        """Only those rows, given by index or by a flag each."""
        return Texts(self.data, self.starts[rows], self.lengths[rows])


@dataclass(frozen=True, slots=True)
class Indexed:
    """A column of texts that came as a dictionary; an index below 0 is null."""

    texts: Texts
    indices: Ints

    def taken(self, rows: Any) -> Indexed:
        """Only those rows, given by index or by a flag each."""
        return Indexed(self.texts, self.indices[rows])


Column = Numbers | Texts | Indexed


@dataclass(frozen=True)
class Source:
    """The messages that a chunk was decoded from.

    `firsts` is the row that each message begins with, counted before any was refused. `original` gives the bytes of
    such rows of one message.
    """

    messages: Sequence[Message]
    firsts: Ints
    original: Callable[[Ints], bytes]

    def letters(self, rows: Ints, reason: Callable[[int, int], str]) -> Iterable[DeadLetter]:
        """One letter a message for the rows; `reason` is told the first of them, and its number in its message."""
        which = np.searchsorted(self.firsts, rows, side="right") - 1
        for index in np.unique(which):
            mine = rows[which == index]
            first = int(mine[0])
            place = first - int(self.firsts[index]) + 1
            many = f"{mine.size} rows, the first is row {place}" if mine.size > 1 else f"row {place}"
            yield DeadLetter(self.messages[index].offset, self.original(mine), f"{many}: {reason(first, place)}")


@dataclass(frozen=True)
class Chunk:
    """Rows in the order of their unit; `kept` is where they were in their source before some were refused.

    `times` are microseconds since 1970, where the rows are those of a stream with a time; else it is empty.
    """

    columns: Mapping[str, Column]
    source: Source
    kept: Ints
    times: Ints = field(default_factory=lambda: _TIMELESS)

    @property
    def rows(self) -> int:
        """How many."""
        return int(self.kept.size)

    def taken(self, flags: Flags) -> Chunk:
        """Only those rows."""
        columns = {name: column.taken(flags) for name, column in self.columns.items()}
        times = self.times[flags] if self.times.size else self.times
        return Chunk(columns, self.source, self.kept[flags], times)


def column_of(given: pa.ChunkedArray | pa.Array) -> Column:
    """The values of an Arrow array, without a copy where that can be."""
    array = given.combine_chunks() if isinstance(given, pa.ChunkedArray) else given
    if isinstance(array, pa.ChunkedArray):  # of no chunk at all
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_dictionary(array.type):
        indices = pc.fill_null(array.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        texts = column_of(array.dictionary)
        assert isinstance(texts, Texts)
        return Indexed(texts, indices)
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else np.empty(0, np.bool_)
    if pa.types.is_string(array.type):
        ends = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
        held = array.buffers()[2]
        data = np.frombuffer(held, np.uint8) if held is not None and held.size else np.frombuffer(b"\0", np.uint8)
        lengths = np.diff(ends).astype(np.int32, copy=False)
        starts = ends[:-1].astype(np.int64)
        return Texts(data, starts, np.where(valid, lengths, np.int32(-1)) if valid.size else lengths)
    values = (array.fill_null(0) if array.null_count else array).to_numpy(zero_copy_only=False)
    if values.dtype == np.float64 and np.isnan(values).any():
        valid = ~np.isnan(values) & (valid if valid.size else True)
    return Numbers(values, valid)


def array_of(column: Column) -> pa.Array:
    """The inverse: int64, double or string, of its own memory."""
    if isinstance(column, Numbers):
        return pa.array(column.values.copy(), mask=~column.valid if column.valid.size else None)
    if isinstance(column, Indexed):
        indices = pa.array(column.indices, mask=column.indices < 0)
        return array_of(column.texts).take(indices)
    lengths = np.maximum(column.lengths, 0)
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    packed = np.empty(int(offsets[-1]), np.uint8)
    _gather(column.data, column.starts, lengths, offsets, packed)
    null = column.lengths < 0
    valid = pa.array(~null).buffers()[1] if null.any() else None
    kind, ends = (pa.string(), offsets.astype(np.int32)) if offsets[-1] < 2**31 else (pa.large_string(), offsets)
    return pa.Array.from_buffers(kind, lengths.size, [valid, pa.py_buffer(ends), pa.py_buffer(packed)])


@njit(cache=True, nogil=True)
def _gather(data, starts, lengths, offsets, packed):  # type: ignore[no-untyped-def]
    """The bytes of texts one after the other."""
    for i in range(lengths.size):
        start, to = starts[i], offsets[i]
        for j in range(lengths[i]):
            packed[to + j] = data[start + j]
