"""Expressions over decimals, dates, timestamps, booleans and bytes give what DuckDB gives."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import parse_one

from springline.spark_jobs.streaming.sources.field_types import arrow_type
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.sql.expressions import check_expression
from springline.spark_jobs.streaming.sql.operations import Scope
from springline.spark_jobs.streaming.sql.text import SqlText

COLUMNS = {
    "p": "decimal(18, 2)", "q": "decimal(18, 4)", "n": "int", "x": "float", "d": "date", "t": "timestamp",
    "b": "boolean", "y": "bytes",
}  # fmt: skip
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "p": st.decimals(-1_000, 1_000, places=2), "q": st.decimals(-100, 100, places=4), "n": st.integers(-50, 50),
    "x": st.integers(-400, 400).map(lambda eighths: eighths / 8),
    "d": st.dates(date(1960, 1, 1), date(2030, 1, 1)),
    "t": st.datetimes(datetime(1960, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),
    "b": st.booleans(), "y": st.binary(max_size=2),
}  # fmt: skip
DECIMALS = st.recursive(
    st.sampled_from(["p", "q", "p", "2.5", "-0.125", "9.", "CAST(n AS DECIMAL(9, 1))", "CAST(x AS DECIMAL(12, 2))"]),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-"), inner | st.sampled_from(["n", "3"])),
        st.builds("({} * {})".format, inner, st.sampled_from(["n", "2", "p"])),
        st.builds("{}({})".format, st.sampled_from(["-", "abs", "floor", "ceil", "round"]), inner),
        st.builds("round({}, {})".format, inner, st.integers(0, 6)),
        st.builds("coalesce({}, {})".format, inner, inner | st.just("n")),
        st.builds("CASE WHEN b THEN {} ELSE {} END".format, inner, inner | st.sampled_from(["n", "NULL"])),
        st.builds("CAST({} AS DECIMAL(12, {}))".format, inner, st.integers(0, 4)),
    ),
    max_leaves=4,
)
TIMES = st.sampled_from(
    ["t", "d", "CAST(t AS DATE)", "CAST(d AS TIMESTAMP)", "coalesce(d, t)", "CASE WHEN b THEN d ELSE t END", "NULL"]
)
COMPARED = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
CONDITIONS = st.one_of(
    st.builds("{} {} {}".format, DECIMALS, COMPARED, DECIMALS | st.sampled_from(["n", "x", "1.25", "7"])),
    st.builds("{} IN ({}, 2.5, n, NULL)".format, DECIMALS, DECIMALS),
    st.builds("{} BETWEEN {} AND {}".format, DECIMALS, DECIMALS, st.sampled_from(["n", "x", "10.5"])),
    st.builds("{} {} {}".format, TIMES, COMPARED, TIMES),
    st.builds("d {} '{}'".format, COMPARED, VALUES["d"]),
    st.builds("t {} '{:%Y-%m-%d %H:%M:%S.%f}'".format, COMPARED, VALUES["t"]),
    st.builds("t BETWEEN d AND '{:%Y-%m-%d}'".format, VALUES["d"]),
    st.builds("d IN ('{}', d, NULL)".format, VALUES["d"]),
    st.builds("b {} {}".format, COMPARED, st.sampled_from(["b", "TRUE", "(n > 0)", "NULL"])),
    st.builds("y {} y".format, COMPARED),
    st.sampled_from(["b AND n > 0", "NOT b OR d IS NULL", "b IS TRUE", "y IS NOT NULL", "coalesce(b, FALSE)"]),
)
OF_COLUMNS = DECIMALS.filter(lambda sql: "p" in sql or "q" in sql)  # a literal alone is a double
OTHERS = st.one_of(
    DECIMALS, TIMES.filter("NULL".__ne__), CONDITIONS,
    st.builds("{} + x".format, DECIMALS), st.builds("{} * x".format, DECIMALS), st.builds("{} / 4".format, DECIMALS),
    st.builds("CAST({} AS {})".format, OF_COLUMNS, st.sampled_from(["BIGINT", "DOUBLE", "TEXT"])),
    st.builds("{} % 0.75".format, DECIMALS), st.builds("coalesce({}, x)".format, DECIMALS),
    st.sampled_from(["CAST(b AS BIGINT) + n", "CASE d WHEN '1970-01-01' THEN p ELSE q END", "coalesce(y, NULL)"]),
)  # fmt: skip
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()}), min_size=1, max_size=8
)


@given(OTHERS, ROWS)
def test_an_expression_is_what_a_database_makes_of_it(sql: str, rows: list[dict[str, Any]]) -> None:
    """To the last digit; of what has more digits than are stored NULL, and of doubles nearly."""
    table = pa.table({name: pa.array([row[name] for row in rows], arrow_type(kind)) for name, kind in COLUMNS.items()})
    refusal = SqlText("", lambda message, line, column: InvalidQueryError("q", message))
    try:
        expression = check_expression(parse_one(sql, read="duckdb"), Scope(refusal, COLUMNS))
    except InvalidQueryError as error:
        assert "decimal places, 18 at most" in str(error) or "takes no decimals" in str(error)
        return
    columns = {name: table.column(name).combine_chunks() for name in COLUMNS}
    ours = expression.values(columns, len(rows))
    assert ours.type == arrow_type(expression.type)
    ours.validate(full=True)
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("rows", table)
        theirs = database.sql(f"SELECT {sql} FROM rows").to_arrow_table().column(0).to_pylist()
    assert len(ours) == len(theirs)
    for mine, other in zip(ours.to_pylist(), theirs, strict=True):
        if (isinstance(other, float) or isinstance(mine, float)) and None not in (mine, other):
            assert abs(float(mine) - float(other)) <= 1e-9 * max(1.0, abs(float(other))), (sql, mine, other)
        elif isinstance(other, datetime):
            assert mine == (other if other.tzinfo else other.replace(tzinfo=UTC)), (sql, mine, other)
        elif isinstance(other, Decimal) and mine is None:
            assert len(other.as_tuple().digits) > 18, (sql, other)
        else:
            assert mine == other, (sql, mine, other)
