"""Tables of Delta Lake and Iceberg in S3 pass the suite of table formats on two servers, and get persisted datasets."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from springline.persistence.lakehouse.delta import Delta, storage_options
from springline.persistence.lakehouse.iceberg import Iceberg
from springline.persistence.lakehouse.table import LakehouseTable
from springline.persistence.settings import Settings
from springline.services.process.ports import free_ports
from springline.services.servers.s3 import BUCKET
from springline.testing.platform import platform_in
from tests.support.datasets.table_suite import TableSuite
from tests.support.datasets.tables import environment, numbers, write_parquet
from tests.support.servers.servers import Running

SECRET = "not-to-be-seen"


def settings_of(endpoint: str, home: Path) -> Settings:
    """Those of a platform whose under-store is on the server."""
    options = {"endpoint_url": endpoint, "key": "springline", "secret": SECRET, "retry_seconds": "2"}
    return Settings(home=home, under_uri=f"s3://{BUCKET}/{uuid.uuid4().hex}", under_options=options)


class DeltaOnS3(TableSuite):
    endpoint: str
    home: Path

    @pytest.fixture
    def table(self) -> Delta:
        uri = f"s3://{BUCKET}/{uuid.uuid4().hex}/a table"
        return Delta(uri, storage_options(uri, settings_of(self.endpoint, self.home)))

    def reopen(self, table: LakehouseTable) -> Delta:
        assert isinstance(table, Delta)
        return Delta(table.uri, storage_options(table.uri, settings_of(self.endpoint, self.home)))


class TestDeltaOnS3Mock(DeltaOnS3):
    """The server that the project starts."""

    @pytest.fixture(autouse=True)
    def _server(self, s3: Running, tmp_path: Path) -> None:
        self.endpoint, self.home = s3.address, tmp_path


class TestDeltaOnMoto(DeltaOnS3):
    """A server that shares no code with it."""

    @pytest.fixture(autouse=True)
    def _server(self, moto: str, tmp_path: Path) -> None:
        self.endpoint, self.home = moto, tmp_path


class TestIcebergOnS3Mock(TableSuite):
    """The tables' files and metadata in a bucket, the catalog in a database."""

    @pytest.fixture(autouse=True)
    def _catalog(self, s3: Running, tmp_path: Path) -> Iterator[None]:
        variables = {
            "TYPE": "sql", "URI": f"sqlite:///{tmp_path}/iceberg.db",
            "WAREHOUSE": f"s3://{BUCKET}/{uuid.uuid4().hex}", "S3__ENDPOINT": s3.address,
            "S3__ACCESS_KEY_ID": "springline", "S3__SECRET_ACCESS_KEY": SECRET, "S3__REGION": "us-east-1",
        }  # fmt: skip
        with environment({f"PYICEBERG_CATALOG__LAKE__{name}": value for name, value in variables.items()}):
            yield

    @pytest.fixture
    def table(self) -> Iceberg:
        return Iceberg("lake", "shop.clean")

    def reopen(self, table: LakehouseTable) -> Iceberg:
        return Iceberg("lake", "shop.clean")


def test_a_table_beside_the_under_store_needs_no_further_options(s3: Running, tmp_path: Path) -> None:
    """It is opened with the address and the keys of the under-store."""
    settings = settings_of(s3.address, tmp_path)
    uri = f"s3://{BUCKET}/{uuid.uuid4().hex}"
    with platform_in(
        tmp_path, under_uri=settings.under_uri, under_options=settings.under_options,
        tables={"etl/{ds}/clean": f"delta:{uri}"},
    ) as platform:  # fmt: skip
        for day in (1, 2):
            write_parquet(platform, f"etl/d{day}/clean", numbers(day))
        (first, second) = platform.table_writer.drain()
        assert (first.error, second.error) == ("", "")
    table = DeltaTable(uri, storage_options=storage_options(uri, settings))
    assert sorted(map(tuple, (row.values() for row in table.to_pyarrow_table().to_pylist()))) == [(1, "d1"), (2, "d2")]


def test_a_server_that_is_not_there_is_a_reason_without_secrets(tmp_path: Path) -> None:
    """And the dataset waits for its table, which stops nothing else."""
    settings = settings_of(f"http://127.0.0.1:{free_ports(1)}", tmp_path)
    options = {"AWS_MAX_RETRIES": "0", **settings.under_options}
    with platform_in(tmp_path, table_options=options, tables={"etl/{ds}/clean": f"delta:s3://{BUCKET}/x"}) as platform:
        write_parquet(platform, "etl/d1/clean", numbers(1))
        (outcome,) = platform.table_writer.drain()
        status = platform.table_writer.status(platform.table_writer.targets[0])
    assert outcome.error
    assert status.pending == 1
    assert SECRET not in outcome.error + status.error
