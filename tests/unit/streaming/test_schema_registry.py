"""Schemas are asked for once; what the registry does not have is a dead letter; an answer is waited for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from springline.services.process.ports import free_ports
from springline.spark_jobs.streaming.errors import SchemaUnavailableError
from springline.spark_jobs.streaming.runtime.message import Message, MessageBatch
from springline.spark_jobs.streaming.sources import record_format, schema_registry
from springline.spark_jobs.streaming.sources.decoder import rows_of
from springline.spark_jobs.streaming.sources.errors import InvalidFormatError
from springline.spark_jobs.streaming.sources.format import Format, open_format
from springline.spark_jobs.streaming.sources.layout import Layout
from springline.spark_jobs.streaming.sources.schema_registry import SchemaRegistry, UnknownSchemaError, schema_ids
from tests.support.decoding.http_registry import HttpRegistry, framed, serving

FIELDS = {"name": "text", "n": "int"}
OLD = {"type": "record", "name": "Row", "fields": [{"name": "n", "type": "int"}]}
NEW = {
    "type": "record",
    "name": "Row",
    "fields": [{"name": "more", "type": "string"}, {"name": "name", "type": "string"}, {"name": "n", "type": "long"}],
}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpRegistry]:
    """That of the settings."""
    with serving() as registry:
        monkeypatch.setenv("SPRINGLINE_SCHEMA_REGISTRY", registry.url)
        monkeypatch.setattr(schema_registry, "_PAUSES", (0.01,))
        yield registry


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who does not wait for an answer."""
    monkeypatch.setattr(schema_registry, "_PATIENCE_SECONDS", 0.05)


def opened() -> Format:
    """The format, for the fields."""
    return open_format(Layout("avro", FIELDS), FIELDS)


def read(row_format: Format, *values: bytes | None) -> tuple[list[Any], list[tuple[int, str]]]:
    """Rows and dead letters of messages."""
    messages = MessageBatch.of(
        [Message(3 * at, value or b"", is_null=value is None) for at, value in enumerate(values)]
    )
    table, dead = rows_of(row_format, [messages])
    return table.to_pylist(), [(letter.offset, letter.reason) for letter in dead]


def test_each_message_is_read_by_its_own_schema(registry: HttpRegistry) -> None:
    """Old and new ones side by side; each schema is asked for once."""
    old, new = registry.register(OLD), registry.register(NEW)
    row_format = opened()
    first, second = framed(old, OLD, {"n": -7}), framed(new, NEW, {"more": "x" * 200, "name": "a", "n": 1 << 40})
    rows = [{"name": None, "n": -7}, {"name": "a", "n": 1 << 40}]
    for _ in range(2):
        assert read(row_format, first, second, None, first) == ([*rows, rows[0]], [])
    assert read(opened(), second) == (rows[1:], [])
    assert [each.partition("?")[0] for each in registry.asked] == ["/schemas/ids/1", "/schemas/ids/2"]


def test_a_message_without_a_schema_that_is_there_is_a_dead_letter(registry: HttpRegistry) -> None:
    """In the order of messages, with those that their schema does not fit; their neighbours are read."""
    schema_id = registry.register(OLD)
    proto = registry.register('syntax = "proto3"; message A {}', kind="PROTOBUF")
    broken = registry.register({"type": "record", "name": "R"})
    good = framed(schema_id, OLD, {"n": 5})
    rows, dead = read(
        opened(), b"", good, b"\0\0\0", b"\1\0\0\0\1\2", good[:5], framed(99, OLD, {"n": 1}), good + b"\0",
        framed(proto, OLD, {"n": 1}), framed(broken, OLD, {"n": 1}), good,
    )  # fmt: skip
    assert rows == [{"name": None, "n": 5}] * 2
    none = "it does not begin with the id of a schema: a zero and four bytes"
    assert dead == [
        (0, none), (6, none), (9, none), (12, "the record ends inside a value, at byte 5"),
        (15, "schema 99: the registry has no such id"),
        (18, "the record has ended at byte 6, and more bytes follow"),
        (21, "schema 2: it is PROTOBUF, not AVRO"), (24, "schema 3: the record 'R' has no fields"),
    ]  # fmt: skip


def test_a_schema_that_is_registered_later_is_read_then(
    registry: HttpRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not asked for with every message meanwhile."""
    row_format, message = opened(), framed(1, OLD, {"n": 5})
    for _ in range(3):
        assert read(row_format, message, message)[1][1][1] == "schema 1: the registry has no such id"
    assert len(registry.asked) == 1
    registry.register(OLD)
    clock = record_format.time.monotonic()
    monkeypatch.setattr(record_format.time, "monotonic", lambda: clock + 10.1)
    assert read(row_format, message) == ([{"name": None, "n": 5}], [])


def test_a_schema_uses_others(registry: HttpRegistry) -> None:
    """Each is there before those that use it, also if it is used twice."""
    zone = {"type": "enum", "name": "Zone", "namespace": "places", "symbols": ["North", "South"]}
    place = {"type": "record", "name": "Place", "namespace": "places", "fields": [{"name": "zone", "type": "Zone"}]}
    row = {
        "type": "record",
        "name": "Row",
        "fields": [
            {"name": "at", "type": "places.Place"},
            {"name": "to", "type": ["null", "places.Zone"]},
            {"name": "n", "type": "int"},
        ],
    }
    uses_zone = {"name": "places.Zone", "subject": "zone", "version": 1}
    registry.register(zone, "zone")
    registry.register(place, "place", references=[uses_zone])
    schema_id = registry.register(
        row, references=[{"name": "places.Place", "subject": "place", "version": 1}, uses_zone]
    )
    row_format = open_format(Layout("avro", {"at.zone": "text", "to": "text", "n": "int"}), {"at.zone", "to", "n"})
    inline = {**row, "fields": [{"name": "at", "type": {**place, "fields": [{"name": "zone", "type": zone}]}}]}
    inline["fields"] += row["fields"][1:]  # type: ignore[operator]
    message = framed(schema_id, inline, {"at": {"zone": "South"}, "to": "North", "n": 3})
    assert read(row_format, message) == ([{"at.zone": "South", "to": "North", "n": 3}], [])
    lost = registry.register(row, references=[{"name": "places.Zone", "subject": "gone", "version": 4}])
    (letter,) = read(row_format, framed(lost, inline, {"at": {"zone": "South"}, "to": None, "n": 3}))[1]
    assert letter[1] == f"schema {lost}: it uses version 4 of gone, which the registry does not have"


def test_an_answer_is_waited_for(registry: HttpRegistry, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever comes instead of it; that is logged once."""
    schema_id = registry.register(OLD)
    other = json.dumps({"error_code": 404, "message": "HTTP 404"}).encode()  # a server, but no registry
    registry.answers = [(500, b"down"), (503, b""), (404, other), (404, b"<html>"), (200, b"<html>"), (200, b"[]")]
    assert read(opened(), framed(schema_id, OLD, {"n": 5})) == ([{"name": None, "n": 5}], [])
    (record,) = (each for each in caplog.records if each.name == schema_registry.logger.name)
    assert "500" in record.message and record.message.endswith("; waiting for it")


def test_a_schema_that_the_registry_refuses_is_no_reason_to_wait(registry: HttpRegistry) -> None:
    """Without a code of the protocol, from a server that is a registry all the same."""
    schema_id = registry.register(OLD)
    registry.answers = [(404, b'{"error_code": 0, "message": "no number"}')]
    message = framed(schema_id, OLD, {"n": 5})
    (letter,) = read(opened(), message)[1]
    assert "schema 1: the registry refuses it: no number" in letter[1]


@pytest.mark.usefixtures("impatient")
def test_a_registry_that_does_not_answer_is_no_fault_of_a_message(registry: HttpRegistry) -> None:
    """Nor is one that is no longer there."""
    schema_id = registry.register(OLD)
    row_format, message = opened(), framed(schema_id, OLD, {"n": 5})
    registry.answers = [(503, b"")] * 1_000
    with pytest.raises(SchemaUnavailableError, match=r"503.* SPRINGLINE_SCHEMA_REGISTRY_OPTIONS"):
        read(row_format, message)
    registry.answers = []
    assert read(row_format, message) == ([{"name": None, "n": 5}], [])
    away = SchemaRegistry(f"http://127.0.0.1:{free_ports()}")
    with pytest.raises(SchemaUnavailableError, match="refused"):
        away.schema(1)


def test_credentials_are_sent_and_not_shown(registry: HttpRegistry) -> None:
    """If they are refused, waiting does not help."""
    registry.answers = [(401, b'{"error_code": 40101, "message": "no"}')]
    options = {"basic.auth.user.info": "ann:hunter2"}
    with pytest.raises(SchemaUnavailableError, match="401") as refused:
        SchemaRegistry(registry.url.replace("//", "//bob:hunter2@"), {}).schema(1)
    assert "hunter2" not in str(refused.value) and len(registry.asked) == 1
    with pytest.raises(SchemaUnavailableError, match=r"basic\.auth\.user\.info") as refused:
        SchemaRegistry(registry.url, {"basic.auth.user.info": "hunter2"}).schema(1)
    assert "hunter2" not in str(refused.value)
    with pytest.raises(UnknownSchemaError):
        SchemaRegistry(registry.url, options).schema(1)


def test_an_address_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a scheme."""
    monkeypatch.setenv("SPRINGLINE_SCHEMA_REGISTRY", "")
    with pytest.raises(InvalidFormatError, match="set SPRINGLINE_SCHEMA_REGISTRY to the address"):
        opened()
    monkeypatch.setenv("SPRINGLINE_SCHEMA_REGISTRY", "127.0.0.1:8081")
    with pytest.raises(InvalidFormatError, match="write http://HOST:PORT"):
        opened()


def test_ids_are_read_from_the_first_bytes() -> None:
    """Of as many as there are."""
    values = [
        b"",
        b"\0",
        b"\0\1\2\3",
        b"\0\1\2\3\4",
        b"\0\x7f\xff\xff\xff",
        b"\0\x80\0\0\0",
        b"\1\0\0\0\1",
        b"\0\0\0\0\7x",
    ]
    batch = MessageBatch.of([Message(at, value) for at, value in enumerate(values)])
    assert schema_ids(batch).tolist() == [-1, -1, -1, 0x01020304, 0x7FFFFFFF, -1, -1, 7]
    assert schema_ids(batch[:1]).tolist() == [-1] and schema_ids(batch[:0]).tolist() == []
