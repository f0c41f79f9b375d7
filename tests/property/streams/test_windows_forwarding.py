"""Rows that mappers forward without aggregating them: results are those of partials, doubles to the last bit."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.windows import mapper
from springline.spark_jobs.streaming.windows.adhoc import AdHocPlanner, answer_from_states
from springline.spark_jobs.streaming.windows.aggregation import forwarded_rows, grouping, row_aggregation
from springline.spark_jobs.streaming.windows.state import reducer_state
from tests.property.streams.test_windows_against_duckdb import (
    ASKS,
    Ask,
    cut,
    forms,
    in_form,
    messages_of,
    units_of_rows,
)
from tests.property.streams.test_windows_bases import results
from tests.property.streams.test_windows_cuts import WINDOWS
from tests.support.decoding.windows_job import Job, in_bytes, registry, stream
from tests.support.examples import examples

FORWARDABLE = (
    Ask(
        "sip, kind, count(*) AS n, count(bytes) AS c, count(kind) AS ck, sum(bytes) AS s, min(bytes) AS lo, "
        "max(bytes) AS hi, avg(bytes) AS m, sum(load) AS ls, min(load) AS ll, max(load) AS lh, "
        "sum(CASE WHEN bytes > 2 THEN bytes * 2 ELSE 1 END) / count(*) AS e",
        "sip, kind",
    ),
    *ASKS[1:],
)
ALWAYS, NEVER = -1.0, math.inf


@contextmanager
def forwarding(above: float, *, row_batches: int = 64, dense: int = 1 << 24) -> Iterator[None]:
    """Mappers forward rows where there are more than so many partials per row, measured on any number of rows."""
    with (
        patch.object(mapper, "FORWARD_ABOVE", above),
        patch.object(grouping, "MIN_ROWS", 1),
        patch.object(forwarded_rows, "MIN_ROWS", 1),
        patch.object(forwarded_rows, "BUFFER_ROWS", 5),
        patch.object(reducer_state, "_MAX_ROW_BATCHES", row_batches),
        patch.object(row_aggregation, "_MAX_DENSE", dense),
    ):
        yield


def run(job: Job, rounds: list[list[list[list[Any]]]], above: list[float], form: str) -> None:
    """All rounds, each with a limit of its own above which rows are forwarded."""
    for number, messages in enumerate(messages_of(form, rounds)):
        with forwarding(above[number % len(above)]):
            job.map(*messages)
        job.reduce()
    job.finish()


def late_rows(job: Job) -> Counter[tuple[int | None, int]]:
    """How many dead letters of late rows there are of each message."""
    return Counter((letter.partition, letter.offset) for letter in job.dead if letter.reason.startswith("late"))


@settings(max_examples=examples(60), deadline=None)
@given(
    st.data(), forms, units_of_rows, st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from(FORWARDABLE), st.sampled_from(WINDOWS)), min_size=1, max_size=4, unique=True),
    st.lists(st.sampled_from([ALWAYS, NEVER, 0.5]), min_size=1, max_size=3), st.integers(1, 4),
    st.sampled_from([0, 1 << 24]),
)  # fmt: skip
def test_forwarded_rows_give_what_partials_give(
    data: st.DataObject,
    form: str,
    units: list[list[Any]],
    reducers: int,
    asked: list[tuple[Ask, str]],
    above: list[float],
    row_batches: int,
    dense: int,
) -> None:
    """Whether always, never, or in some rounds; however many batches wait in a reducer, and however it groups them."""
    queries = registry({f"q{i}": ask.sql(window) for i, (ask, window) in enumerate(asked)}, stream(format=form))
    rounds = [data.draw(cut(rows)) for rows in units]
    jobs = []
    for limits in (above, [NEVER]):
        job = Job(queries, mappers=len(units), reducers=reducers)
        with forwarding(0.0, row_batches=row_batches, dense=dense):
            run(job, rounds, limits, form)
        jobs.append(job)
    assert results(jobs[0]) == results(jobs[1])
    assert late_rows(jobs[0]) == late_rows(jobs[1])
    for name in ("rows", "late", "results", "windows"):
        assert jobs[0].counts[name] == jobs[1].counts[name]


@settings(max_examples=examples(30), deadline=None)
@given(st.data(), forms, units_of_rows, st.integers(1, 2))
def test_ad_hoc_queries_see_forwarded_rows(
    data: st.DataObject, form: str, units: list[list[Any]], reducers: int
) -> None:
    """At any moment, also before the reducer has aggregated them."""
    sql = f"SELECT {FORWARDABLE[0].select} FROM S GROUP BY sip, kind WINDOWING 60 s"
    queries = registry({"q": sql}, stream(format=form, adhoc_retention=3600.0))
    rounds = [data.draw(cut(rows)) for rows in units]
    plan = AdHocPlanner(queries).plan(
        "SELECT kind, count(*) AS n, sum(bytes) AS s, max(load) AS h FROM S GROUP BY kind"
    )
    answers = []
    for above in (ALWAYS, NEVER):
        job = Job(queries, mappers=len(units), reducers=reducers)
        with forwarding(above):
            for messages in messages_of(form, rounds):
                job.round(*messages)
        states = [state for (stage, _), state in sorted(job.states.items()) if stage == "reduce"]
        answers.append(sorted(map(repr, answer_from_states(plan, states).rows.to_pylist())))
    assert answers[0] == answers[1]


@settings(max_examples=examples(30), deadline=None)
@given(st.data(), forms, units_of_rows, st.integers(1, 3))
def test_how_forwarded_rows_are_cut_into_messages_does_not_show(
    data: st.DataObject, form: str, units: list[list[Any]], reducers: int
) -> None:
    """State and buffers of a mapper's round are the same to the byte."""
    rows = units[0]
    outputs = []
    for parts in ([[rows]] if rows else [[]], data.draw(cut(rows))):
        messages = [in_form(form, part) for round_ in parts for part in round_ if part]
        job = Job(registry({"q": FORWARDABLE[0].sql("60 s")}, stream(format=form)), reducers=reducers, placed=False)
        with forwarding(ALWAYS):
            (output,) = job.map(messages)
        scalars, runs, buffers, *_ = in_bytes(output)
        outputs.append((scalars, runs, buffers))
    assert outputs[0] == outputs[1]
