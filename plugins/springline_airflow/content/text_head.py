"""Reads the columns and the first rows of a file of text: JSON lines, CSV with a header, or plain lines."""

from __future__ import annotations

import csv
import json
import zlib
from collections.abc import Iterator, Sequence
from gzip import GzipFile
from io import BytesIO, RawIOBase, StringIO
from itertools import islice

from springline.airflow.content.cell_text import cell_text, shortened
from springline.airflow.content.errors import UnreadableContentError
from springline.airflow.content.table_head import MOST_COLUMNS, ContentColumn, TableHead

_BEGINNING = 1 << 20  # bytes of a file that are examined
_GZIP = b"\x1f\x8b"
_SEPARATORS = {"csv": ",", "tsv": "\t"}
_JSON_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"), (int, "integer"), (float, "number"), (str, "text"), (list, "list"), (dict, "object"),
)  # fmt: skip


def read_text_head(file: RawIOBase, name: str, place: str, limit: int) -> TableHead:
    """Return the columns and the first `limit` rows; raises `UnreadableContentError` if the file is not text."""
    lines, is_cut = _lines_of(file, place)
    ending = name.lower().removesuffix(".gz").rpartition(".")[2]
    if ending in _SEPARATORS:
        return _read_csv(lines, _SEPARATORS[ending], place, limit, is_cut)
    lines = [line.rstrip("\r\n") for line in lines]
    if (records := _json_records(lines)) is not None:
        return _read_json(records, limit, is_cut)
    rows = [[shortened(line)] for line in lines[:limit]]
    columns = [ContentColumn("line", "text", nullable=False)]
    return TableHead("text", columns, rows, is_inferred=True, is_cut=is_cut)


def _lines_of(file: RawIOBase, place: str) -> tuple[list[str], bool]:
    """Return the lines in the beginning of a file, with their ends, and whether it goes on beyond them.

    A last line that goes on beyond the beginning is left out, unless it is the only one.
    """
    content = file.read(_BEGINNING + 1) or b""
    content, is_cut = _inflate(content, place) if content.startswith(_GZIP) else (content, False)
    is_cut |= len(content) > _BEGINNING
    content = content[:_BEGINNING]
    if is_cut and b"\n" in content:
        content = content[: content.rindex(b"\n") + 1]
    try:
        text = content.decode("utf-8-sig", "strict" if not is_cut or b"\n" in content else "ignore")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise UnreadableContentError(
            f"{place} is neither Parquet nor text (JSON lines, CSV); read it in a task with the library of its format"
        )
    return list(StringIO(text, newline="")), is_cut


def _inflate(content: bytes, place: str) -> tuple[bytes, bool]:
    """Return what the members of the beginning of a gzip file contain, and whether there is more."""
    inflated = bytearray()
    try:
        with GzipFile(fileobj=BytesIO(content)) as members:
            while len(inflated) <= _BEGINNING and (part := members.read1(_BEGINNING)):
                inflated += part
    except (EOFError, OSError, zlib.error) as error:
        if isinstance(error, EOFError) and (inflated or len(content) > _BEGINNING):
            return bytes(inflated), True
        raise UnreadableContentError(
            f"{place} is not a gzip file that can be read: {error}; recompute the dataset, or restore it from its "
            "other copy"
        ) from error
    return bytes(inflated), len(content) > _BEGINNING


def _json_records(lines: Sequence[str]) -> list[dict[str, object]] | None:
    """Return the objects of JSON lines, one a line; None if the first line is none."""
    records: list[dict[str, object]] = []
    for line in lines:
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            if not records:
                return None
            record = {"unreadable line": line}
        records.append(record)
    return records or None


def _read_json(records: Sequence[dict[str, object]], limit: int, is_cut: bool) -> TableHead:
    names = list(dict.fromkeys(name for record in records for name in record))
    columns = [ContentColumn(shortened(name), *_type_of(name, records)) for name in names]
    rows = [[cell_text(record.get(name)) for name in names[:MOST_COLUMNS]] for record in records[:limit]]
    return TableHead("json", columns, rows, is_inferred=True, is_cut=is_cut)


def _type_of(name: str, records: Sequence[dict[str, object]]) -> tuple[str, bool]:
    """Return the type of a field in all records, and whether it is missing in some."""
    values = [record.get(name) for record in records]
    types = dict.fromkeys(_json_type(value) for value in values if value is not None)
    if set(types) == {"integer", "number"}:
        types = {"number": None}
    return " or ".join(sorted(types)) or "null", None in values


def _json_type(value: object) -> str:
    return next(name for kind, name in _JSON_TYPES if isinstance(value, kind))


def _read_csv(lines: Sequence[str], separator: str, place: str, limit: int, is_cut: bool) -> TableHead:
    records = _csv_records(csv.reader(lines, delimiter=separator), place)
    header = next(records, [])
    columns = [ContentColumn(shortened(name), "text", nullable=False) for name in header]
    width = min(len(header), MOST_COLUMNS)
    rows = list(islice(records, limit + is_cut))
    if is_cut:
        rows = rows[:-1]  # the last one may go on beyond the beginning, within quotes
    cells = [[*map(shortened, row[:width]), *[None] * (width - len(row))] for row in rows]
    return TableHead("csv", columns, cells, is_inferred=True, is_cut=is_cut)


def _csv_records(reader: Iterator[list[str]], place: str) -> Iterator[list[str]]:
    try:
        yield from filter(None, reader)
    except csv.Error as error:
        raise UnreadableContentError(
            f"{place} is not a CSV file that can be read: {error}; read it in a task"
        ) from error
