"""The Avro kernel reads what fastavro reads, in any schema; what is damaged is a dead letter, and nothing else."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from datetime import UTC
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from springline.spark_jobs.streaming.runtime.message import Message, MessageBatch
from springline.spark_jobs.streaming.sources.avro import Avro
from springline.spark_jobs.streaming.sources.avro_programs import AvroCompiler
from springline.spark_jobs.streaming.sources.decoder import rows_of
from springline.spark_jobs.streaming.sources.layout import Layout, parts_of_path
from springline.spark_jobs.streaming.sources.record_format import InvalidSchemaError
from springline.spark_jobs.streaming.sources.schema_registry import RegisteredSchema
from tests.support.decoding.http_registry import HttpRegistry, framed, serving

FIELDS: dict[str, str] = {
    "n": "int", "user.id": "int", "user.at.zip": "text", "mood": "text", "x": "float", "ok": "boolean", "raw": "bytes",
    "amount": "decimal(9, 2)", "day": "date", "ts": "timestamp", "tags[0]": "text", "tags[2]": "text",
    "rows[1].k": "int", "rows[1].more[0]": "float",
}  # fmt: skip

_PLAIN = {
    "int": st.integers(-(1 << 31), (1 << 31) - 1), "long": st.integers(-(1 << 63), (1 << 63) - 1),
    "float": st.floats(width=32), "double": st.floats(), "string": st.text(), "bytes": st.binary(),
    "boolean": st.booleans(), "null": st.none(),
}  # fmt: skip
_LOGICAL = {
    "decimal": st.decimals(-Decimal("9999999.99"), Decimal("9999999.99"), places=2), "date": st.dates(),
    "timestamp-micros": st.datetimes(timezones=st.just(UTC)),
    "timestamp-millis": st.datetimes(timezones=st.just(UTC)).map(
        lambda moment: moment.replace(microsecond=moment.microsecond // 1_000 * 1_000)
    ),
}  # fmt: skip
_AMOUNTS = [
    {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4},
    {"type": "fixed", "name": "Amount", "size": 9, "logicalType": "decimal", "precision": 20, "scale": 2},
]
_TIMES = [{"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros")]
_IGNORED = st.recursive(  # types of fields that nobody reads
    st.sampled_from(sorted(_PLAIN)),
    lambda inner: st.one_of(
        st.builds(lambda of: {"type": "array", "items": of}, inner.filter(lambda of: of != "null")),
        st.builds(lambda of: {"type": "map", "values": of}, inner),
        st.builds(lambda of: ["null", of], inner.filter(lambda of: of != "null" and not isinstance(of, list))),
    ),
    max_leaves=3,
)


def values_of(schema: Any) -> st.SearchStrategy[Any]:
    """Values of a type."""
    if isinstance(schema, list):
        return st.one_of([values_of(branch) for branch in schema])
    if isinstance(schema, str):
        return _PLAIN[schema]
    kind = schema["type"]
    if "logicalType" in schema:
        return _LOGICAL[schema["logicalType"]]
    if kind == "array":
        return st.lists(values_of(schema["items"]), max_size=3)
    if kind == "map":
        return st.dictionaries(st.text(max_size=3), values_of(schema["values"]), max_size=3)
    if kind == "enum":
        return st.sampled_from(schema["symbols"])
    if kind == "fixed":
        return st.binary(min_size=schema["size"], max_size=schema["size"])
    if kind == "record":
        return st.fixed_dictionaries({part["name"]: values_of(part["type"]) for part in schema["fields"]})
    return values_of(kind)


@st.composite
def schemas(draw: st.DrawFn) -> Any:
    """Records with some of the fields, in any order, optional or not, among others."""
    at = {
        "type": "record",
        "name": "At",
        "fields": [{"name": "zip", "type": draw(st.sampled_from(["string", ["null", "string"]]))}],
    }
    user = [
        {"name": "at", "type": draw(st.sampled_from([at, ["null", at], [at, "null"]]))},
        {"name": "id", "type": draw(st.sampled_from(["int", "long", ["null", "long"], ["int", "null"]]))},
    ]
    user += [{"name": f"o{i}", "type": draw(_IGNORED)} for i in range(draw(st.integers(0, 2)))]
    record = {"type": "record", "name": "User", "fields": draw(st.permutations(user))}
    mood = {"type": "enum", "name": "Mood", "symbols": ["good", "bad", "none_at_all"]}
    inner = [
        {"name": "k", "type": draw(st.sampled_from(["int", ["null", "long"]]))},
        {"name": "o", "type": draw(_IGNORED)},
        {"name": "more", "type": {"type": "array", "items": draw(st.sampled_from(["double", "int"]))}},
    ]
    item = {"type": "record", "name": "Item", "fields": draw(st.permutations(inner))}
    rows = {"type": "array", "items": draw(st.sampled_from([item, ["null", item]]))}
    parts = [
        {"name": "n", "type": draw(st.sampled_from(["int", "long", ["null", "int"]]))},
        {"name": "user", "type": draw(st.sampled_from([record, ["null", record]]))},
        {"name": "mood", "type": draw(st.sampled_from([mood, "string", ["null", mood, "string"]]))},
        {"name": "ok", "type": draw(st.sampled_from(["boolean", ["null", "boolean"]]))},
        {"name": "raw", "type": draw(st.sampled_from(["bytes", {"type": "fixed", "name": "Raw", "size": 3}]))},
        {"name": "amount", "type": draw(st.sampled_from(_AMOUNTS))},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "ts", "type": draw(st.sampled_from(_TIMES))},
        {"name": "tags", "type": {"type": "array", "items": draw(st.sampled_from(["string", ["null", "string"]]))}},
        {"name": "rows", "type": draw(st.sampled_from([rows, ["null", rows]]))},
        {"name": "x", "type": draw(st.sampled_from(["float", "double", "long", ["null", "double", "int"]]))},
        *({"name": f"p{i}", "type": draw(_IGNORED)} for i in range(draw(st.integers(0, 3)))),
        {"name": "f", "type": {"type": "fixed", "name": "F", "size": 3}},
    ]
    some = draw(st.lists(st.sampled_from(range(len(parts))), unique=True, min_size=1))
    return {"type": "record", "name": "Row", "fields": [parts[i] for i in some]}


def expected(record: dict[str, Any]) -> dict[str, Any]:
    """What the fields are in a record that fastavro has read."""
    row: dict[str, Any] = {}
    for path in FIELDS:
        value: Any = record
        for name in parts_of_path(path):
            if name.startswith("["):
                index = int(name[1:-1])
                value = value[index] if isinstance(value, list) and index < len(value) else None
            else:
                value = value.get(name) if isinstance(value, dict) else None
        row[path] = None if isinstance(value, float) and math.isnan(value) else value
    for name in ("x", "rows[1].more[0]"):
        row[name] = None if row[name] is None else float(row[name])
    return row


@pytest.fixture(scope="module")
def schema_file(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Where a schema is written to."""
    return tmp_path_factory.mktemp("avro") / "schema.avsc"


@given(st.data())
def test_records_are_those_of_another_reader(schema_file: Any, data: st.DataObject) -> None:
    """Whatever lies between the fields; then each is damaged, and its neighbours are read as before."""
    schema = data.draw(schemas())
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    contents, rows = [], []
    for record in data.draw(st.lists(values_of(schema), min_size=1, max_size=4)):
        written = io.BytesIO()
        fastavro.schemaless_writer(written, parsed, record)
        contents.append(written.getvalue())
        read = fastavro.schemaless_reader(io.BytesIO(contents[-1]), parsed, None)
        rows.append(expected(read))  # type: ignore[arg-type]
    schema_file.write_text(json.dumps(schema))
    avro = Avro(Layout("avro", FIELDS, {"schema": str(schema_file)}), list(FIELDS))
    table, dead = rows_of(avro, [MessageBatch.of([Message(at, value) for at, value in enumerate(contents)])])
    assert not dead and table.to_pylist() == rows
    good = contents[0]
    damaged = [good[:cut] for cut in range(len(good))][:60]
    place = st.integers(0, max(len(good) - 1, 0))
    for _ in range(5 if good else 0):
        at = data.draw(place)
        damaged.append(good[:at] + bytes([data.draw(st.integers(0, 255))]) + good[at + 1 :])
    for value in damaged:
        messages = [Message(0, good), Message(1, value), Message(2, good)]
        table, refused = rows_of(avro, [MessageBatch.of(messages)])
        table.validate(full=True)
        read = table.to_pylist()
        assert read[0] == read[-1] == rows[0] and {letter.offset for letter in refused} <= {1}


@pytest.fixture(scope="module")
def registry() -> Iterator[HttpRegistry]:
    """The registry of the settings."""
    with serving() as registry, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPRINGLINE_SCHEMA_REGISTRY", registry.url)
        yield registry


@given(st.data())
def test_records_of_several_schemas_lie_side_by_side(registry: HttpRegistry, data: st.DataObject) -> None:
    """Each is read by its own; some have an id that is none."""
    written = [(schema, registry.register(schema)) for schema in data.draw(st.lists(schemas(), min_size=1, max_size=4))]
    avro = Avro(Layout("avro", FIELDS), list(FIELDS))
    for _ in range(2):  # the second time, some schemas are compiled already
        messages, rows, refused = [], [], []
        for offset in range(data.draw(st.integers(0, 8))):
            schema, schema_id = data.draw(st.sampled_from(written))
            message = framed(schema_id, json.loads(json.dumps(schema)), data.draw(values_of(schema)))
            if data.draw(st.integers(0, 4)):
                parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
                rows.append(expected(fastavro.schemaless_reader(io.BytesIO(message[5:]), parsed, None)))  # type: ignore[arg-type]
            else:
                message = b"\0\x7f" + message[2:]
                refused.append(offset)
            messages.append(Message(offset, message))
        table, dead = rows_of(avro, [MessageBatch.of(messages)])
        assert table.to_pylist() == rows and [letter.offset for letter in dead] == refused


def compiler() -> AvroCompiler:
    """Of one field."""
    return AvroCompiler({"n": "int"})


FIXED = (
    '{"type": "record", "name": "R", "fields": [{"name": "o", "type": {"type": "fixed", "name": "F", "size": SIZE}}]}'
)


def test_a_schema_that_doubles_itself_is_refused() -> None:
    """Each record contains the one before twice: few bytes, and more values than can be read."""
    kind: object = "long"
    for level in range(40):
        parts = [{"name": "a", "type": kind}, {"name": "b", "type": f"R{level - 1}" if level else "long"}]
        kind = {"type": "record", "name": f"R{level}", "fields": parts}
    with pytest.raises(InvalidSchemaError, match="more than 100,000 values in a record"):
        compiler().add(RegisteredSchema("AVRO", json.dumps(kind)))


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "not JSON"),
        ('"string"', "it is 'string', no record"),
        ('{"type": "record", "name": "R"}', "the record 'R' has no fields"),
        ('{"type": "record", "name": "R", "fields": [{"name": "n", "type": "number"}]}', "there is no type 'number'"),
        ('{"type": "record", "name": "R", "fields": [{"name": "n", "type": 3}]}', "3 is no type"),
        ('{"type": "record", "name": "R", "fields": [{"name": "o", "type": {"type": "array"}}]}', "no schema of Avro"),
        (FIXED.replace("SIZE", "-1"), "the size of the type 'F' is -1"),
        (FIXED.replace("SIZE", '"3"'), "the size of the type 'F' is '3'"),
        ('{"type": "record", "name": "R", "fields": [{"name": "r", "type": {"type": "array", "items": "null"}}]}',
         "lists of items without any bytes"),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_read_is_refused(schema: str, reason: str) -> None:
    """With what is wrong in it."""
    own = compiler()
    own.add(RegisteredSchema("AVRO", '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}'))
    before = own.program().operations.tolist()
    with pytest.raises(InvalidSchemaError, match=reason):
        own.add(RegisteredSchema("AVRO", schema))
    assert own.program().operations.tolist() == before


TREE = {
    "type": "record",
    "name": "Tree",
    "namespace": "wood",
    "fields": [
        {"name": "left", "type": ["null", "Tree"]},
        {"name": "twigs", "type": {"type": "array", "items": "wood.Tree"}},
        {"name": "leaf", "type": ["null", {"type": "record", "name": "Leaf", "fields": [
            {"name": "of", "type": ["Tree", "null"]}, {"name": "next", "type": ["null", "Leaf"]},
        ]}]},
        {"name": "right", "type": {"type": "map", "values": ["Tree", "long"]}},
        {"name": "n", "type": "long"},
    ],
}  # fmt: skip


@st.composite
def trees(draw: st.DrawFn, depth: int = 0) -> Any:
    """Trees of trees."""

    def tree() -> Any:
        return draw(trees(depth + 1)) if depth < 4 and draw(st.integers(0, 2)) == 0 else None

    leaf = None
    for _ in range(draw(st.integers(0, 3)) if depth < 3 else 0):
        leaf = {"of": tree(), "next": leaf}
    twigs = [each for each in (tree(), tree()) if each is not None]
    right = {f"{at}": tree() or at for at in range(draw(st.integers(0, 2)))}
    return {"left": tree(), "twigs": twigs, "leaf": leaf, "right": right, "n": draw(st.integers(-9, 9))}


@given(st.lists(trees(), min_size=1, max_size=3))
def test_records_that_contain_themselves_are_read_as_deep_as_fields_are(schema_file: Any, rows: list[Any]) -> None:
    """And what is deeper is skipped; in fields, arrays and maps, and from one record to another and back."""
    schema_file.write_text(json.dumps(TREE))
    fields = {"n": "int", "left.n": "int", "left.left.n": "int", "twigs[1].n": "int", "leaf.next.of.n": "int"}
    parsed = fastavro.parse_schema(json.loads(json.dumps(TREE)))
    contents = []
    for row in rows:
        written = io.BytesIO()
        fastavro.schemaless_writer(written, parsed, row)
        contents.append(written.getvalue())

    def value_at(row: Any, path: str) -> Any:
        for part in parts_of_path(path):
            if part.startswith("["):
                row = row[int(part[1:-1])] if row is not None and len(row) > int(part[1:-1]) else None
            else:
                row = None if row is None else row[part]
        return row

    avro = Avro(Layout("avro", fields, {"schema": str(schema_file)}), list(fields))
    table, dead = rows_of(avro, [MessageBatch.of([Message(at, value) for at, value in enumerate(contents)])])
    assert not dead and table.to_pylist() == [{path: value_at(row, path) for path in fields} for row in rows]


def test_a_record_without_end_is_a_dead_letter(schema_file: Any) -> None:
    """Whether the schema has no end, or the record has too many levels."""
    schema_file.write_text('{"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}')
    avro = Avro(Layout("avro", {"n": "int"}, {"schema": str(schema_file)}), ["n"])
    _, (letter,) = rows_of(avro, [MessageBatch.of([Message(0, b"ab")])])
    assert letter.reason == "more than 1,000 levels, at byte 0"
    chain = {"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}
    schema_file.write_text(json.dumps(chain))
    avro = Avro(Layout("avro", {"n": "int"}, {"schema": str(schema_file)}), ["n"])
    messages = [Message(0, b"\x02" * 900 + b"\0"), Message(1, b"\x02" * 1_100 + b"\0")]
    table, (letter,) = rows_of(avro, [MessageBatch.of(messages)])
    assert table.num_rows == 1 and (letter.offset, letter.reason[:22]) == (1, "more than 1,000 levels")
