"""What expressions give, beside DuckDB's rules, and which are refused: NULL, overflow, rounding, comments, names."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import parse_one

from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.errors import InvalidConditionError
from springline.spark_jobs.streaming.join.wire import JoinSide
from springline.spark_jobs.streaming.sources.schema import Field
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.sql.expressions import Expression, check_expression
from springline.spark_jobs.streaming.sql.operations import Scope
from springline.spark_jobs.streaming.sql.text import SqlText
from springline.spark_jobs.streaming.windows.query import read_query
from tests.support.decoding.windows_job import FIELDS, Job, registry, stream
from tests.support.joins.join_tasks import rows_of

LEAST, MOST = -(2**63), 2**63 - 1
SCOPE = Scope(
    SqlText("", lambda *arguments: InvalidQueryError("q", arguments[0])),
    {"n": "int", "x": "float", "s": "text", "time": "timestamp"},
)
ROW = {
    "n": pa.array([7, None]),
    "x": pa.array([2.5, None]),
    "s": pa.array(["aB", None]),
    "time": pa.array([0, None], pa.timestamp("us", tz="UTC")),
}
VALUES = [
    ("coalesce(NULL, n)", 7), ("coalesce(n, NULL)", 7), ("coalesce(s, NULL)", "aB"), ("coalesce(NULL, NULL)", None),
    ("length(NULL)", None), ("lower(NULL)", None), ("upper(NULL)", None), ("NULL || s", None), ("abs(NULL)", None),
    ("round(NULL)", None), ("round(NULL, 2)", None), ("floor(NULL)", None), ("ceil(NULL)", None), ("-NULL", None),
    ("NULL + n", None), ("x * NULL", None), ("NULL / NULL", None), ("n // NULL", None), ("NULL % n", None),
    ("NULL LIKE 'a'", None), ("NULL = NULL", None), ("NULL IS NULL", True), ("NULL IN (1)", None),
    ("n IN (NULL, 7)", True), ("n IN (NULL, 8)", None), ("n NOT IN (NULL, 8)", None), ("n IN (8, x)", False),
    ("n BETWEEN 8 AND NULL", False), ("NOT NULL", None), ("NULL AND n = 8", False), ("NULL OR n = 7", True),
    ("(n = 7) IS TRUE", True), ("(n = NULL) IS NOT TRUE", True), ("NULL IS FALSE", False), ("s IS UNKNOWN", False),
    ("CASE WHEN NULL THEN n ELSE NULL END", None), ("CASE n WHEN NULL THEN 1 ELSE x END", 2.5),
    ("CASE NULL WHEN NULL THEN 1 ELSE 2 END", 2), ("CAST(NULL AS BIGINT)", None), ("CAST(NULL AS TEXT) || 'a'", None),
    ("s NOT LIKE 'a%'", False), ("s NOT LIKE 'A%'", True), ("s LIKE '_B'", True), ("s LIKE 'a.'", False),
    (r"s || '\' LIKE 'aB\'", True), (r"'a\x' LIKE '%\%'", True), ("'a😀\n' LIKE 'a__'", True), ("'' LIKE '%'", True),
    ("round(0.5)", 1.0), ("round(x)", 3.0), ("round(-x)", -3.0), ("round(0.49999999999999994)", 0.0),
    ("round(2.675, 2)", 2.68), ("round(1e307, 2)", 1e307), ("round(1.7e308, 18)", 1.7e308), ("round(n, 2)", 7),
    ("5.0 % (1e308 * 10)", 5.0), ("1e17 % 3", 1.0), ("-7.5 % 2", -1.5), ("-n % 2", -1), ("n % 0", None),
    ("-n // 2", -3), ("-7.5 // 2", -3.0), ("n // 0", None), ("n / 0", None), ("x / 0.0", None), ("x % 0", None),
    (f"{MOST} + 1", None), (f"-{MOST} - 2", None), (f"{MOST} * 2", None), (f"{LEAST}", LEAST), (f"-({LEAST})", None),
    (f"abs({LEAST})", None), (f"{LEAST} // -1", None), (f"{LEAST} % -1", None), (f"{LEAST} * -1", None),
    ("3037000500 * 3037000500", None), ("3037000499 * 3037000499", 3037000499**2), (f"{MOST} * 1", MOST),
    ("4611686018427387904 * -2", LEAST), (f"({MOST} + 1) IS NULL", True), (f"coalesce({MOST} + n, 1)", 1),
    ("1e308 * 10 - 1e308 * 10", None), ("(1e308 * 10) * 0", None), ("1e308 * 10 > 1", True), ("5e-324 / 2", 0.0),
    ("CAST(x AS BIGINT)", 2), ("CAST(9.3e18 AS BIGINT)", None), ("CAST(-9223372036854775808.0 AS BIGINT)", LEAST),
    ("CAST(9223372036854775807.0 AS BIGINT)", None), ("CAST(n AS TEXT)", "7"), ("n::DOUBLE / 2", 3.5),
    ("length('a😀é')", 3), ("upper('straße')", "STRAẞE"), ("1_000 + n", 1007), ("true < false", False),
    ("n = 7 /* not 8 */", True), ("coalesce(time, '1970-01-01') = '1970-01-01'", True),
    ("CASE WHEN n = 7 THEN time ELSE '2020-01-01' END = '1970-01-01'", True),
    ("time IN ('1970-01-01', NULL)", True), ("time BETWEEN NULL AND '1969-01-01'", False),
    ("x IN (2.5, NULL)", True), ("0.0 * -1 IN (0.0, 1.0)", True), ("s IN ('', 'aB')", True),
]  # fmt: skip


def expression_of(sql: str) -> Expression:
    return check_expression(parse_one(sql, read="duckdb"), SCOPE)


@pytest.mark.parametrize(("sql", "expected"), VALUES)
def test_an_expression_gives_what_sql_says_and_null_where_there_is_no_value(sql: str, expected: Any) -> None:
    """Of the first row; the second, which is all nulls, raises nothing, and neither do no rows at all."""
    expression = expression_of(sql)
    first, _ = expression.values(ROW, 2).to_pylist()
    assert first == expected and type(first) is type(expected)
    assert not isinstance(first, float) or not math.isnan(first)
    assert len(expression.values({name: array.slice(0, 0) for name, array in ROW.items()}, 0)) == 0


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("n > x", [False, True]), ("n = x", [True, False]), ("n + x", [2.0**64, 5.5]), ("n / 2", [2.0**62, 1.5]),
        ("CAST(n AS DOUBLE)", [2.0**63, 3.0]), ("coalesce(n, x)", [2.0**63, 3.0]),
        ("CASE WHEN x > 3 THEN n ELSE x END", [2.0**63, 2.5]),
    ],
)  # fmt: skip
def test_whole_numbers_that_no_double_can_hold_may_stand_beside_doubles(sql: str, expected: list[Any]) -> None:
    """They are taken as the nearest double: no row makes an expression fail."""
    rows = {"n": pa.array([MOST, 3]), "x": pa.array([2.0**63, 2.5])}
    assert expression_of(sql).values(rows, 2).to_pylist() == pytest.approx(expected)


REFUSED = [
    ("n IN s", "takes a list in brackets"), ("n IN", "takes a list in brackets"), ("@", "something is missing"),
    ("n BETWEEN SYMMETRIC 1 AND 2", "SYMMETRIC is not supported"),
    ("round(x, 2, 1)", "TRUNCATE is not supported"), ("floor(x, 2)", "DECIMALS is not supported"),
    ("length(s, 'utf8')", "BINARY is not supported"), ("s IS x", "IS takes NULL, TRUE or FALSE"),
    ("s IS TRUE", "needs conditions, and has text"), ("s LIKE n", "needs texts, and has int"),
    ("s LIKE 'a' ESCAPE '!'", "is not supported"), ("s ILIKE 'a'", "is not supported"),
    ("x > 1e400", "1e400 is larger than any double"), (f"n > {2**63}", "does not fit 64 bits"),
    (f"n < -{2**63 + 1}", "does not fit 64 bits"), ("CAST(x AS TEXT)", "cannot be cast to it"),
    ("CAST(n AS INT FORMAT 'x')", "FORMAT is not supported"), ("time > '0001-01-01 00:00:00+14:00'", "is not a date"),
    ("coalesce(time, s)", "is not a date and time"), ("s LIKE '" + "_" * 70_000 + "'", "its pattern is too long"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "message"), REFUSED)
def test_what_could_only_be_run_in_part_is_refused_with_what_is_wrong(sql: str, message: str) -> None:
    """No part of an expression is passed over in silence."""
    with pytest.raises(InvalidQueryError) as raised:
        expression_of(sql)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT sum(bytes) FILTER (WHERE bytes > 1) FROM S", "write sum(CASE WHEN condition THEN value END)"),
        ("SELECT max(bytes, 2) FROM S", "supported are count, sum, min, max, avg of one value"),
        ("SELECT count(* EXCLUDE kind) FROM S", "supported are count, sum, min, max, avg of one value"),
        ("SELECT count(NULL) FROM S", "NULL has no type; write CAST(NULL AS BIGINT)"),
        ("SELECT count(DISTINCT NULL) FROM S", "NULL has no type; write CAST(NULL AS BIGINT)"),
        ("SELECT NULL AS x, count(*) FROM S", "NULL has no type; write CAST(NULL AS BIGINT)"),
    ],
)
def test_an_aggregate_is_refused_for_what_it_would_pass_over(sql: str, message: str) -> None:
    """And the error has the remedy."""
    with pytest.raises(InvalidQueryError) as raised:
        read_query("q", f"{sql} WINDOWING 60 s", {"S": stream()})
    assert message in str(raised.value)


def results(select: str, *rows: Any, of: Any = None) -> list[list[Any]]:
    """What a query gives for rows of one window; without its bounds."""
    of = of or stream()
    names = [field.name for field in of.fields]
    lines = [json.dumps(dict(zip(names, (1_700_000_040, *row), strict=True))) for row in rows]
    job = Job(registry({"q": f"SELECT {select} WINDOWING 60 s"}, replace(of, format="json")))
    job.round(["\n".join(lines).encode()])
    job.finish()
    assert job.dead == []
    return sorted(list(row.values())[2:] for row in job.rows("q"))


def test_comments_change_nothing_wherever_they_stand() -> None:
    """Neither what is grouped by, nor names of columns, nor which slices are shared."""
    plain = "SELECT kind, count(*), sum(bytes) FROM S WHERE bytes > 0 GROUP BY kind WINDOWING 60 s"
    commented_sql = (
        "/* a */ SELECT kind /* as it is */, count(*) -- (rows\n, sum(/* n */ bytes /* n */) FROM S -- WINDOWING\n"
        "WHERE /* c */ bytes /* c */ > 0 GROUP /* g */ BY /* k */ kind /* k */ WINDOWING /* w */ 60 s -- end"
    )
    one, other = (read_query("q", sql, {"S": stream()}) for sql in (plain, commented_sql))
    assert (one.where, one.keys) == (other.where, other.keys)
    assert (one.aggregates, one.columns) == (other.aggregates, other.columns)
    assert results("kind -- c\n, bytes + 1 /* d */ AS m FROM S GROUP BY kind, bytes /* e */ + 1", ("x", "a", 2, 1)) == [
        ["a", 3]
    ]
    noted_join = Condition.of(
        Relation("l", {"a": "int"}), Relation("r", {"b": "int"}), "l.a /* c */ = r.b -- d", ["l.a /* e */"]
    )
    assert noted_join.schema.names == ["a"]


def test_a_field_of_an_object_is_a_path() -> None:
    """Alone, after the stream's name, or in quotes; however deep; in results it has its whole name."""
    fields = (("time", "timestamp(s)"), ("user.id", "int"), ("a.b.c.d.e", "text"), ("_headers.kind", "text"))
    of = stream(fields=tuple(Field(*each) for each in fields), format="json")
    sql = (
        'SELECT user.id, S.a.b.c.d.e AS deep, sum("user.id" + S.user.id) AS n FROM S '
        "WHERE a.b.c.d.e > 'a' AND _headers.kind IS NULL GROUP BY user.id, a.b.c.d.e"
    )
    job = Job(registry({"q": f"{sql} WINDOWING 60 s"}, of))
    rows = [{"time": 1_700_000_040, "user": {"id": n}, "a": {"b": {"c": {"d": {"e": text}}}}} for n, text in
            ((3, "b"), (3, "b"), (4, "a"))]  # fmt: skip
    job.round(["\n".join(map(json.dumps, rows)).encode()])
    job.finish()
    (row,) = job.rows("q")
    assert (row["user.id"], row["deep"], row["n"]) == (3, "b", 12)
    with pytest.raises(InvalidQueryError, match=r"has no column 'user.name'"):
        read_query("q", "SELECT user.name, count(*) FROM S GROUP BY user.name WINDOWING 60 s", {"S": of})


def test_a_condition_that_is_null_lets_no_row_and_no_group_through() -> None:
    """In WHERE, HAVING and joins."""
    row = ("x", "a", 2, 0.5)
    assert results("count(*) AS n FROM S WHERE NULL", row) == []
    assert results("count(*) AS n FROM S HAVING NULL", row) == []
    assert results("count(*) AS n FROM S WHERE bytes > NULL OR bytes = 2", row) == [[1]]
    left = Relation("l", {"a": "int"})
    condition = Condition.of(left, Relation("r", {"b": "int"}), "l.a = r.b AND NULL AND l.a > 0", ["l.a"])
    assert condition.filter(JoinSide.LEFT, rows_of(left, [{"a": 1}])).tolist() == [False]


def test_a_column_may_be_called_as_an_expression_or_a_keyword() -> None:
    """What stands in quotes is a name and nothing else."""
    of = stream(fields=(*FIELDS, Field("bytes + 1", "int"), Field("select", "text"), Field("$k0", "int")))
    row = ("x", "a", 2, 0.5, 70, "s", 9)
    assert results('bytes + 1 AS a, "bytes + 1" AS b, count(*) FROM S GROUP BY 1, 2', row, of=of) == [[3, 70, 1]]
    assert results('"select", sum("bytes + 1"), sum(bytes + 1) AS c FROM S GROUP BY "select"', row, of=of) == [
        ["s", 70, 3]
    ]
    assert results('kind, "$k0" FROM S GROUP BY kind, "$k0"', row, of=of) == [["a", 9]]


def test_sums_that_do_not_fit_are_null_however_they_are_added_up() -> None:
    """And one that fits in the end is right, though it did not on the way; the average is of the whole sum."""

    def sums(*numbers: int) -> list[Any]:
        return results("sum(bytes) AS s, avg(bytes) AS m FROM S", *(("x", "a", n, 0) for n in numbers))[0]

    assert sums(MOST, MOST) == [None, pytest.approx(2.0**63)]
    assert sums(MOST, MOST, -MOST) == [MOST, pytest.approx(2.0**63 / 3)]
    assert sums(LEAST, LEAST, 5, 0) == [None, pytest.approx(-(2.0**62))]
    sliding = "SELECT sum(bytes) AS s, sum(load) AS f FROM S WINDOWING HOP(60 s, 20 s)"
    job = Job(registry({"q": sliding}, stream(format="json")), mappers=2)
    for n, load in ((MOST, 1e308), (MOST, 1e308), (LEAST, 0), (LEAST, -1e308), (3, 5)):
        row = {"sip": "x", "kind": "a", "bytes": n, "load": load * 10}
        job.round(*([json.dumps({"time": 1_700_000_040 + at, **row}).encode()] for at in (0, 30)))
    job.finish()
    assert [(row["s"], row["f"]) for row in job.rows("q")] == [(1, None), (2, None), (2, None), (1, None)]


def test_a_join_means_what_windows_mean() -> None:
    """What does not fit has no value where it stands: the condition around it is asked on."""
    left, right = Relation("l", {"a": "int", "x": "float"}), Relation("r", {"b": "int"})
    condition = Condition.of(left, right, f"l.a = r.b AND (l.a + {MOST} > 0 OR l.x IS NULL)", ["l.a + 1 AS m", "l.x"])
    rows = rows_of(left, [{"a": 1, "x": math.nan}, {"a": MOST, "x": 1.0}])
    assert condition.filter(JoinSide.LEFT, rows).tolist() == [True, False]
    with pytest.raises(InvalidConditionError, match="IN takes a list in brackets"):
        Condition.of(left, right, "l.a = r.b AND l.a IN r.b")
