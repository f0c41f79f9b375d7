"""Tables of Iceberg by the library pyiceberg, in a catalog of its configuration: `iceberg:CATALOG.NAMESPACE.TABLE`.

The snapshot of a generation names it in its summary. Snapshots expire; a generation that is committed again after that
takes the place of its own rows, so nothing is added either.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import Table
from pyiceberg.utils.config import Config

from springline.persistence.errors import UsageError
from springline.persistence.lakehouse.rows import fit_rows, simplify
from springline.persistence.lakehouse.table import (
    LakehouseTable,
    TableEntry,
    TableRequest,
    TableSnapshot,
    TableSplit,
)

_DATASET, _NUMBER = "springline.dataset", "springline.number"  # in the summary of a snapshot


def open_iceberg(request: TableRequest) -> Iceberg:
    """Open the table at `iceberg:CATALOG.NAMESPACE.TABLE`, where PyIceberg's configuration has the catalog.

    That is its file `.pyiceberg.yaml`, or variables such as `PYICEBERG_CATALOG__LAKE__URI` for a catalog `lake`.
    """
    catalog, _, identifier = request.location.partition(".")
    request.require(catalog and "." in identifier, "iceberg:CATALOG.NAMESPACE.TABLE")
    return Iceberg(catalog, identifier)


class Iceberg(LakehouseTable):
    """A table of Iceberg."""

    def __init__(self, catalog: str, identifier: str) -> None:
        self._catalog_name = catalog
        self._identifier = identifier
        self._catalog: Catalog | None = None

    def version(self) -> str | None:
        table = self._open()
        snapshot = table.current_snapshot() if table is not None else None
        return None if snapshot is None else str(snapshot.snapshot_id)

    def replace(self, entry: TableEntry, rows: pa.RecordBatchReader) -> str:
        table = self._open()
        if table is None:
            table = self._create(rows.schema)
        elif (version := _version_of(table, entry)) is not None:
            return version
        rows = fit_rows(rows, table.schema().as_arrow(), f"the table {self._uri}")
        is_partitioned = not table.spec().is_unpartitioned()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Delete operation did not match any records")
            with table.transaction() as transaction:
                if set(rows.schema.names) - set(table.schema().column_names):
                    with transaction.update_schema() as update:
                        update.union_by_name(rows.schema)
                transaction.overwrite(
                    rows.read_all() if is_partitioned else rows,
                    overwrite_filter=_filter(entry),
                    snapshot_properties={_DATASET: str(entry.ref), _NUMBER: str(entry.number)},
                )
        return _version_of(table, entry) or self.version() or ""

    def snapshot(self, version: str) -> TableSnapshot:
        table = self._open()
        if table is None:
            raise FileNotFoundError(f"there is no table {self._uri}")
        if table.snapshot_by_id(int(version)) is None:
            raise FileNotFoundError(f"{self._uri} has no snapshot {version} any longer: it has expired")
        scan = table.scan(snapshot_id=int(version))
        projection = scan.projection()
        schema = simplify(projection.as_arrow())
        tasks = sorted(scan.plan_files(), key=lambda task: str(task.file.file_path))
        splits = tuple(_TaskSplit(table.metadata, table.io, projection, task, schema) for task in tasks)
        return TableSnapshot(schema, splits)

    @property
    def _uri(self) -> str:
        return f"iceberg:{self._catalog_name}.{self._identifier}"

    def _open(self) -> Table | None:
        try:
            return self._loaded_catalog().load_table(self._identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def _loaded_catalog(self) -> Catalog:
        if self._catalog is None:
            try:
                # As the environment is now; the library reads it once, when it is imported.
                properties: dict[str, Any] = Config().get_catalog_config(self._catalog_name) or {}
                self._catalog = load_catalog(self._catalog_name, **properties)
            except ValueError as error:
                raise UsageError(
                    f"{self._uri}: PyIceberg has no catalog {self._catalog_name!r}: {error}; describe it in "
                    f".pyiceberg.yaml, or in variables such as PYICEBERG_CATALOG__{self._catalog_name.upper()}__URI"
                ) from error
        return self._catalog

    def _create(self, schema: pa.Schema) -> Table:
        """Create the table, without partitions: the bounds of each file tell which dataset's rows it has."""
        catalog = self._loaded_catalog()
        catalog.create_namespace_if_not_exists(self._identifier.rpartition(".")[0])
        try:
            return catalog.create_table(self._identifier, schema)
        except TableAlreadyExistsError:
            return catalog.load_table(self._identifier)


@dataclass(frozen=True)
class _TaskSplit(TableSplit):
    metadata: Any
    io: Any
    projection: Any
    task: Any
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        scan = ArrowScan(self.metadata, self.io, self.projection, AlwaysTrue())
        for batch in scan.to_record_batches([self.task]):
            yield batch.cast(self.schema)


def _filter(entry: TableEntry) -> BooleanExpression:
    """Return the condition for the rows of a dataset."""
    result: BooleanExpression = AlwaysTrue()
    for name, value in entry.fields.items():
        result = And(result, EqualTo(term=name, value=value))
    return result


def _version_of(table: Table, entry: TableEntry) -> str | None:
    """Return the snapshot that has a generation, or a later one of its path; None if none says so."""
    version = None
    for snapshot in table.snapshots():
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        path = summary.get(_DATASET, "").rpartition("@")[0]
        if path == entry.path and int(summary.get(_NUMBER, "0")) >= entry.number:
            version = str(snapshot.snapshot_id)
    return version
