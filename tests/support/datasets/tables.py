"""Datasets of Parquet files, and the tables of Delta Lake and Iceberg that they go into, read by other engines."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.utils.config import Config

from springline.persistence.model.dataset import OperationResult, Ref, Strategy
from springline.persistence.platform import Platform

FORMATS = ("delta", "iceberg")


def write_parquet(
    platform: Platform,
    path: str,
    *tables: pa.Table,
    strategy: Strategy = Strategy.CACHE_THROUGH,
    report: Mapping[str, Any] | None = None,
    names: tuple[str, ...] = (),
) -> Ref:
    """Write tables as the files of the next generation of a path; by default it is persisted at once."""
    with platform.store.write(path, strategy=strategy) as writing:
        folder = Path(writing.uri.removeprefix("file://"))
        folder.mkdir(parents=True)
        for number, table in enumerate(tables):
            pq.write_table(table, folder / (names[number] if names else f"part-{number}.parquet"))
        rows = sum(table.num_rows for table in tables)
        writing.mark_complete(OperationResult(rows, f"{path} {rows}", 0.0, report))
    return writing.ref


def numbers(*values: int) -> pa.Table:
    """Return a table with one column of integers, `a`."""
    return pa.table({"a": pa.array(values, pa.int64())})


def catalog_variables(folder: Path) -> dict[str, str]:
    """Return the variables that describe a catalog `lake` of Iceberg, in a folder."""
    return {
        "PYICEBERG_CATALOG__LAKE__TYPE": "sql",
        "POLARS_ICEBERG_PLANNER": "pyiceberg",
        "PYICEBERG_CATALOG__LAKE__URI": f"sqlite:///{folder}/iceberg.db",
        "PYICEBERG_CATALOG__LAKE__WAREHOUSE": f"file://{folder}/warehouse",
    }


def uri_of(table_format: str, folder: Path, name: str = "clean") -> str:
    """Return the URI of a table in a folder."""
    return f"delta:{folder}/lake/{name}" if table_format == "delta" else f"iceberg:lake.shop.{name}"


def read_by_others(uri: str) -> Counter[tuple[Any, ...]]:
    """Return the rows of a table as two engines read them, each with how often it occurs; they must agree.

    The library of the format with Arrow, and Polars.
    """
    name, _, location = uri.partition(":")
    if name == "delta":
        try:
            table = DeltaTable(location)
        except TableNotFoundError:
            return Counter()
        arrow, frame = table.to_pyarrow_table(), pl.scan_delta(table).collect()
    else:
        catalog_name, _, identifier = location.partition(".")
        catalog = load_catalog(catalog_name, **dict(Config().get_catalog_config(catalog_name) or {}))
        try:
            iceberg = catalog.load_table(identifier)
        except (NoSuchNamespaceError, NoSuchTableError):
            return Counter()
        arrow, frame = iceberg.scan().to_arrow(), pl.scan_iceberg(iceberg).collect()
    rows = Counter(tuple(row.values()) for row in arrow.to_pylist())
    assert rows == Counter(frame.select(arrow.schema.names).rows())
    return rows


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process inside the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
