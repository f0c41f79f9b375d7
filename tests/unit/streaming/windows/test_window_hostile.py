"""Hostile SQL: whatever a query's text holds, it is refused as a query, or is one that can be run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from springline.spark_jobs.streaming.sql.depth import MAX_CHAIN, MAX_DEPTH
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.windows.query import read_query
from tests.support.decoding.windows_job import Job, csv, registry, stream

STREAMS = {"S": stream(adhoc_retention=3600.0)}
SELECT, WINDOWING = "SELECT count(*) AS n FROM S", "WINDOWING 60 s"
WHERE = f"{SELECT} WHERE"
ELSEWHERE = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT count(*) AS n FROM '/etc/passwd'",
    'SELECT count(*) AS n FROM "/etc/passwd"',
    "SELECT count(*) AS n FROM S('/etc/passwd')",
    "SELECT count(*) AS n FROM main.S",
    "SELECT count(*) AS n FROM information_schema.tables",
    "SELECT count(*) AS n FROM S, read_text('/etc/passwd')",
    "SELECT count(*) AS n FROM S JOIN S AS t ON true",
    "SELECT count(*) AS n FROM S AS t",
    "SELECT count(*) AS n FROM S TABLESAMPLE 10%",
    "SELECT count(*) AS n FROM S UNION SELECT content FROM read_text('/etc/passwd')",
    "WITH x AS (SELECT 1) SELECT count(*) AS n FROM S",
    "SELECT max(read_text('/etc/passwd')) AS n FROM S",
    "SELECT getenv('HOME') AS n FROM S GROUP BY 1",
    "SELECT count(*) AS n INTO t FROM S",
    f"{WHERE} kind IN (SELECT content FROM read_text('/etc/passwd'))",
    f"{WHERE} (SELECT true)",
    f"{WHERE} EXISTS (SELECT 1)",
    f"{WHERE} kind LIKE (SELECT '%')",
    f"{WHERE} $1 = kind",
    f"{WHERE} ? = kind",
    "COPY S TO '/tmp/made'",
    "SET lock_configuration = false",
    f"{SELECT}; DROP TABLE S",
    f"{SELECT} -- \n; COPY S TO '/tmp/made'",
    "'; DROP TABLE generation; --",
    "",
]


@pytest.mark.parametrize("ad_hoc", [False, True])
@pytest.mark.parametrize("sql", ELSEWHERE)
def test_sql_asks_of_its_stream_and_of_nothing_else(sql: str, ad_hoc: bool) -> None:
    """No file, no other table, no statement but one SELECT, no function but those that are known."""
    with pytest.raises(InvalidQueryError, match=r"^query 'q'"):
        read_query("q", f"{sql} {'' if ad_hoc else WINDOWING}", STREAMS, ad_hoc=ad_hoc)


ODD = [
    f"{WHERE} kind = '\ud800'",
    f"{WHERE} kind = '\0'",
    'SELECT count(*) AS "a\nb" FROM S',
    'SELECT count(*) AS "\x1b[31m" FROM S',
    'SELECT count(*) AS "\u202en" FROM S',
    f'SELECT count(*) AS "{"n" * 5_000}" FROM S',
    f"{WHERE} bytes > {2**63}",
    f"{WHERE} bytes > {'9' * 5_000}",
    f"{WHERE} round(load, 99999999999999999999) > 1",
    f"{SELECT} GROUP BY 1e3",
    f"{SELECT} GROUP BY {'9' * 5_000}",
    f"{SELECT} GROUP BY 0",
]
ENDLESS = [
    f"{'9' * 400} s",
    f"ROWS({'9' * 5_000})",
    "HOP(1 s, 9e9 d)",
    "HOP(1 d, 1 s)",
    "ROWS(1000000, 1)",
    "0 s",
    "LANDMARK('x', 1 s)",
    "60 s; DROP TABLE S",
]


@pytest.mark.parametrize("sql", [*(f"{sql} {WINDOWING}" for sql in ODD), *(f"{SELECT} WINDOWING {w}" for w in ENDLESS)])
def test_what_could_not_be_run_or_emitted_is_refused_as_it_is_read(sql: str) -> None:
    """Not by the application, later, which would fail again whenever it is started; a window has both of its ends."""
    with pytest.raises(InvalidQueryError, match=r"^query 'q'") as raised:
        read_query("q", sql, STREAMS)
    assert len(str(raised.value)) < 300


NESTED: dict[str, Callable[[int], str]] = {
    "brackets": lambda n: f"{WHERE} {'(' * n}bytes > 1{')' * n}",
    "not": lambda n: f"{WHERE} {'NOT ' * n}bytes > 1",
    "signs": lambda n: f"{WHERE} bytes > {'- ' * n}1",
    "functions": lambda n: f"{WHERE} {'abs(' * n}bytes{')' * n} > 1",
    "cases": lambda n: f"{WHERE} {'CASE WHEN bytes > 1 THEN ' * n}true{' END' * n}",
    "selected": lambda n: f"SELECT {'abs(' * n}max(bytes){')' * n} AS n FROM S",
}
LONG: dict[str, Callable[[int], str]] = {
    "sum": lambda n: f"{WHERE} bytes > {'1 + ' * n}1",
    "and": lambda n: f"{WHERE} {'bytes > 1 AND ' * n}bytes > 1",
    "summed": lambda n: f"SELECT max(bytes){' + 1' * n} AS n FROM S",
    "negated": lambda n: f"{WHERE} {'NOT bytes = ' * n}bytes",
}


@pytest.mark.parametrize(
    ("form", "many"), [*product(NESTED, (MAX_DEPTH + 1, 9_000)), *product(LONG, (MAX_CHAIN + 1, 3_000))]
)
def test_what_is_nested_or_chained_longer_than_a_parser_can_go_is_refused(form: str, many: int) -> None:
    """In words, instead of Python's recursion limit: a chain of operations is worked out by going down into it."""
    with pytest.raises(InvalidQueryError, match="nested" if form in NESTED else "nested|follow from one another"):
        read_query("q", f"{({**NESTED, **LONG})[form](many)} {WINDOWING}", STREAMS)


def deeper(frames: int, call: Callable[[], Any]) -> Any:
    """What a call gives with so many frames above it."""
    return deeper(frames - 1, call) if frames else call()


@pytest.mark.parametrize("form", [*NESTED, *(form for form in LONG if form != "negated")])
def test_what_is_let_in_is_read_and_worked_out_wherever_it_is(form: str) -> None:
    """A third of the stack is in use already, and the query as deep as it may be."""
    many = MAX_DEPTH - 1 if form in NESTED else MAX_CHAIN - 5
    sql = f"{({**LONG, **NESTED})[form](many)} {WINDOWING}"

    def run() -> int:
        job = Job(registry({"q": sql}, STREAMS["S"]))
        job.round([csv((1_700_000_040, "x", "a", 2, 0.5))])
        return len(job.dead)

    assert deeper(sys.getrecursionlimit() // 3, run) == 0


def test_brackets_and_words_in_quotes_are_no_nesting() -> None:
    """Nor the beginning of the clause."""
    assert read_query("q", f"{WHERE} kind = '{'(' * 500}' {WINDOWING}", STREAMS).window is not None
    assert read_query("q", f"{WHERE} kind = 'windowing' OR sip = ')' {WINDOWING}", STREAMS).window is not None


@pytest.mark.parametrize("name", ["", "a b", "../a", "a/b", "a\0", "a\n", "<b>", "a'b", 'a"b', "\ud800", "a" * 101])
def test_a_querys_name_can_stand_anywhere(name: str) -> None:
    """In a path, a column, a header and a page."""
    with pytest.raises(InvalidQueryError, match="a name is of letters"):
        registry({name: f"{SELECT} {WINDOWING}"})
