"""Expressions drawn at random against DuckDB: refused in words as they are read, or worked out as DuckDB does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.errors import InvalidConditionError
from springline.spark_jobs.streaming.join.wire import JoinSide
from springline.spark_jobs.streaming.sources.schema import Field
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.windows.adhoc import AdHocPlanner, answer_from_states
from springline.spark_jobs.streaming.windows.query import read_query
from tests.support.decoding.drawn_sql import FLOATS, INTS, TEXTS, Drawn, Leaves, expressions, leaves
from tests.support.decoding.windows_job import Job, ipc, registry, stream
from tests.support.decoding.word_soup import soups
from tests.support.joins.join_tasks import JoinTasks

T = 1_700_000_040
LEFT = Relation("l", {"i": "int", "n": "int", "x": "float", "s": "text"})
RIGHT = Relation("r", {"j": "int", "m": "int", "y": "float", "t": "text"})
COLUMNS = leaves(n="int", m="int", x="float", y="float", s="text", t="text")
TYPES = {"n": pa.int64(), "m": pa.int64(), "x": pa.float64(), "y": pa.float64(), "s": pa.string(), "t": pa.string()}
FIELDS = (
    Field("time", "timestamp(s)"),
    *(Field(name, kind) for kind in COLUMNS for name in (e.ours for e in COLUMNS[kind])),
)
STREAM = stream(fields=FIELDS, format="arrow", adhoc_retention=3600.0)
OF = {"int": st.sampled_from(INTS), "float": st.sampled_from(FLOATS), "text": st.sampled_from(TEXTS)}
NO_TYPE = "has no type"  # of an expression in which nothing but NULL stands
FEW = st.sampled_from([0, 1, 2, None])
TAME = st.sampled_from([0.0, -0.0, 0.5, 2.5, -1.25, 3.0, None])  # of which every sum is exact


def rows_of(least: int, most: int) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    """Rows of n, m, x, y, s, t: m and y are few and tame values, the others whatever there is."""
    odd = {kind: st.one_of(st.none(), values) for kind, values in OF.items()}
    row = st.tuples(odd["int"], FEW, st.one_of(st.just(math.nan), odd["float"]), TAME, odd["text"], odd["text"])
    return st.lists(row, min_size=least, max_size=most)


def table_of(rows: Sequence[Sequence[Any]], names: Sequence[str] = tuple(TYPES)) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    kinds = [TYPES.get(name, pa.int64()) for name in names]
    return pa.table([pa.array(c, kind) for c, kind in zip(columns, kinds, strict=True)], list(names))


@lru_cache
def database() -> duckdb.DuckDBPyConnection:
    """One that works out nothing beforehand."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("PRAGMA disable_optimizer")
    return connection


def duckdb_rows(sql: str, **tables: pa.Table) -> list[tuple[Any, ...]]:
    """DuckDB's answer over tables, in which null stands for NaN."""
    for name, table in tables.items():
        floats = {field.name for field in table.schema if pa.types.is_floating(field.type)}
        columns = [f"nullif({n}, 'nan'::DOUBLE) AS {n}" if n in floats else n for n in table.column_names]
        database().register("source", table)
        database().execute(f"CREATE OR REPLACE TABLE {name} AS SELECT {', '.join(columns)} FROM source")
    return database().execute(sql).fetchall()


def plain(value: Any) -> Any:
    """-0.0 as 0.0, and doubles to as many digits as do not depend on the order of a sum."""
    return value if not isinstance(value, float) else "inf" if math.isinf(value) else float(f"{value:.12g}") + 0.0


def in_order(rows: Sequence[Sequence[Any]]) -> list[str]:
    return sorted(repr([plain(value) for value in row]) for row in rows)


@pytest.mark.fuzz
@settings(deadline=None)
@given(expressions(COLUMNS, ("int", "float", "text", "bool"), 4), rows_of(1, 12))
def test_an_expression_is_what_duckdb_says_in_windows_and_in_joins(drawn: Drawn, rows: list[tuple[Any, ...]]) -> None:
    """To the last bit, for each row; NaN is nowhere."""
    try:
        (key,) = read_query("q", f"SELECT {drawn.ours} AS k FROM S GROUP BY 1 WINDOWING 60 s", {"S": STREAM}).keys
    except InvalidQueryError as refused:
        assert "a constant cannot be a key" in str(refused)
        return
    table = table_of([[None if isinstance(v, float) and math.isnan(v) else v for v in row] for row in rows])
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    ours = key.values(columns, len(rows)).to_pylist()
    theirs = [row[0] for row in duckdb_rows(f"SELECT {drawn.theirs} FROM t", t=table)]
    assert ours == theirs and not any(isinstance(each, float) and math.isnan(each) for each in ours)
    join = Condition.of(LEFT, RIGHT, "l.i = r.j", [f"{drawn.ours} AS k"])
    sides = {f"{side}.{name}": columns[name] for side, names in (("l", "nxs"), ("r", "myt")) for name in names}
    assert join.outputs["k"].values(sides, len(rows)).to_pylist() == ours


QUERIES = (
    "SELECT {} AS k FROM S GROUP BY 1", "SELECT count(*) FROM S WHERE {}", "SELECT {} FROM S",
    "SELECT n FROM S GROUP BY n, {}", "SELECT n, count(*) FROM S GROUP BY n HAVING {}", "SELECT count({}) FROM S",
)  # fmt: skip


@pytest.mark.fuzz
@settings(deadline=None)
@given(soups(), st.sampled_from(QUERIES))
def test_whatever_words_stand_there_is_refused_in_words_or_can_be_worked_out(soup: str, query: str) -> None:
    """In queries, asked of a row, and in joins."""
    row = (1, 2, 0.5, 2.5, "a", "😀")
    try:
        of = registry({"q": f"{query.format(soup)} WINDOWING 60 s"}, STREAM)
    except InvalidQueryError:
        pass
    else:
        job = Job(of)
        job.round([ipc(pa.table([[T] * 2, *table_of([row, (None,) * 6]).columns], ["time", *TYPES]))])
        job.finish()
        assert job.dead == []
    try:
        condition = Condition.of(LEFT, RIGHT, f"l.i = r.j AND ({soup})", ["l.i"])
    except InvalidConditionError:
        return
    join_tasks = JoinTasks(condition)
    left, right = {"i": 1, "n": 1, "x": 0.5, "s": "a"}, {"j": 1, "m": 2, "y": 2.5, "t": "😀"}
    join_tasks.route([{JoinSide.LEFT: [left], JoinSide.RIGHT: [right]}])
    join_tasks.finish()


@st.composite
def aggregates(draw: st.DrawFn) -> Drawn:
    """One whose value does not depend on the order of rows, and the same for DuckDB."""
    name = draw(st.sampled_from(("rows", "count", "count(DISTINCT", "sum", "min", "max", "avg")))
    if name == "rows":
        return Drawn("count(*)", "count(*)", "int")
    if name.startswith("count"):
        of = draw(expressions(COLUMNS, ("int", "float", "text", "bool"), 2))
        form = f"{name} {{}})" if name.endswith("DISTINCT") else "count({})"
        return Drawn(form.format(of.ours), form.format(of.theirs), "int")
    if name in ("min", "max"):
        of = draw(expressions(COLUMNS, ("int", "float"), 2))
        return Drawn(f"{name}({of.ours})", f"{name}({of.theirs})", of.kind)
    if draw(st.booleans()):
        column = draw(st.sampled_from(("m", "y")))
        return Drawn(f"{name}({column})", f"{name}({column})", "float" if name == "avg" or column == "y" else "int")
    of = draw(expressions(COLUMNS, ("int",), 2))
    theirs = f"TRY_CAST(sum({of.theirs}) AS BIGINT)" if name == "sum" else f"avg({of.theirs})"
    return Drawn(f"{name}({of.ours})", theirs, "int" if name == "sum" else "float")


def over_groups(keys: Sequence[Drawn], totals: Sequence[Drawn]) -> Leaves:
    """What SELECT and HAVING may name; averages, which are rounded, stand by themselves."""
    leaves_by_kind: dict[Any, list[Drawn]] = {"int": [], "float": [], "text": [], "bool": []}
    for index, key in enumerate(keys):
        leaves_by_kind[key.kind].append(Drawn(key.ours, f"k{index}", key.kind))
    for index, total in enumerate(totals):
        if not total.ours.startswith("avg"):
            leaves_by_kind[total.kind].append(Drawn(total.ours, f"a{index}", total.kind))
    return leaves_by_kind


@pytest.mark.fuzz
@settings(deadline=None, max_examples=settings.default.max_examples // 4)  # each takes as long as several of the others
@given(st.data(), rows_of(0, 25))
def test_a_query_is_answered_as_duckdb_answers_it(data: st.DataObject, rows: list[tuple[Any, ...]]) -> None:
    """WHERE, GROUP BY, aggregates and HAVING, of one window, in two mappers and two reducers; then asked ad hoc."""
    keys = data.draw(st.lists(expressions(COLUMNS, ("int", "float", "text", "bool"), 2), max_size=2))
    totals = data.draw(st.lists(aggregates(), min_size=1, max_size=3))
    where = data.draw(expressions(COLUMNS, ("bool",), 2))
    leaves_by_kind = over_groups(keys, totals)
    more = data.draw(expressions(leaves_by_kind, ("int", "float", "text", "bool"), 2))
    having = data.draw(st.one_of(st.just(Drawn("TRUE", "TRUE", "bool")), expressions(leaves_by_kind, ("bool",), 2)))
    named = ", ".join(f"{each.ours} AS c{index}" for index, each in enumerate([*keys, *totals, more]))
    grouped = f"GROUP BY {', '.join(str(1 + index) for index in range(len(keys)))}" if keys else ""
    select = f"SELECT {named} FROM S WHERE {where.ours} {grouped}"
    try:
        of = registry({"q": f"{select} HAVING {having.ours} WINDOWING 60 s"}, STREAM)
    except InvalidQueryError as refused:
        assert NO_TYPE in str(refused) or "a constant cannot be a key" in str(refused)
        return
    job = Job(of, mappers=2, reducers=2)
    both = [pa.table([pa.array([T] * len(part), pa.int64()), *table_of(part).columns], ["time", *TYPES])
            for part in (rows[::2], rows[1::2])]  # fmt: skip
    job.round(*([ipc(part)] for part in both))
    states = [state for (stage, _), state in sorted(job.states.items()) if stage == "reduce"]
    ad_hoc = answer_from_states(AdHocPlanner(of).plan(select), states).rows.to_pylist()
    job.finish()
    numbered = "".join(f", {key.theirs} AS k{index}" for index, key in enumerate(keys))
    names = [f"k{index}" for index in range(len(keys))] + [f"a{index}" for index in range(len(totals))]
    inner = ", ".join([*names[: len(keys)], *(f"{total.theirs} AS a{index}" for index, total in enumerate(totals))])
    by = f"GROUP BY {', '.join(names[: len(keys)])}" if keys else "HAVING count(*) > 0"  # no rows, no window
    groups = f"(SELECT {inner} FROM (SELECT *{numbered} FROM t WHERE {where.theirs}) {by})"
    theirs = f"SELECT {', '.join(names)}, {more.theirs} FROM {groups}"
    assert job.dead == []
    assert in_order([list(row.values())[2:] for row in ad_hoc]) == in_order(duckdb_rows(theirs, t=table_of(rows)))
    assert in_order([list(row.values())[2:] for row in job.rows("q")]) == in_order(
        duckdb_rows(f"{theirs} WHERE {having.theirs}")
    )


KEYS = (
    "i = j", "i = j + 1", "j >= i", "abs(i - j) <= 1", "i BETWEEN j - 1 AND j + 2", "i - j = 1", "s = t", "x = y",
    "y < x", "abs(x - y) <= 0.5", "x - y = 0.0", "i = j AND s = t", "n = m AND x = y", "i + 1 = j - 1", "i < j",
)  # fmt: skip
of_left = st.lists(st.tuples(FEW, *(st.one_of(st.none(), OF[k]) for k in ("int", "float", "text"))), max_size=8)
of_right = st.lists(st.tuples(FEW, FEW, st.one_of(TAME, OF["float"]), OF["text"]), max_size=8)
EDGES = (0.0, -0.0, 5e-324, math.inf, -math.inf, None)


@pytest.mark.fuzz
@settings(deadline=None)
@example("x - y = 0.0", [], [(0, 0, x, "a") for x in EDGES], [(0, 0, y, "a") for y in EDGES])
@given(st.sampled_from(KEYS), st.lists(expressions(COLUMNS, ("bool",), 2), max_size=2), of_left, of_right)
def test_a_join_finds_the_pairs_that_duckdb_finds(
    key: str, more: list[Drawn], left: list[tuple[Any, ...]], right: list[tuple[Any, ...]]
) -> None:
    """Whatever is asked of rows and pairs beside what finds partners."""
    on = " AND ".join([key, *(each.ours for each in more)])
    try:
        condition = Condition.of(LEFT, RIGHT, on, ["i", "n", "x", "s", "j", "m", "y", "t"])
    except InvalidConditionError as refused:
        assert "no pair can match" in str(refused)
        return
    join_tasks = JoinTasks(condition)
    sides = [[dict(zip(of.fields, row, strict=True)) for row in rows] for of, rows in ((LEFT, left), (RIGHT, right))]
    join_tasks.route([{JoinSide.LEFT: sides[0], JoinSide.RIGHT: sides[1]}])
    join_tasks.finish()
    theirs = " AND ".join([key, *(each.theirs for each in more)])
    tables = {"l": table_of(left, list(LEFT.fields)), "r": table_of(right, list(RIGHT.fields))}
    pairs = duckdb_rows(f"SELECT l.*, r.* FROM l, r WHERE {theirs}", **tables)
    assert in_order(list(join_tasks.pairs.elements())) == in_order(pairs)
