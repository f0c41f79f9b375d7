"""The quality gate: three modes, one declaration of the rules, and a judgement that stays on this machine."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from springline.spark_jobs.errors import ColumnsError, ParameterError, QualityError
from springline.spark_jobs.etl.gate import FLIGHT_RULES
from springline.spark_jobs.etl.load import load_flights, load_weather
from springline.spark_jobs.etl.transforms import clean, derive, enrich, parse
from springline.spark_jobs.landing import FLIGHTS, Landing, LandingFile, write_manifest
from springline.spark_jobs.operations import Context
from springline.spark_jobs.parquet_io import read_table, write_table
from springline.spark_jobs.quality import (
    QualityMode,
    QualityRule,
    QualityRules,
    apply_gate,
    evaluate_rules,
    with_broken_rules,
)
from tests.spark.conftest import SNOW

RULES = QualityRules(
    rows=(
        QualityRule("the age is known", "age IS NOT NULL"),
        QualityRule("grown up", "age >= 18"),
        QualityRule("the name is there once", "count(1) OVER (PARTITION BY name) = 1"),
    ),
    columns=("name", "age"),
    most_rows=5,
)
PEOPLE = [("Ann", 30), ("Bob", 12), ("Cid", None), ("Dee", 40), ("Dee", 41)]


@pytest.fixture
def people(spark: SparkSession) -> DataFrame:
    """Five people, of whom one breaks no rule."""
    return spark.createDataFrame(PEOPLE, "name string, age int")


def test_the_report_counts_each_rule_and_the_rows_that_break_any(people: DataFrame) -> None:
    """A condition that is null is not met."""
    report = evaluate_rules(people, RULES)
    assert [(rule["rule"], rule["broken"], rule["valid"]) for rule in report.row_rules] == [
        ("the age is known", 1, False),
        ("grown up", 2, False),
        ("the name is there once", 2, False),
    ]
    assert (report.rows, report.broken_rows, report.is_table_valid, report.is_valid) == (5, 4, True, False)


def test_pass_lets_every_row_through_and_says_what_is_wrong(people: DataFrame) -> None:
    """The report is kept all the same, as plain JSON."""
    frame, report = apply_gate(people, RULES, QualityMode.PASS, subject="people")
    assert frame.count() == 5
    assert json.loads(json.dumps(report)) == report
    assert (report["valid"], report["accepted_rows"], report["broken_rows"]) == (False, 5, 4)


def test_quarantine_sets_aside_what_breaks_a_rule(people: DataFrame) -> None:
    """Accepted and set aside are all rows, by the same conditions."""
    frame, report = apply_gate(people, RULES, QualityMode.QUARANTINE, subject="people")
    assert [tuple(row) for row in frame.collect()] == [("Ann", 30)]
    assert report["accepted_rows"] == 1
    reasons = {row["name"]: row["broken_rules"] for row in with_broken_rules(people, RULES.rows).collect()}
    assert reasons["Ann"] == []
    assert reasons["Cid"] == ["the age is known", "grown up"]
    assert reasons["Dee"] == ["the name is there once"]


def test_stop_raises_after_the_report_was_made(people: DataFrame) -> None:
    """The error says which rules are broken, how often, and what can be done; the report is with it."""
    with pytest.raises(
        QualityError, match=r"people: .*grown up \(broken by 2 of 5 rows\).*SPRINGLINE_QUALITY_MODE"
    ) as stopped:
        apply_gate(people, RULES, QualityMode.STOP, subject="people")
    assert stopped.value.report["broken_rows"] == 4


def test_stop_lets_a_good_table_through(people: DataFrame) -> None:
    """It stops for broken rules only."""
    frame, report = apply_gate(people.where("name = 'Ann'"), RULES, QualityMode.STOP, subject="people")
    assert frame.count() == 1
    assert report["valid"] is True


def test_a_broken_rule_about_the_table_stops_quarantine_too(people: DataFrame) -> None:
    """No row can be set aside for it."""
    many = people.union(people.where("name = 'Ann'"))
    with pytest.raises(QualityError, match="has no more than 5 rows"):
        apply_gate(many, RULES, QualityMode.QUARANTINE, subject="people")
    assert apply_gate(many, RULES, QualityMode.PASS, subject="people")[1]["valid"] is False


def test_a_rule_and_a_column_may_have_any_name(spark: SparkSession) -> None:
    """That of a column, of another rule, or what the gate itself says; the report shows the names as they are."""
    names = ["age", "age", "a.b", "broken_rules", "no row breaks a rule", "has no more than 5 rows", "any", "`", ""]
    conditions = ["age >= 18", "age < 40", *["`a.b` IS NOT NULL"] * 7]
    rules = QualityRules(tuple(map(QualityRule, names, conditions)), columns=("age", "a.b"), most_rows=5)
    frame = spark.createDataFrame([(30, "x", 1), (12, "x", 2), (50, None, 3)], "age int, `a.b` string, Broken0 int")
    accepted, report = apply_gate(frame, rules, QualityMode.QUARANTINE, subject="people")
    assert [(rule["rule"], rule["broken"]) for rule in report["row_rules"]] == [(name, 1) for name in names]
    assert (report["accepted_rows"], accepted.columns) == (1, frame.columns)
    assert [tuple(row) for row in accepted.collect()] == [(30, "x", 1)]
    no_rules = QualityRules((), columns=(), most_rows=5)
    assert apply_gate(frame, no_rules, QualityMode.QUARANTINE, subject="people")[1]["accepted_rows"] == 3
    assert with_broken_rules(frame, ()).schema["broken_rules"].dataType.simpleString() == "array<string>"
    with pytest.raises(ColumnsError, match="has a column broken_rules already, which the gate adds: rename it"):
        with_broken_rules(frame.withColumnRenamed("age", "Broken_Rules"), rules.rows)


def test_a_missing_column_is_named(people: DataFrame) -> None:
    """Before Spark stumbles over a condition."""
    with pytest.raises(ColumnsError, match="needs the missing columns age"):
        evaluate_rules(people.drop("age"), RULES)


def test_an_unknown_mode_is_named() -> None:
    """With those that there are."""
    with pytest.raises(ParameterError, match="'maybe': use one of pass, quarantine, stop"):
        QualityMode.parse("maybe")


def test_judging_sends_nothing_out_and_leaves_nothing_lying_about(
    people: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No address is looked up, no connection opened, no file written to the working or the home folder."""
    asked: list[object] = []

    def refuse(*args: object, **kwargs: object) -> None:
        asked.append(args)
        raise OSError("no network in this test")

    people.count()  # the connection to Spark is there already, and not made by Python's sockets
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    evaluate_rules(people, RULES)
    assert asked == []
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_read_ends_in_quarantine_not_in_silence(
    spark: SparkSession, landing: Path, tmp_path: Path
) -> None:
    """A spoilt number, a flight landed twice, and one landed twice with different delays."""
    day = tmp_path / SNOW
    day.mkdir()
    lines = (landing / SNOW / "flights.csv").read_text().splitlines()
    flown = [line for line in lines[1:] if ",NA," not in line and not line.endswith("NA")][:4]
    broken_row, duplicate, torn, intact = (line.split(",") for line in flown)
    delay = FLIGHTS.columns.index("dep_delay")
    broken_row[delay] = "1O"
    other = [*torn]
    other[delay] = str(int(torn[delay]) + 1)
    rows = [broken_row, duplicate, duplicate, torn, other, intact]
    (day / "flights.csv").write_text("\n".join([lines[0], *(",".join(row) for row in rows)]) + "\n")
    (day / "weather.csv").write_bytes((landing / SNOW / "weather.csv").read_bytes())
    for name in ("flights.csv", "weather.csv"):
        write_manifest(LandingFile.at(str(day / name)))

    context = Context(spark, {"ds": SNOW}, Landing(str(tmp_path)))
    write_table(clean(context, parse(context, load_flights(context))), f"{tmp_path}/clean", digits=9)
    cleaned = read_table(spark, f"{tmp_path}/clean")
    write_table(derive(context, enrich(context, cleaned, load_weather(context))), f"{tmp_path}/derive", digits=9)
    derived = read_table(spark, f"{tmp_path}/derive")
    rows_with_reasons = with_broken_rules(derived, FLIGHT_RULES.rows).collect()

    flight = FLIGHTS.columns.index("flight")
    reasons = sorted((row["flight"], *row["broken_rules"]) for row in rows_with_reasons)
    once = "the flight is unique"
    expected = [
        (int(broken_row[flight]), "all fields parsed", "the delays are plausible"),
        (int(duplicate[flight]),),
        (int(torn[flight]), once),
        (int(torn[flight]), once),
        (int(intact[flight]),),
    ]
    assert reasons == sorted(expected)
    assert [row["unread"] for row in rows_with_reasons if row["flight"] == int(broken_row[flight])] == [["dep_delay"]]
