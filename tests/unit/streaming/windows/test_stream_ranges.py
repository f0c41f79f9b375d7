"""Ranges of a stream as datasets: what is read, what cannot be used, and what an empty one holds."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from springline.persistence.model.dataset import Dataset, Origin
from springline.persistence.platform import Platform
from springline.spark_jobs.streaming.errors import InvalidRangeError
from springline.spark_jobs.streaming.runtime.encoding import encode_results
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.step import Output, State
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.windows.job import WindowsJob
from springline.spark_jobs.streaming.windows.sink.parquet import ResultWriter, sink_stage
from springline.spark_jobs.streaming.windows.sink.reprocess import EventTimeRange, registry_for_range, write_range
from springline.testing.memory_log import MemoryLog
from tests.support.decoding.windows_job import Job, csv, stream

DAY = EventTimeRange.of("2013-01-05", "2013-01-06")
NOON = 1_357_387_200  # of that day
SQL = {"kinds": "SELECT kind, count(*) AS n, avg(bytes) AS mean FROM S GROUP BY kind WINDOWING 1 h"}


def job(**settings: Any) -> WindowsJob:
    """Counts by the hour."""
    return WindowsJob("job", "rows", stream(**settings), SQL, max_messages_per_round=2)


def log_of(*values: bytes, units: int = 1) -> MemoryLog:
    """A topic whose first unit holds those messages."""
    log = MemoryLog({"rows": units})
    for value in values:
        log.put("rows", 0, value)
    return log


def rows_of(platform: Platform, dataset: Dataset, query: str) -> pa.Table:
    """The results of a query in a dataset."""
    report: Any = dataset.report
    with platform.store.read(dataset.ref.path) as reading:
        folder = reading.uri.removeprefix("file://")
        tables = [pq.read_table(f"{folder}/{name}") for name in report["queries"][query]["files"]]
    return pa.concat_tables(tables)


def write(platform: Platform, log: MemoryLog, of: WindowsJob, **more: Any) -> Dataset:
    """The range as a dataset."""
    return write_range(platform, of, registry_for_range(of, None, {}), log, DAY, **more)


def test_a_range_is_a_dataset_with_real_times_and_whole_numbers(platform: Platform) -> None:
    """In the under-store too when it counts; its report says what was read."""
    log = log_of(csv((NOON - 86_400, "1", "a", 9, 0.5), (NOON, "1", "a", 1, 0.5)), csv((NOON + 60, "1", "a", 4, 0.5)))
    dataset = write(platform, log, job())
    assert dataset.ref.path == "streams/job/ranges/2013-01-05T000000--2013-01-06T000000" and dataset.persisted
    table = rows_of(platform, dataset, "kinds")
    noon = datetime(2013, 1, 5, 12, tzinfo=UTC)
    assert table.to_pylist() == [
        {"query": "kinds", "window_start": noon, "window_end": noon.replace(hour=13), "kind": "a", "n": 2, "mean": 2.5}
    ]
    assert pa.types.is_timestamp(table.schema.field("window_start").type) and table.schema.field("n").type == "int64"
    report: Any = dataset.report
    assert (
        report["offsets"] == {"0": [0, 3]} and report["counts"]["rows"] == 3 and report["counts"]["dead_letters"] == 0
    )


def test_infinities_are_kept_apart_in_topic_catalog_and_backfill_alike(platform: Platform) -> None:
    """As keys and as values; NaN is null by definition, so it is one group with what is empty."""
    sql = {"q": "SELECT load, count(*) AS n, max(load) AS most FROM S GROUP BY load WINDOWING 1 h"}
    rows = csv(*((NOON, "1", "a", 1, load) for load in ("inf", "-inf", "nan", None, 0.5)))
    declared = WindowsJob("job", "rows", stream(), sql, sink="parquet")
    running = Job(declared.registry())
    running.round([rows])
    running.finish()
    sink, emitting = sink_stage(declared), Stage("reduce", "", "", job="job", results=declared.results)
    log = MemoryLog({"rows": 1, declared.results: 1, sink.rounds: 1, sink.reports: 1})
    log.put("rows", 0, rows)
    records = list(encode_results(emitting, 0, (1, 1), Output(State(), results=running.results)))
    for record in records:
        log._append(record)
    lines = [json.loads(line) for record in records for line in record.value.splitlines()]
    expected = {"Infinity": (1, "Infinity"), "-Infinity": (1, "-Infinity"), None: (2, None), 0.5: (1, 0.5)}
    assert {line["load"]: (line["n"], line["most"]) for line in lines} == expected and len(lines) == len(expected)
    (stored,) = ResultWriter(sink, platform, log).write_new_results()
    backfilled = write(platform, log, declared)
    (streamed, recomputed) = (rows_of(platform, dataset, "q").sort_by("load") for dataset in (stored, backfilled))
    assert streamed.drop_columns("incarnation") == recomputed and recomputed.num_rows == len(expected)


def test_what_cannot_be_used_is_counted_and_a_dead_letter_and_nothing_else_is_lost(platform: Platform) -> None:
    """With its offset, and why, as in the stream: what cannot be decoded, and rows that are far ahead of the clock."""
    good, ahead = csv((NOON, "1", "a", 1, 0.5)), csv((4_070_908_800, "1", "a", 1, 0.5))
    dataset = write(platform, log_of(good, b"\xff\xfe no row\n", good, ahead), job(max_future_skew=10.0))
    report: Any = dataset.report
    assert (report["counts"]["rows"], report["counts"]["dead_letters"]) == (2, 2)
    dead_letters = [(letter["unit"], letter["offset"], letter["reason"]) for letter in report["dead_letters"]]
    assert dead_letters == [
        (0, 2, "row 1: not UTF-8, at byte 0"),
        (0, 5, "row 1: time is more than 10 s ahead of the clock"),
    ]
    assert rows_of(platform, dataset, "kinds").column("n").to_pylist() == [2]


def test_a_range_without_results_has_the_columns_of_its_queries(platform: Platform) -> None:
    """So that whoever reads it finds the table."""
    dataset = write(platform, log_of(units=2), job())
    table = rows_of(platform, dataset, "kinds")
    assert dataset.rows == 0 and table.schema.names == ["query", "window_start", "window_end", "kind", "n", "mean"]


def test_a_retry_takes_what_its_failed_try_committed(platform: Platform) -> None:
    """Another DAG run makes a new generation."""
    log = log_of(csv((NOON, "1", "a", 1, 0.5)))
    first = write(platform, log, job(), origin=Origin("dag", "run", "answer"))
    assert write(platform, log, job(), origin=Origin("dag", "run", "answer")).ref == first.ref
    assert write(platform, log, job(), origin=Origin("dag", "other", "answer")).ref.generation == 2


def test_queries_that_are_given_are_answered_instead_of_the_jobs() -> None:
    """And one with an error in it is refused with its name."""
    other = "SELECT count(*) AS n FROM S WINDOWING 1 day"
    assert [query.name for query in registry_for_range(job(), None, {"all": other}).registered] == ["all"]
    assert [query.name for query in registry_for_range(job(), None, {}).registered] == ["kinds"]
    with pytest.raises(InvalidQueryError, match="worse"):
        registry_for_range(job(), None, {"worse": "SELECT nothing FROM S"})
    with pytest.raises(InvalidRangeError, match="no queries"):
        registry_for_range(WindowsJob("job", "rows", stream()), None, {})


@pytest.mark.parametrize(("begin", "end"), [("2013-01-06", "2013-01-05"), ("2013-01-05", "2013-01-05"), ("x", "y")])
def test_a_range_without_any_time_is_refused(begin: str, end: str) -> None:
    """With what was given."""
    with pytest.raises(InvalidRangeError, match=f"from '?{begin}'? to '?{end}"):
        EventTimeRange.of(begin, end)
