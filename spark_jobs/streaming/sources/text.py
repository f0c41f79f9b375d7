"""Messages of text, CSV or JSON, to chunks of rows: what is the same for both, with a reason for each row refused.

Some messages at a time are read by a kernel, into arrays that are used again for the next ones. What a row is, and
whether it can be used, follows from its message alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from springline.spark_jobs.streaming.kernels.hash_tables import Ints
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Message
from springline.spark_jobs.streaming.sources.chunk import Chunk, Column, Numbers, Source, Texts
from springline.spark_jobs.streaming.sources.layout import Layout

CHUNK_BYTES = 512 * 1024  # what a core keeps in its cache
TEXT, INT, FLOAT = 0, 1, 2
KINDS = {"text": TEXT, "int": INT, "float": FLOAT}

# Why a row is refused, in place of the column that does not fit.
WIDTH, QUOTE, NO_OBJECT, TOO_DEEP, SURROGATE, NO_UTF8, NUL = -1, -2, -3, -4, -5, -6, -7
TWICE = -10  # and below: the column that is there twice, as TWICE - column
LEVELS = 1_000  # of objects and lists in an object, at most

_SHOWN = 60  # characters of a value in a reason
_REASONS = {
    QUOTE: "a quote is not closed, or its field goes on behind it",
    NO_OBJECT: "not a JSON object, at byte {0}",
    TOO_DEEP: f"not a JSON object of at most {LEVELS:,} levels, at byte {{0}}",
    SURROGATE: "half of a surrogate pair, at byte {0}",
    NO_UTF8: "not UTF-8, at byte {0}",
    NUL: "a byte 0, at byte {0}",
}

Bytes = npt.NDArray[np.uint8]


class Room(NamedTuple):
    """The arrays that rows are read into: a place for each wanted column and good row, or for each row.

    Texts lie at `starts` in so many bytes (below 0: null); numbers are in `ints` or `floats`, and null where not
    `valid`. `lines` are (row, begin, end) of the good rows; `faults` (row, begin, end, column or reason, and two
    numbers: the place and length of the value, or what the reason tells) of the others; `slow` (column, good row) of
    doubles that need a closer look, which lie at `starts`.
    """

    starts: Ints
    lengths: npt.NDArray[np.int32]
    ints: Ints
    floats: npt.NDArray[np.float64]
    valid: npt.NDArray[np.bool_]
    lines: Ints
    faults: Ints
    slow: Ints

    @staticmethod
    def of(columns: int, rows: int) -> Room:
        """For so many wanted columns and rows."""
        shape = (columns, rows)
        kinds = (np.int64, np.int32, np.int64, np.float64, np.bool_)
        by_row = ((rows, 3), (rows, 6), (rows * columns, 2))
        return Room(*(np.empty(shape, kind) for kind in kinds), *(np.empty(size, np.int64) for size in by_row))


class Read(NamedTuple):
    """What a kernel has read: how many rows are good and bad, how many doubles need a closer look, where texts lie."""

    good: int
    bad: int
    slowly: int
    texts: Bytes


# Messages joined, each with a line end behind it; where they end; the arrays to read them into.
Kernel = Callable[[bytes, Ints, Room], Read]


def text_chunks(
    kernel: Kernel, layout: Layout, wanted: Sequence[str], messages: Iterable[Message], dead: list[DeadLetter]
) -> Iterator[Chunk]:
    """The good rows with the wanted columns, some messages at a time; a chunk is good until the next."""
    reader = _Reader(kernel, layout, wanted, dead)
    batch: list[Message] = []
    size = 0
    for message in messages:  # often of one row: nothing is done for each that can be done for the batch
        batch.append(message)
        size += len(message.value) + 1
        if size >= CHUNK_BYTES:
            yield reader.chunk(batch)
            batch, size = [], 0
    if batch:
        yield reader.chunk(batch)


class _Reader:
    """Reads batches of messages, into arrays that are used again for the next ones."""

    def __init__(self, kernel: Kernel, layout: Layout, wanted: Sequence[str], dead: list[DeadLetter]) -> None:
        self._kernel = kernel
        self._layout = layout
        self._wanted = wanted
        self._kinds = [KINDS[layout.fields[name]] for name in wanted]
        self._dead = dead
        self._room: Room | None = None

    def chunk(self, messages: list[Message]) -> Chunk:
        """The rows of the messages; a line end is put behind each, which is no row where it had one."""
        values = [message.value for message in messages]
        if len(values) == 1 and values[0][-1:] == b"\n":  # a large one: it is not copied
            joined, ends = bytes(values[0]), np.array([len(values[0])], np.int64)
        else:
            joined = b"\n".join([*values, b""])
            ends = np.cumsum(np.fromiter(map(len, values), np.int64, len(messages)) + 1)
        rows = joined.count(b"\n") + 1
        if self._room is None or self._room.lines.shape[0] < rows:
            self._room = Room.of(len(self._wanted), rows + rows // 4)
        room = self._room
        read = self._kernel(joined, ends, room)
        lines, faults = room.lines[: read.good], room.faults[: read.bad]
        source = _source(messages, joined, ends, lines, faults)
        more = {fault[0]: fault for fault in _slow(room, read, joined)}
        if not _is_text(joined):  # which says more than that a field does not fit
            more |= {fault[0]: fault for fault in _unreadable(joined, lines, faults)}
        if more:
            faults = np.concatenate([faults, np.array(list(more.values()), np.int64)])
        if faults.size:
            self._report(faults, joined, source)
        chunk = Chunk(self._columns(room, read), source, lines[:, 0])
        return chunk.taken(~np.isin(lines[:, 0], list(more))) if more else chunk

    def _columns(self, room: Room, read: Read) -> dict[str, Column]:
        columns: dict[str, Column] = {}
        for index, (name, kind) in enumerate(zip(self._wanted, self._kinds, strict=True)):
            if kind == TEXT:
                columns[name] = Texts(read.texts, room.starts[index, : read.good], room.lengths[index, : read.good])
            else:
                numbers = (room.ints if kind == INT else room.floats)[index, : read.good]
                flags = room.valid[index, : read.good]
                columns[name] = Numbers(numbers, flags if not flags.all() else flags[:0])
        return columns

    def _report(self, faults: Ints, joined: bytes, source: Source) -> None:
        """A letter for each message and reason, in the order of messages."""
        letters: list[DeadLetter] = []
        faults = faults[np.argsort(faults[:, 0], kind="stable")]
        for code in np.unique(faults[:, 3])[::-1].tolist():
            those = faults[faults[:, 3] == code]
            by_row = dict(zip(those[:, 0].tolist(), those[:, 4:].tolist(), strict=True))

            def reason(row: int, place: int, code: int = code, by_row: dict[int, list[int]] = by_row) -> str:
                return self._reason(code, by_row[row], joined)

            letters.extend(source.letters(those[:, 0], reason))
        self._dead.extend(sorted(letters, key=lambda letter: letter.offset))

    def _reason(self, code: int, about: Sequence[int], joined: bytes) -> str:
        first, length = about
        if code >= 0:
            cell = joined[first : first + length]
            shown = cell[:_SHOWN].decode(errors="backslashreplace") + ("…" if len(cell) > _SHOWN else "")
            return f"{self._wanted[code]} is no {self._layout.fields[self._wanted[code]]}: {shown}"
        if code <= TWICE:
            return f"{self._wanted[TWICE - code]} is there twice"
        if code == WIDTH:
            return f"{first} fields instead of {len(self._layout.fields)}"
        return _REASONS[code].format(first)


def _is_text(value: bytes) -> bool:
    """Whether it is UTF-8, without a byte 0."""
    if b"\0" in value:
        return False
    if value.isascii():
        return True
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _source(messages: list[Message], joined: bytes, ends: Ints, lines: Ints, faults: Ints) -> Source:
    places = lines
    if faults.size:
        both = np.concatenate([lines, faults[:, :3]])
        places = both[np.argsort(both[:, 0])]
    limits = np.concatenate([[0], ends[:-1]])

    def original(rows: Ints) -> bytes:
        return b"".join(joined[places[row, 1] : places[row, 2] + 1] for row in rows)

    return Source(messages, np.searchsorted(places[:, 1], limits), original)


def _unreadable(joined: bytes, lines: Ints, faults: Ints) -> Iterator[tuple[int, ...]]:
    """Faults of the rows that are not UTF-8 or hold a byte 0; for those that have a fault already, this one instead."""
    for index, (begin, end) in enumerate(faults[:, 1:3].tolist()):
        if (fault := _no_text(joined[begin:end])) is not None:
            faults[index, 3:5] = fault
    for row, begin, end in lines.tolist():
        if (fault := _no_text(joined[begin:end])) is not None:
            yield (row, begin, end, *fault, 0)


def _no_text(line: bytes) -> tuple[int, int] | None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return NO_UTF8, error.start
    return (NUL, line.index(0)) if 0 in line else None


def _slow(room: Room, read: Read, joined: bytes) -> Iterator[tuple[int, ...]]:
    """Read doubles of many digits, with exponents, or none at all; gives the faults of those that are none.

    One fault a row: that of its first column.
    """
    bad: dict[int, tuple[int, ...]] = {}
    for column, row in room.slow[: read.slowly].tolist():
        start, length = int(room.starts[column, row]), int(room.lengths[column, row])
        value = _double(joined[start : start + length])
        if value is None:
            bad.setdefault(row, (*room.lines[row].tolist(), column, start, length))
            continue
        room.floats[column, row] = value
        room.valid[column, row] = value == value
    yield from bad.values()


def _double(text: bytes) -> float | None:
    """A number as it is written, `inf` and `nan` too; None if it is none, or beyond what a double can tell."""
    text = text.strip(b" \t")
    if b"_" in text or text.strip() != text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return None if value in (float("inf"), float("-inf")) and b"n" not in text.lower() else value
