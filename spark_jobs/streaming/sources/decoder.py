"""From messages to chunks of rows, whatever their form, with what cannot be used as dead letters.

Only the columns that are wanted are read. Messages are taken a few at a time; neither that nor how they were cut shows
in what comes out, except that a dead letter holds rows of one message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.kernels.hash_tables import Flags, Ints
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Message
from springline.spark_jobs.streaming.sources.arrow import arrow_chunks
from springline.spark_jobs.streaming.sources.chunk import Chunk, Indexed, Numbers, array_of
from springline.spark_jobs.streaming.sources.csv import csv_chunks
from springline.spark_jobs.streaming.sources.digit_kernels import read_times
from springline.spark_jobs.streaming.sources.json import json_chunks
from springline.spark_jobs.streaming.sources.layout import ARROW_TYPES, Layout
from springline.spark_jobs.streaming.sources.schema import MICROS, UNIT_MICROS, Stream, to_micros

_FORMS = {"csv": csv_chunks, "arrow": arrow_chunks, "json": json_chunks}


def chunks_of(
    layout: Layout, wanted: Collection[str], messages: Iterable[Message], dead: list[DeadLetter]
) -> Iterator[Chunk]:
    """The good rows with the wanted columns, in order and without times; a chunk is good until the next.

    Of several fields of a row that do not fit, the reason names the one that is declared first.
    """
    columns = tuple(name for name in layout.fields if name in wanted)
    return _FORMS[layout.form](layout, columns, messages, dead)


class Rows(NamedTuple):
    """The good rows of some messages in their order, int64, double or string, and the dead letters of the others."""

    table: pa.Table
    dead: list[DeadLetter]


def rows_of(layout: Layout, wanted: Collection[str], messages: Iterable[Message]) -> Rows:
    """All rows of the messages with the wanted columns, in the order of the layout's fields: what a join reads."""
    schema = pa.schema([(name, ARROW_TYPES[kind]) for name, kind in layout.fields.items() if name in wanted])
    dead: list[DeadLetter] = []
    tables = [schema.empty_table()]
    for chunk in chunks_of(layout, wanted, messages, dead):
        tables.append(pa.table([array_of(chunk.columns[name]) for name in schema.names], schema=schema))
    return Rows(pa.concat_tables(tables), dead)


@dataclass
class Decoder:
    """Decodes messages of a stream in a round with a clock, as windows read them; `dead` grows as it goes."""

    stream: Stream
    wanted: Collection[str]
    clock: float
    dead: list[DeadLetter] = field(default_factory=list)

    def chunks(self, messages: Iterable[Message]) -> Iterator[Chunk]:
        """The good rows, in order."""
        for raw in chunks_of(self.stream.layout, {*self.wanted, self.stream.time}, messages, self.dead):
            chunk = self._timed(raw)
            if chunk.rows:
                yield chunk

    def _timed(self, chunk: Chunk) -> Chunk:
        """With the times of rows in microseconds, and without the rows that have none that can be."""
        times, told = _micros(self.stream, chunk)
        timed = replace(chunk, times=times)
        inside = (times >= to_micros(self.stream.earliest)) & (times < to_micros(self.stream.latest))
        timed = self._refused(timed, told, f"{self.stream.time} is no time in the unit {self.stream.unit}")
        timed = self._refused(timed, inside[told], f"{self.stream.time} is outside {_range(self.stream)}")
        if self.stream.ahead is not None:
            fits = timed.times <= (self.clock + self.stream.ahead) * MICROS
            reason = f"{self.stream.time} is more than {self.stream.ahead:g} s ahead of the clock"
            timed = self._refused(timed, fits, reason)
        return timed

    def _refused(self, chunk: Chunk, fits: Flags, reason: str) -> Chunk:
        if fits.all():
            return chunk
        self.dead.extend(chunk.source.letters(chunk.kept[~fits], lambda row, place: reason))
        return chunk.taken(fits)


def _micros(stream: Stream, chunk: Chunk) -> tuple[Ints, Flags]:
    """The time of each row, and whether it has one."""
    column = chunk.columns[stream.time]
    if isinstance(column, Numbers):
        told = column.valid if column.valid.size else np.ones(column.values.size, np.bool_)
        if column.values.dtype == np.int64:
            return _scaled(column.values, stream.unit, told)
        with np.errstate(invalid="ignore", over="ignore"):
            micros = np.rint(column.values * UNIT_MICROS[stream.unit])
            told = told & (np.abs(micros) < 2.0**62)
            return np.where(told, micros, 0).astype(np.int64), told
    texts = column.texts if isinstance(column, Indexed) else column
    times, good = np.empty(texts.starts.size, np.int64), np.empty(texts.starts.size, np.bool_)
    read_times(texts.data, texts.starts, texts.lengths, times, good)
    if isinstance(column, Indexed):
        there = column.indices >= 0
        return np.where(there, times[column.indices], 0), there & good[column.indices]
    return times, good


def _scaled(values: Ints, unit: str, told: Flags) -> tuple[Ints, Flags]:
    if unit == "ns":
        return values // 1000, told
    scale = int(UNIT_MICROS[unit])
    fits = told & (np.abs(values) < (1 << 62) // scale)
    return np.where(fits, values, 0) * scale, fits


def _range(stream: Stream) -> str:
    earliest = np.datetime64(int(stream.earliest), "s")
    latest = np.datetime64(int(stream.latest), "s")
    return f"{earliest} to {latest}"
