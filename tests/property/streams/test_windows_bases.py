"""Base cubes: what mappers send in the place of several cubes gives the same results as the cubes themselves."""

from __future__ import annotations

from fractions import Fraction
from typing import Any
from unittest.mock import patch

from hypothesis import example, given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.windows import mapper
from springline.spark_jobs.streaming.windows.adhoc import AdHocPlanner, answer_from_states
from springline.spark_jobs.streaming.windows.base_cubes import BaseCube, with_bases
from springline.spark_jobs.streaming.windows.multi_query import cubes_of
from springline.spark_jobs.streaming.windows.registry import QueryRegistry
from tests.property.streams.test_windows_against_duckdb import cut, messages_of, units_of_rows
from tests.support.decoding.windows_job import Job, registry, stream
from tests.support.examples import examples

KEYS = ("sip, kind", "kind")
WHERES = ("", "WHERE kind = 'a'", "WHERE bytes > 2", "WHERE sip LIKE '1%'", "WHERE load > 0 OR bytes IS NULL")
VALUES = ("count(*) AS n", "sum(load) AS s, max(bytes) AS h", "avg(bytes) AS m, count(DISTINCT bytes) AS d")
WINDOWS = ("20 s", "60 s", "HOP(60 s, 20 s)", "120 s", "LANDMARK('2023-11-14 22:00:40', 60 s)", "60 s LATE 30 s")

texts = st.tuples(
    st.sampled_from(KEYS), st.sampled_from(WHERES), st.sampled_from(VALUES), st.sampled_from(WINDOWS)
).map(lambda parts: f"SELECT {parts[0]}, {parts[2]} FROM S {parts[1]} GROUP BY {parts[0]} WINDOWING {parts[3]}")
changes = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 5), st.one_of(st.none(), texts)), max_size=6)


def run(
    first: QueryRegistry, of_rounds: list[QueryRegistry], lag: int, rounds: list[Any], gaps: list[int], reducers: int
) -> Job:
    """All rounds; stages learn of changes at different times, and a gap of the clock may make units idle."""
    job = Job(first, mappers=len(rounds), reducers=reducers)
    for number, messages in enumerate(messages_of("csv", rounds)):
        job.registry = of_rounds[min(max(number - max(-lag, 0), 0), len(of_rounds) - 1)]
        job.reduced_by = of_rounds[min(max(number - max(lag, 0), 0), len(of_rounds) - 1)]
        job.round(*messages, clock=job.clock + gaps[number % len(gaps)])
    job.follow(of_rounds[-1])
    job.finish()
    return job


def results(job: Job) -> list[str]:
    """Everything that the job emitted, in any order."""
    return sorted(repr(row) for batch in job.results for row in batch.to_pylist())


@settings(max_examples=examples(100), deadline=None)
@given(
    st.data(), units_of_rows, st.lists(texts, min_size=2, max_size=10, unique=True), changes, st.integers(-2, 2),
    st.lists(st.sampled_from([1, 1, 1, 15, 80]), min_size=1, max_size=4), st.integers(1, 3),
)  # fmt: skip
def test_bases_give_what_their_members_give(
    data: st.DataObject,
    units: list[list[Any]],
    sqls: list[str],
    changed: list[tuple[int, int, str | None]],
    lag: int,
    gaps: list[int],
    reducers: int,
) -> None:
    """With late rows, idle units, and queries that come, change and go while stages know different versions."""
    declared = stream(idle_timeout=10.0)
    first = registry({f"q{i}": sql for i, sql in enumerate(sqls)}, declared)
    rounds = [data.draw(cut(rows)) for rows in units]
    of_rounds = [first]
    for number in range(1, 13):
        current = of_rounds[-1]
        for _, query, sql in [each for each in changed if each[0] == number]:
            is_registered = any(each.name == f"q{query}" for each in current.registered)
            if sql is not None:
                current = current.put(f"q{query}", sql)
            elif is_registered:
                current = current.cancel(f"q{query}")
        of_rounds.append(current)
    job = run(first, of_rounds, lag, rounds, gaps, reducers)
    with patch.object(mapper, "with_bases", tuple):
        alike = run(first, of_rounds, lag, rounds, gaps, reducers)
    assert results(job) == results(alike)
    for name in {*job.counts, *alike.counts} - {"groups", "partials", "unregistered"}:
        assert job.counts[name] == alike.counts[name], name
    assert sorted(map(repr, job.dead)) == sorted(map(repr, alike.dead))


@settings(max_examples=examples(40), deadline=None)
@given(st.data(), units_of_rows, st.integers(1, 3))
def test_ad_hoc_queries_see_the_open_slices_of_bases(
    data: st.DataObject, units: list[list[Any]], reducers: int
) -> None:
    """They are rolled up for the answer alone."""
    sqls = {
        "a": "SELECT sip, kind, count(*) AS n, sum(bytes) AS b FROM S GROUP BY sip, kind WINDOWING 20 s",
        "b": "SELECT sip, kind, max(load) AS h FROM S WHERE bytes > 2 GROUP BY sip, kind WINDOWING 60 s",
    }
    queries = registry(sqls, stream(adhoc_retention=3600.0))
    rounds = [data.draw(cut(rows)) for rows in units]
    planner = AdHocPlanner(queries)
    plans = [
        planner.plan("SELECT sip, count(*) AS n, sum(bytes) AS b FROM S GROUP BY sip"),
        planner.plan("SELECT kind, max(load) AS h FROM S WHERE bytes > 2 GROUP BY kind"),
    ]
    answers = []
    for choose in (with_bases, tuple):
        job = Job(queries, mappers=len(units), reducers=reducers)
        with patch.object(mapper, "with_bases", choose):
            for messages in messages_of("csv", rounds):
                job.round(*messages)
        states = [state for (stage, _), state in sorted(job.states.items()) if stage == "reduce"]
        answers.append([sorted(map(repr, answer_from_states(plan, states).rows.to_pylist())) for plan in plans])
    assert answers[0] == answers[1]


THIRDS = [  # whose shares of partials are exactly as many as the combinations of filters
    f"SELECT kind, count(*) AS n FROM S {where} GROUP BY kind WINDOWING {seconds} s"
    for where, seconds in (
        ("", 20), ("", 60), ("", 120), ("WHERE kind = 'a'", 120), ("WHERE sip LIKE '1%'", 60),
    )
]  # fmt: skip


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(texts, min_size=1, max_size=14, unique=True))
@example(THIRDS)
def test_every_cube_is_sent_once_and_a_base_never_pays_less_than_its_members(sqls: list[str]) -> None:
    """Whichever queries there are: each cube is a member of one base or sent itself."""
    cubes = cubes_of(registry({f"q{i}": sql for i, sql in enumerate(sqls)}).queries("S"), stream())
    sent = with_bases(cubes)
    served = [member.id for cube in sent for member in (cube.members if isinstance(cube, BaseCube) else (cube,))]
    assert sorted(served) == [cube.id for cube in cubes]
    for base in sent:
        if isinstance(base, BaseCube):
            split = set(base.grouping_columns) - set(base.keys)
            combinations = 2 ** len(split) - all(member.where is not None for member in base.members)
            shares = sum(Fraction(base.width, member.width) for member in base.members)
            assert base.where is not None or combinations <= shares
            assert {(member.keys, member.lateness) for member in base.members} == {(base.keys, base.lateness)}
            assert all(member.width % base.width == 0 for member in base.members)
            assert all((member.phase - base.phase) % base.width == 0 for member in base.members)
