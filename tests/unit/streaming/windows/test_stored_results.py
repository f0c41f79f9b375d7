"""Results kept as parquet: each in one dataset whatever dies, with real types, and asked by SQL."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from springline.persistence.engine.attempt import Attempt
from springline.persistence.engine.store import Store
from springline.persistence.errors import InvalidPathError
from springline.persistence.model.dataset import Phase
from springline.persistence.platform import Platform
from springline.spark_jobs.streaming.errors import FencedError, InvalidSqlError, MessagesLostError, NoSinkError
from springline.spark_jobs.streaming.runtime.history import read_line
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from springline.spark_jobs.streaming.runtime.stamps import Stamp
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.sources.schema import Field, Stream
from springline.spark_jobs.streaming.windows.job import WindowsJob
from springline.spark_jobs.streaming.windows.sink import query as kept_results
from springline.spark_jobs.streaming.windows.sink.files import result_schema
from springline.spark_jobs.streaming.windows.sink.parquet import ParquetSink, ResultWriter, results_prefix, sink_stage
from springline.spark_jobs.streaming.windows.sink.query import query_results
from springline.testing.memory_log import KilledError, MemoryLog

STREAM = Stream(
    "S", (Field("time", "timestamp(s)"), Field("key", "text"), Field("n", "int")), "time", max_future_skew=None
)
QUERIES = {
    "sums": "SELECT key, count(*) AS n, avg(n) AS mean FROM S GROUP BY key WINDOWING 5 s",
    "_last": "SELECT count(*) AS n FROM S WINDOWING ROWS(3)",
}
JOB = WindowsJob("job", "rows", STREAM, QUERIES, parallelism=2, sink="parquet")
SCHEMAS = {query.name: result_schema(query) for query in JOB.registry().queries()}


class Simulation:
    """A log with results, and applications that keep them in one platform."""

    def __init__(self, platform: Platform, folder: Path) -> None:
        self.platform = platform
        self.stage = sink_stage(JOB)
        self.log = MemoryLog({JOB.results: 2, self.stage.rounds: 1, self.stage.reports: 1})
        self.result_count = 0

    def add_results(self, count: int) -> None:
        """So many results more, in messages of one, on both units."""
        for number in range(self.result_count, self.result_count + count):
            start = f"2013-01-01T00:00:{number % 60:02}.5+00:00"
            line = {"query": "sums", "window_start": start, "window_end": start, "key": "k", "n": number, "mean": None}
            self.put("sums", line, unit=number % 2)
        self.result_count += count

    def put(
        self, query: str, line: dict[str, Any], unit: int = 0, incarnation: int = 1, value: bytes = b"",
        headers: Mapping[str, bytes] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """One message, in the types of the query, or with other headers or another value."""
        stamp = Stamp(incarnation, unit, 1, len(self.log.topics[JOB.results][unit])).header()
        types = {field.name: str(field.type) for field in SCHEMAS.get(query, SCHEMAS["sums"])}
        all_headers = {
            **stamp, "query": query.encode(), "incarnation": str(incarnation).encode(),
            "types": json.dumps(types).encode(), **headers,
        }  # fmt: skip
        content = value or json.dumps(line).encode() + b"\n"
        self.log._append(OutgoingRecord(JOB.results, unit, content, all_headers))

    def application(self) -> ResultWriter:
        """One that has just started."""
        return ResultWriter(self.stage, self.platform, self.log)

    def write(self, count: int) -> None:
        """Tell so many results, and store them."""
        self.add_results(count)
        self.application().write_new_results()

    def stored_counts(self) -> Counter[int]:
        """How often each result is in the datasets."""
        return Counter(row["n"] for row in query_results(self.platform, JOB, "SELECT n FROM sums").to_pylist())

    def expected_counts(self) -> Counter[int]:
        """Each result once."""
        return Counter(range(self.result_count))


@pytest.fixture
def simulation(platform: Platform, tmp_path: Path) -> Simulation:
    """A log without results yet."""
    return Simulation(platform, tmp_path / "states")


def test_each_interval_with_results_is_a_dataset_that_begins_where_the_last_ends(simulation: Simulation) -> None:
    """Its report has the offsets, and it is in the under-store when it counts; without results there is none."""
    application = simulation.application()
    assert application.write_new_results() == []
    simulation.add_results(5)
    (first,) = application.write_new_results()
    assert application.write_new_results() == []
    simulation.add_results(3)
    (second,) = simulation.application().write_new_results()
    before: Any = first.report
    after: Any = second.report
    assert first.persisted and first.rows == 5 and second.rows == 3
    assert {unit: at[1] for unit, at in before["offsets"].items()} == {u: at[0] for u, at in after["offsets"].items()}
    assert simulation.stored_counts() == simulation.expected_counts()


STEPS = [
    ("append", 0), ("append", 1), ("fetch", 0), ("fetch", 1), ("write", 0), ("file", 0), ("send", 0), ("sent", 0),
    ("commit", 0), ("committed", 0),
]  # fmt: skip


def die(simulation: Simulation, step: str, after: int, patch: pytest.MonkeyPatch) -> None:
    """Let the application die at a step: what a killed process would clear up is not cleared up."""

    def killed(*_: Any, **__: Any) -> Any:
        raise KilledError

    def killed_after(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            call(*args, **kwargs)
            raise KilledError

        return called

    patch.setattr(Store, "_abandon", lambda *_: None)
    if step in ("append", "fetch"):
        simulation.log.calls_until_death = after + (0 if step == "append" else 2)
    elif step == "write":
        patch.setattr(simulation.platform.catalog, "begin", killed_after(simulation.platform.catalog.begin))
    elif step == "file":
        patch.setattr(simulation.platform.cache, "create", killed)
    elif step in ("send", "sent"):
        patch.setattr(Attempt, "send_data", killed if step == "send" else killed_after(Attempt.send_data))
    else:
        catalog = simulation.platform.catalog
        patch.setattr(catalog, "commit", killed if step == "commit" else killed_after(catalog.commit))


@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize(("step", "after"), STEPS)
def test_wherever_an_application_dies_or_fails_each_result_is_kept_once(
    simulation: Simulation, step: str, after: int, restarts: bool
) -> None:
    """Before it plans, between plan and write, between write and commit, after the commit; more came meanwhile."""
    application = simulation.application()
    simulation.add_results(4)
    application.write_new_results()
    simulation.add_results(5)
    with pytest.MonkeyPatch.context() as patch:
        die(simulation, step, after, patch)
        with pytest.raises(KilledError):
            application.write_new_results()
    simulation.log.calls_until_death = None
    committed = simulation.platform.catalog.find(prefix=results_prefix("job"), phase=Phase.COMMITTED)
    assert len(committed) == (2 if step == "committed" else 1)  # a crash before the commit leaves nothing
    simulation.add_results(2)
    (simulation.application() if restarts else application).write_new_results()
    assert simulation.stored_counts() == simulation.expected_counts()
    lines = [read_line(message) for message in simulation.log.topics[simulation.stage.rounds][0]]
    rounds = [line.number for line in lines if isinstance(line, RoundPlan)]
    assert rounds == sorted(set(rounds))  # none is planned twice


def test_an_application_that_wakes_up_ends_its_round_and_no_more(simulation: Simulation) -> None:
    """While it slept between plan and write, another one has kept the same results and more."""
    sleeper = simulation.application()
    simulation.add_results(4)
    sleeper.write_new_results()
    simulation.add_results(3)
    write = sleeper._write

    def sleep(plan: Any) -> Any:
        simulation.add_results(2)
        simulation.application().write_new_results()
        return write(plan)

    sleeper._write = sleep  # type: ignore[method-assign]
    with pytest.raises(FencedError):  # after its round, when it plans the next
        sleeper.write_new_results()
    simulation.application().write_new_results()
    assert simulation.stored_counts() == simulation.expected_counts()
    generations = {
        each.ref for each in simulation.platform.catalog.find(prefix=results_prefix("job"), phase=Phase.COMMITTED)
    }
    assert max(ref.generation for ref in generations) == 2  # the round was written twice, and counts once


def test_results_that_are_gone_before_they_were_kept_are_named(simulation: Simulation) -> None:
    """By topic and offset, instead of a silent gap."""
    application = simulation.application()
    simulation.add_results(2)
    application.write_new_results()
    simulation.add_results(4)
    simulation.log.truncate(JOB.results)
    with pytest.raises(MessagesLostError, match=r"job.results\[0\]"):
        application.write_new_results()


def test_windows_have_real_times_and_counts_are_whole_numbers(simulation: Simulation) -> None:
    """A mean without a value is a number too; windows of rows are numbered."""
    simulation.add_results(1)
    simulation.put("_last", {"query": "_last", "window_start": 0, "window_end": 3, "n": 3})
    simulation.application().write_new_results()
    table = query_results(simulation.platform, JOB, "SELECT window_start, n, mean FROM sums")
    kinds = {field.name: field.type for field in table.schema}
    assert kinds == {"window_start": pa.timestamp("us", tz="UTC"), "n": pa.int64(), "mean": pa.float64()}
    assert table.column("window_start").to_pylist() == [datetime(2013, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)]
    numbered = query_results(simulation.platform, JOB, 'SELECT window_end, n FROM "_last"')
    assert numbered.to_pylist() == [{"window_end": 3, "n": 3}]


def test_results_that_are_emitted_again_after_a_rewind_are_distinguished(simulation: Simulation) -> None:
    """By their incarnation: nothing is taken away."""
    line = {"query": "_last", "window_start": 0, "window_end": 3, "n": 3}
    simulation.put("_last", line)
    simulation.put("_last", line, incarnation=2)
    simulation.application().write_new_results()
    table = query_results(simulation.platform, JOB, 'SELECT incarnation, n FROM "_last" ORDER BY 1')
    assert table.to_pylist() == [{"incarnation": 1, "n": 3}, {"incarnation": 2, "n": 3}]


def test_queries_that_differ_in_small_and_large_letters_are_two_tables(simulation: Simulation) -> None:
    """To SQL one name: the second has a number."""
    for query, n in (("sums", 1), ("Sums", 2)):
        start = "2013-01-01T00:00:00+00:00"
        simulation.put(
            query, {"query": query, "window_start": start, "window_end": start, "key": "k", "n": n, "mean": None}
        )
    simulation.application().write_new_results()
    results = [
        query_results(simulation.platform, JOB, f"SELECT n FROM {table}").to_pylist() for table in ("sums", "sums_2")
    ]
    assert results == [[{"n": 2}], [{"n": 1}]]
    with pytest.raises(InvalidSqlError, match="Stored results: Sums, sums_2"):
        query_results(simulation.platform, JOB, "SELECT n FROM nobody")


def test_one_message_that_is_no_result_stops_no_other_and_is_named_in_report_and_status(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever its bytes and headers are; a value of another type is never rounded to fit."""
    simulation.add_results(2)
    start = "2013-01-01T00:00:00+00:00"
    good = {"query": "sums", "window_start": start, "window_end": start, "key": "k", "n": 2, "mean": "-Infinity"}
    odd_lines = [{**good, "n": 1.5}, {**good, "mean": "no"}, {**good, "window_end": "no"}, {**good, "more": 1}, {}]
    for line in odd_lines:
        simulation.put("sums", line)
    simulation.put("sums", {}, value=b"\xff{")
    for header in ({"query": b"\xff"}, {"incarnation": b"x"}, {"types": b"{"}, {"types": b'{"n":"decimal"}'}):
        simulation.put("sums", good, headers=header)
    simulation.put("sums", good)
    simulation.result_count += 1
    application = simulation.application()
    (dataset,) = application.write_new_results()
    assert simulation.stored_counts() == simulation.expected_counts()
    report: Any = dataset.report
    assert report["refused_messages"] == len(report["refused"]) == len(odd_lines) + 5
    reason = "ValidationError: Expected `int | null`, got `float` - at `$[0].n`"
    assert report["refused"][0] == {"query": "sums", "unit": 0, "offset": 2, "reason": reason}
    sink = ParquetSink(JOB, StreamSettings())
    sink._writer = application
    assert "results of the query 'sums' are not in the catalog: job.results[0], offset 15: " in sink.last_error
    assert "'sums'" in caplog.text


def test_a_column_whose_type_has_changed_is_text_in_sql_and_stops_no_other_query(simulation: Simulation) -> None:
    """Each line has the type that it was emitted with; no number is rounded to fit others, and an error says why."""
    line = {"query": "sums", "window_start": None, "window_end": None, "key": "k", "mean": None}
    for value, kind in ((2**53 + 1, "int64"), (True, "bool"), (0.5, "double")):
        types = {**{field.name: str(field.type) for field in SCHEMAS["sums"]}, "n": kind}
        simulation.put("sums", {**line, "n": value}, headers={"types": json.dumps(types).encode()})
        simulation.put("_last", {"query": "_last", "window_start": 0, "window_end": 3, "n": 3})
    simulation.application().write_new_results()
    texts = query_results(simulation.platform, JOB, "SELECT n FROM sums ORDER BY n").to_pylist()
    assert texts == [{"n": "0.5"}, {"n": "9007199254740993"}, {"n": "true"}]
    assert query_results(simulation.platform, JOB, 'SELECT sum(n) AS n FROM "_last"').to_pylist() == [{"n": 9}]
    with pytest.raises(InvalidSqlError, match=r"Text in sums, since its type has changed: n \(.*\); CAST it to"):
        query_results(simulation.platform, JOB, "SELECT sum(n) FROM sums")


def test_asking_before_anything_is_kept_says_what_to_do(platform: Platform) -> None:
    """Wait, or declare it."""
    with pytest.raises(NoSinkError, match="at intervals"):
        query_results(platform, JOB, "SELECT 1")
    with pytest.raises(NoSinkError, match='set sink = "parquet" in the declaration of the job'):
        query_results(platform, WindowsJob("other", "rows", STREAM), "SELECT 1")


ONE_SELECT = "a single SELECT"


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM nobody", "nobody"),
        ("SELECT FROM WHERE", "syntax error"),
        ("-- nothing", ONE_SELECT),
        ("DROP VIEW sums; CREATE TABLE sums AS SELECT 7 AS n; SELECT n FROM sums", ONE_SELECT),
        ("PREPARE later AS SELECT 7", ONE_SELECT),
        ("EXPLAIN SELECT n FROM sums", ONE_SELECT),
        ("SELECT 1; SELECT 2", ONE_SELECT),
        ("CALL pragma_version()", ONE_SELECT),
        ("PIVOT sums ON key USING sum(n)", ONE_SELECT),
        ("", ONE_SELECT),
    ],
)
def test_only_one_select_is_answered_and_an_error_lists_the_queries_that_there_are(
    simulation: Simulation, sql: str, message: str
) -> None:
    """DuckDB's words first; whatever else it knows is refused before it is run, and the error says what is answered."""
    simulation.write(1)
    with pytest.raises(InvalidSqlError, match=rf"(?s)^job: .*{message}.*(of|results:) sums"):
        query_results(simulation.platform, JOB, sql)


@pytest.fixture
def around(simulation: Simulation, tmp_path: Path) -> dict[str, Path]:
    """Kept results; beside them a file that is none of theirs, a folder to be left alone, and another parquet file."""
    simulation.write(1)
    places = {name: tmp_path / name for name in ("secret.csv", "made", "other.parquet")}
    places["secret.csv"].write_text("word\nhunter2\n")
    pq.write_table(pa.table({"word": ["hunter2"]}), places["other.parquet"])
    return places


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{secret.csv}')",
        "SELECT * FROM read_text('{secret.csv}')",
        "SELECT * FROM read_blob('file://{secret.csv}')",
        "SELECT * FROM read_csv('/proc/self/environ')",
        "SELECT * FROM '{secret.csv}'",
        "SELECT * FROM '{other.parquet}'",
        "SELECT * FROM read_parquet('{other.parquet}')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT (SELECT word FROM read_csv('{secret.csv}')) AS word FROM sums",
        "COPY sums TO '{made}' (FORMAT csv)",
        "ATTACH '{made}' AS other",
        "LOAD httpfs",
        "SELECT * FROM read_csv('http://127.0.0.1:9/words.csv')",
        "SET enable_external_access = true",
        "CREATE PERSISTENT SECRET held (TYPE s3, KEY_ID 'a', SECRET 'b')",
        "SELECT 1; SELECT * FROM read_text('{secret.csv}')",
    ],
)
def test_sql_over_kept_results_reaches_nothing_else(simulation: Simulation, around: dict[str, Path], sql: str) -> None:
    """No file, no folder, no address, no extension and no setting; the error names the job."""
    for name, place in around.items():
        sql = sql.replace("{" + name + "}", str(place))
    with pytest.raises(InvalidSqlError, match=r"^job: ") as raised:
        query_results(simulation.platform, JOB, sql)
    assert "hunter2" not in str(raised.value)
    assert not around["made"].exists()


COPY = "COPY (SELECT 7 AS n) TO '{kept}' (FORMAT parquet, USE_TMP_FILE false)"


@pytest.mark.parametrize(
    "sql",
    [
        COPY,
        f"WITH copied AS ({COPY}) SELECT * FROM copied",
        f"WITH copied AS MATERIALIZED ({COPY}) SELECT n FROM sums",
        f"EXPLAIN ANALYZE {COPY}",
        f"SELECT 1; {COPY}",
    ],
)
def test_no_sql_writes_to_a_kept_file(simulation: Simulation, sql: str) -> None:
    """Though it may read it, by its path or by the one that its view names; a COPY in a WITH is part of a SELECT."""
    simulation.add_results(2)
    (dataset,) = simulation.application().write_new_results()
    with simulation.platform.store.read(dataset.ref.path) as reading:
        (data_file,) = Path(reading.uri.removeprefix("file://")).rglob("*.parquet")
    before = data_file.read_bytes()
    view = query_results(
        simulation.platform, JOB, "SELECT sql FROM duckdb_views() WHERE view_name = 'sums'"
    ).to_pylist()
    (in_view,) = re.findall(r"'([^']*parquet)'", view[0]["sql"])
    for path in (str(data_file), in_view):
        with pytest.raises(InvalidSqlError):
            query_results(simulation.platform, JOB, sql.replace("{kept}", path))
    assert data_file.read_bytes() == before
    assert simulation.stored_counts() == simulation.expected_counts()


@pytest.mark.parametrize(
    "sql",
    [
        "WITH doubled AS (SELECT n + n AS n FROM sums) SELECT n FROM doubled;",
        "FROM sums SELECT n + n AS n",
        "-- twice\nSELECT 2 * n AS n FROM sums",
        "(SELECT n FROM sums) UNION ALL (SELECT n FROM sums WHERE false)",
        "VALUES (0)",
    ],
)
def test_every_way_of_writing_a_select_is_answered(simulation: Simulation, sql: str) -> None:
    """With names for its parts, FROM first, over several SELECTs, over none."""
    simulation.write(1)
    assert query_results(simulation.platform, JOB, sql).num_rows == 1


@pytest.mark.parametrize("name", ["../../secret.csv", "/etc/passwd"])
def test_a_report_that_names_another_file_is_refused(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As one could that was written into the under-store by somebody else, and found there by `rebuild`."""
    simulation.write(1)
    monkeypatch.setattr(kept_results, "_files_of", lambda reading: {"sums": [name]})
    with pytest.raises(InvalidPathError, match="is not a path below it"):
        query_results(simulation.platform, JOB, "SELECT * FROM sums")
