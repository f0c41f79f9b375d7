"""What a step emits depends on the rows alone: not on how messages were cut, or which other queries there are."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.windows.registry import QueryRegistry
from tests.property.streams.test_windows_against_duckdb import (
    ASKS,
    cut,
    forms,
    in_form,
    lates,
    messages_of,
    rows_of_a_unit,
    units_of_rows,
)
from tests.support.decoding.windows_job import Job, in_bytes, registry, stream
from tests.support.examples import examples

WINDOWS = ("60 s", "HOP(60 s, 20 s)", "20 s", "LANDMARK('2023-11-14 22:00:30', 60 s)", "60 s LATE 30 s")


@settings(max_examples=examples(40), deadline=None)
@given(st.data(), forms, rows_of_a_unit, st.integers(1, 3), lates)
def test_how_a_rounds_rows_are_cut_into_messages_does_not_show(
    data: st.DataObject, form: str, rows: list[Any], reducers: int, late: float
) -> None:
    """State, buffers, watermark and counts of a mapper's round are the same to the byte, dead letters in all."""
    queries = {f"q{i}": ask.sql(f"{window} LATE {late} s") for i, ask in enumerate(ASKS) for window in ("60 s",)}
    queries |= {f"r{i}": ask.sql(f"ROWS(5, 3) LATE {late} s") for i, ask in enumerate(ASKS[:2])}
    outputs = []
    for parts in ([[rows]] if rows else [[]], data.draw(cut(rows))):
        messages = [in_form(form, part) for round_ in parts for part in round_ if part]
        job = Job(registry(queries, stream(format=form)), reducers=reducers, placed=False)
        (output,) = job.map(messages)
        scalars, runs, buffers, results, watermark, _, counts = in_bytes(output)
        outputs.append((scalars, runs, buffers, results, watermark, counts))
    assert outputs[0] == outputs[1]


@settings(max_examples=examples(25), deadline=None)
@given(
    st.data(),
    units_of_rows,
    st.lists(
        st.tuples(st.sampled_from(range(len(ASKS))), st.sampled_from(WINDOWS)), min_size=2, max_size=12, unique=True
    ),
)
def test_a_query_among_others_gives_what_it_gives_alone(
    data: st.DataObject, units: list[list[Any]], drawn_queries: list[tuple[int, str]]
) -> None:
    """Whatever work they share, now or once it is known how many values their keys have."""
    queries = {f"q{i}": ASKS[ask].sql(window) for i, (ask, window) in enumerate(drawn_queries)}
    rounds = [data.draw(cut(rows)) for rows in units]

    def run(of: QueryRegistry) -> Job:
        job = Job(of, mappers=len(units), reducers=2)
        for messages in messages_of("csv", rounds):
            job.round(*messages)
        job.finish()
        return job

    together = run(registry(queries))
    for name, sql in queries.items():
        alone = run(registry({name: sql}))
        assert sorted(map(repr, together.rows(name))) == sorted(map(repr, alone.rows(name)))
        assert together.counts[f"late.{name}"] == alone.counts[f"late.{name}"]


@settings(max_examples=examples(25), deadline=None)
@given(st.data(), units_of_rows, st.sampled_from(WINDOWS), st.integers(1, 3), st.sampled_from([None, 3.0]))
def test_it_does_not_show_which_mapper_reads_which_partitions(
    data: st.DataObject, partitions: list[list[Any]], window: str, mappers: int, idle_timeout: float | None
) -> None:
    """One for each partition, or fewer that share them, or more of which some read none: windows, late rows, rows of
    windows of rows.
    """
    queries = {"times": ASKS[0].sql(window), "rows": ASKS[1].sql("ROWS(5, 3)")}
    rounds = [data.draw(cut(rows)) for rows in partitions]
    jobs = []
    for count in (len(partitions), mappers):
        settings_ = stream(idle_timeout=idle_timeout) if idle_timeout else stream()
        job = Job(registry(queries, settings_), mappers=count, reducers=2, partitions=len(partitions))
        for messages in messages_of("csv", rounds):
            job.round(*messages)
        job.finish()
        jobs.append(job)
    for name in queries:
        assert sorted(map(repr, jobs[0].rows(name))) == sorted(map(repr, jobs[1].rows(name)))
        assert jobs[0].counts[f"late.{name}"] == jobs[1].counts[f"late.{name}"]
