"""CSV messages to chunks of rows.

Fields are as in RFC 4180: quoted where they hold a separator, a quote at their beginning, or a line's end; a line may
end in CR LF, and with a separator behind its last field. A field without a character is null; a text of two quotes is
an empty text. An empty line is no row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from springline.spark_jobs.streaming.kernels.hash_tables import Ints
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Message
from springline.spark_jobs.streaming.sources.chunk import Chunk
from springline.spark_jobs.streaming.sources.csv_kernels import read_rows, undouble
from springline.spark_jobs.streaming.sources.layout import Layout
from springline.spark_jobs.streaming.sources.text import KINDS, TEXT, Read, Room, text_chunks


def csv_chunks(
    layout: Layout, wanted: Sequence[str], messages: Iterable[Message], dead: list[DeadLetter]
) -> Iterator[Chunk]:
    """The rows of the messages with the wanted columns, some messages at a time; a chunk is good until the next."""
    return text_chunks(_Csv(layout, wanted).read, layout, wanted, messages, dead)


class _Csv:
    """Reads CSV of a layout; keeps the arrays for the places of separators."""

    def __init__(self, layout: Layout, wanted: Sequence[str]) -> None:
        names = list(layout.fields)
        self._width = len(names)
        self._delimiter = ord(layout.delimiter)
        self._fields = np.array([names.index(name) for name in wanted], np.int64)
        self._kinds = np.array([KINDS[layout.fields[name]] for name in wanted], np.int64)
        self._places: npt.NDArray[np.int32] = np.empty(0, np.int32)
        self._row_ends: npt.NDArray[np.int32] = np.empty(0, np.int32)

    def read(self, joined: bytes, ends: Ints, room: Room) -> Read:
        """All rows of the messages."""
        data = np.frombuffer(joined, np.uint8)
        quoted = b'"' in joined
        if self._places.size < data.size + 8:
            self._places = np.empty(data.size + 8, np.int32)
        if self._row_ends.size < room.lines.shape[0] + 512:
            self._row_ends = np.empty(room.lines.shape[0] + 512, np.int32)
        good, bad, slowly = read_rows(
            data, self._delimiter, quoted, ends, self._places, self._row_ends, self._width, self._fields, self._kinds,
            *room,
        )  # fmt: skip
        if not quoted or b'""' not in joined:
            return Read(good, bad, slowly, data)
        texts = data.copy()
        for column in np.flatnonzero(self._kinds == TEXT):
            undouble(texts, room.starts[column, :good], room.lengths[column, :good])
        return Read(good, bad, slowly, texts)
