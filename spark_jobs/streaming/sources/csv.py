"""Decoder of CSV messages to chunks of rows.

Fields follow RFC 4180: they are quoted if they contain a separator, a leading quote or a line end. A line may end in
CR LF, and may have a separator after its last field. An empty field is null; a text of two quotes is an empty text. An
empty line is not a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from springline.spark_jobs.streaming.kernels.hash_tables import Ints
from springline.spark_jobs.streaming.runtime.message import MessageBatch
from springline.spark_jobs.streaming.runtime.step import DeadLetter
from springline.spark_jobs.streaming.sources.chunk import Chunk
from springline.spark_jobs.streaming.sources.csv_kernels import read_rows, unescape_quotes
from springline.spark_jobs.streaming.sources.errors import InvalidFormatError
from springline.spark_jobs.streaming.sources.field_types import BYTES, TEXT, ColumnTypes
from springline.spark_jobs.streaming.sources.format import Format, FormatOptions
from springline.spark_jobs.streaming.sources.layout import Layout
from springline.spark_jobs.streaming.sources.text import ParseResult, RowBuffers, text_chunks


class CsvOptions(FormatOptions, frozen=True):
    """Keys of `format_options` of CSV."""

    delimiter: Annotated[str, Meta(description="one ASCII character between the fields")] = ","


class Csv(Format):
    """Rows as lines, one or more in a message, with all fields in their order."""

    Options = CsvOptions

    def __init__(self, layout: Layout, columns: Sequence[str]) -> None:
        super().__init__(layout, columns)
        delimiter = self.options.delimiter
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
            raise InvalidFormatError(f"{delimiter!r} cannot be a delimiter: give one ASCII character, such as ';'")

    def chunks(self, batches: Iterable[MessageBatch], dead: list[DeadLetter]) -> Iterator[Chunk]:
        return text_chunks(_CsvReader(self).read, self, batches, dead)


class _CsvReader:
    """Reads the lines of messages; reuses the arrays with the positions of separators."""

    def __init__(self, csv: Csv) -> None:
        names = list(csv.layout.fields)
        self._width = len(names)
        self._delimiter = ord(csv.options.delimiter)
        self._fields = np.array([names.index(name) for name in csv.columns], np.int64)
        self._types = ColumnTypes.of([csv.layout.fields[name] for name in csv.columns])
        self._has_bytes = bool((self._types.kinds == BYTES).any())
        self._places: npt.NDArray[np.int32] = np.empty(0, np.int32)
        self._row_ends: npt.NDArray[np.int32] = np.empty(0, np.int32)

    def read(self, joined: bytearray, ends: Ints, buffers: RowBuffers) -> ParseResult:
        """Read all rows of the messages."""
        data = np.frombuffer(joined, np.uint8)[: ends[-1]]
        if self._has_bytes:  # which are decoded in place, and dead letters keep them as they were
            data = data.copy()
        quoted = b'"' in joined
        if self._places.size < data.size + 8:
            self._places = np.empty(data.size + 8, np.int32)
        if self._row_ends.size < buffers.lines.shape[0] + 512:
            self._row_ends = np.empty(buffers.lines.shape[0] + 512, np.int32)
        good, bad, slow_count = read_rows(
            data, self._delimiter, quoted, ends, self._places, self._row_ends, self._width, self._fields, *self._types,
            *buffers,
        )  # fmt: skip
        if not quoted or b'""' not in joined:
            return ParseResult(good, bad, slow_count, data)
        texts = data if self._has_bytes else data.copy()
        for column in np.flatnonzero(self._types.kinds == TEXT):
            unescape_quotes(texts, buffers.starts[column, :good], buffers.lengths[column, :good])
        return ParseResult(good, bad, slow_count, texts)
