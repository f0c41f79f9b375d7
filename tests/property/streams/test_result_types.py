"""Results of any type reach the catalog as they were emitted, through every change of a query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from springline.persistence.model.dataset import Dataset
from springline.persistence.platform import Platform
from springline.spark_jobs.streaming.runtime.encoding import encode_results
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.step import Output, State
from springline.spark_jobs.streaming.sources.field_types import arrow_type
from springline.spark_jobs.streaming.windows.job import WindowsJob
from springline.spark_jobs.streaming.windows.sink.parquet import ResultWriter, sink_stage
from springline.spark_jobs.streaming.windows.sink.query import query_results
from springline.testing.memory_log import MemoryLog
from tests.support.decoding.windows_job import stream
from tests.support.examples import examples

NUMBERS = count()
FLOATS = st.sampled_from([0.5, 1.0, 2.0**53, 1e22, -0.0, 5e-324, float("inf"), float("-inf")]) | st.floats()
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.sampled_from([0, 1, 2**53 + 1, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1),
    "float": FLOATS,
    "text": st.sampled_from(["", "1", "true", "Infinity", "NaN", "2013-01-01"])
    | st.text(st.characters(max_codepoint=0xFF)),
    "boolean": st.booleans(),
    "date": st.dates(),
    "bytes": st.binary(max_size=5),
    "decimal(18, 2)": st.decimals(-(10**15), 10**15, places=2),
    "decimal(18, 18)": st.decimals(-Decimal("0.9"), Decimal("0.9"), places=18),
    "timestamp": st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),
}


@st.composite
def emitted(draw: st.DrawFn, query: str) -> pa.RecordBatch:
    """Results of a version of a query: its columns have any types, and some have the names of other versions."""
    kinds = draw(
        st.dictionaries(st.sampled_from(["x", "X Y", "Incarnation"]), st.sampled_from(list(VALUES)), min_size=1)
    )
    rows = draw(st.integers(1, 3))
    columns = {
        name: pa.array(draw(st.lists(VALUES[kind] | st.none(), min_size=rows, max_size=rows)), arrow_type(kind))
        for name, kind in kinds.items()
    }
    batch = pa.record_batch({"query": [query] * rows, **columns})
    return batch.replace_schema_metadata({"query": query})


def texts(tables: Iterable[pa.Table]) -> Counter[Any]:
    """The rows, each value with its type; a number only equals one of the same type and sign, and NaN itself."""
    return Counter(
        repr([(name, str(table.schema.field(name).type), row[name]) for name in sorted(row)])
        for table in tables
        for row in table.to_pylist()
    )


def stored(platform: Platform, dataset: Dataset) -> Iterable[pa.Table]:
    """The files of a dataset."""
    report: Any = dataset.report
    with platform.store.read(dataset.ref.path) as reading:
        for query in report["queries"].values():
            for name in query["files"]:
                yield pq.read_table(f"{reading.uri.removeprefix('file://')}/{name}")


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.sampled_from("qr").flatmap(emitted), st.booleans()), min_size=1, max_size=6))
def test_results_are_stored_as_they_were_emitted_whatever_a_query_was_before(
    platform: Platform, versions: list[tuple[pa.RecordBatch, bool]]
) -> None:
    """In their own types, as a backfill has them; SQL has all rows, as text where the types of a column differ."""
    job = WindowsJob(f"job{next(NUMBERS)}", "rows", stream(), parallelism=1, sink="parquet")
    stage, emitting = sink_stage(job), Stage("reduce", "step", "source", job=job.name, results=job.results)
    log = MemoryLog({job.results: 1, stage.rounds: 1, stage.reports: 1})
    writer = ResultWriter(stage, platform, log)
    datasets: list[Dataset] = []
    for number, (batch, is_written) in enumerate(versions, 1):
        for record in encode_results(emitting, 0, (1, number), Output(State(), results=[batch])):
            log._append(record)
        datasets += writer.write_new_results() if is_written else []
    datasets += writer.write_new_results()
    tables = [pa.Table.from_batches([batch]) for batch, _ in versions]
    plain = [
        table if "Incarnation" in table.column_names else table.append_column("incarnation", pa.array([1] * len(table)))
        for table in tables
    ]
    assert texts(each for dataset in datasets for each in stored(platform, dataset)) == texts(plain)
    assert not writer.refused
    for query in {batch.schema.metadata[b"query"].decode() for batch, _ in versions}:
        mine = [table for table in plain if table.column("query")[0].as_py() == query and "x" in table.column_names]
        if not mine:
            continue
        answer = query_results(platform, job, f"SELECT x FROM {query} WHERE x IS NOT NULL")
        if len({table.schema.field("x").type for table in mine}) == 1:
            assert texts([answer]) == texts(table.select(["x"]).filter(table.column("x").is_valid()) for table in mine)
            continue
        with duckdb.connect() as database:
            database.execute("SET TimeZone = 'UTC'")
            expected: Counter[str] = Counter()
            for table in mine:
                database.register("mine", table)
                rows = database.sql("SELECT CAST(x AS VARCHAR) AS x FROM mine WHERE x IS NOT NULL")
                expected.update(rows.to_arrow_table().column("x").to_pylist())
        assert Counter(answer.column("x").to_pylist()) == expected
