"""Fields that lie beside a message's value: its key, its headers, its timestamp and its place in the topic.

A declaration names them like other fields, and queries use them like other fields; no format decodes them:

    _key            text, bytes   the key; NULL if it has none
    _headers.NAME   any           the last header of that name that has a value
    _timestamp      timestamp     when the producer or the broker stamped it
    _partition      int           of the topic
    _offset         int           in the partition
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.kernels.hash_tables import EVERYWHERE, Flags, Ints
from springline.spark_jobs.streaming.runtime.message import MessageBatch
from springline.spark_jobs.streaming.runtime.step import DeadLetter
from springline.spark_jobs.streaming.sources.chunk import Chunk, Column, NumberColumn, TextColumn, column_of_texts
from springline.spark_jobs.streaming.sources.field_types import MAX_TIMESTAMP, MIN_TIMESTAMP, TIMESTAMP
from springline.spark_jobs.streaming.sources.layout import HEADERS, Layout
from springline.spark_jobs.streaming.sources.value_kernels import scale_numbers

_ABSENT = -1  # the length of a value that there is not
_NO_TIMESTAMP = -1  # of records that have none


class Metadata:
    """Adds fields from beside the values of messages to chunks of their rows.

    Args:
        layout: all fields.
        names: the fields to add.
        topics: how many topics are read as one, which the number of a partition depends on.
    """

    def __init__(self, layout: Layout, names: Sequence[str], topics: int) -> None:
        self._layout = layout
        self._names = names
        self._topics = topics

    def add(self, chunk: Chunk, dead: list[DeadLetter]) -> Chunk:
        """Return the chunk with the fields, without the rows of which one has another type: those are dead letters."""
        parts = list(_parts(chunk))
        for name in self._names:
            kind = self._layout.fields[name]
            if name in ("_partition", "_offset", "_timestamp"):
                column, good = self._numbers(name, parts)
            else:
                column, good = column_of_texts(_texts(parts, name), kind)
            chunk = replace(chunk, columns={**chunk.columns, name: column})
            if not good.all():
                chunk = chunk.without(good, f"{name} is no {kind}", dead)
                parts = list(_parts(chunk))
        return chunk

    def _numbers(self, name: str, parts: Sequence[tuple[MessageBatch, Ints]]) -> tuple[Column, Flags]:
        """Return partitions, offsets or timestamps, and which of them are in the range of their type (empty: all)."""
        if name == "_partition":
            numbers = [np.full(rows.size, batch.partition // self._topics, np.int64) for batch, rows in parts]
            return NumberColumn(np.concatenate(numbers)), EVERYWHERE
        if name == "_offset":
            return NumberColumn(np.concatenate([batch.offsets[rows] for batch, rows in parts])), EVERYWHERE
        millis = np.concatenate([batch.timestamps[rows] for batch, rows in parts])
        values, good = np.empty(millis.size, np.int64), np.empty(millis.size, np.bool_)
        scale_numbers(millis, 3, TIMESTAMP, MIN_TIMESTAMP, MAX_TIMESTAMP, values, good)
        has_one = millis != _NO_TIMESTAMP
        return NumberColumn(values, EVERYWHERE if has_one.all() else has_one), good


def _parts(chunk: Chunk) -> Iterator[tuple[MessageBatch, Ints]]:
    """Yield each batch of a chunk, and of each row in it the message."""
    source = chunk.source
    of_row = np.searchsorted(source.firsts, chunk.source_rows, side="right") - 1
    bounds = np.cumsum([0, *map(len, source.messages.batches)])
    cuts = np.searchsorted(of_row, bounds)
    rows = pairwise(cuts.tolist())
    for batch, first, (begin, end) in zip(source.messages.batches, bounds.tolist(), rows, strict=False):
        yield batch, of_row[begin:end] - first


def _texts(parts: Sequence[tuple[MessageBatch, Ints]], name: str) -> TextColumn:
    """Return the bytes of keys or headers."""
    columns = [_column(batch, messages, name) for batch, messages in parts]
    sizes = np.cumsum([0, *(column.data.size for column in columns)])
    starts = [column.starts + size for column, size in zip(columns, sizes.tolist(), strict=False)]
    if len(columns) == 1:
        return columns[0]
    return TextColumn(
        np.concatenate([np.empty(0, np.uint8), *(column.data for column in columns)]),
        np.concatenate([np.empty(0, np.int64), *starts]),
        np.concatenate([np.empty(0, np.int32), *(column.lengths for column in columns)]),
    )


def _column(batch: MessageBatch, messages: Ints, name: str) -> TextColumn:
    if name == "_key":
        return TextColumn(batch.data, batch.key_starts[messages], batch.key_lengths[messages])
    starts, lengths = np.zeros(messages.size, np.int64), np.full(messages.size, _ABSENT, np.int32)
    sought = np.frombuffer(name.removeprefix(HEADERS).encode(), np.uint8)
    _find_headers(batch.data, batch.header_starts[messages], sought, starts, lengths)
    return TextColumn(batch.data, starts, lengths)


@njit(cache=True, nogil=True)
def _read_size(data, position):  # type: ignore[no-untyped-def]
    """Return a number in Kafka's encoding (zigzag) and the position after it; -2 where the data end."""
    number, shift = np.uint64(0), np.uint64(0)
    while position < data.size and shift < 64:
        byte = np.uint64(data[position])
        position += 1
        number |= (byte & np.uint64(127)) << shift
        shift += np.uint64(7)
        if byte < 128:
            return np.int64(number >> np.uint64(1)) ^ -np.int64(number & np.uint64(1)), position
    return np.int64(-2), position


@njit(cache=True, nogil=True)
def _find_headers(data, header_starts, sought, starts, lengths):  # type: ignore[no-untyped-def]
    """Find the last header with a value that is named so; headers that are none are as if there were none."""
    for i in range(header_starts.size):
        count, position = _read_size(data, header_starts[i])
        start, length = np.int64(0), np.int64(_ABSENT)
        for _ in range(count):
            size, name = _read_size(data, position)
            if size < -1 or name + max(size, 0) > data.size:
                length = np.int64(_ABSENT)
                break
            is_sought = size == sought.size
            for k in range(sought.size if is_sought else 0):
                is_sought &= data[name + k] == sought[k]
            size, value = _read_size(data, name + max(size, 0))
            if size < -1 or value + max(size, 0) > data.size:
                length = np.int64(_ABSENT)
                break
            if is_sought and size >= 0:
                start, length = value, size
            position = value + max(size, 0)
        starts[i], lengths[i] = start, length
