"""The Protobuf kernel reads what Protobuf's own library reads; what is damaged is a dead letter, and nothing else."""

from __future__ import annotations

import errno
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry.confluent.type.decimal_pb2 import Decimal as Decimal_
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from springline.spark_jobs.streaming.errors import SchemaUnavailableError
from springline.spark_jobs.streaming.runtime.message import Message, MessageBatch
from springline.spark_jobs.streaming.sources.decoder import rows_of
from springline.spark_jobs.streaming.sources.errors import InvalidFormatError
from springline.spark_jobs.streaming.sources.format import Format, open_format
from springline.spark_jobs.streaming.sources.layout import Layout, parts_of_path
from tests.support.decoding.http_registry import HttpRegistry, serving

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIELDS: dict[str, str] = {
    "n": "int", "label": "text", "owner.id": "int", "owner.at.zip": "text", "user.id": "int", "user.at.zip": "text",
    "user.at.floor": "int", "mood": "text", "x": "float", "f": "float", "o": "int", "big": "int", "w": "int",
    "name": "text", "t": "timestamp", "s": "float", "e": "text", "u": "int", "z": "float", "v": "text",
    "packed[0]": "int", "packed[2]": "int", "user.tags[1]": "text", "b": "boolean", "raw": "bytes",
}  # fmt: skip
SCHEMA = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "places/at.proto";

message Other { string first = 1; }
message Row {
  message User { int64 id = 1; places.At at = 7; repeated string tags = 9; User friend = 12; }
  enum Mood { NONE = 0; GOOD = 4; BAD = -1; }
  oneof key { sint32 n = 2; string label = 20; User owner = 21; bytes raw = 22; }
  User user = 5;
  Mood mood = 8;
  double x = 15;
  float f = 16;
  optional int32 o = 30;
  uint64 big = 200;
  google.protobuf.Int64Value w = 31;
  google.protobuf.StringValue v = 18;
  google.protobuf.Timestamp t = 33;
  map<string, int32> m = 40;
  repeated int32 packed = 41;
  string name = 536870911;
  sfixed64 s = 44;
  optional Mood e = 45;
  fixed32 u = 46;
  sint64 z = 47;
  bool b = 48;
}
"""
AT = 'syntax = "proto3"; package places; message At { string zip = 3; sfixed32 floor = 1; fixed64 wide = 2; }'
# As a producer of earlier days wrote it: some fields that are read are missing, and it has presence everywhere.
OLDER = """
syntax = "proto2";
package shop;
message Row {
  message User { optional int64 id = 1; optional string nick = 2; }
  optional sint32 n = 2;
  optional User user = 5;
  optional float f = 16;
  optional group Extra = 50 { optional int32 a = 1; optional User b = 2; }
  optional uint64 big = 200;
  optional string name = 536870911;
}
"""
UNKNOWN = (
    b"",
    b"\xa0\x06\x96\x01",  # field 100, a number
    b"\xa1\x06" + b"\1" * 8,
    b"\xa2\x06\x03abc",
    b"\xa5\x06" + b"\2" * 4,
    b"\xa3\x06\x08\x05\x0b\x12\x01x\x0c\xa4\x06",  # a group with a group
    b"\x10\x05"[:0] + b"\x15" + b"\3" * 4,  # field 2 with another wire type
)


def compiled(folder: Path, text: str, name: str = "shop.Row") -> Any:
    """The class of a message type, by Protobuf's own library."""
    (folder / "places").mkdir(exist_ok=True)
    (folder / "places" / "at.proto").write_text(AT)
    (folder / "own.proto").write_text(text)
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"-I{files('grpc_tools') / '_proto'}"]
    command += ["--include_imports", f"--descriptor_set_out={folder / 'set'}", "own.proto"]
    subprocess.run(command, check=True, timeout=60)
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString((folder / "set").read_bytes()).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(name))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where schemas are."""
    return tmp_path_factory.mktemp("protobuf")


@pytest.fixture(scope="module")
def rows(folder: Path) -> Any:
    """The message type."""
    return compiled(folder, SCHEMA)


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What it was before."""
    return compiled(tmp_path_factory.mktemp("older"), OLDER)


@pytest.fixture(scope="module")
def registry(rows: Any, older: Any) -> Iterator[HttpRegistry]:
    """The registry of the settings, with both schemas."""
    with serving() as registry, pytest.MonkeyPatch.context() as patch:
        registry.register(AT, "at", kind="PROTOBUF")
        uses = [{"name": "places/at.proto", "subject": "at", "version": 1}]
        registry.register(SCHEMA, kind="PROTOBUF", references=uses)
        registry.register(OLDER, kind="PROTOBUF")
        patch.setenv("SPRINGLINE_SCHEMA_REGISTRY", registry.url)
        yield registry


@pytest.fixture(scope="module")
def row_format(registry: HttpRegistry) -> Format:
    """The format."""
    return open_format(Layout("protobuf", FIELDS), FIELDS)


_SMALL, _INT32, _INT64 = (
    st.integers(0, 3),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(-(1 << 63), (1 << 63) - 1),
)
_TEXT = st.text(max_size=200)


@st.composite
def records(draw: st.DrawFn, kind: Any, level: int = 0) -> Any:
    """A message with some of the fields of its type."""
    message = kind()
    for part in kind.DESCRIPTOR.fields:
        if draw(st.booleans()) or level > 2:
            continue
        value = getattr(message, part.name)
        if part.is_repeated:
            if part.message_type is None:
                value.extend(draw(st.lists(_TEXT if part.type == part.TYPE_STRING else _INT32, max_size=3)))
            else:
                for name in draw(st.lists(_TEXT, max_size=2)):
                    value[name] = draw(_INT32)
        elif part.message_type is not None and part.message_type.name == "Timestamp":
            value.seconds = draw(st.integers(-62_135_596_800, 253_402_300_799))
            value.nanos = draw(st.integers(0, 999_999_999))
        elif part.message_type is not None:
            value.MergeFrom(draw(records(type(value), level + 1)))
            value.SetInParent()
        else:
            setattr(message, part.name, draw(_values(part)))
    return message


def _values(part: Any) -> st.SearchStrategy[Any]:
    if part.type in (part.TYPE_DOUBLE, part.TYPE_FLOAT):
        return st.floats(width=64 if part.type == part.TYPE_DOUBLE else 32)
    if part.type == part.TYPE_UINT64:
        return st.integers(0, (1 << 63) - 1)
    if part.type in (part.TYPE_FIXED32, part.TYPE_UINT32):
        return st.integers(0, (1 << 32) - 1)
    if part.type == part.TYPE_FIXED64:
        return st.integers(0, (1 << 64) - 1)
    if part.type in (part.TYPE_INT32, part.TYPE_SINT32, part.TYPE_SFIXED32):
        return _INT32
    if part.type in (part.TYPE_INT64, part.TYPE_SINT64, part.TYPE_SFIXED64):
        return _INT64
    if part.type == part.TYPE_ENUM:
        return st.sampled_from([value.number for value in part.enum_type.values])
    if part.type == part.TYPE_BOOL:
        return st.booleans()
    return _TEXT if part.type == part.TYPE_STRING else st.binary(max_size=5)


def expected(record: Any) -> dict[str, Any]:
    """What the fields are in a record."""
    row: dict[str, Any] = {}
    for path, kind in FIELDS.items():
        value: Any = record
        for name in parts_of_path(path):
            if name.startswith("["):
                index = int(name[1:-1])
                value = value[index] if value is not None and index < len(value) else None
                continue
            part = value.DESCRIPTOR.fields_by_name.get(name) if value is not None else None
            if part is None or (part.has_presence and not value.HasField(name)):
                value = None
                break
            inner = getattr(value, name)
            value = part.enum_type.values_by_number[inner].name if part.enum_type else inner
        if path == "t" and value is not None:
            value = EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1_000)
        elif path in ("w", "v") and value is not None:
            value = value.value
        if kind == "float" and value is not None:
            value = None if math.isnan(value) else float(value)
        row[path] = value
    return row


@given(st.data())
def test_records_are_those_of_another_reader(rows: Any, older: Any, row_format: Format, data: st.DataObject) -> None:
    """Also those in pieces, which are merged, among unknown fields; then one is damaged, and its neighbours are not."""
    contents, read = [], []
    for _ in range(data.draw(st.integers(1, 4))):
        kind, header = data.draw(st.sampled_from([(rows, b"\0\0\0\0\2\2\2"), (older, b"\0\0\0\0\3\0")]))
        pieces = [data.draw(records(kind)).SerializeToString() for _ in range(data.draw(st.integers(1, 2)))]
        content = data.draw(st.sampled_from(UNKNOWN)).join([b"", *pieces, b""])
        record = kind.FromString(content)
        if kind is rows and record.HasField("t") and not 0 <= record.t.nanos < 1_000_000_000:
            continue
        contents.append(header + content)
        read.append(expected(record))
    table, dead = rows_of(row_format, [MessageBatch.of([Message(at, value) for at, value in enumerate(contents)])])
    assert not dead and table.to_pylist() == read
    for good, row in list(zip(contents, read, strict=True))[:1]:
        damaged = [good[:cut] for cut in range(len(good))][:60]
        for _ in range(5):
            at = data.draw(st.integers(0, len(good) - 1))
            damaged.append(good[:at] + bytes([data.draw(st.integers(0, 255))]) + good[at + 1 :])
        for value in damaged:
            messages = MessageBatch.of([Message(0, good), Message(1, value), Message(2, good)])
            table, refused = rows_of(row_format, [messages])
            table.validate(full=True)
            rest = table.to_pylist()
            assert rest[0] == rest[-1] == row and {letter.offset for letter in refused} <= {1}


@given(st.binary(max_size=40))
def test_any_bytes_are_a_row_or_a_dead_letter(row_format: Format, value: bytes) -> None:
    """Whatever Protobuf's own library makes of them."""
    messages = MessageBatch.of([Message(0, b"\0\0\0\0\2\2\2" + value), Message(1, b"\0\0\0\0" + value)])
    table, dead = rows_of(row_format, [messages])
    table.validate(full=True)
    assert table.num_rows + len(dead) == 2


def test_the_message_type_is_read_from_the_message(row_format: Format) -> None:
    """As a path of indices: the first type, another one, one inside another, one that is not there."""
    path = [b"\0", b"\2\0", b"\2\2", b"\4\2\0", b"\2\4", b"\4\2\4", b"\1\0", b"\x80", b"\2\x80\x80\x80\x80\x80\x80\1"]
    messages = [Message(at, b"\0\0\0\0\2" + each + b"\x08\x05"[: 2 * (at in (2, 3))]) for at, each in enumerate(path)]
    own = open_format(Layout("protobuf", {"id": "int", "mood": "text"}), {"id", "mood"})
    table, dead = rows_of(own, [MessageBatch.of(messages)])
    assert table.to_pylist() == [{"id": None, "mood": None}] * 2 + [
        {"id": None, "mood": "NONE"},
        {"id": 5, "mood": None},
    ]
    assert [letter.offset for letter in dead] == [4, 5, 6, 7, 8]
    assert {letter.reason for letter in dead} == {"schema 2: it has no such message type"}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\x40\x09", "a number out of range, or a value that its enum lacks, at byte 7"),
        (b"\xc0\x0c" + b"\xff" * 9 + b"\1", "big is no int, at byte 7"),
        (b"\xa2\1\1\xff", "not UTF-8, at byte 7"),
        (b"\xa2\1\x05ab", "the record ends inside a value, at byte 7"),
        (b"\x28\xff", "no number at byte 7"),
        (b"\x07", "no field begins at byte 7"),
        (b"\x00\x01", "no field begins at byte 7"),
        (b"\xa3\x06\x08\x05\xac\x06", "no field begins at byte 7"),
        (b"\x8a\2\7\x08\xff\xff\xff\xff\xff\x7f", "t is no timestamp, at byte 7"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(row_format: Format, value: bytes, reason: str) -> None:
    """With its place."""
    table, (letter,) = rows_of(row_format, [MessageBatch.of([Message(0, b"\0\0\0\0\2\2\2" + value)])])
    assert table.num_rows == 0 and letter.reason == reason


@pytest.mark.parametrize(
    ("field", "kind", "value", "reason"),
    [
        ("name", "int", b"\xfa\xff\xff\xff\x0f\1a", "name is no int, at byte 7"),
        ("packed", "int", b"\xca\2\1\5", "packed is no int, at byte 7"),
        ("user", "text", b"\x2a\0", "user is no text, at byte 7"),
        ("name.x", "int", b"\xfa\xff\xff\xff\x0f\1a", "name.x is no int, at byte 7"),
        ("b", "int", b"\x80\3\1", "b is no int, at byte 7"),
    ],
)
def test_a_value_of_another_type_is_a_dead_letter(
    registry: HttpRegistry, field: str, kind: str, value: bytes, reason: str
) -> None:
    """Where the record has it; else it is null."""
    own = open_format(Layout("protobuf", {field: kind}), {field})
    header = b"\0\0\0\0\2\2\2"
    table, (letter,) = rows_of(own, [MessageBatch.of([Message(0, header), Message(1, header + value)])])
    assert table.to_pylist() == [{field: None}] and (letter.offset, letter.reason) == (1, reason)


def test_the_schema_may_be_in_a_file(folder: Path, rows: Any) -> None:
    """With the name of its message type, and imports beside it; what is wrong with it is said at once."""
    options = {"schema": str(folder / "own.proto"), "message": "shop.Row"}
    record = rows(n=-3, name="a")
    record.user.at.zip = "b"
    own = open_format(Layout("protobuf", {"n": "int", "user.at.zip": "text"}, options), {"n", "user.at.zip"})
    table, dead = rows_of(own, [MessageBatch.of([Message(0, record.SerializeToString())])])
    assert table.to_pylist() == [{"n": -3, "user.at.zip": "b"}] and not dead
    with pytest.raises(InvalidFormatError, match=r"it has no message type 'shop\.Column'"):
        open_format(Layout("protobuf", FIELDS, {**options, "message": "shop.Column"}), FIELDS)
    (folder / "broken.proto").write_text('syntax = "proto3"; import "gone.proto";')
    with pytest.raises(InvalidFormatError, match=r"gone\.proto: File not found"):
        open_format(Layout("protobuf", FIELDS, {"schema": str(folder / "broken.proto")}), FIELDS)
    with pytest.raises(InvalidFormatError, match="goes with a `schema` file"):
        open_format(Layout("protobuf", FIELDS, {"message": "shop.Row"}), FIELDS)


def test_a_full_disk_is_no_fault_of_a_schema(registry: HttpRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its messages are no dead letters: they are read once there is space."""
    schema_id = registry.register('syntax = "proto3"; message A { int64 n = 1; }', kind="PROTOBUF")
    own = open_format(Layout("protobuf", {"n": "int"}), {"n"})
    messages = MessageBatch.of([Message(0, b"\0" + schema_id.to_bytes(4, "big") + b"\0\x08\7")])

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(SchemaUnavailableError, match="No space left"):
        patch.setattr(tempfile, "mkdtemp", full)
        rows_of(own, [messages])
    table, dead = rows_of(own, [messages])
    assert table.to_pylist() == [{"n": 7}] and not dead


@given(st.lists(st.decimals(-(10**6), 10**6, places=3) | st.none(), min_size=1, max_size=4), st.integers(0, 3))
def test_confluents_own_imports_are_known(registry: HttpRegistry, amounts: list[Decimal | None], places: int) -> None:
    """They are in no registry: options of fields, and a decimal as Connect and Flink write it."""
    text = """
        syntax = "proto3";
        import "confluent/meta.proto";
        import "confluent/type/decimal.proto";
        message Bill {
          option (confluent.message_meta).doc = "what is owed";
          confluent.type.Decimal amount = 1 [(confluent.field_meta) = { params: [{ key: "scale", value: "3" }] }];
        }
    """
    schema_id = registry.register(text, kind="PROTOBUF")
    own = open_format(Layout("protobuf", {"amount": f"decimal(12, {places})"}), {"amount"})
    messages = []
    for at, amount in enumerate(amounts):
        content = b""
        if amount is not None:
            digits = int(amount.scaleb(3))
            value = digits.to_bytes(digits.bit_length() // 8 + 1, "big", signed=True)
            inner = Decimal_(value=value, precision=12, scale=3).SerializeToString()
            content = b"\x0a" + bytes([len(inner)]) + inner
        messages.append(Message(at, b"\0" + schema_id.to_bytes(4, "big") + b"\0" + content))
    table, dead = rows_of(own, [MessageBatch.of(messages)])
    fits = [amount is None or amount == round(amount, places) for amount in amounts]
    assert table.column("amount").to_pylist() == [amount for amount, fit in zip(amounts, fits, strict=True) if fit]
    assert [letter.offset for letter in dead] == [at for at, fit in enumerate(fits) if not fit]
