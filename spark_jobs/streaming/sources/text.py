"""Decoder of text messages, CSV or JSON, to chunks of rows: the shared part, with a reason for each refused row.

A kernel reads some messages at a time into arrays that are reused for the next ones. The rows of a message, and whether
they are valid, depend only on that message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from springline.spark_jobs.streaming.kernels.hash_tables import Ints
from springline.spark_jobs.streaming.kernels.texts import SPARE_BYTES, gather_lines
from springline.spark_jobs.streaming.runtime.message import MessageBatch, MessageRun
from springline.spark_jobs.streaming.runtime.step import DeadLetter
from springline.spark_jobs.streaming.sources.chunk import Chunk, Column, NumberColumn, Source, TextColumn
from springline.spark_jobs.streaming.sources.field_types import BYTES, FLOAT, TEXT, ColumnTypes
from springline.spark_jobs.streaming.sources.format import Format
from springline.spark_jobs.streaming.sources.value_kernels import parse_double

CHUNK_BYTES = 512 * 1024  # fits a core's cache
PADDING = 64  # line ends after the messages, so that kernels may load many bytes anywhere

# Codes of the reasons why a row is refused; a code of 0 or more is the index of the column that is invalid.
WIDTH, QUOTE, NO_OBJECT, TOO_DEEP, SURROGATE, NO_UTF8, NUL = -1, -2, -3, -4, -5, -6, -7
TWICE = -10  # and below: the column that occurs twice, as TWICE - column
MAX_LEVELS = 1_000  # maximum nesting of objects and lists in an object

_MAX_SHOWN = 60  # characters of a value in a reason
_REASONS = {
    QUOTE: "a quote is not closed, or text follows it in its field",
    NO_OBJECT: "not a JSON object, at byte {0}",
    TOO_DEEP: f"not a JSON object of at most {MAX_LEVELS:,} levels, at byte {{0}}",
    SURROGATE: "half of a surrogate pair, at byte {0}",
    NO_UTF8: "not UTF-8, at byte {0}",
    NUL: "a byte 0, at byte {0}",
}

Bytes = npt.NDArray[np.uint8]


class RowBuffers(NamedTuple):
    """The arrays that rows are read into, with one entry per projected column and good row, or per row.

    Texts have `lengths` bytes at `starts` (a negative length is null); doubles are in `floats`, other numbers in
    `ints`, and null where `valid` is false. `lines` has (row, begin, end) of the good rows. `faults` has (row, begin,
    end, column or reason code, two numbers) of the others; the numbers are position and length of the value, or details
    of the reason. `slow` has (column, good row) of doubles that need a slower parser; their texts are at `starts`.
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
    def of(columns: int, rows: int) -> RowBuffers:
        """Allocate for a number of projected columns and rows."""
        shape = (columns, rows)
        kinds = (np.int64, np.int32, np.int64, np.float64, np.bool_)
        by_row = ((rows, 3), (rows, 6), (rows * columns, 2))
        return RowBuffers(*(np.empty(shape, kind) for kind in kinds), *(np.empty(size, np.int64) for size in by_row))


class ParseResult(NamedTuple):
    """The output of a kernel: the numbers of good and bad rows and of slow doubles, and the bytes that texts lie in."""

    good: int
    bad: int
    slow_count: int
    texts: Bytes


# Arguments: the messages joined, each with a line end; their ends; the arrays to read them into.
Kernel = Callable[[bytearray, Ints, RowBuffers], ParseResult]


def text_chunks(
    kernel: Kernel, text_format: Format, batches: Iterable[MessageBatch], dead: list[DeadLetter]
) -> Iterator[Chunk]:
    """Yield the good rows with the columns of the format, in chunks; a chunk is valid until the next."""
    reader = _TextReader(kernel, text_format, dead)
    for run in _chunk_runs(batches):
        yield reader.chunk(run)


def _chunk_runs(batches: Iterable[MessageBatch]) -> Iterator[MessageRun]:
    """Yield all messages in runs of about `CHUNK_BYTES`, or of one message that is larger."""
    parts: list[MessageBatch] = []
    size = 0
    for batch in batches:
        ends = np.cumsum(np.maximum(batch.lengths, 0) + 1, dtype=np.int64)
        start = split_bytes = 0
        while start < len(batch):
            stop = min(int(np.searchsorted(ends, split_bytes + CHUNK_BYTES - size)) + 1, len(batch))
            parts.append(batch[start:stop])
            size += int(ends[stop - 1]) - split_bytes
            start, split_bytes = stop, int(ends[stop - 1])
            if size >= CHUNK_BYTES:
                yield MessageRun(parts)
                parts, size = [], 0
    if parts:
        yield MessageRun(parts)


def joined_lines(run: MessageRun, padding: int = 0) -> tuple[bytearray, Ints]:
    """Return the messages of text with a line end after each, without byte order marks, and where each ends.

    After the last one, line ends follow as `padding`.
    """
    most = sum(batch.value_bytes + len(batch) for batch in run.batches) + max(padding, SPARE_BYTES)
    joined, ends = bytearray(most), np.empty(len(run), np.int64)
    packed = np.frombuffer(joined, np.uint8)
    end = first = 0
    for batch in run.batches:
        own = ends[first : first + len(batch)]
        end = gather_lines(batch.data, batch.starts, batch.lengths, packed, end, own)
        first += len(batch)
    packed[end : end + padding] = 10
    del packed  # which keeps `joined` from being cut
    del joined[end + padding :]
    return joined, ends


class _TextReader:
    """Reads batches of messages into arrays that are reused for the next batch."""

    def __init__(self, kernel: Kernel, text_format: Format, dead: list[DeadLetter]) -> None:
        self._kernel = kernel
        self._layout = text_format.layout
        self._projection = text_format.columns
        self._kinds = ColumnTypes.of([self._layout.fields[name] for name in self._projection]).kinds.tolist()
        self._dead = dead
        self._buffers: RowBuffers | None = None

    def chunk(self, messages: MessageRun) -> Chunk:
        """Read the rows of the messages; a line end is appended to each message, which adds no row if it had one."""
        joined, ends = joined_lines(messages, PADDING)
        rows = int(np.count_nonzero(np.frombuffer(joined, np.uint8) == 10)) + 1  # of lines that are not long, quicker
        if self._buffers is None or self._buffers.lines.shape[0] < rows:
            self._buffers = RowBuffers.of(len(self._projection), rows + rows // 4)
        buffers = self._buffers
        result = self._kernel(joined, ends, buffers)
        lines, faults = buffers.lines[: result.good], buffers.faults[: result.bad]
        source = _source(messages, joined, ends, lines, faults)
        more = {fault[0]: fault for fault in _read_slow_doubles(buffers, result, joined)}
        if not _is_utf8(joined):  # a more specific reason than an invalid field
            more |= {fault[0]: fault for fault in _text_faults(joined, lines, faults)}
        if more:
            faults = np.concatenate([faults, np.array(list(more.values()), np.int64)])
        if faults.size:
            self._report_faults(faults, joined, source)
        chunk = Chunk(self._columns(buffers, result), source, lines[:, 0])
        return chunk.take(~np.isin(lines[:, 0], list(more))) if more else chunk

    def _columns(self, buffers: RowBuffers, result: ParseResult) -> dict[str, Column]:
        columns: dict[str, Column] = {}
        for index, (name, kind) in enumerate(zip(self._projection, self._kinds, strict=True)):
            if kind in (TEXT, BYTES):
                columns[name] = TextColumn(
                    result.texts, buffers.starts[index, : result.good], buffers.lengths[index, : result.good]
                )
            else:
                numbers = (buffers.floats if kind == FLOAT else buffers.ints)[index, : result.good]
                flags = buffers.valid[index, : result.good]
                columns[name] = NumberColumn(numbers, flags if not flags.all() else flags[:0])
        return columns

    def _report_faults(self, faults: Ints, joined: bytearray, source: Source) -> None:
        """Add a dead letter for each message and reason, in the order of messages."""
        letters: list[DeadLetter] = []
        faults = faults[np.argsort(faults[:, 0], kind="stable")]
        for code in np.unique(faults[:, 3])[::-1].tolist():
            those = faults[faults[:, 3] == code]
            by_row = dict(zip(those[:, 0].tolist(), those[:, 4:].tolist(), strict=True))

            def reason(row: int, place: int, code: int = code, by_row: dict[int, list[int]] = by_row) -> str:
                return self._reason(code, by_row[row], joined)

            letters.extend(source.dead_letters(those[:, 0], reason))
        self._dead.extend(sorted(letters, key=lambda letter: letter.offset))

    def _reason(self, code: int, detail: Sequence[int], joined: bytearray) -> str:
        first, length = detail
        if code >= 0:
            cell = joined[first : first + length]
            shown = cell[:_MAX_SHOWN].decode(errors="backslashreplace") + ("…" if len(cell) > _MAX_SHOWN else "")
            return f"{self._projection[code]} is no {self._layout.fields[self._projection[code]]}: {shown}"
        if code <= TWICE:
            return f"{self._projection[TWICE - code]} is there twice"
        if code == WIDTH:
            return f"{first} fields instead of {len(self._layout.fields)}"
        return _REASONS[code].format(first)


def _is_utf8(value: bytearray) -> bool:
    """Return whether a value is UTF-8 without a byte 0."""
    if b"\0" in value:
        return False
    if value.isascii():
        return True
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _source(messages: MessageRun, joined: bytearray, ends: Ints, lines: Ints, faults: Ints) -> Source:
    places = lines
    if faults.size:
        both = np.concatenate([lines, faults[:, :3]])
        places = both[np.argsort(both[:, 0])]
    limits = np.concatenate([[0], ends[:-1]])

    def original(rows: Ints) -> bytes:
        return b"".join(joined[places[row, 1] : places[row, 2] + 1] for row in rows)

    return Source(messages, np.searchsorted(places[:, 1], limits), original)


def _text_faults(joined: bytearray, lines: Ints, faults: Ints) -> Iterator[tuple[int, ...]]:
    """Find rows that are not UTF-8 or contain a byte 0; for rows with another fault, this fault replaces it."""
    for index, (begin, end) in enumerate(faults[:, 1:3].tolist()):
        if (fault := _text_fault(joined[begin:end])) is not None:
            faults[index, 3:5] = fault
    for row, begin, end in lines.tolist():
        if (fault := _text_fault(joined[begin:end])) is not None:
            yield (row, begin, end, *fault, 0)


def _text_fault(line: bytearray) -> tuple[int, int] | None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return NO_UTF8, error.start
    return (NUL, line.index(0)) if 0 in line else None


def _read_slow_doubles(buffers: RowBuffers, result: ParseResult, joined: bytearray) -> Iterator[tuple[int, ...]]:
    """Read doubles with many digits or exponents; yield the faults of invalid ones.

    There is one fault per row: that of its first invalid column.
    """
    bad: dict[int, tuple[int, ...]] = {}
    for column, row in buffers.slow[: result.slow_count].tolist():
        start, length = int(buffers.starts[column, row]), int(buffers.lengths[column, row])
        value = parse_double(joined[start : start + length])
        if value is None:
            bad.setdefault(row, (*buffers.lines[row].tolist(), column, start, length))
            continue
        buffers.floats[column, row] = value
        buffers.valid[column, row] = value == value
    yield from bad.values()
