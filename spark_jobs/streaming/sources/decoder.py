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

from springline.spark_jobs.streaming.runtime.message import MessageBatch
from springline.spark_jobs.streaming.runtime.step import DeadLetter
from springline.spark_jobs.streaming.sources.chunk import Chunk, NumberColumn, array_of
from springline.spark_jobs.streaming.sources.field_types import arrow_type, sql_type
from springline.spark_jobs.streaming.sources.format import Format
from springline.spark_jobs.streaming.sources.schema import MICROS, Stream, to_micros


class DecodedRows(NamedTuple):
    """The valid rows of some messages in order, in the types of their fields, and the dead letters of the others."""

    table: pa.Table
    dead: list[DeadLetter]


def rows_of(row_format: Format, batches: Iterable[MessageBatch]) -> DecodedRows:
    """Return all rows of the messages with the columns of the format; used by joins."""
    kinds = {name: row_format.layout.fields[name] for name in row_format.columns}
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in kinds.items()])
    dead: list[DeadLetter] = []
    tables = [
        pa.table([array_of(chunk.columns[name], sql_type(kind)) for name, kind in kinds.items()], schema=schema)
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

    def _with_times(self, raw: Chunk) -> Chunk:
        """Add the times of rows in microseconds, and refuse the rows without a valid time."""
        stream, column = self.stream, raw.columns[self.stream.time]
        assert isinstance(column, NumberColumn)
        chunk = replace(raw, times=column.values).without(column.valid, f"{stream.time} is NULL", self.dead)
        least, most = to_micros(stream.min_event_time), to_micros(stream.max_event_time)
        inside = (chunk.times >= least) & (chunk.times < most)
        chunk = chunk.without(inside, f"{stream.time} is outside {_range(stream)}", self.dead)
        if stream.max_future_skew is None:
            return chunk
        fits = chunk.times <= (self.clock + stream.max_future_skew) * MICROS
        reason = f"{stream.time} is more than {stream.max_future_skew:g} s ahead of the clock"
        return chunk.without(fits, reason, self.dead)


def _range(stream: Stream) -> str:
    earliest = np.datetime64(int(stream.min_event_time), "s")
    latest = np.datetime64(int(stream.max_event_time), "s")
    return f"{earliest} to {latest}"
