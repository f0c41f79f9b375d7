"""When mappers forward rows, and what reducers make of them."""

import json

import numpy as np
import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.runtime.step import Output
from springline.spark_jobs.streaming.windows.aggregation.row_aggregation import aggregate_rows, partials_of
from springline.spark_jobs.streaming.windows.aggregation.row_layout import RowLayout
from springline.spark_jobs.streaming.windows.multi_query import cubes_of
from tests.support.decoding.windows_job import Job, csv, registry, stream

T = 1_700_000_040
BY_SIP = "SELECT sip, count(*) AS n, sum(bytes) AS b FROM S GROUP BY sip WINDOWING 60 s"


def message(groups: int, *, rows: int = 2_000, second: float = 0) -> bytes:
    """Rows over so many groups."""
    return csv(*((T + second, f"s{i % groups}", "a", i % 7, 0.5) for i in range(rows)))


def forwarded(output: Output) -> list[bool]:
    """Of each buffer with rows or partials, whether it has rows."""
    batches = [batch for unit in sorted(output.buffers) for batch in output.buffers[unit] if batch.num_columns]
    return [RowLayout.of(batch) is not None for batch in batches]


def test_rows_are_forwarded_when_partials_were_hardly_fewer_and_no_longer_when_they_are() -> None:
    """By the round before; with fewer rows than can show it, the form stays."""
    job = Job(registry({"q": BY_SIP}))
    forms = []
    for groups, rows in ((1_500, 2_000), (1_500, 2_000), (1_500, 10), (3, 2_000), (3, 2_000)):
        (output,) = job.round([message(groups, rows=rows)])
        forms.append(forwarded(output))
    assert forms == [[False], [True], [True], [True], [False]]


def test_rows_are_aggregated_where_a_sketch_is_asked_for_or_where_queries_share_a_pass() -> None:
    """Whatever the ratio is."""
    for queries in (
        {"q": "SELECT sip, count(DISTINCT bytes) AS d FROM S GROUP BY sip WINDOWING 60 s"},
        {"q": BY_SIP, "p": BY_SIP.replace("60 s", "120 s")},
    ):
        job = Job(registry(queries))
        for _ in range(3):
            (output,) = job.round([message(1_500)])
            assert not any(forwarded(output))


def test_every_type_of_key_and_argument_comes_through() -> None:
    """Null, negative and wide numbers, both zeros, conditions, and texts that are all different or all the same."""
    sql = (
        "SELECT sip, kind, bytes, load, bytes > 2 AS more, count(*) AS n, count(kind) AS k, sum(bytes) AS s, "
        "min(load) AS l, count(bytes > 1) AS c FROM S GROUP BY sip, kind, bytes, load, bytes > 2 WINDOWING 60 s"
    )
    odd = [(None, None, None), ("a", 2**60, -0.0), ("a", -(2**60), 0.0), ("", -3, 1e300), ("é", 300, None)]
    jobs = [Job(registry({"q": sql}), reducers=2) for _ in range(2)]
    for aggregates, job in enumerate(jobs):
        for minute in range(2):
            rows = [(T + 60 * minute, f"s{i}", *odd[i % len(odd)]) for i in range(1_500)]
            (output,) = job.map([csv(*rows)])
            assert all(forwarded(output)) is (minute == 1 and not aggregates)
            if aggregates:  # the next round aggregates too
                state = job.states["map", 0]
                state.scalars["ratios"].clear()
            job.reduce()
        job.finish()
    assert sorted(map(repr, jobs[0].rows("q"))) == sorted(map(repr, jobs[1].rows("q")))
    assert len(jobs[0].rows("q")) == 2 * 1_500


def test_late_rows_that_were_forwarded_are_dead_letters_by_group() -> None:
    """Of slices that other units closed while this one was idle; the others of the same buffer count."""
    job = Job(registry({"q": BY_SIP}, stream(idle_timeout=10.0)), mappers=2)
    job.round([message(1_500)], [message(1_500)], clock=100)
    job.round([message(1_500, second=61)], [], clock=105)
    job.round([message(1_500, second=62)], [], clock=111)
    outputs = job.round([], [message(1_500), message(1_500, second=64)], clock=112)
    assert forwarded(outputs[1]) == [True]
    job.finish()
    (letter,) = job.dead
    assert (letter.partition, letter.offset, job.counts["late"]) == (1, 1, 2_000)
    assert sum(json.loads(line)["rows()"] for line in letter.value.splitlines()) == 2_000
    assert sum(row["n"] for row in job.rows("q")) == 5 * 2_000


def test_rows_of_a_cube_that_reducers_do_not_know_yet_are_kept() -> None:
    """The layout says what they are."""
    first = registry({"a": "SELECT kind, count(*) AS n FROM S GROUP BY kind WINDOWING 60 s"})
    both = first.register("q", BY_SIP)

    def run(lag: int) -> Job:
        job = Job(first)
        for number in range(8):
            job.registry = both if number >= 2 else first
            job.reduced_by = both if number >= 2 + lag else first
            job.round([message(1_500, second=20 * number)])
        job.finish()
        return job

    alike = sorted(map(repr, run(0).rows("q")))
    assert alike and sorted(map(repr, run(3).rows("q"))) == alike


def test_a_reducer_aggregates_rows_when_a_slice_closes_or_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then they are stored as they came."""

    def waiting(job: Job) -> int:
        runs = job.states["reduce", 0].runs
        return sum(run.num_rows for name, batches in runs.items() if name.endswith("-forwarded") for run in batches)

    job = Job(registry({"q": BY_SIP}))
    job.round([message(1_500)])
    for count in (1, 2):
        job.round([message(1_500, second=count)])
        assert waiting(job) == count * 2_000
    job.round([message(1_500, second=61)])
    assert waiting(job) == 0
    monkeypatch.setattr("springline.spark_jobs.streaming.windows.state.reducer_state._MAX_ROWS", 3_000)
    job.round([message(1_500, second=62)])
    assert waiting(job) == 2_000
    job.round([message(1_500, second=63)])
    assert waiting(job) == 0


def test_a_changed_layout_is_aggregated_apart() -> None:
    """A measure that was added is missing in the rows before."""
    job = Job(registry({"q": BY_SIP}))
    for _ in range(2):
        job.round([message(1_500)])
    job.follow(job.registry.register("p", BY_SIP.replace("sum(bytes) AS b", "max(load) AS h")))
    for second in (1, 61, 121, 181):
        (output,) = job.round([message(1_500, second=second)])
    assert all(forwarded(output))
    assert sum(row["n"] for row in job.rows("q")) == 5 * 2_000
    assert {row["h"] for row in job.rows("p")} == {0.5}


def layout() -> RowLayout:
    (cube,) = cubes_of(registry({"q": BY_SIP}).queries("S"), stream())
    return RowLayout(cube.keys, cube.measures)


def batch(slices: list[int], sips: pa.Array, values: list[int | None]) -> pa.RecordBatch:
    columns = [pa.array(slices).dictionary_encode(), sips, pa.array(values, pa.int8())]
    return pa.RecordBatch.from_arrays(columns, ["slice", "e0", "e1"], metadata={"rows": layout().encode(), "from": "x"})


def test_texts_are_one_group_in_whatever_form_they_come() -> None:
    """Plain or as a dictionary; null is a group of its own; slices come first."""
    plain = batch([60, 0, 60], pa.array(["a", "b", None]), [1, 2, 3])
    coded = batch([60, 60, 60], pa.array(["b", None, "a"]).dictionary_encode(), [4, None, 6])
    (partials,) = partials_of([plain, coded])
    assert partials.schema.metadata == {b"from": b"x"}
    rows = {
        (row["slice"], row["k0"]): (row["rows()"], row["sum(bytes)"], row["count(bytes)"])
        for row in partials.to_pylist()
    }
    assert rows == {(0, "b"): (1, 2, 1), (60, "a"): (2, 7, 2), (60, None): (2, 3, 1), (60, "b"): (1, 4, 1)}
    assert np.diff(np.asarray(partials.column("slice"))).min() >= 0


def test_groups_are_the_same_in_a_dense_table_in_one_of_hashes_and_in_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """By how many codes there might be."""
    generator = np.random.default_rng(0)
    sips = pa.array([f"s{i}" for i in generator.integers(0, 300, 5_000)])
    rows = batch(generator.integers(0, 5, 5_000).tolist(), sips, generator.integers(0, 100, 5_000).tolist())
    expected = aggregate_rows([rows])
    for dense, packed in ((0, 1 << 63), (0, 0)):
        monkeypatch.setattr("springline.spark_jobs.streaming.windows.aggregation.row_aggregation._MAX_DENSE", dense)
        monkeypatch.setattr("springline.spark_jobs.streaming.windows.aggregation.row_aggregation._PACKED", packed)
        assert aggregate_rows([rows]).equals(expected)
    assert expected.num_rows == len(
        set(zip(np.asarray(rows.column("slice").dictionary_decode()), sips.to_pylist(), strict=True))
    )
