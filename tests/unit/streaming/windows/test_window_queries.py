"""SQL to queries: what can be asked, what an error says, and the registry, which is a value with a version."""

import json
from collections.abc import Callable

import pytest

from springline.persistence.model.codec import from_json_value, to_json_value
from springline.persistence.model.toml_table import InvalidTableError, read_table
from springline.spark_jobs.streaming.sources.errors import InvalidStreamError
from springline.spark_jobs.streaming.sources.schema import Field, Stream, StreamKeys
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.sql.windowing import CountWindow, Hop, Landmark
from springline.spark_jobs.streaming.windows.errors import QueryExistsError, UnknownQueryError
from springline.spark_jobs.streaming.windows.query import read_query
from springline.spark_jobs.streaming.windows.registry import QueryRegistry
from tests.support.decoding.windows_job import stream

S = {"S": stream(lateness=2.0)}
SECOND = 1_000_000


def test_the_papers_query_is_understood() -> None:
    """Grouped by the stream's time, which is the beginning of the window in the results."""
    query = read_query("q", "SELECT sip, kind, time, count(*) FROM S GROUP BY sip, kind, time WINDOWING 60 s", S)
    assert query.window == Hop(60 * SECOND, 60 * SECOND)
    assert [key.sql for key in query.keys] == ["sip", "kind"]
    assert [(column.name, column.value.sql) for column in query.columns] == [
        ("sip", '"$k0"'), ("kind", '"$k1"'), ("time", "window_start"), ("count", '"$a0"'),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("clause", "window"),
    [
        ("60 s", Hop(60 * SECOND, 60 * SECOND)),
        ("60s", Hop(60 * SECOND, 60 * SECOND)),
        ("1.5 minutes", Hop(90 * SECOND, 90 * SECOND)),
        ("TUMBLE(250 ms)", Hop(250_000, 250_000)),
        ("TUMBLE(INTERVAL 1 HOUR)", Hop(3600 * SECOND, 3600 * SECOND)),
        ("TUMBLE(INTERVAL '1 day')", Hop(86400 * SECOND, 86400 * SECOND)),
        ("hop(60 s, 25 s)", Hop(60 * SECOND, 25 * SECOND)),
        ("LANDMARK('1970-01-01 00:01', 60 s)", Landmark(60 * SECOND, 60 * SECOND)),
        ("LANDMARK(TIMESTAMP '1970-01-02 01:00:00+01:00', 1 h)", Landmark(86400 * SECOND, 3600 * SECOND)),
        ("ROWS(100)", CountWindow(100, 100)),
        ("ROWS(100, 7)", CountWindow(100, 7)),
    ],
)
def test_every_window_model_has_its_clause(clause: str, window: object) -> None:
    """As `clause.py` lists them."""
    query = read_query("q", f"SELECT count(*) FROM S WINDOWING {clause}", S)
    assert query.window == window
    assert query.lateness == 2 * SECOND


def test_a_slice_is_the_longest_that_windows_are_a_whole_number_of() -> None:
    """gcd(size, slide); for a landmark its interval, from the landmark on."""
    assert Hop(60, 25).width == 5
    assert (Landmark(130, 60).width, Landmark(130, 60).phase) == (60, 10)
    assert CountWindow(100, 30).pane == 10


def test_a_query_says_how_late_rows_may_be() -> None:
    """Else the stream does."""
    assert read_query("q", "SELECT count(*) FROM S WINDOWING 60 s LATE 5 s", S).lateness == 5 * SECOND
    assert read_query("q", "SELECT count(*) FROM S WINDOWING 60 s LATE 0 s", S).lateness == 0


def test_keys_may_be_expressions_numbers_and_names_of_columns() -> None:
    """GROUP BY lower(kind), 2, m."""
    query = read_query(
        "q", "SELECT lower(kind), bytes % 2, load > 1 m, count(*) FROM S GROUP BY LOWER(kind), 2, m WINDOWING 1 s", S
    )
    assert [key.sql for key in query.keys] == ["LOWER(kind)", "bytes % 2", "load > 1"]


def test_columns_without_a_name_are_named_by_what_they_are() -> None:
    """And aggregates that occur twice are worked out once."""
    query = read_query(
        "q",
        'SELECT "sip", sum(bytes), sum(bytes) / count(*) AS m, count(DISTINCT kind) FROM S GROUP BY sip WINDOWING 1 s',
        S,
    )
    assert [column.name for column in query.columns] == ["sip", "sum_bytes", "m", "count_distinct_kind"]
    assert [aggregate.kind for aggregate in query.aggregates] == ["sum", "rows", "distinct"]


GROUPED = "FROM S GROUP BY sip WINDOWING 60 s"


@pytest.mark.parametrize(
    ("sql", "line", "column", "message"),
    [
        (f"SELECT sip,\n bytez {GROUPED}", 2, 2, "has no column 'bytez'; it has bytes, kind, load, sip, time"),
        (f"SELECT sip,\n sum(foo(bytes)) {GROUPED}", 2, 6, "'FOO(bytes)' is not supported"),
        (f"SELECT sip, median(bytes) {GROUPED}", 1, 13, "supported are count, sum, min, max, avg"),
        (f"SELECT sip, sum() {GROUPED}", 1, 17, "not SQL: something is missing, near ')'"),
        (f"SELECT sip, sum(kind) {GROUPED}", 1, 13, "sum() needs a number, and kind is text"),
        (f"SELECT sip, sum(DISTINCT bytes) {GROUPED}", 1, 13, "cannot be merged from slices"),
        (f"SELECT sip, count(DISTINCT bytes, kind) {GROUPED}", 1, 13, "takes one value"),
        (f"SELECT sip, sum(1 + count(*)) {GROUPED}", 1, 21, "an aggregate of an aggregate"),
        (f"SELECT sip, kind {GROUPED}", 1, 13, "kind is neither grouped by nor inside an aggregate"),
        (f"SELECT * {GROUPED}", 1, 8, "* cannot be selected"),
        (f"SELECT sip, count(*) AS query {GROUPED}", 1, 13, "query is a column that every result has"),
        (f"SELECT sip, sip {GROUPED}", 1, 13, "two columns are named sip"),
        (f'SELECT count(*) AS "N", sum(bytes) AS n {GROUPED}', 1, 25, "named N and n, the same but for case"),
        (f'SELECT count(*) AS "Query" {GROUPED}', 1, 8, "Query is a column that every result has"),
        (f"SELECT sip, kind + 1 {GROUPED}", 1, 13, "kind is neither grouped"),
        (f"SELECT sip || 1 AS x {GROUPED}", 1, 15, "needs texts, and has int"),
        (f"SELECT lower(count(*)) AS x {GROUPED}", 1, 8, "needs texts, and has int"),
        ("SELECT count(*) FROM S WHERE count(*) > 1 WINDOWING 1 s", 1, 30, "HAVING"),
        ("SELECT count(*) FROM S WHERE kind WINDOWING 1 s", 1, 30, "WHERE takes a condition"),
        ("SELECT count(*) FROM S WHERE kind > 3 WINDOWING 1 s", 1, 30, "compares int with text"),
        ("SELECT count(*) FROM S WHERE time > 'noon' WINDOWING 1 s", 1, 37, "'noon' is not a date and time"),
        ("SELECT count(*) FROM S WHERE kind LIKE sip WINDOWING 1 s", 1, 30, "LIKE takes a constant pattern"),
        ("SELECT count(*) FROM S WHERE NOT bytes WINDOWING 1 s", 1, 34, "needs conditions, and has int"),
        ("SELECT count(*) FROM S WHERE bytes::BLOB IS NULL WINDOWING 1 s", 1, 30, "cannot be cast to it"),
        ("SELECT count(*) FROM S WHERE CASE WHEN bytes THEN true END WINDOWING 1 s", 1, 40, "is not a condition"),
        ("SELECT count(*) FROM S WHERE round(load, bytes) > 1 WINDOWING 1 s", 1, 30, "a constant number of digits"),
        (f"SELECT sip, count(*) {GROUPED.replace('S ', 'T ')}", 1, 27, "there is no stream 'T'; there is S"),
        ("SELECT count(*) FROM (SELECT 1) WINDOWING 1 s", 1, 30, "FROM must name one stream: S"),
        ("SELECT count(*) FROM S ORDER BY 1 WINDOWING 1 s", 1, 8, "ORDER cannot be used here"),
        ("SELECT count(*) FROM S, S b WINDOWING 1 s", 1, 8, "JOINS cannot be used here"),
        ("SELECT kind FROM S GROUP BY 3 WINDOWING 1 s", 1, 29, "there is no column 3 in SELECT"),
        ("SELECT kind FROM S GROUP BY kind, NULL WINDOWING 1 s", None, None, "a constant cannot be a key"),
        ("SELECT count(*) FROM S GROUP BY time WINDOWING ROWS(5)", 1, 33, "a window of rows has no time"),
        ("SELECT sip, count(*) FROM S GROUP BY ROLLUP (sip) WINDOWING 1 s", 1, 46, "'ROLLUP (sip)' is not supported"),
        ("SELECT sip FROM S GROUP BY sip HAVING sum(bytes) WINDOWING 1 s", 1, 39, "HAVING takes a condition"),
        ("SELECT sip count(*) FROM S WINDOWING 1 s", 1, 17, "not SQL"),
        ("SELECT 'sip FROM S", None, None, "cannot be read"),
        ("DELETE FROM S WINDOWING 1 s", None, None, "write one SELECT"),
        ("SELECT count(*) FROM S; SELECT 1 WINDOWING 1 s", None, None, "write one SELECT"),
        ("SELECT count(*) FROM S", None, None, "it has no WINDOWING clause"),
        ("SELECT count(*) FROM S WINDOWING 60", 1, 34, "'60' is not a duration"),
        ("SELECT count(*) FROM S WINDOWING 6 lightyears", 1, 36, "is not a duration"),
        ("SELECT count(*) FROM S WINDOWING 0 s", 1, 36, "a duration must be positive"),
        ("SELECT count(*) FROM S WINDOWING HOP(60 s)", 1, 42, "expected ',' before ')'"),
        ("SELECT count(*) FROM S WINDOWING HOP(1 s, 2 s)", 1, 45, "windows with slide > size would skip rows"),
        ("SELECT count(*) FROM S WINDOWING LANDMARK('now', 1 s)", 1, 43, "'now' is not a date and time"),
        ("SELECT count(*) FROM S WINDOWING ROWS(1.5)", 1, 39, "'1.5' is not a number of rows"),
        ("SELECT count(*) FROM S\nWINDOWING ROWS(5", 2, 16, "the WINDOWING clause ends too soon"),
        ("SELECT count(*) FROM S WINDOWING 1 s WHERE kind = 'a'", 1, 38, "'WHERE' after the WINDOWING clause"),
    ],
)  # fmt: skip
def test_an_error_names_query_place_and_reason(sql: str, line: int | None, column: int | None, message: str) -> None:
    """Line and column count from 1."""
    with pytest.raises(InvalidQueryError) as raised:
        read_query("flows", sql, S)
    assert message in str(raised.value)
    assert str(raised.value).startswith("query 'flows'")
    assert (raised.value.line, raised.value.column) == (line, column)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"time": "when"}, "its time, 'when', is not one of its fields"),
        ({"fields": (Field("time", "float"),)}, "time, is float; declare it as timestamp for texts"),
        ({"fields": (Field("time", "timestamp(h)"),)}, "write boolean, int, float, decimal(12, 2), text,"),
        ({"format": "xml"}, "no installed package provides 'xml'"),
        ({"fields": (Field("time", "timestamp(s)"), Field("time", "timestamp(s)"))}, "time declared twice"),
        ({"fields": (Field("time", "decimal(19, 2)"),)}, "a decimal has 1 to 18 digits"),
        ({"format_options": {"delimiter": '"'}}, "cannot be a delimiter"),
        ({"lateness": -1.0}, "must not be negative"),
        ({"max_event_time": 0.0}, "max_event_time must be after min_event_time"),
    ],
)  # fmt: skip
def test_a_stream_that_contradicts_itself_is_refused(settings: dict[str, object], message: str) -> None:
    """And the error says how."""
    with pytest.raises(InvalidStreamError, match="stream 'S'") as raised:
        stream(**settings)
    assert message in str(raised.value)


def test_a_declared_stream_has_defaults() -> None:
    """Its time and its fields are required; a row may be a day ahead of the clock."""
    keys = {"time": "time", "fields": [[field.name, field.type] for field in stream().fields]}
    assert Stream.from_keys("S", read_table(StreamKeys, keys, "here")) == stream(max_future_skew=86_400.0)
    for wrong, message in (
        ({**keys, "lateless": 1}, "unknown key lateless"),
        ({"fields": []}, "the key time is missing"),
    ):
        with pytest.raises(InvalidTableError, match=message):
            read_table(StreamKeys, wrong, "here")


# ---- the registry

COUNT = "SELECT sip, count(*) FROM S GROUP BY sip WINDOWING 60 s"
OTHER = "SELECT kind, count(*) FROM S GROUP BY kind WINDOWING 60 s"
EMPTY = QueryRegistry.of([stream()])
ONE = EMPTY.register("flows", COUNT)
WITHOUT_SIP = tuple(field for field in stream().fields if field.name != "sip")


def test_every_change_makes_the_next_version_and_leaves_the_one_before_alone() -> None:
    """Registered, changed, cancelled."""
    two = ONE.change("flows", OTHER)
    three = two.cancel("flows")
    assert [r.version for r in (EMPTY, ONE, two, three)] == [0, 1, 2, 3]
    assert (ONE.text("flows"), two.text("flows")) == (COUNT, OTHER)
    assert [query.since for query in two.registered] == [2]
    assert three.registered == EMPTY.registered == ()


def test_a_query_can_be_put_whether_it_is_there_or_not() -> None:
    """It is registered, then changed; the same text again changes nothing."""
    one = EMPTY.put("flows", COUNT)
    two = one.put("flows", OTHER)
    assert (one, two) == (ONE, one.change("flows", OTHER))
    assert two.put("flows", OTHER) is two and ONE.change("flows", COUNT) is ONE


NOT_REGISTERED = "no query is registered as 'other'; registered: flows"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda: ONE.register("flows", COUNT), QueryExistsError, "'flows' is already registered: choose another name"),
        (lambda: ONE.change("other", COUNT), UnknownQueryError, NOT_REGISTERED),
        (lambda: ONE.cancel("other"), UnknownQueryError, NOT_REGISTERED),
        (lambda: ONE.change("flows", "SELECT nothing FROM S WINDOWING 1 s"), InvalidQueryError, "nothing"),
        (lambda: ONE.register("a/b", COUNT), InvalidQueryError, "a name is of letters"),
        (lambda: ONE.with_stream(stream(fields=WITHOUT_SIP)), InvalidQueryError, "sip"),
        (lambda: QueryRegistry.of([stream(), stream()]), InvalidStreamError, "two streams are named S"),
        (lambda: ONE.stream("T"), InvalidStreamError, "no stream 'T' is declared; declared: S"),
    ],
)
def test_an_impossible_change_is_refused(change: Callable[[], object], error: type[Exception], message: str) -> None:
    """With what is registered or declared: a name is taken once, and what remains can be answered."""
    with pytest.raises(error, match=message):
        change()


def test_a_registry_survives_json() -> None:
    """With its streams and versions."""
    changed = ONE.with_stream(stream(format="json", max_future_skew=5.0))
    registry = changed.register("kinds", OTHER).cancel("flows")
    assert from_json_value(QueryRegistry, json.loads(json.dumps(to_json_value(registry))), "here") == registry


def test_a_stream_that_is_declared_otherwise_holds_from_the_next_version_on() -> None:
    """Its queries are read again; the same declaration changes nothing."""
    before = EMPTY.register("q", "SELECT count(*) AS n FROM S WINDOWING 60 s")
    assert before.with_stream(stream()) is before
    after = before.with_stream(stream(lateness=5.0))
    assert (after.version, after.registered) == (before.version + 1, before.registered)
    assert [[query.lateness for query in each.queries()] for each in (before, after)] == [[0], [5_000_000]]
