"""A range of a stream equals the same windows of the stream itself, and DuckDB over its rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.windows.job import WindowsJob as DeclaredJob
from springline.spark_jobs.streaming.windows.sink.reprocess import EventTimeRange, reprocess_range
from springline.testing.memory_log import MemoryLog
from tests.property.streams.test_windows_against_duckdb import (
    ASKS,
    START,
    forms,
    hops,
    in_form,
    in_time,
    of_rows,
    oracle,
    plain,
    rows_of_a_unit,
    run,
)
from tests.support.decoding.windows_job import Job, registry, stream
from tests.support.examples import examples

BEGIN, END = 1_700_000_060, 1_700_000_220  # not at the ends of windows of 60 s
SPAN = EventTimeRange(in_time(BEGIN), in_time(END))
SINCE = datetime.fromtimestamp(BEGIN + 13, UTC).replace(tzinfo=None)
WINDOWS = {"HOP(60 s, 20 s)": "slid", "60 s": "tumbled", f"LANDMARK('{SINCE}', 20 s)": "since"}
many_rows = st.lists(rows_of_a_unit, min_size=4, max_size=6).map(lambda parts: [row for part in parts for row in part])
units_of_rows = st.lists(many_rows, min_size=1, max_size=3)  # enough for some to be in windows of the range


def declared(form: str, reducers: int, admitted: int) -> DeclaredJob:
    """The job S over the topic `rows`."""
    return DeclaredJob("job", "rows", stream(format=form), parallelism=reducers, max_messages_per_round=admitted)


def answered(job: DeclaredJob, queries: dict[str, str], form: str, units: list[list[Any]], size: int) -> dict[str, Any]:
    """The results of a range by query, over a log that holds the rows in messages of `size`."""
    log = MemoryLog({"rows": len(units)})
    for unit, rows in enumerate(units):
        for at in range(0, len(rows), size):
            log.put("rows", unit, in_form(form, rows[at : at + size]))
    rows_by_query: dict[str, list[Any]] = {name: [] for name in queries}

    def give(query: str, results: pa.RecordBatch) -> None:
        rows_by_query[query] += [
            [plain(value) for name, value in row.items() if name != "query"] for row in results.to_pylist()
        ]

    summary = reprocess_range(job, registry(queries, job.stream), log, SPAN, give, 0.0)
    assert summary.counts["rows"] == sum(map(len, units))
    return {name: sorted(map(repr, rows)) for name, rows in rows_by_query.items()}


def inside(rows: str) -> str:
    """Those of an oracle's windows that begin and end in the range, of its rows alone."""
    return f"(SELECT * FROM {rows} WHERE a >= {SPAN.begin} AND z <= {SPAN.end})"


@settings(max_examples=examples(40), deadline=None)
@given(
    st.data(), forms, units_of_rows, st.integers(1, 3), st.sampled_from([0.0, 5.0, 40.0]), st.integers(1, 4),
    st.integers(1, 12),
)  # fmt: skip
def test_a_range_has_the_windows_that_the_stream_emits(
    data: st.DataObject, form: str, units: list[list[Any]], reducers: int, late: float, admitted: int, size: int
) -> None:
    """Windows of time and landmarks, with late rows, however the messages are cut; and DuckDB computes the same."""
    queries = {
        f"{name}{i}": ask.sql(f"{window} LATE {late} s")
        for window, name in WINDOWS.items()
        for i, ask in enumerate(ASKS[1:3])
    }
    results = answered(declared(form, reducers, admitted), queries, form, units, size)
    job = Job(registry(queries, stream(format=form)), mappers=len(units), reducers=reducers)
    run(job, form, data, units)
    database = oracle(units)
    for name in queries:
        rows = [[plain(value) for value in row.values()] for row in job.rows(name)]
        assert results[name] == sorted(repr(row) for row in rows if row[0] >= SPAN.begin and row[1] <= SPAN.end)
    for name, width, size_ in (("slid", 20, 60), ("tumbled", 60, 60)):
        for i, ask in enumerate(ASKS[1:3]):
            expected = database.execute(ask.of(inside(hops(size_, width, width, late)))).fetchall()
            assert results[f"{name}{i}"] == sorted(repr([plain(value) for value in row]) for row in expected)


@settings(max_examples=examples(30), deadline=None)
@given(forms, units_of_rows, st.integers(1, 3), st.integers(1, 12))
def test_windows_of_rows_count_from_the_first_row_of_the_range(
    form: str, units: list[list[Any]], reducers: int, size: int
) -> None:
    """Rows before and after it are in none."""
    ask = ASKS[1]
    results = answered(declared(form, reducers, 3), {"q": ask.sql("ROWS(5, 2)")}, form, units, size)
    where = f"{ask.where} AND t >= {SPAN.begin} AND t < {SPAN.end}"
    expected = oracle(units).execute(ask.of(of_rows(5, 2, 0.0, where))).fetchall()
    assert results["q"] == sorted(repr([plain(value) for value in row]) for row in expected)


def test_no_row_is_an_answer_too() -> None:
    """Of a topic without messages, and of one whose rows all lie before."""
    queries = {"q": ASKS[1].sql("60 s")}
    assert answered(declared("csv", 2, 3), queries, "csv", [[], []], 3) == {"q": []}
    assert answered(declared("csv", 2, 3), queries, "csv", [[(START, "1", "a", 1, 1.0)], []], 3) == {"q": []}
