"""Every type of a field, and the parts of structs and lists, in every format that has them."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import fastavro
import pyarrow as pa
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc

from springline.spark_jobs.streaming.sources.layout import parts_of_path
from springline.testing.format_suite import FormatSuite, Row
from tests.support.decoding.windows_job import ipc

FLAT = {
    "flag": "boolean", "price": "decimal(9, 2)", "blob": "bytes", "day": "date", "at": "timestamp",
    "created": "timestamp(ms)",
}  # fmt: skip
FIELDS = {**FLAT, "user.id": "int", "rows[1].price": "decimal(9, 2)", "rows[0].tags[2]": "text", "counts[1]": "int"}
MILLI = timedelta(milliseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ROWS: list[Row] = [
    dict(zip(FIELDS, values, strict=True))
    for values in (
        (True, Decimal("12.50"), b"\0\xff\n,\"'", date(2013, 1, 31), datetime(2013, 1, 31, 23, 59, 59, 123456, UTC),
         EPOCH + 7 * MILLI, 7, Decimal("0.01"), "a", -1),
        (False, Decimal("-9999999.99"), b"", date(1, 1, 1), datetime(1, 1, 1, tzinfo=UTC),
         datetime(1, 1, 1, tzinfo=UTC), -(1 << 31), Decimal("9999999.99"), "", 1 << 62),
        (True, Decimal("0.00"), bytes(range(256)), date(9999, 12, 31),
         datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), datetime(9999, 12, 31, 23, 59, 59, 999000, UTC),
         0, Decimal("-0.01"), "Zürich\t🌍", 0),
        (False, Decimal("3.00"), b"x", date(1969, 12, 31), EPOCH - timedelta(microseconds=1), EPOCH - MILLI,
         1, Decimal("5.00"), "b\\u", 5),
    )
]  # fmt: skip


def nested(row: Row) -> dict[str, Any]:
    """The row as objects and lists, which end with their last value that is not null."""
    result: dict[str, Any] = {}
    for path, value in row.items():
        if value is None and "[" in path:
            continue
        place: Any = result
        parts = [int(part[1:-1]) if part[0] == "[" else part for part in parts_of_path(path)]
        for part, following in zip(parts, [*parts[1:], None], strict=True):
            if isinstance(part, int):
                place.extend([None] * (part + 1 - len(place)))
            elif part not in place:
                place[part] = None
            if following is None:
                place[part] = value
            elif place[part] is None:
                place[part] = [] if isinstance(following, int) else {}
            place = place[part]
    return result


class TypedSuite(FormatSuite):
    """The suite with fields of all types."""

    fields: ClassVar[Mapping[str, str]] = FIELDS
    rows = ROWS


del FormatSuite  # so that it is not collected here


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


class TestCsv(TypedSuite):
    """Bytes are in base64, decimals and dates are digits."""

    format = "csv"
    fields: ClassVar[Mapping[str, str]] = FLAT
    rows = [{name: row[name] for name in FLAT} for row in ROWS]  # noqa: RUF012 - as in the suite
    wrong = (
        (b"yes,1,,2013-01-31,,", "flag is no boolean: yes"),
        (b"true,1.005,,,,", "price is no decimal(9, 2): 1.005"),
        (b"true,12345678,,,,", "price is no decimal(9, 2): 12345678"),
        (b"true,1,!,,,", "blob is no bytes: !"),
        (b"true,1,AB,2013-02-29,,", "blob is no bytes: AB"),
        (b"true,1,,2013-02-29,,", "day is no date: 2013-02-29"),
        (b"true,1,,,2013-01-31 24:00,", "at is no timestamp: 2013-01-31 24:00"),
        (b"true,1,,,0001-01-01T00:00+01,", "at is no timestamp"),
        (b"true,1,,,,253402300800000", "created is no timestamp(ms): 253402300800000"),
        (b"true,1,,,,1e30", "created is no timestamp(ms): 1e30"),
    )

    def encode(self, row: Row) -> bytes:
        return ",".join(self._cells(row)).encode()

    def _cells(self, row: Row) -> list[str]:
        cells = []
        for name, value in row.items():
            if value is None:
                cells.append("")
            elif name == "blob":
                cells.append('"' + base64.b64encode(value).decode() + '"')
            elif name == "created":
                cells.append(str(micros(value) // 1_000))
            else:
                cells.append(str(value).lower() if name == "flag" else str(value))
        return cells


def plain(row: Row) -> dict[str, Any]:
    """The row in the types of JSON; decimals as text, of which a test makes numbers."""
    shown: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, bytes):
            shown[name] = base64.b64encode(value).decode()
        elif name == "created" and value is not None:
            shown[name] = micros(value) // 1_000
        else:
            shown[name] = str(value) if isinstance(value, Decimal | date) else value
    return shown


class TestJson(TypedSuite):
    """Decimals as numbers and as text."""

    format = "json"
    wrong = (
        (b'{"flag": 1}', "flag is no boolean: 1"),
        (b'{"price": 1.005}', "price is no decimal(9, 2): 1.005"),
        (b'{"price": NaN}', "price is no decimal(9, 2): NaN"),
        (b'{"price": true}', "price is no decimal(9, 2): true"),
        (b'{"blob": "a"}', 'blob is no bytes: "a"'),
        (b'{"day": "2013-1-1"}', 'day is no date: "2013-1-1"'),
        (b'{"at": 5}', "at is no timestamp: 5"),
        (b'{"created": "5"}', 'created is no timestamp(ms): "5"'),
        (b'{"rows": [1]}', "rows[0].tags[2] is no text: 1"),
        (b'{"rows": {"0": 1}}', "is no"),
        (b'{"counts": [1, 2.5]}', "counts[1] is no int: 2.5"),
        (b'{"counts": [1, 2}', "not a JSON object"),
        (b'{"counts": [1, ]}', "not a JSON object"),
        (b'{"counts": [, 1]}', "not a JSON object"),
        (b'{"counts": [1 2]}', "not a JSON object"),
        (b'{"counts": [1, 2]]}', "not a JSON object"),
        (b'{"rows": [{"tags": [1, 2, 3, "x"]}]}', "rows[0].tags[2] is no text: 3"),
        (b'{"rows": [], "rows": []}', "is there twice"),
    )

    def encode(self, row: Row) -> bytes:
        text = json.dumps(nested(plain(row)))
        if row.get("price") is not None and len(row) % 2 == 0:
            text = text.replace(f'"price": "{row["price"]}"', f'"price": {row["price"]}')
        return text.encode()

    def encode_more(self, row: Row) -> bytes:
        content = nested(plain(row))
        content["counts"] = [[1, {"a": [2]}], *content.get("counts", [None, None])[1:], {"b": []}, 3]
        return json.dumps({"x": [{"rows": [1]}], **content, "y": [[], {}]}, indent=None).encode()


class TestArrow(TypedSuite):
    """Structs, lists, and the types of their own."""

    format = "arrow"
    _KINDS: ClassVar = {
        "flag": pa.bool_(), "price": pa.decimal128(30, 4), "blob": pa.large_binary(), "day": pa.date64(),
        "at": pa.timestamp("us", "America/St_Johns"), "created": pa.int64(), "user": pa.struct([("id", pa.int16())]),
        "rows": pa.list_(pa.struct([("price", pa.decimal128(9, 2)), ("tags", pa.large_list(pa.string()))])),
        "counts": pa.list_(pa.int64()),
    }  # fmt: skip
    rows = [{**row, "user.id": max(row["user.id"], -(1 << 15))} for row in ROWS]  # noqa: RUF012 - as in the suite
    wrong = (
        (ipc(pa.table({"flag": [1]})), "column flag is int64, but boolean was declared"),
        (b"text", "not an Arrow stream"),
    )

    def test_parts_of_what_has_none_are_refused(self) -> None:
        """By the path, and what is there."""
        for name, reason in (
            ("counts[1]", "column counts[1]: [1] is no item of int64"),
            ("user.id", "column user.id: id is no part of int64"),
        ):
            table, (letter,) = self._read([ipc(pa.table({"counts": [1], "user": [2]}))], [name])
            assert not table.num_rows and letter.reason == reason

    def encode(self, row: Row) -> bytes:
        created = row.get("created")
        content = nested({**row, "created": None if created is None else micros(created) // 1_000})
        arrays = {name: pa.array([content.get(name)], kind) for name, kind in self._KINDS.items()}
        return ipc(pa.table(arrays))

    def test_a_row_that_is_not_as_declared_is_a_dead_letter(self) -> None:
        """Types for the whole message, ranges for a row."""
        columns = {
            "price": (pa.array([Decimal("1.005"), Decimal("2")]), "price is no decimal(9, 2)"),
            "day": (pa.array([1 << 30, 0], pa.int32()).view(pa.date32()), "day is no date"),
            "at": (pa.array([1 << 62, 0], pa.timestamp("s")), "at is no timestamp"),
            "created": (pa.array([1e300, 0.0]), "created is no timestamp(ms)"),
        }
        for name, (array, reason) in columns.items():
            table, dead = self._read([ipc(pa.table({name: array}))], [name])
            assert table.num_rows == 1 and [letter.reason for letter in dead] == [f"row 1: {reason}"]
        table, dead = self._read([ipc(pa.table({"flag": [1]}))], ["flag"])
        assert not table.num_rows and dead[0].reason == "column flag is int64, but boolean was declared"


_ITEM = {
    "type": "record", "name": "Item", "fields": [
        {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}]},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}]},
    ],
}  # fmt: skip
_AVRO = {
    "type": "record", "name": "Typed", "fields": [
        {"name": name, "type": ["null", kind]} for name, kind in {
            "counts": {"type": "array", "items": ["null", "long"]},
            "flag": "boolean",
            "price": {"type": "fixed", "name": "D", "size": 12, "logicalType": "decimal", "precision": 9, "scale": 2},
            "blob": "bytes",
            "day": {"type": "int", "logicalType": "date"},
            "at": {"type": "long", "logicalType": "timestamp-micros"},
            "created": "long",
            "rows": {"type": "array", "items": ["null", _ITEM]},
            "user": {"type": "record", "name": "User", "fields": [{"name": "id", "type": ["null", "int"]}]},
        }.items()
    ],
}  # fmt: skip


class TestAvro(TypedSuite):
    """Logical types, and items of arrays."""

    format = "avro"

    @property
    def options(self) -> Mapping[str, Any]:  # type: ignore[override]
        return {"schema": str(_avsc())}

    @property
    def wrong(self) -> Any:  # type: ignore[override]
        return (
            (self._written({"price": Decimal("10000000.00")}), "price is no decimal(9, 2), at byte"),
            (self._written({"day": 1 << 30}), "day is no date, at byte"),
            (self._written({"created": 1 << 62}), "created is no timestamp(ms), at byte"),
        )

    def _written(self, content: Mapping[str, Any]) -> bytes:
        sink = io.BytesIO()
        schema = _AVRO
        if "price" in content:
            schema = json.loads(json.dumps(_AVRO).replace('"precision": 9', '"precision": 12'))
        if isinstance(content.get("day"), int):
            schema = json.loads(json.dumps(_AVRO).replace(', "logicalType": "date"', ""))
        fastavro.schemaless_writer(sink, fastavro.parse_schema(schema), content)
        return sink.getvalue()

    def encode(self, row: Row) -> bytes:
        created = row.get("created")
        content = nested({**row, "created": None if created is None else micros(created) // 1_000})
        return self._written(content)


@cache
def _avsc() -> Path:
    file = Path(_FOLDER.name) / "typed.avsc"
    file.write_text(json.dumps(_AVRO))
    return file


_FOLDER = TemporaryDirectory()
_PROTO = Path(__file__).with_name("typed.proto")


@cache
def _typed() -> Any:
    """The class of the messages."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "set"
        include = Path(protoc.__file__).with_name("_proto")
        arguments = ["", f"-I{_PROTO.parent}", f"-I{include}", f"--descriptor_set_out={out}", "--include_imports"]
        assert protoc.main([*arguments, str(_PROTO)]) == 0
        descriptors = FileDescriptorSet.FromString(out.read_bytes())
    pool = DescriptorPool()
    for file in descriptors.file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("Typed"))


class TestProtobuf(TypedSuite):
    """Repeated fields, packed or not; decimals and dates as text."""

    format = "protobuf"
    options = {"schema": str(_PROTO)}  # noqa: RUF012 - as in the suite

    @property
    def wrong(self) -> Any:  # type: ignore[override]
        kind = _typed()
        return (
            (kind(price="1.005").SerializeToString(), "price is no decimal(9, 2), at byte 0"),
            (kind(day="2013").SerializeToString(), "day is no date, at byte 0"),
            (kind(created=1 << 62).SerializeToString(), "created is no timestamp(ms), at byte 0"),
        )

    def encode(self, row: Row) -> bytes:
        message = _typed()()
        content = nested(row)
        for name in ("flag", "price", "day"):
            if content.get(name) is not None:
                setattr(message, name, content[name] if name == "flag" else str(content[name]))
        if content.get("blob") is not None:
            message.blob.value = content["blob"]
        if content.get("at") is not None:
            message.at.FromDatetime(content["at"])
        if content.get("created") is not None:
            message.created = micros(content["created"]) // 1_000
        if (content.get("user") or {}).get("id") is not None:
            message.user.id = content["user"]["id"]
        for item in content.get("rows", ()):
            added = message.rows.add()
            if item and item.get("price") is not None:
                added.price = str(item["price"])
            added.tags.extend(tag or "" for tag in (item or {}).get("tags", ()))
        message.counts.extend(count or 0 for count in content.get("counts", ()))
        return bytes(message.SerializeToString())

    def test_items_of_a_list_may_come_one_by_one(self) -> None:
        """Packed, not packed, and in pieces."""
        packed = _typed()(counts=[1, -7]).SerializeToString()
        one_by_one = b"\xa8\x01\x02" + b"\xa8\x01\x0d"  # field 21 as a varint, zigzag: 1, -7
        for value in (packed, one_by_one, b"\xaa\x01\x01\x02" + b"\xa8\x01\x0d", b"\xaa\x01\x00" + packed):
            table, dead = self._read([value], ["counts[1]"])
            assert (table.to_pylist(), dead) == ([{"counts[1]": -7}], [])
