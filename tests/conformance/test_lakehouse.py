"""Tables of Delta Lake and Iceberg pass the suite of table formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from springline.persistence.lakehouse.delta import Delta
from springline.persistence.lakehouse.iceberg import Iceberg
from springline.persistence.lakehouse.table import LakehouseTable
from tests.support.datasets.table_suite import TableSuite


class TestDelta(TableSuite):
    @pytest.fixture
    def table(self, tmp_path: Path) -> Delta:
        return Delta(str(tmp_path / "a table"), {})

    def reopen(self, table: LakehouseTable) -> Delta:
        assert isinstance(table, Delta)
        return Delta(table.uri, {})


class TestIceberg(TableSuite):
    @pytest.fixture
    def table(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iceberg:
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "sql")
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/catalog.db")
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", f"file://{tmp_path}/warehouse")
        return Iceberg("lake", "shop.clean")

    def reopen(self, table: LakehouseTable) -> Iceberg:
        return Iceberg("lake", "shop.clean")
