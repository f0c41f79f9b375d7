"""The project's own formats pass the suite that every format has to pass."""

from __future__ import annotations

import json

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
