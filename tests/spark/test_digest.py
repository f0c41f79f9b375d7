"""The logical digest: the same for the same rows, another for any other."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from springline.spark_jobs.digest import digest_metrics, digest_of, digest_of_table, row_hash, schema_hash
from springline.spark_jobs.errors import DigestError
from springline.spark_jobs.parquet_io import read_table, write_table

SCHEMA = (
    "a int, b int, s string, t string, x double, f float, n decimal(10,2), d date, ts timestamp, flag boolean,"
    " raw binary, who struct<name: string, age: int>, tags array<string>, grid array<array<double>>,"
    " people array<struct<name: string, age: int>>"
)
EXPECTED_DIGEST = "table1:9:2:2052c8fb457313c1:54d40.310804.21c123"
NOON = datetime(2013, 2, 8, 12, 0, 0, 123456, tzinfo=UTC)
ONE = (
    *(1, None, "x", None, 1.5, 0.25, Decimal("1.50"), date(2013, 2, 8), NOON, True),
    *(b"\x00", ("Ann", None), ["p", None], [[1.0], [2.0, 3.0]], [("Ann", 1), (None, 2)]),
)
TWO = (2, 3, "", "x", -0.5, None, None, None, None, None, None, None, None, None, None)


def frame(spark: SparkSession, rows: Sequence[Sequence[Any]], schema: str = SCHEMA) -> DataFrame:
    """A table of these rows."""
    return spark.createDataFrame([tuple(row) for row in rows], schema)


def digest(table: DataFrame, digits: int = 9) -> str:
    """Its digest, as text."""
    return str(digest_of_table(table, digits=digits))


def digests(spark: SparkSession, tables: Mapping[str, Sequence[Sequence[Any]]], schema: str = SCHEMA) -> dict[str, str]:
    """The digests of many small tables, by name, worked out in one pass over all of them."""
    rows = [(name, *row) for name, table in tables.items() for row in table]
    together = spark.createDataFrame(rows, f"table_name string, {schema}")
    one = together.drop("table_name").schema
    hashed = together.select("table_name", row_hash(one, 9).alias("hash"))
    digest_rows = hashed.groupBy("table_name").agg(*digest_metrics(F.col("hash"))).collect()
    none = {"rows": 0, "sum0": 0, "sum1": 0, "sum2": 0}
    observed = {row["table_name"]: row.asDict() for row in digest_rows}
    return {name: str(digest_of(one, 9, observed.get(name, none))) for name in tables}


def replaced(**values: object) -> tuple[Any, ...]:
    """The row ONE with some columns changed."""
    names = [part.split()[0] for part in re.split(r", (?=\w+ )", re.sub(r"<[^>]*(<[^>]*>)?[^>]*>", "", SCHEMA))]
    assert set(values) <= set(names), names
    return tuple(values.get(name, value) for name, value in zip(names, ONE, strict=True))


def test_the_digest_of_a_known_table_is_this_text(spark: SparkSession) -> None:
    """Digests are kept in catalogs for years: a change of this text needs another prefix than table1."""
    assert digest(frame(spark, [ONE, TWO])) == EXPECTED_DIGEST


def test_neither_order_nor_partitions_count(spark: SparkSession) -> None:
    """The same rows are the same table."""
    table = spark.range(1000).select("id", (F.col("id") / 7).alias("x"), F.col("id").cast("string").alias("s"))
    full_digest = digest(table)
    assert digest(table.orderBy(F.desc("id"))) == full_digest
    assert digest(table.repartition(7, "s")) == full_digest
    assert digest(table.coalesce(1)) == full_digest


def test_the_writing_pass_gives_the_digest_of_what_can_be_read_again(spark: SparkSession, tmp_path: Path) -> None:
    """However it is written: types, nulls and times survive."""
    table = frame(spark, [ONE, TWO, ONE])
    uri = f"file://{tmp_path}/a b é [1] {{x}} #1 ?2 100%25 \\\\b"
    result = write_table(table, uri, digits=9)
    assert result.rows == 3
    assert {path.suffix for path in Path(uri.removeprefix("file://")).iterdir()} == {".parquet"}
    assert str(result) == digest(table) == digest(read_table(spark, uri))
    read_table(spark, uri).write.orc(f"file://{tmp_path}/orc")
    assert digest(spark.read.orc(f"file://{tmp_path}/orc")) == str(result)


@pytest.mark.parametrize("plan", ["literal", "filtered", "joined", "limited"])
def test_a_table_without_rows_has_a_digest_however_it_came_about(
    spark: SparkSession, tmp_path: Path, plan: str
) -> None:
    """Spark cuts such plans short; the observed numbers must come all the same, and the schema still counts."""
    ids = spark.range(5)
    empty = {
        "literal": lambda: spark.createDataFrame([], "id bigint"),
        "filtered": lambda: ids.where("id > 10"),
        "joined": lambda: ids.join(ids.where("id > 10"), "id").groupBy("id").count().select("id"),
        "limited": lambda: ids.limit(0),
    }[plan]()
    result = write_table(empty, f"file://{tmp_path}/empty", digits=9)
    assert str(result) == f"table1:9:0:{schema_hash(empty.schema)}:0.0.0"
    assert read_table(spark, f"file://{tmp_path}/empty").count() == 0


CHANGES: dict[str, dict[str, object]] = {
    "a number": {"a": 2},
    "a null in the neighbour's place": {"a": None, "b": 1},
    "the same text in the neighbour's place": {"s": None, "t": "x"},
    "no text for null": {"t": ""},
    "a double": {"x": 1.50000001},
    "a float": {"f": 0.2500001},
    "a decimal": {"n": Decimal("1.51")},
    "a day": {"d": date(2013, 2, 9)},
    "a microsecond": {"ts": NOON.replace(microsecond=123457)},
    "a truth": {"flag": False},
    "a byte": {"raw": b"\x01"},
    "a field": {"who": ("Ann", 1)},
    "no struct for one of nulls": {"who": None},
    "a struct of nulls": {"who": (None, None)},
    "the order of elements": {"tags": [None, "p"]},
    "an element less": {"tags": ["p"]},
    "no element": {"tags": []},
    "one null element": {"tags": [None]},
    "no array": {"tags": None},
    "elements cut otherwise": {"grid": [[1.0, 2.0], [3.0]]},
    "a double far inside": {"grid": [[1.0], [2.0, 3.1]]},
    "a field of an element": {"people": [("Ann", 1), (None, 3)]},
    "a field in another element": {"people": [(None, 1), ("Ann", 2)]},
}


def test_any_change_of_a_value_changes_the_digest(spark: SparkSession) -> None:
    """Each of these differs from the table as it was and from every other."""
    tables = {what: [replaced(**values), TWO] for what, values in CHANGES.items()}
    tables |= {"nothing": [ONE, TWO], "a row twice": [ONE, TWO, TWO], "a row less": [ONE], "no row": []}
    tables |= {"the first row twice": [ONE, ONE], "the other row twice": [TWO, TWO], "the other row": [TWO]}
    digests_by_change = digests(spark, tables)
    shared = {
        text: [what for what in digests_by_change if digests_by_change[what] == text]
        for text in digests_by_change.values()
    }
    assert [names for names in shared.values() if len(names) > 1] == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a int, b int", "b int, a int"),
        ("a int, b int", "a int, c int"),
        ("a int, b int", "a int, b bigint"),
        ("a decimal(10,2)", "a decimal(10,3)"),
        ("a struct<x: int>", "a struct<y: int>"),
        ("a timestamp", "a timestamp_ntz"),
    ],
)
def test_names_types_and_the_order_of_columns_count(spark: SparkSession, one: str, other: str) -> None:
    """Even of tables without rows."""
    assert digest(spark.createDataFrame([], one)) != digest(spark.createDataFrame([], other))


def test_whether_a_column_may_be_null_does_not_count(spark: SparkSession, tmp_path: Path) -> None:
    """It is lost in writing, so it cannot."""
    table = spark.range(3)
    assert not table.schema["id"].nullable
    table.write.parquet(f"file://{tmp_path}/t")
    assert digest(table) == digest(spark.read.parquet(f"file://{tmp_path}/t"))


@pytest.mark.parametrize(
    ("one", "other"), [(0.0, -0.0), (0.1 + 0.2, 0.3), (1e20 + 1e5, 1e20), (-1234567.0, math.nextafter(-1234567.0, 0))]
)
def test_floats_alike_to_the_declared_digits_are_the_same(spark: SparkSession, one: float, other: float) -> None:
    """Sums of floats depend on the order of adding; 9 digits do not."""
    tables = {"one": [[one, [one]]], "other": [[other, [other]]]}
    digests_by_name = digests(spark, tables, "x double, v array<double>")
    assert digests_by_name["one"] == digests_by_name["other"]


def test_floats_that_differ_are_distinguished(spark: SparkSession) -> None:
    """In the 8th digit, by sign, beyond the range of rounding, and all that is no number."""
    values = [1.0, 1.0000001, -1.0, 0.0, 1e-300, 1e300, 1.1e300, math.inf, -math.inf, math.nan, None]
    digests_by_value = digests(spark, {repr(value): [[value]] for value in values}, "x double")
    assert len(set(digests_by_value.values())) == len(values)


def test_the_declared_digits_are_part_of_the_digest(spark: SparkSession) -> None:
    """Fewer digits take more floats for the same; the two kinds of digest never compare equal."""
    one, other = frame(spark, [[1.234]], "x double"), frame(spark, [[1.2341]], "x double")
    assert digest(one, 3) == digest(other, 3)
    assert digest(one, 9) != digest(other, 9)
    assert digest(one, 3) != digest(one, 9)


def test_every_bit_may_be_declared_to_count(spark: SparkSession) -> None:
    """17 digits are all of a double; -0.0 still is 0.0."""
    assert digest(frame(spark, [[0.1 + 0.2]], "x double"), 17) != digest(frame(spark, [[0.3]], "x double"), 17)
    assert digest(frame(spark, [[-0.0]], "x double"), 17) == digest(frame(spark, [[0.0]], "x double"), 17)


def test_columns_may_have_any_name(spark: SparkSession) -> None:
    """Dots, quotes, spaces, letters of any script; and more of them than a whole number has bits."""
    names = ["a.b", "`", "Größe in €", "select", *(f"c{i}" for i in range(70))]
    table = spark.createDataFrame([tuple(range(74))], ", ".join(f"`{name.replace('`', '``')}` int" for name in names))
    nulled = table.withColumn("c69", F.lit(None).cast("int"))
    assert len({digest(table), digest(nulled), digest(table.withColumn("c68", F.lit(None).cast("int")))}) == 3


@pytest.mark.parametrize(
    ("schema", "column"),
    [("m map<string,int>", "m"), ("s struct<a: array<map<int,int>>>", "s.a[]"), ("v variant", "v")],
)
def test_types_without_a_digest_are_refused_by_name(
    spark: SparkSession, tmp_path: Path, schema: str, column: str
) -> None:
    """Before anything is written."""
    with pytest.raises(DigestError, match=rf"column '{re.escape(column)}' is of type"):
        write_table(spark.createDataFrame([], schema), f"file://{tmp_path}/t", digits=9)
    assert not (tmp_path / "t").exists()
