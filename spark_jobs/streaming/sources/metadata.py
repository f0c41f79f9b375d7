"""Fields that lie beside a message's value: its key, its headers, its timestamp and its place in the topic.

A declaration names them like other fields, and queries use them like other fields; no format decodes them:

    _key            text     the key; NULL if it has none
    _headers.NAME   any      the last header of that name that has a value
    _timestamp      number   when the producer or the broker stamped it: milliseconds since 1970, as `time` in its unit
    _partition      int      of the topic
    _offset         int      in the partition
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from springline.spark_jobs.streaming.kernels.hash_tables import Flags, Ints
from springline.spark_jobs.streaming.runtime.message import MessageBatch
from springline.spark_jobs.streaming.runtime.step import DeadLetter
from springline.spark_jobs.streaming.sources.chunk import Chunk, Column, NumberColumn, TextColumn, array_of, column_of
from springline.spark_jobs.streaming.sources.layout import ARROW_TYPES, HEADERS, Layout

_PER_MILLISECOND = {"s": 1e-3, "ms": 1, "us": 1_000, "ns": 1_000_000}


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
                column: Column = NumberColumn(np.concatenate([self._numbers(name, *part) for part in parts]))
                good = np.empty(0, np.bool_)
            else:
                column, good = _texts(parts, name, kind)
            chunk = replace(chunk, columns={**chunk.columns, name: column})
            if not good.all():
                refused = chunk.source_rows[~good]
                reason = f"{name} is no {kind}"
                dead.extend(chunk.source.dead_letters(refused, lambda row, place, reason=reason: reason))  # type: ignore[misc]
                chunk = chunk.take(good)
                parts = list(_parts(chunk))
        return chunk

    def _numbers(self, name: str, batch: MessageBatch, messages: Ints) -> npt.NDArray[Any]:
        if name == "_partition":
            return np.full(messages.size, batch.partition // self._topics, np.int64)
        if name == "_offset":
            return batch.offsets[messages]
        scale = _PER_MILLISECOND[self._layout.unit] if name == self._layout.time else 1
        if self._layout.fields[name] == "float":
            return batch.timestamps[messages] * float(scale)
        return batch.timestamps[messages] // 1_000 if scale < 1 else batch.timestamps[messages] * int(scale)


def _parts(chunk: Chunk) -> Iterator[tuple[MessageBatch, Ints]]:
    """Yield each batch of a chunk, and of each row in it the message."""
    source = chunk.source
    of_row = np.searchsorted(source.firsts, chunk.source_rows, side="right") - 1
    bounds = np.cumsum([0, *map(len, source.messages.batches)])
    cuts = np.searchsorted(of_row, bounds)
    rows = pairwise(cuts.tolist())
    for batch, first, (begin, end) in zip(source.messages.batches, bounds.tolist(), rows, strict=False):
        yield batch, of_row[begin:end] - first


def _texts(parts: Sequence[tuple[MessageBatch, Ints]], name: str, kind: str) -> tuple[Column, Flags]:
    """Return keys or headers as a column, and which rows have one of the declared type."""
    arrays = [_array(batch, messages, name) for batch, messages in parts]
    contents = pa.concat_arrays(arrays) if arrays else pa.array([], pa.binary())
    good = np.ones(len(contents), np.bool_)
    try:
        return column_of(contents.cast(pa.string()).cast(ARROW_TYPES[kind])), good
    except pa.ArrowInvalid:
        values = [_value(each, kind) for each in contents.to_pylist()]
    good = np.array([value is not _NONE for value in values], np.bool_)
    return column_of(pa.array([None if value is _NONE else value for value in values], ARROW_TYPES[kind])), good


_NONE: Any = object()
_ABSENT = -1  # the length of a value that there is not


def _value(content: bytes | None, kind: str) -> Any:
    """Return the value of some bytes; `_NONE` if they are none of the type."""
    if content is None:
        return None
    try:
        array = pa.array([content.decode()]).cast(ARROW_TYPES[kind])
    except (UnicodeDecodeError, pa.ArrowInvalid):
        return _NONE
    return array[0].as_py()


def _array(batch: MessageBatch, messages: Ints, name: str) -> pa.Array:
    if name == "_key":
        starts, lengths = batch.key_starts[messages], batch.key_lengths[messages]
    else:
        starts, lengths = np.zeros(messages.size, np.int64), np.full(messages.size, -1, np.int32)
        sought = np.frombuffer(name.removeprefix(HEADERS).encode(), np.uint8)
        _find_headers(batch.data, batch.header_starts[messages], sought, starts, lengths)
    column = TextColumn(batch.data, starts, lengths)
    return array_of(column).view(pa.binary())


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
