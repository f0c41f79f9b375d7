"""Tables of Delta Lake by the library deltalake: a folder, or the keys below a prefix, with a log of commits.

The commit of a generation is a transaction of the application that the dataset's path names, in Delta's words: its
version is the generation's number, so a table knows each dataset's newest generation as long as it exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from springline.persistence.errors import UsageError
from springline.persistence.lakehouse.rows import fit_rows, simplify
from springline.persistence.lakehouse.table import (
    LakehouseTable,
    TableEntry,
    TableRequest,
    TableSnapshot,
    TableSplit,
)
from springline.persistence.settings import Settings

_PLAIN_FEATURES = {"timestampNtz"}  # of readers, that Arrow has
_HISTORY = 20  # commits among which that of a generation is looked for
_S3_OPTIONS = {
    "endpoint_url": "AWS_ENDPOINT_URL", "key": "AWS_ACCESS_KEY_ID", "secret": "AWS_SECRET_ACCESS_KEY",
    "token": "AWS_SESSION_TOKEN", "region": "AWS_REGION", "anon": "AWS_SKIP_SIGNATURE",
}  # fmt: skip


def open_delta(request: TableRequest) -> Delta:
    """Open the table at `delta:URI`, where the URI is a folder or what deltalake opens, such as `s3://bucket/prefix`.

    Its options are `SPRINGLINE_TABLE_OPTIONS`. For S3 they are named as those of an under-store, and without them the
    under-store's are used, if that is in S3 too.
    """
    request.require("://" in request.location or request.location.startswith("/"), "delta:s3://… or delta:/folder")
    return Delta(request.location, storage_options(request.location, request.settings))


def storage_options(uri: str, settings: Settings) -> dict[str, str]:
    """Return what opens tables at a URI, by the names of deltalake."""
    if urlsplit(uri).scheme not in ("s3", "s3a"):
        return {name: value.get_secret_value() for name, value in settings.table_options.items()}
    options = settings.options_beside_under(uri.replace("s3a://", "s3://", 1), settings.table_options)
    options.pop("retry_seconds", None)  # of the under-store's own client
    renamed = {_S3_OPTIONS.get(name, name): value for name, value in options.items()}
    if renamed.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        renamed["AWS_ALLOW_HTTP"] = "true"
    if "AWS_ENDPOINT_URL" in renamed:
        renamed.setdefault("AWS_REGION", "us-east-1")  # for servers that have none
    return renamed


class Delta(LakehouseTable):
    """A table of Delta Lake."""

    def __init__(self, uri: str, options: dict[str, str]) -> None:
        self.uri = uri
        self._options = options

    def version(self) -> str | None:
        table = self._open()
        return None if table is None else str(table.version())

    def replace(self, entry: TableEntry, rows: pa.RecordBatchReader) -> str:
        table = self._open()
        refusals: list[UsageError] = []
        if table is not None:
            if (newest := table.transaction_version(entry.path)) is not None and newest >= entry.number:
                return self._version_of(table, entry)
            columns = pa.schema(table.schema().to_arrow())
            rows = fit_rows(rows, columns, f"the table delta:{self.uri}", refusals.append)
        commit = CommitProperties(
            custom_metadata={"springline.dataset": str(entry.ref), "springline.number": str(entry.number)},
            app_transactions=[Transaction(entry.path, entry.number)],
        )
        if table is None:
            partition_by = list(entry.fields) if entry.is_partitioned else []
            write_deltalake(
                self.uri, rows, partition_by=partition_by or None, storage_options=self._options,
                commit_properties=commit,
            )  # fmt: skip
        else:
            has_new_columns = len(rows.schema) > len(table.schema().fields)
            try:
                write_deltalake(
                    table, rows, mode="overwrite", predicate=_predicate(entry),
                    schema_mode="merge" if has_new_columns else None,
                    commit_properties=commit,
                )  # fmt: skip
            except DeltaError as error:
                if refusals:
                    raise refusals[0] from error
                raise
        return self._version_of(DeltaTable(self.uri, storage_options=self._options), entry)

    def snapshot(self, version: str) -> TableSnapshot:
        try:
            table = DeltaTable(self.uri, version=int(version), storage_options=self._options)
        except TableNotFoundError as error:
            raise FileNotFoundError(f"there is no table delta:{self.uri}") from error
        except DeltaError as error:
            newest = self.version()  # raises if the store does not respond
            raise FileNotFoundError(
                f"delta:{self.uri} has no version {version} that can be read; the newest one is {newest}"
            ) from error
        if not _is_read_by_arrow(table):  # by the library's own engine, in one task
            schema = simplify(pa.schema(table.schema().to_arrow()))
            return TableSnapshot(schema, (_WholeTable(self.uri, int(version), self._options, schema),))
        data = table.to_pyarrow_dataset()
        fragments = sorted(data.get_fragments(), key=lambda fragment: str(fragment.path))
        return TableSnapshot(simplify(data.schema), tuple(_FileSplit(fragment, data.schema) for fragment in fragments))

    def _open(self) -> DeltaTable | None:
        try:
            return DeltaTable(self.uri, storage_options=self._options)
        except TableNotFoundError:
            return None

    @staticmethod
    def _version_of(table: DeltaTable, entry: TableEntry) -> str:
        """Return the version that a commit of a generation made, or else the newest one, which has its rows too."""
        for commit in table.history(_HISTORY):
            if commit.get("springline.dataset") == str(entry.ref) and "version" in commit:
                return str(commit["version"])
        return str(table.version())


@dataclass(frozen=True)
class _FileSplit(TableSplit):
    fragment: Any
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        schema = simplify(self.schema)
        for batch in self.fragment.to_batches(schema=self.schema):
            yield batch.cast(schema)


@dataclass(frozen=True)
class _WholeTable(TableSplit):
    uri: str
    version: int
    options: dict[str, str] = field(repr=False)
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        table = DeltaTable(self.uri, version=self.version, storage_options=self.options)
        for batch in pa.RecordBatchReader.from_stream(table.scan(columns=self.schema.names)):
            yield batch.cast(self.schema)


def _is_read_by_arrow(table: DeltaTable) -> bool:
    """Whether the files have the rows of the table as they are: no deletion vectors, columns named as in the table."""
    protocol = table.protocol()
    features = set(protocol.reader_features or ())
    return protocol.min_reader_version == 1 or (protocol.min_reader_version >= 3 and features <= _PLAIN_FEATURES)


def _predicate(entry: TableEntry) -> str | None:
    """Return the condition for the rows of a dataset; None for all rows of the table."""
    quoted = [f"\"{name}\" = '{value.replace(chr(39), 2 * chr(39))}'" for name, value in entry.fields.items()]
    return " AND ".join(quoted) or None
