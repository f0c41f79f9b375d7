"""The columns and a sample of the rows of a generation, from its copy in the cache, else from the under-store."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from springline.airflow.content.bounded_file import BoundedFile, Budget
from springline.airflow.content.errors import NoCopyError, UnreadableContentError
from springline.airflow.content.table_head import ContentColumn, TableHead
from springline.airflow.content.text_head import read_text_head
from springline.extras import MissingExtraError, import_lazily
from springline.persistence.backends.spec import Backend
from springline.persistence.errors import StorageUnavailableError
from springline.persistence.model.dataset import CacheState, Dataset, Phase
from springline.persistence.model.manifest import File
from springline.persistence.platform import Platform

_PARQUET = b"PAR1"
_PARQUET_READER = "springline.airflow.content.parquet_head"
_HIDDEN = re.compile(r"(^|/)(\.|_(?![^/]*=))")  # names that engines do not read as part of a table
_MOST_FILES = 16  # that are opened: engines write empty files too

StoreName = Literal["cache", "under-store"]


@dataclass(frozen=True, slots=True)
class GenerationSchema:
    """The columns of a generation, of which file they are, and the number of its files.

    `is_inferred`: the types are those of the first rows; the file itself has none.
    """

    path: str
    generation: int
    store: StoreName
    format: str
    file: str
    files: int
    columns: Sequence[ContentColumn]
    is_inferred: bool


@dataclass(frozen=True, slots=True)
class GenerationRows:
    """The first rows of a generation, a text (or null) for each of the first 100 columns.

    `other_files` counts files that were left out, since their columns are others; `is_complete`: there are no more
    rows.
    """

    path: str
    generation: int
    store: StoreName
    format: str
    columns: Sequence[ContentColumn]
    rows: Sequence[Sequence[str | None]]
    files: int
    other_files: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class _Copy:
    """The files of one copy of a generation that are to be looked into."""

    dataset: Dataset
    store: StoreName
    backend: Backend
    location: str
    files: Sequence[File]

    def place(self, file: File) -> str:
        """Return the name of a file for messages."""
        return f"the file {file.name} of {self.dataset.ref}"

    def head(self, file: File, limit: int, budget: Budget) -> TableHead:
        """Return the columns and the first rows of a file; raises `UnreadableContentError`."""
        place = self.place(file)
        reader = BoundedFile(self.backend, self.location, file.name, file.bytes, budget, place)
        magic = reader.read(len(_PARQUET))
        reader.seek(0)
        if magic != _PARQUET:
            return read_text_head(reader, file.name, place, limit)
        try:
            parquet = import_lazily(_PARQUET_READER, f"A look into {place}")
        except MissingExtraError as missing:
            raise UnreadableContentError(str(missing)) from missing
        head: TableHead = parquet.read_parquet_head(reader, place, limit)
        return head


def read_schema(platform: Platform, dataset: Dataset, budget: Budget | None = None) -> GenerationSchema:
    """Return the columns of a generation.

    Raises `NoCopyError`, `UnreadableContentError`, `StorageUnavailableError`.
    """
    budget = budget or Budget()
    for copy in _copies(platform, dataset):
        try:
            file = copy.files[0]
            head = copy.head(file, 0, budget)
        except (FileNotFoundError, StorageUnavailableError):
            continue  # evicted meanwhile, or away: the other copy serves
        return GenerationSchema(
            *dataset.ref, copy.store, head.format, file.name, len(copy.files), head.columns, head.is_inferred
        )
    raise _no_copy(dataset)


def read_rows(platform: Platform, dataset: Dataset, limit: int, budget: Budget | None = None) -> GenerationRows:
    """Return the first `limit` rows of a generation; raises the errors of `read_schema`."""
    budget = budget or Budget()
    for copy in _copies(platform, dataset):
        try:
            return _rows_of(copy, limit, budget)
        except (FileNotFoundError, StorageUnavailableError):
            continue
    raise _no_copy(dataset)


def _rows_of(copy: _Copy, limit: int, budget: Budget) -> GenerationRows:
    """Return the first rows of the files whose columns are those of the first one."""
    first: TableHead | None = None
    rows: list[Sequence[str | None]] = []
    other_files = 0
    is_cut = False
    unread_files = len(copy.files)
    for file in copy.files[:_MOST_FILES]:
        head = copy.head(file, limit - len(rows) + 1, budget)  # one more, to know whether there are more
        unread_files -= 1
        first = first or head
        if [column.name for column in head.columns] == [column.name for column in first.columns]:
            rows += head.rows
            is_cut |= head.is_cut
        else:
            other_files += 1
        if len(rows) > limit:
            break
    assert first is not None
    return GenerationRows(
        *copy.dataset.ref, copy.store, first.format, first.columns, rows[:limit], len(copy.files), other_files,
        is_complete=len(rows) <= limit and not unread_files and not is_cut,
    )  # fmt: skip


def _copies(platform: Platform, dataset: Dataset) -> Iterator[_Copy]:
    """Yield the copies of a committed generation that can be read now, the nearest first."""
    places: list[tuple[StoreName, Backend, str]] = []
    if dataset.phase is Phase.COMMITTED and dataset.in_cache:
        places.append(("cache", platform.cache, dataset.cache_location))
    if dataset.phase is Phase.COMMITTED and dataset.persisted:
        places.append(("under-store", platform.under, dataset.under_location))
    for i, (store, backend, location) in enumerate(places, start=1):
        try:
            files = backend.files(location)
        except FileNotFoundError:
            continue  # evicted meanwhile
        except StorageUnavailableError:
            if i == len(places):
                raise
            continue
        if files:
            filled = [file for file in files if file.bytes]
            tables = [file for file in filled if not _HIDDEN.search(file.name)]
            yield _Copy(dataset, store, backend, location, tables or filled or files)


def _no_copy(dataset: Dataset) -> NoCopyError:
    """Return why no store has the bytes of a generation, and what to do."""
    if dataset.phase is Phase.OPEN:
        return NoCopyError(f"{dataset.ref} is still being written; its rows can be read after its commit")
    if dataset.phase is not Phase.COMMITTED:
        return NoCopyError(f"{dataset.ref} is {dataset.phase}: its files are deleted; look at another generation")
    if dataset.available:
        return NoCopyError(f"{dataset.ref} is not where the catalog says; check and recover it")
    reason = "lost from the cache" if dataset.cache is CacheState.LOST else "not in the cache"
    return NoCopyError(f"{dataset.ref} is {reason} and in no other store; recover it first")
