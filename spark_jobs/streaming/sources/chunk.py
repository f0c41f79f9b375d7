"""Decoded rows: the columns of a chunk, convertible between numpy and Arrow, and the origin of each row.

`field_types` says how the values of each type lie in a column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from springline.spark_jobs.streaming.kernels.hash_tables import EVERYWHERE, Flags, Ints
from springline.spark_jobs.streaming.kernels.texts import gather
from springline.spark_jobs.streaming.runtime.message import MessageRun
from springline.spark_jobs.streaming.runtime.step import DeadLetter
from springline.spark_jobs.streaming.sources.field_types import BYTES, FLOAT, TEXT, ColumnTypes, stored, typed
from springline.spark_jobs.streaming.sources.value_kernels import check_texts, parse_double, parse_values

Parts: TypeAlias = Sequence[tuple[int, slice]]
"""The rows of some partitions, in their order."""

_TIMELESS: Ints = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A column of int64 or float64; null where `valid` is false (empty: no nulls). NaN counts as null."""

    values: npt.NDArray[Any]
    valid: Flags = field(default_factory=lambda: EVERYWHERE)

    def take(self, rows: Any) -> NumberColumn:
        """Return only those rows, given as indices or as a mask."""
        return NumberColumn(self.values[rows], self.valid[rows] if self.valid.size else self.valid)

    def bits(self) -> npt.NDArray[np.uint64]:
        """Return the values as 64 bits each, for hashing and comparison: negative zero as zero."""
        is_float = self.values.dtype == np.float64
        bits: npt.NDArray[np.uint64] = (np.where(self.values == 0, 0.0, self.values) if is_float else self.values).view(
            np.uint64
        )
        return bits


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of UTF-8 texts stored in `data`; a length below 0 is null."""

    data: npt.NDArray[np.uint8]
    starts: Ints
    lengths: npt.NDArray[np.int32]

    def take(self, rows: Any) -> TextColumn:
        """Return only those rows, given as indices or as a mask."""
        return TextColumn(self.data, self.starts[rows], self.lengths[rows])


@dataclass(frozen=True, slots=True)
class DictionaryColumn:
    """A dictionary-encoded column of texts; an index below 0 is null."""

    texts: TextColumn
    indices: Ints

    def take(self, rows: Any) -> DictionaryColumn:
        """Return only those rows, given as indices or as a mask."""
        return DictionaryColumn(self.texts, self.indices[rows])


Column = NumberColumn | TextColumn | DictionaryColumn


@dataclass(frozen=True)
class Source:
    """The messages that a chunk was decoded from, one or more.

    `firsts` has the number of each message's first row, counted before rows were refused. `original` returns the bytes
    of given rows of one message.
    """

    messages: MessageRun
    firsts: Ints
    original: Callable[[Ints], bytes]

    def dead_letters(self, rows: Ints, reason: Callable[[int, int], str]) -> Iterable[DeadLetter]:
        """Yield one dead letter per message of the rows; `reason` gets the first row, and its number in its message."""
        which = np.searchsorted(self.firsts, rows, side="right") - 1
        for index in np.unique(which):
            mine = rows[which == index]
            first = int(mine[0])
            place = first - int(self.firsts[index]) + 1
            many = f"{mine.size} rows, the first is row {place}" if mine.size > 1 else f"row {place}"
            yield DeadLetter.of(self.messages[index], f"{many}: {reason(first, place)}", self.original(mine))


@dataclass(frozen=True)
class Chunk:
    """Rows in the order in which they are read.

    `source_rows` has their numbers in the source, before rows were refused; `times` are microseconds since 1970 for the
    rows of a stream with a time; otherwise it is empty.
    """

    columns: Mapping[str, Column]
    source: Source
    source_rows: Ints
    times: Ints = field(default_factory=lambda: _TIMELESS)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.source_rows.size)

    def partitions(self) -> Parts:
        """Return the partitions of the rows, which lie together, each with its rows; without those that have none."""
        starts = self.source.messages.partitions()
        firsts = self.source.firsts[[first for _, first in starts]]
        cuts = [*np.searchsorted(self.source_rows, firsts).tolist(), self.rows]
        return [
            (partition, slice(begin, end))
            for (partition, _), begin, end in zip(starts, cuts[:-1], cuts[1:], strict=True)
            if begin < end
        ]

    def without(self, fits: Flags, reason: str, dead: list[DeadLetter]) -> Chunk:
        """Return only the rows that fit (empty: all do); add dead letters of the others."""
        if fits.all():
            return self
        dead.extend(self.source.dead_letters(self.source_rows[~fits], lambda row, place: reason))
        return self.take(fits)

    def take(self, flags: Flags) -> Chunk:
        """Return only those rows."""
        columns = {name: column.take(flags) for name, column in self.columns.items()}
        times = self.times[flags] if self.times.size else self.times
        return Chunk(columns, self.source, self.source_rows[flags], times)


def column_of(source_array: pa.ChunkedArray | pa.Array) -> Column:
    """Convert an Arrow array of any type of a field to a column, without a copy if possible."""
    array = source_array.combine_chunks() if isinstance(source_array, pa.ChunkedArray) else source_array
    if isinstance(array, pa.ChunkedArray):  # without any chunk
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_dictionary(array.type):
        indices = pc.fill_null(array.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        texts = column_of(array.dictionary)
        assert isinstance(texts, TextColumn)
        return DictionaryColumn(texts, indices)
    array = stored(array)
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else np.empty(0, np.bool_)
    if pa.types.is_string(array.type):
        ends = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
        value_buffer = array.buffers()[2]
        data = (
            np.frombuffer(value_buffer, np.uint8)
            if value_buffer is not None and value_buffer.size
            else np.frombuffer(b"\0", np.uint8)
        )
        lengths = np.diff(ends).astype(np.int32, copy=False)
        starts = ends[:-1].astype(np.int64)
        return TextColumn(data, starts, np.where(valid, lengths, np.int32(-1)) if valid.size else lengths)
    values = (array.fill_null(0) if array.null_count else array).to_numpy(zero_copy_only=False)
    if values.dtype == np.float64 and np.isnan(values).any():
        valid = ~np.isnan(values) & (valid if valid.size else True)
    return NumberColumn(values, valid)


def array_of(column: Column, kind: str) -> pa.Array:
    """Convert a column of a type to an Arrow array; texts are copied if they lie apart."""
    return typed(_stored_array(column), kind)


def _stored_array(column: Column) -> pa.Array:
    if isinstance(column, NumberColumn):
        return pa.array(column.values.copy(), mask=~column.valid if column.valid.size else None)
    if isinstance(column, DictionaryColumn):
        indices = pa.array(column.indices, mask=column.indices < 0)
        return _stored_array(column.texts).take(indices)
    lengths = np.maximum(column.lengths, 0)
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if lengths.size and (column.starts == column.starts[0] + offsets[:-1]).all():
        packed = column.data[column.starts[0] : column.starts[0] + offsets[-1]]
    else:
        packed = np.empty(int(offsets[-1]), np.uint8)
        gather(column.data, column.starts, lengths, offsets, packed)
    null = column.lengths < 0
    valid = pa.array(~null).buffers()[1] if null.any() else None
    kind, ends = (pa.string(), offsets.astype(np.int32)) if offsets[-1] < 2**31 else (pa.large_string(), offsets)
    return pa.Array.from_buffers(kind, lengths.size, [valid, pa.py_buffer(ends), pa.py_buffer(packed)])


def column_of_texts(texts: TextColumn, declared: str) -> tuple[Column, Flags]:
    """Return texts, such as those of headers, as values of a declared type; and which of them are some (empty: all).

    Bytes are the texts themselves. A text that is null is a null of any type.
    """
    (kind, scale, low, high), size = (int(each[0]) for each in ColumnTypes.of([declared])), texts.starts.size
    if kind == BYTES:
        return texts, EVERYWHERE
    good = np.empty(size, np.bool_)
    if kind == TEXT:
        check_texts(texts.data, texts.starts, texts.lengths, good)
        return texts, good
    if kind == FLOAT:
        floats = [
            parse_double(bytearray(texts.data[start : start + max(length, 0)]))
            for start, length in zip(texts.starts.tolist(), texts.lengths.tolist(), strict=True)
        ]
        good = np.array([value is not None for value in floats], np.bool_) | (texts.lengths < 0)
        numbers = np.array([value or 0.0 for value in floats], np.float64)
        return NumberColumn(
            np.nan_to_num(numbers, nan=0.0, posinf=np.inf, neginf=-np.inf), (texts.lengths >= 0) & ~np.isnan(numbers)
        ), good
    values = np.empty(size, np.int64)
    parse_values(texts.data, texts.starts, texts.lengths, kind, scale, low, high, values, good)
    return NumberColumn(values, texts.lengths >= 0), good
