"""Windows over fields of every type: keys, filters and aggregates give what DuckDB gives."""

from __future__ import annotations

import base64
import json
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.runtime.json_lines import json_lines
from springline.spark_jobs.streaming.sources.field_types import arrow_type
from springline.spark_jobs.streaming.sources.schema import Field
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.windows.query import read_query
from springline.spark_jobs.streaming.windows.sink.files import result_schema
from tests.support.decoding.windows_job import Job, csv, registry, stream

START = datetime(2023, 11, 14, 22, 0, tzinfo=UTC)
FIELDS = {
    "since": "timestamp", "price": "decimal(9, 2)", "rate": "decimal(6, 4)", "n": "int", "paid": "boolean",
    "day": "date", "created": "timestamp(ms)", "mark": "bytes", "tags[0]": "text",
}  # fmt: skip
STREAM = stream(fields=tuple(Field(*each) for each in FIELDS.items()), time="since", format="json")
QUERIES = [  # ours, and the same over a table
    "SELECT day, paid, count(*) AS n, sum(price) AS total, avg(price) AS mean, min(rate) AS a, max(rate) AS z FROM S "
    "GROUP BY day, paid",
    "SELECT price, mark, count(mark) AS marks, min(created) AS first, max(day) AS last, min(day) AS b FROM S "
    "GROUP BY price, mark",
    "SELECT CAST(created AS DATE) AS d, sum(price * rate) AS taxes, sum(price * n) AS worth FROM S "
    "WHERE paid AND price > 9.99 GROUP BY CAST(created AS DATE) HAVING sum(price) > 20",
    "SELECT tag AS tag, count(DISTINCT day) AS days, count(DISTINCT price) AS prices, count(DISTINCT mark) AS marks, "
    "count(DISTINCT created) AS times, count(DISTINCT paid) AS k, count(paid) AS p, max(since) AS newest FROM S "
    "GROUP BY tag",
    "SELECT created, max(CASE WHEN paid THEN price ELSE n END) AS most FROM S WHERE day >= '2013-01-02' "
    "AND created < '2013-01-03' AND mark IS NOT NULL GROUP BY created",
    "SELECT sum(CAST(n AS DECIMAL(18, 0)) * 100000000000000000) AS huge FROM S",
]


def rows_of(chance: random.Random, count: int) -> list[dict[str, Any]]:
    """Rows with few different values, and nulls."""
    days = [date(2013, 1, 1), date(2013, 1, 2), date(1969, 12, 31), None]
    return [
        {
            "since": START + timedelta(seconds=chance.random() * 100, microseconds=1),
            "price": chance.choice([Decimal("12.50"), Decimal("-0.01"), Decimal("9.99"), Decimal("0.00"), None]),
            "rate": chance.choice([Decimal("0.1900"), Decimal("-1.0001"), None]),
            "n": chance.choice([3, -7, 1 << 40, None]),
            "paid": chance.choice([True, False, None]),
            "day": chance.choice(days),
            "created": chance.choice([START, datetime(2013, 1, 2, 23, 59, 59, 999000, UTC), None]),
            "mark": chance.choice([b"", b"\xff\0", b"x", None]),
            "tag": chance.choice(["a", "", None]),
        }
        for _ in range(count)
    ]


def written(row: dict[str, Any]) -> bytes:
    """A row as JSON; decimals as numbers with all digits."""
    created, mark, tag = row["created"], row["mark"], row["tag"]
    plain = {
        **{name: None if row[name] is None else str(row[name]) for name in ("since", "price", "rate", "day")},
        "n": row["n"], "paid": row["paid"], "created": None if created is None else round(created.timestamp() * 1000),
        "mark": None if mark is None else base64.b64encode(mark).decode(),
        "tags": [] if tag is None else [tag, "b"],
    }  # fmt: skip
    return json.dumps(plain).encode()


def texts(rows: list[dict[str, Any]]) -> list[str]:
    """Rows in one order; doubles and times as text."""
    return sorted(repr([_plain(value) for value in row.values()]) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return str(value if value.tzinfo else value.replace(tzinfo=UTC))
    return f"{value:.9g}" if isinstance(value, float | Decimal) else value


@pytest.mark.parametrize("sql", QUERIES)
def test_the_answer_is_that_of_a_database(sql: str) -> None:
    """In two partitions, over some rounds; what is emitted has the types that the catalog has."""
    rows = rows_of(random.Random(1), 400)
    ours = sql.replace("tag ", "tags[0] ", 1).replace("BY tag", "BY tags[0]")
    job = Job(registry({"q": f"{ours} WINDOWING 1 d"}, STREAM), mappers=2, reducers=2)
    values = [written(row) for row in rows]
    for first in range(0, len(values), 90):
        part = values[first : first + 90]
        job.round(part[0::2], part[1::2])
    job.finish()
    assert not job.dead
    kinds = {("tag" if name == "tags[0]" else name): arrow_type(kind) for name, kind in FIELDS.items()}
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register(
            "S", pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})
        )
        relation = database.sql(sql).to_arrow_table().to_pylist()
    emitted = [{name: row[name] for name in relation[0]} for row in job.rows("q")]
    if "huge" in sql:
        assert emitted == [{"huge": None}]  # more digits than a decimal has
    else:
        assert texts(emitted) == texts(relation)


def test_results_are_lines_that_another_job_can_read() -> None:
    """Each column as text or number of its type."""
    query = read_query(
        "q",
        "SELECT price, mark, paid, day, created, count(*) AS n FROM S GROUP BY price, mark, paid, day, created "
        "WINDOWING 1 d",
        {"S": STREAM},
    )
    row = {"price": Decimal("0.10"), "mark": b"\xff", "paid": True, "day": date(2013, 1, 2), "created": START, "n": 1}
    schema = pa.schema(list(result_schema(query))[3:])
    line = json_lines(pa.RecordBatch.from_pylist([row], schema=schema))
    assert msgspec.json.decode(line) == {
        "price": 0.1, "mark": "/w==", "paid": True, "day": "2013-01-02", "created": "2023-11-14T22:00:00+00:00", "n": 1,
    }  # fmt: skip
    assert b'"price":0.10,' in line
    fields = {"price": "decimal(9, 2)", "mark": "bytes", "paid": "boolean", "day": "date", "created": "timestamp"}
    of = stream(fields=tuple(Field(*each) for each in fields.items()), time="created", format="json")
    job = Job(
        registry(
            {"q": "SELECT price, mark, paid, day, count(*) AS n FROM S GROUP BY price, mark, paid, day WINDOWING 1 d"},
            of,
        )
    )
    job.round([line])
    job.finish()
    (read,) = job.rows("q")
    assert {name: read[name] for name in fields if name != "created"} == {
        n: v for n, v in row.items() if n in read and n != "n"
    }


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("sum(day)", "sum() needs a number, and day is date"),
        ("min(mark)", "min() needs a number, a date or a timestamp, and mark is bytes"),
        ("sum(paid)", "sum() needs a number, and paid is boolean"),
        ("max(tags[1])", "has no column"),
        ("count(mark || 'a')", "needs texts, and has bytes"),
        ("count(day = 5)", "compares date with int"),
        ("count(day = 'x')", "'x' is not a date, such as '2013-01-31'"),
        ("count(paid > 1)", "compares boolean with int"),
        ("sum(price // 2)", "takes no decimals; write floor(a / b)"),
        ("sum(rate * rate * rate * rate * rate)", "has 20 decimal places, 18 at most: CAST a factor AS DOUBLE"),
        ("sum(CAST(n AS DECIMAL(19, 2)))", "write DECIMAL(18, 2), of 18 digits at most"),
        ("count(CAST(mark AS TEXT))", "bytes cannot be cast to it"),
    ],
)
def test_what_a_type_does_not_have_is_refused(sql: str, reason: str) -> None:
    """When the query is registered."""
    with pytest.raises(InvalidQueryError) as raised:
        read_query("q", f"SELECT {sql} AS v FROM S WINDOWING 1 d", {"S": STREAM})
    assert reason in str(raised.value)


def test_rows_whose_time_is_null_are_refused() -> None:
    """Others count."""
    of = stream(fields=(Field("time", "timestamp(ms)"), Field("n", "int")))
    job = Job(registry({"q": "SELECT count(*) AS n FROM S WINDOWING 60 s"}, of))
    job.round([csv((1_700_000_000_000, 1), (None, 2), (1_700_000_000_001.6, 3))])
    job.finish()
    assert [row["n"] for row in job.rows("q")] == [2]
    assert [letter.reason for letter in job.dead] == ["row 2: time is NULL"]
