"""Tables of Delta Lake and Iceberg pass the suite of table formats."""

from __future__ import annotations

import pickle
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.config import Config

from springline.persistence.lakehouse.delta import Delta
from springline.persistence.lakehouse.iceberg import Iceberg
from springline.persistence.lakehouse.table import LakehouseTable, TableEntry
from springline.persistence.model.dataset import Ref
from tests.support.datasets.table_suite import TableSuite


class TestDelta(TableSuite):
    @pytest.fixture
    def table(self, tmp_path: Path) -> Delta:
        return Delta(str(tmp_path / "a table"), {})

    def reopen(self, table: LakehouseTable) -> Delta:
        assert isinstance(table, Delta)
        return Delta(table.uri, {})


@pytest.mark.parametrize(
    "configuration", [{"delta.enableDeletionVectors": "true"}, {"delta.columnMapping.mode": "name"}], ids=str
)
def test_a_delta_table_of_a_newer_protocol_is_read_and_written_by_its_library(
    tmp_path: Path, configuration: dict[str, str]
) -> None:
    """Of which rows are deleted by vectors, or columns have other names in the files."""
    rows = pa.table({"a": [1, 2, 3], "s": ["x", "y", None], "ds": ["d1"] * 3})
    write_deltalake(str(tmp_path), rows, configuration=configuration)
    DeltaTable(str(tmp_path)).delete("a = 2")
    table = Delta(str(tmp_path), {})
    expected = [{"a": 1, "s": "x", "ds": "d1"}, {"a": 3, "s": None, "ds": "d1"}]

    assert rows_of(table) == expected
    for generation, number in ((1, 4), (2, 5)):
        entry = TableEntry(Ref("x/d2", generation), generation, {"ds": "d2"})
        batch = pa.record_batch({"a": [number], "s": ["z"], "ds": ["d2"]})
        table.replace(entry, pa.RecordBatchReader.from_batches(batch.schema, [batch]))
    assert rows_of(table) == [*expected, {"a": 5, "s": "z", "ds": "d2"}]
    if "delta.columnMapping.mode" not in configuration:  # which Polars does not read
        assert pl.scan_delta(str(tmp_path)).sort("a").collect().to_dicts() == rows_of(table)


def rows_of(table: Delta) -> list[dict[str, object]]:
    """The rows of a table, read by other processes."""
    snapshot = table.snapshot(str(table.version()))
    splits = pickle.loads(pickle.dumps(snapshot.splits))
    batches = [batch for split in splits for batch in split.batches()]
    rows: list[dict[str, object]] = pa.Table.from_batches(batches, snapshot.schema).sort_by("a").to_pylist()
    return rows


class TestIceberg(TableSuite):
    @pytest.fixture
    def table(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iceberg:
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "sql")
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/catalog.db")
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", f"file://{tmp_path}/warehouse")
        return Iceberg("lake", "shop.clean")

    def reopen(self, table: LakehouseTable) -> Iceberg:
        return Iceberg("lake", "shop.clean")

    def test_a_snapshot_has_its_columns_and_the_table_its_partitions(self, table: Iceberg) -> None:
        """Also after another tool renamed a column, or partitioned the table."""
        rows = pa.record_batch({"a": [1], "ds": ["d1"]})
        reader = pa.RecordBatchReader.from_batches
        first = table.replace(TableEntry(Ref("x/d1", 1), 1, {"ds": "d1"}), reader(rows.schema, [rows]))
        theirs = load_catalog("lake", **(Config().get_catalog_config("lake") or {})).load_table("shop.clean")
        with theirs.update_schema() as schema:
            schema.rename_column("a", "b")
        with theirs.update_spec() as spec:
            spec.add_identity("ds")
        for generation, number in ((1, 2), (2, 3)):
            rows = pa.record_batch({"b": [number], "ds": ["d2"]})
            table.replace(TableEntry(Ref("x/d2", generation), generation, {"ds": "d2"}), reader(rows.schema, [rows]))

        old, new = table.snapshot(first), table.snapshot(str(table.version()))

        assert [row for split in old.splits for b in split.batches() for row in b.to_pylist()] == [{"a": 1, "ds": "d1"}]
        read = [row for split in new.splits for b in split.batches() for row in b.to_pylist()]
        assert sorted(read, key=str) == [{"b": 1, "ds": "d1"}, {"b": 3, "ds": "d2"}]
