"""Nexmark's queries over bids, one record a message, as JSON and as Avro: DuckDB gives the same answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.sources.schema import Field
from tests.support.decoding.http_registry import framed, serving
from tests.support.decoding.windows_job import Job, registry, stream

FIELDS = tuple(Field(name, kind) for name, kind in {
    "auction": "int", "bidder": "int", "price": "int", "channel": "text", "date_time": "timestamp(ms)",
}.items())  # fmt: skip
SCHEMA = {
    "type": "record",
    "name": "Bid",
    "fields": [
        {"name": "auction", "type": "long"},
        {"name": "bidder", "type": "long"},
        {"name": "price", "type": "long"},
        {"name": "channel", "type": "string"},
        {"name": "url", "type": "string"},
        {"name": "date_time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "extra", "type": ["null", "string"]},
    ],
}
START, SECONDS = 1_788_000_000_000, 40  # a multiple of every window
QUERIES = {  # ours, and the same over a table; q5 without the choice of the greatest, which its reader makes
    "q1": (
        "SELECT auction, bidder, price * 0.908 AS euros, count(*) AS n FROM S GROUP BY auction, bidder, price * 0.908 "
        "WINDOWING 10 s",
        "SELECT auction, bidder, price * 0.908::DOUBLE AS euros, count(*) AS n, date_time // 10000 AS w FROM bids "
        "GROUP BY ALL",
    ),
    "q2": (
        "SELECT auction, price, count(*) AS n FROM S WHERE auction % 123 = 0 GROUP BY auction, price WINDOWING 10 s",
        "SELECT auction, price, count(*) AS n, date_time // 10000 AS w FROM bids WHERE auction % 123 = 0 GROUP BY ALL",
    ),
    "q5": (
        "SELECT auction, count(*) AS num FROM S GROUP BY auction WINDOWING HOP(10 s, 2 s)",
        "SELECT auction, count(*) AS num, date_time // 2000 - k AS w FROM bids, range(5) AS slides(k) GROUP BY ALL",
    ),
    "q7": (
        "SELECT max(price) AS price FROM S WINDOWING 10 s",
        "SELECT max(price) AS price, date_time // 10000 AS w FROM bids GROUP BY ALL",
    ),
    "q12": (
        "SELECT bidder, count(*) AS bid_count FROM S GROUP BY bidder WINDOWING 10 s",
        "SELECT bidder, count(*) AS bid_count, date_time // 10000 AS w FROM bids GROUP BY ALL",
    ),
}  # fmt: skip


def bids(count: int) -> pa.Table:
    """Bids in the order of time; some auctions and bidders are hot."""
    chance = np.random.default_rng(7)
    hot = chance.random(count) < 0.5
    return pa.table({
        "auction": np.where(hot, 1_230 + chance.integers(0, 3, count), 1_000 + chance.integers(0, 500, count)),
        "bidder": np.where(chance.random(count) < 0.7, 2_001, 2_000 + chance.integers(0, 300, count)),
        "price": (10 ** (chance.random(count) * 6) * 100).astype(np.int64),
        "channel": chance.choice(["Google", "Apple", "Baidu", 'a "quoted", one'], count),
        "url": np.char.add("https://www.nexmark.com/a?b=", chance.integers(0, 1 << 30, count).astype("U")),
        "date_time": START + np.sort(chance.integers(0, SECONDS * 1000, count)),
        "extra": [None if each else "x" * 80 for each in hot],
    })  # fmt: skip


@pytest.fixture(params=["json", "avro"])
def messages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[Any]]]:
    """The format, and what it makes of a row."""
    rows = bids(3_000).to_pylist()
    if request.param == "json":
        yield "json", [json.dumps(row).encode() for row in rows]
        return
    with serving() as schemas:
        monkeypatch.setenv("SPRINGLINE_SCHEMA_REGISTRY", schemas.url)
        schema_id = schemas.register(SCHEMA)
        yield "avro", [framed(schema_id, SCHEMA, row) for row in rows]


def test_the_answers_are_those_of_a_database(messages: tuple[str, list[bytes]]) -> None:
    """In two partitions, over some rounds."""
    row_format, values = messages
    of = stream(fields=FIELDS, time="date_time", format=row_format, lateness=1.0)
    job = Job(registry({name: ours for name, (ours, _) in QUERIES.items()}, of), mappers=2, reducers=2)
    for first in range(0, len(values), 700):
        part = values[first : first + 700]
        job.round(part[0::2], part[1::2])
    job.finish()
    assert not job.dead
    nexmark = bids(3_000)  # noqa: F841  (the queries name it)
    for name, (_, theirs) in QUERIES.items():
        relation = duckdb.sql(theirs.replace("FROM bids", "FROM nexmark"))
        expected = sorted(tuple(row[:-1]) for row in relation.fetchall())
        columns = relation.columns[:-1]
        assert sorted(tuple(row[column] for column in columns) for row in job.rows(name)) == expected, name
