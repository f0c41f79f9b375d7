"""Ad hoc queries, answered from what reducers hold."""

import pytest

from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.windows.adhoc import AdHocPlanner, Answer, answer_from_states
from tests.support.decoding.windows_job import Job, csv, registry, stream

T = 1_700_000_040  # 2023-11-14 22:14:00
QUERIES = {
    "flows": "SELECT sip, kind, count(*), sum(bytes), count(DISTINCT load) FROM S GROUP BY sip, kind WINDOWING 60 s",
    "big": "SELECT kind, max(load) FROM S WHERE bytes > 1 GROUP BY kind WINDOWING HOP(60 s, 20 s)",
}


def job() -> Job:
    """Three minutes of rows, the last of them open."""
    windows_job = Job(registry(QUERIES, stream(adhoc_retention=3600.0)), reducers=2)
    for minute in range(3):
        rows = [
            (T + 60 * minute + i, sip, kind, i, i / 2) for i, (sip, kind) in enumerate(zip("xyxy", "aabb", strict=True))
        ]
        windows_job.round([csv(*rows)])
    return windows_job


def ask(sql: str, of: Job | None = None) -> Answer:
    of = of or job()
    return answer_from_states(
        AdHocPlanner(of.registry).plan(sql),
        [state for (stage, _), state in sorted(of.states.items()) if stage == "reduce"],
    )


def rows(answer: Answer) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values())[2:] for row in answer.rows.to_pylist())


def test_groups_are_added_up_over_all_that_is_held_and_over_units() -> None:
    """Also what is not closed yet; the bounds say which slices there are."""
    answer = ask("SELECT sip, count(*), sum(bytes), count(DISTINCT load) AS d FROM S GROUP BY sip")
    assert rows(answer) == [("x", 6, 6, 2), ("y", 6, 12, 2)]
    assert (answer.begin, answer.end) == (T * 10**6, (T + 180) * 10**6)
    assert answer.rows.column_names == ["window_start", "window_end", "sip", "count", "sum_bytes", "d"]


def test_conditions_may_be_on_keys_and_on_time() -> None:
    """Times are widened to whole slices."""
    sql = "SELECT sip, count(*) AS n FROM S WHERE kind = 'a' AND {} GROUP BY sip"
    for condition, n in (
        ("time >= '2023-11-14 22:15:00'", 2), ("time > '2023-11-14 22:14:59.999999'", 2),
        ("time < '2023-11-14 22:15:01'", 2), ("'2023-11-14 22:15' > time", 1), ("time <= '2023-11-14 22:15'", 2),
        ("time BETWEEN '2023-11-14 22:15:30' AND '2023-11-14 22:15:40'", 1), ("sip = 'x'", 3),
    ):  # fmt: skip
        assert {row[1] for row in rows(ask(sql.format(condition)))} == {n}, condition


def test_windows_may_be_asked_for() -> None:
    """Of a whole number of slices; windows of rows need more than slices."""
    answer = ask("SELECT count(*) AS n FROM S WINDOWING 120 s")
    assert [(row["window_start"].timestamp() - T, row["n"]) for row in answer.rows.to_pylist()] == [(0, 8), (120, 4)]
    with pytest.raises(InvalidQueryError, match="query 'ad hoc': ad hoc queries support no window"):
        ask("SELECT count(*) FROM S WINDOWING ROWS(5)")


def test_the_smallest_cube_that_serves_is_taken() -> None:
    """Here one with a filter, since the query has it too; HAVING and expressions are as in registered queries."""
    answer = ask("SELECT max(load) AS m FROM S WHERE bytes > 1 AND kind = 'b'")
    assert (answer.cube.queries, rows(answer)) == (("big",), [(1.5,)])
    assert rows(ask("SELECT sip, sum(bytes) / count(*) AS m FROM S GROUP BY sip HAVING sum(bytes) > 6")) == [("y", 2.0)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT kind, max(bytes) FROM S GROUP BY kind",
        "SELECT bytes, count(*) FROM S GROUP BY bytes",
        "SELECT kind, count(*) FROM S WHERE bytes > 2 GROUP BY kind",
        "SELECT kind, max(load) FROM S GROUP BY kind",
        "SELECT count(*) FROM S WINDOWING 30 s",
    ],
)
def test_what_slices_do_not_hold_is_refused_with_what_they_do(sql: str) -> None:
    """By its aggregates, keys, filter and width."""
    with pytest.raises(InvalidQueryError) as raised:
        ask(sql)
    assert "by sip, kind in slices of 60 s (for flows)" in str(raised.value)
    assert "by kind WHERE bytes > 1 in slices of 20 s (for big)" in str(raised.value)


def test_what_can_be_asked_is_said_before_anybody_tries() -> None:
    """And each of it is answered."""
    of = job()
    big, flows = AdHocPlanner(of.registry).askable()
    assert (flows.stream, flows.keys, flows.where) == ("S", ("sip", "kind"), "")
    assert (flows.seconds, flows.queries) == (60, ("flows",))
    assert set(flows.aggregates) == {"count(*)", "count(bytes)", "sum(bytes)", "avg(bytes)", "count(DISTINCT load)"}
    assert (big.keys, big.where, big.seconds) == (("kind",), "bytes > 1", 20)
    for each in (flows, big):
        where = f" WHERE {each.where}" if each.where else ""
        for aggregate in each.aggregates:
            for key in each.keys:
                sql = f"SELECT {key}, {aggregate} AS v FROM {each.stream}{where} GROUP BY {key}"
                assert rows(ask(f"{sql} WINDOWING {each.seconds:g} s", of)), sql


def test_an_answer_from_nothing_has_its_columns() -> None:
    """Nothing held yet, or nothing in the range."""
    empty = Job(registry(QUERIES))
    empty.round([])
    for answer in (
        ask("SELECT sip, count(*) AS n FROM S GROUP BY sip", empty),
        ask("SELECT sip, count(*) AS n FROM S WHERE time > '2030-01-01' GROUP BY sip"),
        ask("SELECT sip, count(*) AS n FROM S WHERE sip = 'nobody' GROUP BY sip"),
    ):
        assert answer.rows.column_names == ["window_start", "window_end", "sip", "n"]
        assert answer.rows.num_rows == 0


def test_slices_are_retained_as_long_as_the_stream_says() -> None:
    """And no longer."""
    for retain, n in ((0.0, 1), (60.0, 2), (3600.0, 6)):
        of = Job(registry({"q": "SELECT count(*) FROM S WINDOWING 60 s"}, stream(adhoc_retention=retain)))
        for minute in range(6):
            of.round([csv((T + 60 * minute, "x", "a", 1, 1))])
        assert rows(ask("SELECT count(*) FROM S", of)) == [(n,)]
