"""The project's own formats pass the suite that every format has to pass."""

from __future__ import annotations

import io
import json
from pathlib import Path

import fastavro
import pyarrow as pa

from springline.testing.format_suite import FormatSuite, Row
from tests.support.decoding.windows_job import ipc


class TestCsv(FormatSuite):
    """Quoted where it has to be."""

    format = "csv"
    options = {"delimiter": ";"}  # noqa: RUF012 - as a subclass in the documents
    wrong = ((b"a;three;1.5", "count is no int: three"), (b"a;3", "2 fields instead of 3"), (b'"a;3;1', "quote"))

    def encode(self, row: Row) -> bytes:
        return ";".join(map(_cell, row.values())).encode()


def _cell(value: object) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, int | float) else '"' + str(value).replace('"', '""') + '"'


class TestJson(FormatSuite):
    """One object a message."""

    format = "json"
    wrong = (
        (b'{"name": "a", "count": 3.0}', "count is no int: 3.0"),
        (b'{"name": 5}', "name is no text: 5"),
        (b'{"ratio": [1]}', "ratio is no float: [1]"),
        (b'{"name": "a", "name": "b"}', "name is there twice"),
        (b"[1]", "not a JSON object, at byte 0"),
    )

    def encode(self, row: Row) -> bytes:
        return json.dumps(row, ensure_ascii=len(row) % 2 == 0).encode()

    def encode_more(self, row: Row) -> bytes:
        return json.dumps({"before": {"name": [None, True]}, **row, "after": "x"}).encode()


class TestArrow(FormatSuite):
    """One stream a message."""

    format = "arrow"
    wrong = (
        (ipc(pa.table({"name": ["a"], "count": ["three"], "ratio": [0.5]})), "column count is string"),
        (ipc(pa.table({"name": ["a"], "count": [3]})), "column ratio is missing"),
        (b"text", "not an Arrow stream"),
    )

    def encode(self, row: Row) -> bytes:
        kinds = {"name": pa.string(), "count": pa.int64(), "ratio": pa.float64()}
        return ipc(pa.table({name: pa.array([value], kinds[name]) for name, value in row.items()}))

    def encode_more(self, row: Row) -> bytes:
        kinds = {"name": pa.large_string(), "count": pa.int64(), "ratio": pa.float64()}
        table = pa.table({name: pa.array([value], kinds[name]) for name, value in row.items()})
        return ipc(table.append_column("after", pa.array([[1]])))


_AVSC = Path(__file__).with_name("row.avsc")
_SCHEMA = fastavro.schema.load_schema(_AVSC)


def _avro(row: object) -> bytes:
    content = io.BytesIO()
    fastavro.schemaless_writer(content, _SCHEMA, row)
    return content.getvalue()


class TestAvro(FormatSuite):
    """In a schema that has more fields, in another order, and other branches."""

    format = "avro"
    options = {"schema": str(_AVSC)}  # noqa: RUF012 - as a subclass in the documents
    wrong = (
        (_avro({"name": "a", "more": [], "count": True, "ratio": None}), "count is no int, at byte 5"),
        (_avro({"name": "a", "more": [], "count": 1, "ratio": "b"}), "ratio is no float, at byte 7"),
        (b"\x02\x02\xff\x00\x00\x00", "not UTF-8, at byte 1"),
        (b"\x06", "the schema has no such branch or symbol, at byte 0"),
        (_avro({"name": None, "more": [], "count": None, "ratio": None}) + b"\x00", "has ended at byte 4, and more"),
        (b"\x02\x7f", "the record ends inside a value, at byte 1"),
    )

    def encode(self, row: Row) -> bytes:
        return _avro({"more": [], **row})

    def encode_more(self, row: Row) -> bytes:
        return _avro({**row, "more": [{"a": 1, "b": None}, {}, {"c": b"x" * 70}]})
