"""What windows and joins read of a topic: rows of any format, those of windows with times; others are dead letters.

It reads only the projected columns, a few messages at a time. Neither that nor the division of rows into messages
affects the rows, except that a dead letter holds rows of one message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.kernels.hash_tables import Flags, Ints
from springline.spark_jobs.streaming.runtime.message import MessageBatch
from springline.spark_jobs.streaming.runtime.step import DeadLetter
from springline.spark_jobs.streaming.sources.chunk import Chunk, DictionaryColumn, NumberColumn, array_of
from springline.spark_jobs.streaming.sources.digit_kernels import read_times
from springline.spark_jobs.streaming.sources.format import Format
from springline.spark_jobs.streaming.sources.layout import ARROW_TYPES
from springline.spark_jobs.streaming.sources.schema import MICROS, UNIT_MICROS, Stream, to_micros


class DecodedRows(NamedTuple):
    """The valid rows of some messages in order, as int64, double or string, and the dead letters of the other rows."""

    table: pa.Table
    dead: list[DeadLetter]


def rows_of(row_format: Format, batches: Iterable[MessageBatch]) -> DecodedRows:
    """Return all rows of the messages with the columns of the format; used by joins."""
    schema = pa.schema([(name, ARROW_TYPES[row_format.layout.fields[name]]) for name in row_format.columns])
    dead: list[DeadLetter] = []
    tables = [
        pa.table([array_of(chunk.columns[name]) for name in schema.names], schema=schema)
        for chunk in row_format.chunks(batches, dead)
    ]
    return DecodedRows(pa.concat_tables(tables) if tables else schema.empty_table(), dead)


@dataclass
class Decoder:
    """Decodes messages of a stream for windows, in a round with the given clock; adds dead letters to `dead`.

    The format reads the field with the time, too.
    """

    stream: Stream
    row_format: Format
    clock: float
    dead: list[DeadLetter] = field(default_factory=list)

    def chunks(self, batches: Iterable[MessageBatch]) -> Iterator[Chunk]:
        """Yield the valid rows, in order."""
        for raw in self.row_format.chunks(batches, self.dead):
            chunk = self._with_times(raw)
            if chunk.rows:
                yield chunk

    def _with_times(self, chunk: Chunk) -> Chunk:
        """Add the times of rows in microseconds, and refuse the rows without a valid time."""
        times, has_time = _micros(self.stream, chunk)
        timed = replace(chunk, times=times)
        inside = (times >= to_micros(self.stream.min_event_time)) & (times < to_micros(self.stream.max_event_time))
        timed = self._refuse_rows(
            timed, has_time, f"{self.stream.time} is not a time in the format {self.stream.time_format}"
        )
        timed = self._refuse_rows(timed, inside[has_time], f"{self.stream.time} is outside {_range(self.stream)}")
        if self.stream.max_future_skew is not None:
            fits = timed.times <= (self.clock + self.stream.max_future_skew) * MICROS
            reason = f"{self.stream.time} is more than {self.stream.max_future_skew:g} s ahead of the clock"
            timed = self._refuse_rows(timed, fits, reason)
        return timed

    def _refuse_rows(self, chunk: Chunk, fits: Flags, reason: str) -> Chunk:
        if fits.all():
            return chunk
        self.dead.extend(chunk.source.dead_letters(chunk.source_rows[~fits], lambda row, place: reason))
        return chunk.take(fits)


def _micros(stream: Stream, chunk: Chunk) -> tuple[Ints, Flags]:
    """Return the time of each row, and whether it has one."""
    column = chunk.columns[stream.time]
    if isinstance(column, NumberColumn):
        has_time = column.valid if column.valid.size else np.ones(column.values.size, np.bool_)
        if column.values.dtype == np.int64:
            return _scaled(column.values, stream.time_format, has_time)
        with np.errstate(invalid="ignore", over="ignore"):
            micros = np.rint(column.values * UNIT_MICROS[stream.time_format])
            has_time = has_time & (np.abs(micros) < 2.0**62)
            return np.where(has_time, micros, 0).astype(np.int64), has_time
    texts = column.texts if isinstance(column, DictionaryColumn) else column
    times, good = np.empty(texts.starts.size, np.int64), np.empty(texts.starts.size, np.bool_)
    read_times(texts.data, texts.starts, texts.lengths, times, good)
    if isinstance(column, DictionaryColumn):
        is_indexed = column.indices >= 0
        return np.where(is_indexed, times[column.indices], 0), is_indexed & good[column.indices]
    return times, good


def _scaled(values: Ints, unit: str, has_time: Flags) -> tuple[Ints, Flags]:
    if unit == "ns":
        return values // 1000, has_time
    scale = int(UNIT_MICROS[unit])
    limit = (1 << 62) // scale
    fits = has_time & (values > -limit) & (values < limit)  # the least integer has no absolute value
    return np.where(fits, values, 0) * scale, fits


def _range(stream: Stream) -> str:
    earliest = np.datetime64(int(stream.min_event_time), "s")
    latest = np.datetime64(int(stream.max_event_time), "s")
    return f"{earliest} to {latest}"
