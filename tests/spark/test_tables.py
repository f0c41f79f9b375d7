"""Operations read tables of Delta Lake and Iceberg in a version that lineage names; their outputs go into tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from docs.console import files_in
from springline.persistence.errors import OperationError
from springline.persistence.lakehouse.table import TableEntry, open_table
from springline.persistence.model.dataset import Dataset, Origin, Ref, Strategy
from springline.persistence.platform import Platform, open_platform
from springline.persistence.profile import import_root, project_folder
from springline.persistence.settings import Settings
from springline.spark_jobs.errors import DeclarationError, ParameterError
from springline.spark_jobs.materialize import materialize
from springline.spark_jobs.operations import Context, OperationRegistry
from springline.spark_jobs.runner import SparkRunner
from tests.support.datasets.states import wipe_cache
from tests.support.datasets.tables import FORMATS, catalog_variables, environment, uri_of
from tests.support.servers.spark_server import SparkServer

MakeRunner = Callable[..., SparkRunner]


@pytest.fixture(autouse=True)
def iceberg_catalog(tmp_path: Path) -> Iterator[None]:
    with environment(catalog_variables(tmp_path)):
        yield


@pytest.fixture(params=FORMATS)
def orders(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URI of a table with one version: two orders of a day."""
    uri = uri_of(request.param, tmp_path, "orders")
    add_orders(uri, "2026-03-02", [1, 2])
    return uri


def add_orders(uri: str, day: str, numbers: list[int]) -> str:
    """Put the orders of a day into a table, and return the version that has them."""
    batch = pa.record_batch(
        {
            "number": pa.array(numbers, pa.int64()), "price": [Decimal("1.50")] * len(numbers),
            "at": pa.array([0] * len(numbers), pa.timestamp("us", "UTC")),
            "on": pa.array([20_000] * len(numbers), pa.date32()), "tags": [["a", None]] * len(numbers),
            "day": [day] * len(numbers),
        }
    )  # fmt: skip
    entry = TableEntry(Ref(f"orders/{day}", 1), len(numbers), {"day": day})
    return open_table(uri, Settings()).replace(entry, pa.RecordBatchReader.from_batches(batch.schema, [batch]))


@pytest.fixture
def platform(make_runner: MakeRunner, orders: str, tmp_path: Path) -> Iterator[Platform]:
    registry = OperationRegistry()

    @registry.operation("shop.orders", output="shop/{ds}/orders", tables={"orders": orders})
    def read(context: Context, orders: DataFrame) -> DataFrame:
        return orders

    @registry.operation(
        "shop.count", sources={"listed": "shop/{ds}/orders"}, output="shop/{ds}/count", tables={"orders": orders}
    )
    def count(context: Context, listed: DataFrame, orders: DataFrame) -> DataFrame:
        return listed.agg(F.count("*").alias("listed")).crossJoin(orders.agg(F.count("*").alias("there")))

    settings = Settings(
        home=tmp_path / "home", cache_uri=f"file://{tmp_path}/cache", sync_timeout=0, retry_seconds=0,
        tables={"shop/{ds}/orders": uri_of(orders.partition(":")[0], tmp_path, "copies")},
    )  # fmt: skip
    opened = open_platform(settings, runner=make_runner(registry), actor="test")
    yield opened
    opened.close()


def rows_of(platform: Platform, dataset: Dataset) -> list[tuple[object, ...]]:
    """Return the rows of a dataset, read without Spark."""
    dataset = platform.catalog.get(dataset.ref)
    table = pq.read_table(platform.cache.uri(dataset.cache_location).removeprefix("file://"))
    return sorted(tuple(row.values()) for row in table.to_pylist())


def row(number: int, day: str) -> tuple[object, ...]:
    """Return the row of an order."""
    at = datetime(1970, 1, 1, tzinfo=UTC)
    return (number, Decimal("1.50"), at, date(2024, 10, 4), ["a", None], day)


def test_the_version_that_is_read_is_in_the_lineage(platform: Platform, orders: str) -> None:
    version = open_table(orders, Settings()).version()
    dataset = materialize(platform, "shop.orders", {"ds": "2026-03-02"})
    assert dataset.call is not None
    assert dataset.call.params == {"ds": "2026-03-02", "orders": f"{orders}@{version}"}
    assert rows_of(platform, dataset) == [row(1, "2026-03-02"), row(2, "2026-03-02")]


def test_a_lost_dataset_is_recomputed_from_the_version_that_it_was_made_from(platform: Platform, orders: str) -> None:
    dataset = materialize(platform, "shop.orders", {"ds": "2026-03-02"}, strategy=Strategy.ASYNC_STORE)
    add_orders(orders, "2026-03-03", [3])
    wipe_cache(platform)
    platform.maintenance.scan()

    platform.restorer.restore([dataset.ref]).require_all()

    assert len(rows_of(platform, dataset)) == 2
    assert platform.catalog.get(dataset.ref).digest == dataset.digest
    newer = materialize(platform, "shop.orders", {"ds": "2026-03-02"}, strategy=Strategy.ASYNC_STORE)
    assert len(rows_of(platform, newer)) == 3


def test_a_dag_run_reads_one_version(platform: Platform, orders: str) -> None:
    first, second = Origin("shop", "monday", "orders"), Origin("shop", "monday", "count")
    materialize(platform, "shop.orders", {"ds": "2026-03-02"}, origin=first)
    add_orders(orders, "2026-03-03", [3])
    dataset = materialize(platform, "shop.count", {"ds": "2026-03-02"}, origin=second)
    assert rows_of(platform, dataset) == [(2, 2)]
    later = materialize(platform, "shop.count", {"ds": "2026-03-02"}, origin=Origin("shop", "tuesday", "count"))
    assert rows_of(platform, later) == [(2, 3)]


def test_a_version_can_be_given(platform: Platform, orders: str) -> None:
    version = open_table(orders, Settings()).version()
    add_orders(orders, "2026-03-03", [3])
    for value in (version, f"{orders}@{version}"):
        dataset = materialize(platform, "shop.orders", {"ds": "2026-03-02", "orders": str(value)})
        assert len(rows_of(platform, dataset)) == 2
    with pytest.raises(ParameterError, match="give a version of the table"):
        materialize(platform, "shop.orders", {"ds": "2026-03-02", "orders": "yesterday"})
    with pytest.raises(OperationError, match=r"has no (version|snapshot) 99999"):
        materialize(platform, "shop.orders", {"ds": "2026-03-02", "orders": "99999"})


def test_the_output_of_an_operation_goes_into_a_table(platform: Platform, tmp_path: Path, orders: str) -> None:
    for ds in ("2026-03-02", "2026-03-03", "2026-03-02"):
        materialize(platform, "shop.orders", {"ds": ds}, strategy=Strategy.ASYNC_STORE)
    platform.persister.drain()

    outcomes = platform.table_writer.drain()

    assert [each.error for each in outcomes] == ["", ""]
    copies = uri_of(orders.partition(":")[0], tmp_path, "copies")
    assert sum(count_by_number(copies).values()) == 4


def count_by_number(uri: str) -> dict[tuple[object, ...], int]:
    """Return how often each order of each day is in a table, without the lists, which cannot be keys."""
    snapshot = open_table(uri, Settings()).snapshot(str(open_table(uri, Settings()).version()))
    rows = [
        (each["number"], each["ds"]) for split in snapshot.splits for b in split.batches() for each in b.to_pylist()
    ]
    return {each: rows.count(each) for each in rows}


def test_a_table_that_is_not_there_is_an_error_with_its_name(make_runner: MakeRunner, tmp_path: Path) -> None:
    registry = OperationRegistry()
    uri = f"delta:{tmp_path}/nowhere"

    @registry.operation("shop.orders", output="shop/{ds}/orders", tables={"orders": uri})
    def read(context: Context, orders: DataFrame) -> DataFrame:
        return orders

    with pytest.raises(OperationError, match=f"the table {uri} does not exist"):
        make_runner(registry).call("shop.orders", {"ds": "x"})


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"orders": "s3://lake/orders"}, "no installed package provides 's3'"),
        ({"orders": "delta:/lake/orders@3"}, "names a version: leave it out"),
        ({"orders": "lake/orders"}, "write its format and its place"),
        ({"orders": "delta:/lake/{region}"}, "has the field 'region'"),
        ({"ds": "delta:/lake"}, "'ds' is a table, and a parameter of another kind"),
        ({"other": "delta:/lake"}, "its sources and tables require"),
    ],
)
def test_a_declaration_that_can_never_work_is_refused(tables: dict[str, str], message: str) -> None:
    def read(context: Context, orders: DataFrame) -> DataFrame:
        return orders

    with pytest.raises(DeclarationError, match=message):
        OperationRegistry().operation("shop.orders", output="shop/{ds}/orders", tables=tables)(read)


def test_the_operation_that_the_page_shows_reads_a_table(
    spark_server: SparkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run by the command, in a folder of its own; the version is in what `dataset explain` says."""
    module = files_in((project_folder() / "docs" / "howto.md").read_text(encoding="utf-8"))["lake_orders.py"]
    (tmp_path / "lake_orders.py").write_text(module.replace("/srv/lake", f"{tmp_path}/lake"), encoding="utf-8")
    add_orders(f"delta:{tmp_path}/lake/orders", "2026-03-02", [1, 2])
    add_orders(f"delta:{tmp_path}/lake/orders", "2026-03-03", [3])
    environment = {
        **os.environ, "SPRINGLINE_HOME": str(tmp_path / "home"), "SPRINGLINE_OPERATIONS": "lake_orders",
        "SPRINGLINE_CACHE_URI": (tmp_path / "cache").as_uri(), "SPRINGLINE_SPARK_REMOTE": spark_server.remote,
        "PYTHONPATH": f"{import_root()}:{tmp_path}", "SPRINGLINE_PROFILE": "",
    }  # fmt: skip

    def run(*arguments: str) -> str:
        completed_process = subprocess.run(
            [sys.executable, "-m", "springline", *arguments], cwd=tmp_path, capture_output=True, text=True,
            env=environment,
        )  # fmt: skip
        assert completed_process.returncode == 0, completed_process.stderr + completed_process.stdout
        return completed_process.stdout

    assert "lake/2026-03-02/orders@1: 2 rows" in run("run", "lake.orders", "--ds", "2026-03-02")
    explanation = json.loads(run("dataset", "explain", "lake/2026-03-02/orders", "--json"))
    assert explanation["tables"] == [f"delta:{tmp_path}/lake/orders@1"]
    assert "lake/2026-03-03/orders@1: 0 rows" in run("run", "lake.orders", "--ds", "2026-03-03", "--param", "orders=0")
