"""Tables of Delta Lake, Iceberg and what else a package adds, by their URIs: `delta:s3://lake/clean`.

A table format is an entry point of the group `springline.table_formats`, named as its URIs begin. It refers to an
opener, a function from a `TableRequest` to a `LakehouseTable`:

    [project.entry-points."springline.table_formats"]
    delta = "springline.persistence.lakehouse.delta:open_delta"
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from springline.persistence.errors import UsageError
from springline.persistence.extensions import TABLE_FORMATS
from springline.persistence.model.dataset import Dataset, Ref
from springline.persistence.model.table_uri import split_uri
from springline.persistence.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

_MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class TableRequest:
    """The argument of an opener: which table, and the settings for it.

    Args:
        location: what follows the name of the format in the URI of the table.
        settings: of the platform, with `table_options` for what opens tables.
    """

    location: str
    settings: Settings

    def require(self, condition: object, form: str) -> None:
        """Raise `UsageError` unless `condition`, that the format has such tables, is true; `form` says what to give."""
        if not condition:
            raise UsageError(f"{self.location}: not the place of a table; give {form}")


@dataclass(frozen=True)
class TableEntry:
    """A generation in a table: its rows have the values of `fields`, and no rows of another dataset have them.

    Args:
        ref: the generation.
        number: another one for each generation that was ever of this path, larger for a later one.
        fields: texts by column: the fields of the path.
        is_partitioned: whether a table that is created is to be partitioned by `fields`.

    Example:
        >>> TableEntry(Ref("etl/2013-01-05/clean", 3), 1, {"ds": "2013-01-05"}).path
        'etl/2013-01-05/clean'
    """

    ref: Ref
    number: int
    fields: Mapping[str, str] = field(default_factory=dict)
    is_partitioned: bool = True

    @staticmethod
    def of(dataset: Dataset, fields: Mapping[str, str], *, is_partitioned: bool) -> TableEntry:
        """Return the entry of a generation: its number is the time at which its writer began, in microseconds."""
        return TableEntry(dataset.ref, round(dataset.created_at * _MICROSECONDS), fields, is_partitioned)

    @property
    def path(self) -> str:
        """The path of the dataset."""
        return self.ref.path


class TableSplit(Protocol):
    """A part of the rows of a table that one task reads; it is sent to the task with pickle."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, with the schema of the snapshot."""


@dataclass(frozen=True)
class TableSnapshot:
    """The rows of a table in one version: their columns, and the splits that have them all, each once."""

    schema: pa.Schema
    splits: tuple[TableSplit, ...]


class LakehouseTable(ABC):
    """A table that engines other than Springline read, and write, too.

    Errors: `UsageError` for what can never work, such as rows of other types; any other one is tried again.
    """

    @abstractmethod
    def version(self) -> str | None:
        """Return the newest version; None if there is no such table."""

    @abstractmethod
    def replace(self, entry: TableEntry, rows: pa.RecordBatchReader) -> str:
        """Put the rows of a generation in the place of those of earlier ones of its path, in one commit.

        The commit names the generation. If the table has it, or a later one of the path, nothing is added; so a retry
        adds nothing, whatever became of the first attempt. Of two that are made at once, one fails. The table is
        created if there is none, and gets the columns that it lacks.

        Returns:
            The version of the table that has the rows.
        """

    @abstractmethod
    def snapshot(self, version: str) -> TableSnapshot:
        """Return the rows in a version; raises `FileNotFoundError` if the table does not have it any longer."""


def open_table(uri: str, settings: Settings) -> LakehouseTable:
    """Open the table at `format:location`; it need not exist. Raises `UsageError`, `ExtensionError`.

    Example:
        >>> open_table(f"delta:{folder}/clean", Settings(home=folder)).version() is None
        True
    """
    name, location = split_uri(uri)
    table: LakehouseTable = TABLE_FORMATS.call(name, TableRequest(location, settings), f"table {uri}")
    return table
