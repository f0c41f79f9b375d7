"""CSV messages to chunks of rows.

Fields are as in RFC 4180: quoted where they hold a separator, a quote or a line's end; a line may end in CR LF. An
empty number is null; an empty text is an empty text. Rows of another number of fields than declared are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_jobs.streaming.unitlog.step import DeadLetter, Message
from spark_jobs.streaming.windows.csv_kernels import FLOAT, INT, TEXT, read_rows, undouble
from spark_jobs.streaming.windows.rows import Chunk, Column, Numbers, Source, Texts
from spark_jobs.streaming.windows.stream import Stream
from spark_jobs.streaming.windows.tables import Ints

CHUNK_BYTES = 512 * 1024  # what a core keeps in its cache
_KINDS = {"text": TEXT, "int": INT, "float": FLOAT}


def csv_chunks(
    stream: Stream, wanted: Sequence[str], messages: Iterable[Message], dead: list[DeadLetter]
) -> Iterator[Chunk]:
    """The rows of the messages with the wanted columns, some messages at a time; a chunk is good until the next."""
    reader = _Reader(stream, wanted, dead)
    for message in messages:
        if reader.hold(message) >= CHUNK_BYTES:
            yield reader.chunk()
    if reader.messages:
        yield reader.chunk()


class _Reader:
    """Holds messages until there are enough, and the arrays that rows are read into."""

    def __init__(self, stream: Stream, wanted: Sequence[str], dead: list[DeadLetter]) -> None:
        names = [field.name for field in stream.fields]
        self._stream = stream
        self._wanted = wanted
        self._fields = np.array([names.index(name) for name in wanted], np.int64)
        self._kinds = np.array([_KINDS[stream.types[name]] for name in wanted], np.int64)
        self._dead = dead
        self._room: tuple[Any, ...] = ()
        self._begin()

    def _begin(self) -> None:
        self.messages: list[Message] = []
        self._values: list[bytes] = []
        self._bytes = 0
        self._quotes = 0

    def hold(self, message: Message) -> int:
        """Take in a message, if it is CSV at all; returns how many bytes are held."""
        value = bytes(message.value)
        quotes = value.count(b'"') if b'"' in value else 0
        if (reason := _refusal(value, quotes)) is not None:
            self._dead.append(DeadLetter(message.offset, value, reason))
            return self._bytes
        whole = value.endswith(b"\n")
        self.messages.append(message)
        self._values.append(value if whole else value + b"\n")
        self._bytes += len(self._values[-1])
        self._quotes += quotes
        return self._bytes

    def chunk(self) -> Chunk:
        """The rows of all messages that are held."""
        joined = self._values[0] if len(self._values) == 1 else b"".join(self._values)
        messages, values, quoted = self.messages, self._values, self._quotes > 0
        self._begin()
        data = np.frombuffer(joined, np.uint8)
        good, bad, slowly = self._read(data, quoted)
        starts, lengths, ints, floats, valid, lines, faults, slow, _, _ = self._room
        faults = faults[:bad]
        source = _source(messages, values, joined, lines[:good], faults)
        if bad:
            _report(self._stream, self._wanted, faults, source, self._dead)
        bad_columns, bad_rows = _look_closer(joined, slow[:slowly], starts, lengths, floats, valid)
        texts = data.copy() if quoted and b'""' in joined else data
        columns: dict[str, Column] = {}
        for index, name in enumerate(self._wanted):
            if self._kinds[index] == TEXT:
                if texts is not data:
                    undouble(texts, starts[index, :good], lengths[index, :good])
                columns[name] = Texts(texts, starts[index, :good], lengths[index, :good])
            else:
                numbers = (ints if self._kinds[index] == INT else floats)[index, :good]
                flags = valid[index, :good]
                columns[name] = Numbers(numbers, flags if not flags.all() else flags[:0])
        chunk = Chunk(np.empty(good, np.int64), columns, source, lines[:good, 0])
        if not bad_rows.size:
            return chunk
        for index in np.unique(bad_columns):
            rows_of = chunk.kept[bad_rows[bad_columns == index]]
            reason = f"{self._wanted[index]} is no float"
            self._dead.extend(source.letters(rows_of, lambda row, place: reason))  # noqa: B023
        return chunk.taken(~np.isin(np.arange(good), bad_rows))

    def _read(self, data: npt.NDArray[np.uint8], quoted: bool) -> tuple[int, int, int]:
        """Read all rows into the arrays; into longer ones where they are too short."""
        width, delimiter = len(self._stream.fields), ord(self._stream.delimiter)
        fields = (width, self._fields, self._kinds)
        if self._room and not quoted and self._room[8].size >= data.size + 8:
            *into, places, ends = self._room
            good, bad, slowly = read_rows(data, delimiter, quoted, places, ends, *fields, *into)
            if good >= 0:
                return good, bad, slowly
        rows = int(np.count_nonzero(data == 10)) + 512
        shape = (len(self._wanted), rows)
        kinds = (np.int64, np.int32, np.int64, np.float64, np.bool_)
        by_row = [np.empty((rows, 3), np.int64), np.empty((rows, 5), np.int64)]
        slow = np.empty((rows * len(self._wanted), 2), np.int64)
        places, ends = np.empty(data.size + 8, np.int32), np.empty(rows, np.int32)
        self._room = (*(np.empty(shape, kind) for kind in kinds), *by_row, slow, places, ends)
        *into, places, ends = self._room
        good, bad, slowly = read_rows(data, delimiter, quoted, places, ends, *fields, *into)
        return good, bad, slowly


def _refusal(value: bytes, quotes: int) -> str | None:
    """Why a message is no CSV at all."""
    if not value.isascii():
        try:
            value.decode()
        except UnicodeDecodeError as error:
            return f"not CSV: byte {error.start} is not UTF-8"
    if b"\0" in value:
        return "not CSV: it holds a byte 0"
    if quotes % 2:
        return "not CSV: a quote is never closed"
    return None


def _source(messages: list[Message], values: list[bytes], joined: bytes, lines: Ints, faults: Ints) -> Source:
    places = lines
    if faults.size:
        both = np.concatenate([lines, faults[:, :3]])
        places = both[np.argsort(both[:, 0])]
    limits = np.concatenate([[0], np.cumsum([len(value) for value in values])[:-1]])

    def original(wanted: Ints) -> bytes:
        return b"".join(joined[places[row, 1] : places[row, 2] + 1] for row in wanted)

    return Source(messages, np.searchsorted(places[:, 1], limits), original)


def _report(stream: Stream, wanted: Sequence[str], faults: Ints, source: Source, dead: list[DeadLetter]) -> None:
    """A letter for each message, kind of fault and column."""
    for column in np.unique(faults[:, 3]):
        those = faults[faults[:, 3] == column]
        counts = dict(zip(those[:, 0].tolist(), those[:, 4].tolist(), strict=True))

        def reason(row: int, place: int, column: int = int(column), counts: dict[int, int] = counts) -> str:
            if column >= 0:
                return f"{wanted[column]} is no {stream.types[wanted[column]]}"
            return f"{counts[row]} fields instead of {len(stream.fields)}"

        dead.extend(source.letters(those[:, 0], reason))


def _look_closer(
    joined: bytes, slow: Ints, starts: Ints, lengths: Any, floats: Any, valid: Any
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Read doubles of many digits, with exponents, or none at all; gives (columns, rows) of those that are none."""
    bad = []
    for column, row in slow.tolist():
        start = int(starts[column, row])
        text = joined[start : start + int(lengths[column, row])]
        try:
            value = float("_" if b"_" in text or text.strip() != text else text)
        except ValueError:
            bad.append((column, row))
            continue
        floats[column, row] = value
        valid[column, row] = value == value
    found = np.array(bad, np.int64).reshape(-1, 2)
    _, first = np.unique(found[:, 1], return_index=True)
    return found[first, 0], found[first, 1]
