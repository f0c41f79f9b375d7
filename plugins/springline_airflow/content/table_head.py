"""The beginning of a table: its columns, and its first rows as texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MOST_COLUMNS = 100  # of which rows are shown


@dataclass(frozen=True, slots=True)
class ContentColumn:
    """A column of a dataset's files; `nullable`: whether its values may be missing."""

    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class TableHead:
    """The columns of one file, and its first rows, a text (or null) for each of the first columns.

    `format`: parquet, json, csv or text. `row_count`: of the whole file, if its metadata says so. `is_inferred`: the
    types are those of the rows that were read; the file itself has none. `is_cut`: the file goes on beyond what
    was read of it.
    """

    format: str
    columns: Sequence[ContentColumn]
    rows: Sequence[Sequence[str | None]]
    row_count: int | None = None
    is_inferred: bool = False
    is_cut: bool = False
