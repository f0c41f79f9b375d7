"""A store in one file of SQLite: `SPRINGLINE_UNDER_URI=sqlite:///srv/springline.db?patience=5`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from springline import (
    File,
    FolderEntry,
    Link,
    ListedBackend,
    StoreRequest,
    UnderStore,
    checked_below,
    files_below,
    limit_bandwidth,
)  # fmt: skip
from springline.errors import StorageFullError, StorageUnavailableError

_TABLE = "CREATE TABLE IF NOT EXISTS file (path TEXT PRIMARY KEY, content BLOB NOT NULL)"
_BELOW = "(path = :top OR substr(path, 1, length(:top) + 1) = :top || '/' OR :top = '')"
_CHUNK = 1 << 20
_MANIFEST = "_springline.json"


def open_store(request: StoreRequest) -> SqliteBackend:
    """The database at the path of a URI, as an under-store; option `patience`: seconds to wait for another writer."""
    path = Path(request.path)
    good = request.role == "under" and not request.uri.netloc and path.is_absolute() and path.name
    request.require(good, "sqlite:///an/absolute/file.db, as under-store")
    request.require_options("patience")
    patience = float(request.options.get("patience", 5))
    return SqliteBackend(path, patience=patience, link=request.link, capacity=request.capacity, in_use=request.in_use)


class SqliteBackend(ListedBackend, UnderStore):
    """The rows of a table, one a file, by path; each call is a transaction, so a file is there whole or not at all."""

    def __init__(
        self,
        path: Path,
        *,
        patience: float = 5,
        link: Link | None = None,
        capacity: int = 0,
        in_use: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(f"sqlite://{path}", "sqlite://")
        self.file, self._patience, self._link = path, patience, link
        self._capacity, self._in_use = capacity, in_use

    def exists(self, location: str) -> bool:
        return bool(self._sizes(self._key(location)))

    def files(self, location: str) -> tuple[File, ...]:
        return tuple(sorted(files_below(self._entries, self._key(location))))

    def chunks(self, location: str, name: str) -> Iterator[bytes]:
        content = self._read(self._key(location, name))
        yield from limit_bandwidth(self._link, (content[at : at + _CHUNK] for at in range(0, len(content), _CHUNK)))

    def create(self, location: str, name: str, size: int) -> BinaryIO:
        key = self._key(location, name)
        sizes = self._sizes("")
        if key in sizes:
            raise FileExistsError(f"{key} in {self.file} is there already")
        if self._capacity and sum(sizes.values()) + size > self._capacity:
            raise StorageFullError(f"{self.file} has no room for the {size} bytes of {key}")
        return _Sending(self._link, lambda content: self._put("INSERT", key, content))

    def publish(self, location: str, manifest: bytes) -> None:
        self._put("REPLACE", self._key(location, _MANIFEST), manifest)

    def read_manifest(self, location: str) -> bytes:
        return self._read(self._key(location, _MANIFEST))

    def mark_root(self) -> None:
        self._require_used()
        with self._transaction():
            pass  # the database is there now

    def delete(self, location: str) -> None:
        top = self._key(location)
        with self._transaction() as database:
            database.execute(f"DELETE FROM file WHERE {_BELOW}", {"top": top})

    def names(self, location: str) -> tuple[str, ...]:
        above = self._key(location) + "/"
        below = (key.removeprefix(above) for key in self._sizes(above[:-1]) if key.startswith(above))
        return tuple(sorted({name.partition("/")[0] for name in below}))

    def _read(self, key: str) -> bytes:
        rows = self._query("SELECT content FROM file WHERE path = :key", key=key)
        if not rows:
            raise FileNotFoundError(f"{key} is not in {self.file}")
        return bytes(rows[0][0])

    def _put(self, verb: str, key: str, content: bytes) -> None:
        with self._transaction() as database:
            database.execute(f"{verb} INTO file VALUES (?, ?)", [key, content])

    def _sizes(self, top: str) -> dict[str, int]:
        """The bytes of all files at or below a place, by path."""
        return dict(self._query(f"SELECT path, length(content) FROM file WHERE {_BELOW}", top=top))

    def _query(self, question: str, **values: str) -> list[Any]:
        """What is in the database; one that was never used is not made by looking."""
        self._require_used()
        if not self.file.is_file() and self.file.parent.is_dir():
            return []
        with self._transaction() as database:
            return database.execute(question, values).fetchall()

    def _require_used(self) -> None:
        if not self.file.is_file() and self._in_use():
            raise StorageUnavailableError(f"{self.file} is not there, though it was used: is its disk mounted?")

    def _entries(self, location: str) -> Sequence[FolderEntry]:
        above = f"{location}/" if location else ""
        inside = {key.removeprefix(above): size for key, size in self._sizes(location).items() if key.startswith(above)}
        if location and not inside:
            raise FileNotFoundError(f"{location} is no folder of {self.file}")
        files = [FolderEntry(name, False, size) for name, size in inside.items() if "/" not in name]
        return [*files, *(FolderEntry(name, True) for name in {key.partition("/")[0] for key in inside if "/" in key})]

    def _key(self, *texts: str) -> str:
        return checked_below(self._uri, *texts)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """The database, for one transaction; what it refuses is a store that is full, or does not answer."""
        self._require_used()
        try:
            with closing(sqlite3.connect(self.file, self._patience, isolation_level=None)) as database:
                database.execute(_TABLE)
                database.execute("BEGIN IMMEDIATE")
                with database:
                    yield database
        except sqlite3.Error as error:
            full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            raise (StorageFullError if full else StorageUnavailableError)(f"{self.file}: {error}") from error


class _Sending(BytesIO):
    """A file that is there once it is closed."""

    def __init__(self, link: Link | None, put: Callable[[bytes], None]) -> None:
        super().__init__()
        self._stream, self._put = link.stream() if link else None, put

    def write(self, chunk: bytes) -> int:  # type: ignore[override]
        if self._stream:
            self._stream.pass_bytes(len(chunk))
        return super().write(chunk)

    def close(self) -> None:
        if not self.closed:
            if self._stream:
                self._stream.finish()
            self._put(self.getvalue())
        super().close()
