"""Fields from beside the value of a message: its key, headers, timestamp and place."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from springline.persistence.model.codec import to_json_value
from springline.spark_jobs.streaming.runtime.message import Headers, Message, MessageBatch
from springline.spark_jobs.streaming.runtime.step import Input, Round, State
from springline.spark_jobs.streaming.sources.decoder import rows_of
from springline.spark_jobs.streaming.sources.format import open_format
from springline.spark_jobs.streaming.sources.layout import Layout, fault_of_fields
from springline.spark_jobs.streaming.sources.schema import Field
from springline.spark_jobs.streaming.windows.mapper import Mapper
from tests.support.decoding.windows_job import csv, registry, stream

FIELDS: dict[str, str] = {
    "_key": "text", "word": "text", "_headers.n": "int", "_headers.trace": "text", "_partition": "int",
    "_offset": "int", "_timestamp": "timestamp",
}  # fmt: skip


def read(messages: Sequence[Message], names: Sequence[str] = tuple(FIELDS), topics: int = 1, **layout: Any) -> Any:
    """The rows and the reasons of dead letters of messages of CSV, each alone in a batch and all in one."""
    opened = open_format(Layout("csv", layout.pop("fields", FIELDS), **layout), names, topics)
    table, dead = rows_of(opened, [MessageBatch.of(messages)])
    apart, dead_alone = rows_of(opened, [MessageBatch.of([message]) for message in messages])
    assert table.to_pylist() == apart.to_pylist() and dead == dead_alone
    return table.to_pylist(), [(letter.offset, letter.reason) for letter in dead]


def at(seconds: float) -> datetime:
    """A time in seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC)


def test_every_row_of_a_message_has_what_is_beside_it() -> None:
    """NULL where a message has none of it; a message without rows has no part in it."""
    headers = Headers([("trace", b"old"), ("n", b"-7"), ("trace", b"new"), ("trace", None), ("\u00fc", b"")])
    messages = [
        Message(3, b"a\nb\n", 1.5, headers, b"k\xc3\xbc", partition=4),
        Message(5, b"", 2.0, partition=4),
        Message(9, b"c", 2.25, Headers([("trace", b"")]), b"", partition=4),
        Message(10, b"d", 3.0, partition=4),
    ]
    rows, dead = read(messages)
    first = {
        "_key": "k\u00fc", "_headers.n": -7, "_headers.trace": "new", "_partition": 4, "_offset": 3,
        "_timestamp": at(1.5),
    }  # fmt: skip
    nothing = dict.fromkeys(FIELDS) | {"_partition": 4}
    assert rows == [
        {**first, "word": "a"},
        {**first, "word": "b"},
        {**nothing, "word": "c", "_key": "", "_headers.trace": "", "_offset": 9, "_timestamp": at(2.25)},
        {**nothing, "word": "d", "_offset": 10, "_timestamp": at(3.0)},
    ]
    assert dead == []
    assert read(messages, ["_offset"], topics=2)[0] == [{"_offset": each} for each in (3, 3, 9, 10)]
    assert {row["_partition"] for row in read(messages, topics=2)[0]} == {2}


def test_what_is_not_of_its_type_is_a_dead_letter() -> None:
    """By its name; with the rows that the message has, as one."""
    messages = [
        Message(1, b"a\nb", key=b"\xff"),
        Message(2, b"c", headers=Headers([("n", b"seven")])),
        Message(3, b"d", key=b"k", headers=Headers([("n", b"7"), ("trace", b"\xfe")])),
        Message(4, b"e", key=b"k", headers=Headers([("n", str(1 << 63).encode())])),
        Message(5, b"f", key=b"k", headers=Headers([("n", b"8")])),
    ]
    rows, dead = read(messages)
    assert [row["word"] for row in rows] == ["f"]
    assert sorted(dead) == [
        (1, "2 rows, the first is row 1: _key is no text"),
        (2, "row 1: _headers.n is no int"),
        (3, "row 1: _headers.trace is no text"),
        (4, "row 1: _headers.n is no int"),
    ]
    assert [row["word"] for row in read(messages, ["word"])[0]] == ["a", "b", "c", "d", "e", "f"]


@pytest.mark.parametrize("damage", [b"", b"\x02", b"\x02\x0a", b"\xff" * 12, b"\x7f\x02n\x02", b"\x01"])
def test_headers_that_are_none_are_as_if_there_were_none(damage: bytes) -> None:
    """A producer has written other bytes than it says, up to the end of the data."""
    batch = MessageBatch.of([Message(1, b"a", key=b"k")])
    data = batch.data[: batch.header_starts[0]].tobytes() + damage
    odd = MessageBatch(
        0, np.frombuffer(data, np.uint8), batch.offsets, batch.timestamps, batch.starts, batch.lengths,
        batch.key_starts, batch.key_lengths, batch.header_starts,
    )  # fmt: skip
    table, dead = rows_of(open_format(Layout("csv", FIELDS), list(FIELDS)), [odd])
    assert table.column("_headers.n").to_pylist() == [None] and not dead


def test_a_timestamp_that_is_none_is_null_or_a_dead_letter() -> None:
    """A record may have none, and a producer may write any number."""
    fields = {"word": "text", "_timestamp": "timestamp"}
    messages = [Message(1, b"a", -0.001), Message(2, b"b", 0.25), Message(3, b"c", 1e14)]
    rows, dead = read(messages, ["_timestamp"], fields=fields)
    assert rows == [{"_timestamp": None}, {"_timestamp": at(0.25)}]
    assert dead == [(3, "row 1: _timestamp is no timestamp")]


def test_a_key_and_headers_have_any_type() -> None:
    """As text; bytes are as they are."""
    fields = {
        "_key": "bytes", "_headers.f": "float", "_headers.b": "boolean", "_headers.d": "date",
        "_headers.p": "decimal(4, 2)", "_headers.t": "timestamp(ms)", "word": "text",
    }  # fmt: skip
    contents = {"f": b"1e3", "b": b"true", "d": b"2013-01-31", "p": b"12.5", "t": b"1500"}
    messages = [
        Message(1, b"a", headers=Headers(list(contents.items())), key=b"\xff\0"),
        *(Message(2, b"b", headers=Headers([*contents.items(), (name, b"x")])) for name in contents),
        Message(3, b"c", headers=Headers([("f", b"nan")])),
    ]
    rows, dead = read(messages, list(fields), fields=fields)
    assert rows == [
        {"_key": b"\xff\0", "_headers.f": 1000.0, "_headers.b": True, "_headers.d": date(2013, 1, 31),
         "_headers.p": Decimal("12.50"), "_headers.t": at(1.5), "word": "a"},
        {**dict.fromkeys(fields), "word": "c"},
    ]  # fmt: skip
    assert sorted(dead) == sorted(
        (2, f"row 1: _headers.{name} is no {fields[f'_headers.{name}']}") for name in contents
    )


@pytest.mark.parametrize(("name", "kind"), [("_key", "int"), ("_offset", "text"), ("_timestamp", "text")])
def test_a_type_that_it_cannot_have_is_refused(name: str, kind: str) -> None:
    """When it is declared."""
    assert f"{name} is {kind!r}; write" in fault_of_fields([(name, kind)])


def test_windows_group_by_a_key_and_by_the_time_of_records() -> None:
    """Which lie beside the values."""
    fields = (("_key", "text"), ("n", "int"), ("_headers.kind", "text"), ("_timestamp", "timestamp"))
    of = stream(fields=tuple(Field(*each) for each in fields), time="_timestamp", min_event_time=0.0)
    sql = "SELECT _key, _headers.kind AS kind, sum(n) AS total FROM S GROUP BY _key, _headers.kind WINDOWING 60 s"
    headers = Headers([("kind", b"x")])
    messages = [
        Message(0, csv((1,), (2,)), 30.0, headers, b"a"),
        Message(1, csv((5,)), 40.0, headers, b"b"),
        Message(2, csv((9,)), 90.0, headers, b"a"),
    ]
    versions = {"queries": to_json_value(registry({"q": sql}, of))}
    output = Mapper("S", 1)(State(), Input("map", 0, Round(1, 1, 0.0, versions), messages, {0: (0, 3)}))
    partials = [row for batch in output.buffers[0] if "slice" in batch.schema.names for row in batch.to_pylist()]
    groups = sorted((row["k0"], row["k1"], row["rows()"]) for row in partials)
    assert groups == [("a", "x", 1), ("a", "x", 2), ("b", "x", 1)]
    assert not output.dead_letters
