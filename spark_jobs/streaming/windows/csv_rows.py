"""CSV messages to chunks of rows.

Fields are as in RFC 4180: quoted where they hold a separator, a quote or a line's end; a line may end in CR LF. An
empty number is null; an empty text is an empty text. Rows of another number of fields than declared are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_jobs.streaming.unitlog.step import DeadLetter, Message
from spark_jobs.streaming.windows.csv_kernels import (
    FLOAT,
    INT,
    TEXT,
    find_separators,
    find_separators_between_quotes,
    take_fields,
    undouble,
)
from spark_jobs.streaming.windows.rows import Chunk, Column, Numbers, Source, Texts
from spark_jobs.streaming.windows.stream import Stream
from spark_jobs.streaming.windows.tables import Ints

CHUNK_BYTES = 512 * 1024  # what a core keeps in its cache
_KINDS = {"text": TEXT, "int": INT, "float": FLOAT}


def csv_chunks(
    stream: Stream, wanted: Sequence[str], messages: Sequence[Message], dead: list[DeadLetter]
) -> Iterator[Chunk]:
    """The rows of the messages with the wanted columns, some messages at a time."""
    held: list[Message] = []
    values: list[bytes] = []
    size = 0
    for message in messages:
        value = bytes(message.value)
        if (reason := _refusal(value)) is not None:
            dead.append(DeadLetter(message.offset, value, reason))
            continue
        held.append(message)
        values.append(value if value.endswith(b"\n") else value + b"\n")
        size += len(value)
        if size >= CHUNK_BYTES:
            yield _chunk(stream, wanted, held, values, dead)
            held, values, size = [], [], 0
    if held:
        yield _chunk(stream, wanted, held, values, dead)


def _refusal(value: bytes) -> str | None:
    """Why a message is no CSV at all."""
    if not value.isascii():
        try:
            value.decode()
        except UnicodeDecodeError as error:
            return f"not CSV: byte {error.start} is not UTF-8"
    if b"\0" in value:
        return "not CSV: it holds a byte 0"
    if b'"' in value and value.count(b'"') % 2:
        return "not CSV: a quote is never closed"
    return None


def _chunk(
    stream: Stream, wanted: Sequence[str], messages: list[Message], values: list[bytes], dead: list[DeadLetter]
) -> Chunk:
    joined = values[0] if len(values) == 1 else b"".join(values)
    data = np.frombuffer(joined, np.uint8)
    quoted = b'"' in joined
    names = [field.name for field in stream.fields]
    kinds = np.array([_KINDS[stream.types[name]] for name in wanted], np.int64)
    places, ends, rows = _separators(data, stream, quoted)
    shape = (len(wanted), rows)
    starts, lengths = np.zeros(shape, np.int64), np.zeros(shape, np.int32)
    ints, floats, valid = np.zeros(shape, np.int64), np.zeros(shape, np.float64), np.zeros(shape, np.bool_)
    lines, faults = np.empty((rows, 3), np.int64), np.empty((rows, 5), np.int64)
    slow = np.empty((rows * len(wanted), 2), np.int64)
    fields = np.array([names.index(name) for name in wanted], np.int64)
    good, bad, slowly = take_fields(
        data, places, ends, rows, len(names), fields, kinds,
        starts, lengths, ints, floats, valid, lines, faults, slow,
    )  # fmt: skip
    bad_columns, bad_rows = _look_closer(joined, slow[:slowly], starts, lengths, floats, valid)
    begins = np.concatenate([lines[:good, 1], faults[:bad, 1]])
    untils = np.concatenate([lines[:good, 2], faults[:bad, 2]])
    source = _source(messages, values, joined, begins, untils, np.concatenate([lines[:good, 0], faults[:bad, 0]]))
    _report(stream, wanted, faults[:bad], joined, source, dead)
    texts = data
    if quoted and b'""' in joined:
        texts = data.copy()
    columns: dict[str, Column] = {}
    for index, name in enumerate(wanted):
        if kinds[index] == TEXT:
            if texts is not data:
                undouble(texts, starts[index, :good], lengths[index, :good])
            columns[name] = Texts(texts, starts[index, :good], lengths[index, :good])
        else:
            values_of = ints if kinds[index] == INT else floats
            flags = valid[index, :good]
            columns[name] = Numbers(values_of[index, :good], flags if not flags.all() else flags[:0])
    chunk = Chunk(np.zeros(good, np.int64), columns, source, lines[:good, 0].copy())
    if not bad_rows.size:
        return chunk
    for index in np.unique(bad_columns):
        reason = f"{wanted[index]} is no float"
        dead.extend(source.letters(chunk.kept[bad_rows[bad_columns == index]], lambda row, place: reason))  # noqa: B023
    return chunk.taken(~np.isin(np.arange(good), bad_rows))


def _separators(data: npt.NDArray[np.uint8], stream: Stream, quoted: bool) -> tuple[Any, Any, int]:
    places, ends = np.empty(data.size + 8, np.int32), np.empty(data.size + 8, np.int32)
    find = find_separators_between_quotes if quoted else find_separators
    return places, ends, int(find(data, ord(stream.delimiter), places, ends))


def _source(
    messages: list[Message], values: list[bytes], joined: bytes, begins: Ints, untils: Ints, rows: Ints
) -> Source:
    order = np.argsort(rows)
    begins, untils = begins[order], untils[order]
    limits = np.concatenate([[0], np.cumsum([len(value) for value in values])[:-1]])

    def original(wanted: Ints) -> bytes:
        return b"".join(joined[begins[row] : untils[row] + 1] for row in wanted)

    return Source(messages, np.searchsorted(begins, limits), original)


def _report(
    stream: Stream, wanted: Sequence[str], faults: Ints, joined: bytes, source: Source, dead: list[DeadLetter]
) -> None:
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
