"""The project's own formats pass the suite that every format has to pass."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import fastavro
import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc

from springline.testing.format_suite import FormatSuite, Row
from tests.support.decoding.http_registry import framed, serving
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


class TestAvroOfFile(FormatSuite):
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


class TestAvroOfRegistry(FormatSuite):
    """Each in the schema that a registry has; those of `encode_more` are in another one."""

    format = "avro"
    wrong = (
        (framed(1, _SCHEMA, {"name": "a", "more": [], "count": True, "ratio": None}), "count is no int, at byte 10"),
        (b"\0\0\0\0\7\0", "schema 7: the registry has no such id"),
        (_avro({"name": "a", "more": [], "count": 1, "ratio": 0.5}), "it does not begin with the id of a schema"),
        (b"", "it does not begin with the id of a schema"),
        (b"\0\0\0\0\1", "the record ends inside a value, at byte 5"),
    )
    _PLAIN: ClassVar = {
        "type": "record",
        "name": "Row",
        "fields": [
            {"name": "ratio", "type": ["null", "double"]},
            {"name": "name", "type": ["null", "string"]},
            {"name": "count", "type": ["null", "long"]},
        ],
    }

    @pytest.fixture(autouse=True)
    def registry(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """The registry of the settings."""
        with serving() as registry:
            registry.register(_AVSC.read_text())
            registry.register(self._PLAIN)
            monkeypatch.setenv("SPRINGLINE_SCHEMA_REGISTRY", registry.url)
            yield

    def encode(self, row: Row) -> bytes:
        return framed(2, self._PLAIN, row)

    def encode_more(self, row: Row) -> bytes:
        return framed(1, _SCHEMA, {**row, "more": [{"a": 1, "b": None}, {}, {"c": b"x" * 70}]})


_PROTO = Path(__file__).with_name("row.proto")


@cache
def _proto_class() -> Any:
    with TemporaryDirectory() as folder:
        assert not protoc.main(["protoc", f"-I{_PROTO.parent}", f"--descriptor_set_out={folder}/set", _PROTO.name])
        (descriptor,) = FileDescriptorSet.FromString(Path(folder, "set").read_bytes()).file
    pool = DescriptorPool()
    pool.Add(descriptor)
    return GetMessageClass(pool.FindMessageTypeByName("tests.Row"))


def _proto(row: Row, **more: object) -> bytes:
    content: bytes = _proto_class()(**row, **more).SerializeToString()
    return content


class TestProtobufOfFile(FormatSuite):
    """In a schema where every field has presence."""

    format = "protobuf"
    options = {"schema": str(_PROTO), "message": "tests.Row"}  # noqa: RUF012 - as a subclass in the documents
    wrong = (
        (b"\x1a\x01\xff", "not UTF-8, at byte 0"),
        (b"\x60" + b"\xff" * 10, "no number at byte 0"),
        (b"\xa1\x01\0", "the record ends inside a value, at byte 0"),
        (b"\x07", "no field begins at byte 0"),
    )

    def encode(self, row: Row) -> bytes:
        return _proto(row)

    def encode_more(self, row: Row) -> bytes:
        return b"\x98\x06\x01" + _proto(row, more={"a": b"x" * 70}) + b"\x98\x06\x02"


class TestProtobufOfRegistry(TestProtobufOfFile):
    """With the id of the schema, and the path of its message type."""

    options: ClassVar = {}
    wrong = (
        (b"\0\0\0\0\1\0\x1a\x01\xff", "not UTF-8, at byte 6"),
        (b"\0\0\0\0\1\2\2", "schema 1: it has no such message type"),
        (b"\0\0\0\0\1", "schema 1: it has no such message type"),
        (b"\0\0\0\0\2\0", "schema 2: the registry has no such id"),
    )

    @pytest.fixture(autouse=True)
    def registry(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """The registry of the settings."""
        with serving() as registry:
            registry.register(_PROTO.read_text(), kind="PROTOBUF")
            monkeypatch.setenv("SPRINGLINE_SCHEMA_REGISTRY", registry.url)
            yield

    def encode(self, row: Row) -> bytes:
        return b"\0\0\0\0\1\0" + super().encode(row)

    def encode_more(self, row: Row) -> bytes:
        return b"\0\0\0\0\1\2\0" + super().encode_more(row)
