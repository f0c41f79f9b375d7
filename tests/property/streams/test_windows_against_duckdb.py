"""Every window model and aggregate against DuckDB over the same rows, however the stream is cut."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.decoding.windows_job import Job, csv, ipc, registry, stream
from tests.support.examples import examples

START = 1_700_000_000
SELECT = (
    "sip, kind, count(*) AS n, count(bytes) AS c, sum(bytes) AS s, min(bytes) AS lo, max(bytes) AS hi, "
    "avg(bytes) AS m, sum(load) AS ls, min(load) AS ll, max(load) AS lh, count(DISTINCT bytes) AS d, "
    "count(DISTINCT kind) AS dk, sum(CASE WHEN bytes > 2 THEN bytes * 2 ELSE 1 END) / count(*) AS e"
)


@dataclass(frozen=True)
class Ask:
    """A query in parts, so that the oracle can be asked the same of rows that are put into windows already."""

    select: str
    group: str
    where: str = "true"
    having: str = "true"

    def sql(self, window: str) -> str:
        return (
            f"SELECT {self.select} FROM S WHERE {self.where} {f'GROUP BY {self.group}' if self.group else ''} "
            f"HAVING {self.having} WINDOWING {window}"
        )

    def of(self, rows: str) -> str:
        """For DuckDB: `rows` has the columns of S, and the bounds a and z of a window that each row is in."""
        keys = f", {self.group}" if self.group else ""
        return f"SELECT a, z, {self.select} FROM {rows} WHERE {self.where} GROUP BY a, z{keys} HAVING {self.having}"


ASKS = (
    Ask(SELECT, "sip, kind"),
    Ask("sip, sum(load) / count(*) AS x", "sip", "kind = 'a'"),
    Ask("kind, count(*) AS n", "kind", "bytes > 2 OR kind IN ('b', 'c')", "count(*) > 1"),
    Ask("count(*) AS n, avg(load) AS m", "", "sip LIKE '1%'"),
    Ask("lower(kind) || '!' AS k, bytes % 3 AS r, max(load) AS h", "lower(kind) || '!', bytes % 3"),
    Ask("load AS l, bytes > 2 AS more, count(*) AS n", "load, bytes > 2", "kind IS NOT NULL AND NOT kind = 'b'"),
)

rows_of_a_unit = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 300).map(lambda t: START + t), st.integers(0, 2400).map(lambda t: START + t / 8)),
        st.sampled_from(["10.0.0.1", "10.0.0.2", "1", "a longer key, quoted", 'with "quotes"', "é"]),
        st.sampled_from(["a", "b", "c", "", "B", None]),
        st.one_of(st.none(), st.integers(-3, 5)),
        st.one_of(st.none(), st.sampled_from([0.1, 0.2, 0.3, -1.5, 0.0, -0.0, 3.0])),
    ),
    max_size=40,
)


@st.composite
def cut(draw: st.DrawFn, rows: list[Any]) -> list[list[list[Any]]]:
    """Rounds of messages of rows."""
    rounds: list[list[list[Any]]] = [[]]
    left = list(rows)
    while left:
        size = draw(st.integers(1, 12))
        if draw(st.booleans()):
            rounds.append([])
        rounds[-1].append(left[:size])
        left = left[size:]
    return rounds


def in_form(form: str, rows: list[Any]) -> bytes:
    """Rows as one message."""
    names = ("time", "sip", "kind", "bytes", "load")
    if form == "json":
        return b"\n".join(json.dumps(dict(zip(names, row, strict=True))).encode() for row in rows)
    if form == "csv":
        quoted = [
            (row[0], f'"{row[1].replace(chr(34), 2 * chr(34))}"', '""' if row[2] == "" else row[2], *row[3:])
            for row in rows
        ]
        return csv(*quoted)
    types = (pa.float64(), pa.string(), pa.dictionary(pa.int8(), pa.string()), pa.int32(), pa.float64())
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), types, strict=True)]
    return ipc(pa.RecordBatch.from_arrays(columns, list(names)))


def oracle(units: list[list[Any]]) -> duckdb.DuckDBPyConnection:
    """A table `rows` with the rows of all units: `t` is the time in microseconds, `high` the greatest before it."""
    placed_rows = [(u, i, *row) for u, rows in enumerate(units) for i, row in enumerate(rows)]
    names = ["unit", "position", "time", "sip", "kind", "bytes", "load"]
    kinds = (pa.int64(), pa.int64(), pa.float64(), pa.string(), pa.string(), pa.int64(), pa.float64())
    columns = zip(*placed_rows, strict=True) if placed_rows else [()] * len(names)
    frame = pa.table([pa.array(c, kind) for c, kind in zip(columns, kinds, strict=True)], names)
    database = duckdb.connect(config={"threads": 1})
    database.register("placed_rows", frame)
    database.execute(
        "CREATE TABLE rows AS SELECT *, max(t) OVER (PARTITION BY unit ORDER BY position "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS high FROM "
        "(SELECT * EXCLUDE (time), round(time * 1000000)::BIGINT AS t FROM placed_rows)"
    )
    return database


def in_time(seconds: float) -> int:
    return round(seconds * 1_000_000)


def hops(size: float, slide: float, width: float, late: float) -> str:
    """The rows that are not late, once for each window that they are in."""
    size, slide, width, late = map(in_time, (size, slide, width, late))
    first = f"((t - {size}) // {slide} + 1) * {slide}"
    return (
        f"(SELECT *, UNNEST(range({first}, t + 1, {slide})) AS a, a + {size} AS z FROM rows "
        f"WHERE high IS NULL OR (t // {width} + 1) * {width} + {late} > high)"
    )


def landmark(since: float, width: float, late: float) -> str:
    """The rows that are not late, once for the end of each interval, up to the last, in which their group had rows."""
    since, width, late = map(in_time, (since, width, late))
    ends = (
        f"(SELECT sip AS s, ({since} + ((t - {since}) // {width} + 1) * {width}) AS z FROM rows WHERE t >= {since} AND "
    )
    ends += f"(high IS NULL OR {since} + ((t - {since}) // {width} + 1) * {width} + {late} > high) GROUP BY ALL)"
    return (
        f"(SELECT *, {since} AS a FROM rows JOIN {ends} ON s = sip AND t < z WHERE t >= {since} AND "
        f"(high IS NULL OR {since} + ((t - {since}) // {width} + 1) * {width} + {late} > high))"
    )


def of_rows(size: int, slide: int, late: float, where: str) -> str:
    """The rows that are not late, in their order, once for each window of rows that is full up to its slide."""
    numbered = (
        f"SELECT *, row_number() OVER (ORDER BY t, unit, position) - 1 AS r, count(*) OVER () AS n FROM rows "
        f"WHERE ({where}) AND (high IS NULL OR t + 1 + {in_time(late)} > high)"
    )
    windows = f"SELECT *, UNNEST(range((r // {slide} + 1) * {slide}, r + {size} + 1, {slide})) AS z FROM ({numbered})"
    return f"(SELECT *, greatest(z - {size}, 0) AS a FROM ({windows}) WHERE z <= n)"


def plain(value: Any) -> Any:
    """Times as microseconds; doubles to 12 digits, whole ones as whole numbers."""
    if isinstance(value, datetime):
        return round(value.timestamp() * 1_000_000)
    if isinstance(value, float):
        value = float(f"{value:.12g}")
        return int(value) if value.is_integer() else value
    return value


def same(job: Job, query: str, database: duckdb.DuckDBPyConnection, expected: str) -> None:
    """The results of a query are the rows that the oracle gives, each once."""
    ours = sorted(repr([plain(value) for value in row.values()]) for row in job.rows(query))
    theirs = sorted(repr([plain(value) for value in row]) for row in database.execute(expected).fetchall())
    assert ours == theirs


def messages_of(form: str, rounds_of_units: list[list[list[list[Any]]]]) -> Iterator[list[list[bytes]]]:
    """The messages of each unit, round by round; a unit whose rounds are over has none."""
    for messages_by_unit in zip_longest(*rounds_of_units, fillvalue=()):
        yield [[in_form(form, rows) for rows in messages] for messages in messages_by_unit]


def run(job: Job, form: str, data: st.DataObject, units: list[list[Any]]) -> None:
    """All rows, cut into rounds and messages at random."""
    for messages in messages_of(form, [data.draw(cut(rows)) for rows in units]):
        job.round(*messages)
    job.finish()


forms = st.sampled_from(["csv", "arrow", "json"])
lates = st.sampled_from([0.0, 5.0, 40.0])
units_of_rows = st.lists(rows_of_a_unit, min_size=1, max_size=3)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.data(), forms, units_of_rows, st.integers(1, 3), lates, st.sampled_from([(60, 60), (60, 20), (50, 20), (1, 1)])
)
def test_tumbling_and_sliding_windows_of_time_equal_the_oracle(
    data: st.DataObject, form: str, units: list[list[Any]], reducers: int, late: float, window: tuple[int, int]
) -> None:
    """Late and repeated rows, out of order, in several units; all queries in one job."""
    size, slide = window
    queries = {f"q{i}": ask.sql(f"HOP({size} s, {slide} s) LATE {late} s") for i, ask in enumerate(ASKS)}
    job = Job(registry(queries, stream(format=form)), mappers=len(units), reducers=reducers)
    run(job, form, data, units)
    database = oracle(units)
    for i, ask in enumerate(ASKS):
        same(job, f"q{i}", database, ask.of(hops(size, slide, math.gcd(size, slide), late)))


@settings(max_examples=examples(30), deadline=None)
@given(st.data(), forms, units_of_rows, st.integers(1, 3), lates, st.integers(-100, 200), st.sampled_from([7, 60]))
def test_landmark_windows_equal_the_oracle(
    data: st.DataObject, form: str, units: list[list[Any]], reducers: int, late: float, since: int, width: int
) -> None:
    """Each group at the end of each interval in which it had rows."""
    begin = datetime.fromtimestamp(START + since, UTC).replace(tzinfo=None)
    ask = Ask("sip, count(*) AS n, sum(bytes) AS s, avg(load) AS m, count(DISTINCT kind) AS d", "sip")
    queries = {"q": ask.sql(f"LANDMARK('{begin}', {width} s) LATE {late} s")}
    job = Job(registry(queries, stream(format=form)), mappers=len(units), reducers=reducers)
    run(job, form, data, units)
    same(job, "q", oracle(units), ask.of(landmark(START + since, width, late)))


@settings(max_examples=examples(30), deadline=None)
@given(
    st.data(), forms, units_of_rows, st.integers(1, 3), lates,
    st.sampled_from([(4, 4), (6, 2), (5, 3), (1, 1), (3, 5)]), st.sampled_from(ASKS[:4]),
)  # fmt: skip
def test_windows_of_rows_equal_the_oracle(
    data: st.DataObject,
    form: str,
    units: list[list[Any]],
    reducers: int,
    late: float,
    window: tuple[int, int],
    ask: Ask,
) -> None:
    """The last n rows by (time, unit, place), counted after WHERE and over all groups."""
    job = Job(
        registry({"q": ask.sql(f"ROWS({window[0]}, {window[1]}) LATE {late} s")}, stream(format=form)),
        mappers=len(units),
        reducers=reducers,
    )
    run(job, form, data, units)
    same(job, "q", oracle(units), ask.of(of_rows(*window, late, ask.where)))


@settings(max_examples=examples(30), deadline=None)
@given(st.data(), forms, units_of_rows, lates)
def test_every_row_is_counted_once_or_is_late(
    data: st.DataObject, form: str, units: list[list[Any]], late: float
) -> None:
    """The sum of grouped counts over tumbling windows and the late rows make up the stream."""
    queries = {"q": f"SELECT sip, kind, count(*) AS n FROM S GROUP BY sip, kind WINDOWING 60 s LATE {late} s"}
    job = Job(registry(queries, stream(format=form)), mappers=len(units), reducers=2)
    run(job, form, data, units)
    counted = sum(row["n"] for row in job.rows("q"))
    assert counted + job.counts["late.q"] == sum(map(len, units)) == job.counts["rows"]
    assert job.counts["late.q"] == job.counts["late"]
