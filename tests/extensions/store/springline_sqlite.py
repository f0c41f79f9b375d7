"""A store in one file of SQLite: `SPRINGLINE_UNDER_URI=sqlite:///srv/springline.db?patience=5`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from springline import File, FolderEntry, Link, ListedBackend, StoreRequest, checked_below, files_below, limit_bandwidth
from springline.errors import StorageFullError, StorageUnavailableError

_TABLE = "CREATE TABLE IF NOT EXISTS file (path TEXT PRIMARY KEY, content BLOB NOT NULL)"
_BELOW = "(path = :top OR substr(path, 1, length(:top) + 1) = :top || '/' OR :top = '')"
_CHUNK = 1 << 20


def open_store(request: StoreRequest) -> SqliteBackend:
    """The database at the path of a URI, as an under-store; option `patience`: seconds to wait for another writer."""
    path = Path(request.path)
    good = request.role == "under" and not request.uri.netloc and path.is_absolute() and path.name
    request.require(good, "sqlite:///an/absolute/file.db, as under-store")
    request.require_options("patience")
    patience = float(request.options.get("patience", 5))
    return SqliteBackend(path, patience=patience, link=request.link, capacity=request.capacity, in_use=request.in_use)


class SqliteBackend(ListedBackend):
    """The rows of a table, one a file, by path; each call is a transaction, so a rename moves all files or none."""

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
        self._file, self._patience, self._link = path, patience, link
        self._capacity, self._in_use = capacity, in_use

    def exists(self, location: str) -> bool:
        return bool(self._sizes(self._key(location)))

    def files(self, location: str) -> tuple[File, ...]:
        return tuple(sorted(files_below(self._entries, self._key(location))))

    def chunks(self, location: str, name: str) -> Iterator[bytes]:
        content = self.read_small(location, name)
        yield from limit_bandwidth(self._link, (content[at : at + _CHUNK] for at in range(0, len(content), _CHUNK)))

    def create(self, location: str, name: str, size: int) -> BinaryIO:
        key = self._key(location, name)
        sizes = self._sizes("")
        if key in sizes:
            raise FileExistsError(f"{key} in {self._file} is there already")
        if self._capacity and sum(sizes.values()) + size > self._capacity:
            raise StorageFullError(f"{self._file} has no room for the {size} bytes of {key}")
        return _Sending(self._link, lambda content: self._put("INSERT", key, content))

    def rename(self, old: str, new: str) -> None:
        here, there = self._key(old), self._key(new)
        with self._transaction() as database:
            for place, missing in ((here, True), (there, False)):
                row = database.execute(f"SELECT 1 FROM file WHERE {_BELOW}", {"top": place}).fetchone()
                if missing and not row:
                    raise FileNotFoundError(f"nothing is at {old} in {self._file}")
                if row and not missing:
                    raise FileExistsError(f"{new} in {self._file} is there already")
            moved = f"UPDATE file SET path = :new || substr(path, length(:top) + 1) WHERE {_BELOW}"
            database.execute(moved, {"top": here, "new": there})

    def delete(self, location: str) -> None:
        top = self._key(location)
        with self._transaction() as database:
            database.execute(f"DELETE FROM file WHERE {_BELOW}", {"top": top})

    def names(self, location: str) -> tuple[str, ...]:
        above = self._key(location) + "/"
        below = (key.removeprefix(above) for key in self._sizes(above[:-1]) if key.startswith(above))
        return tuple(sorted({name.partition("/")[0] for name in below}))

    def read_small(self, location: str, name: str) -> bytes:
        key = self._key(location, name)
        with self._transaction() as database:
            row = database.execute("SELECT content FROM file WHERE path = ?", [key]).fetchone()
        if row is None:
            raise FileNotFoundError(f"{key} is not in {self._file}")
        return bytes(row[0])

    def write_small(self, location: str, name: str, content: bytes) -> None:
        self._put("REPLACE", self._key(location, name), content)

    def _put(self, verb: str, key: str, content: bytes) -> None:
        with self._transaction() as database:
            database.execute(f"{verb} INTO file VALUES (?, ?)", [key, content])

    def _sizes(self, top: str) -> dict[str, int]:
        """The bytes of all files at or below a place, by path."""
        with self._transaction() as database:
            return dict(database.execute(f"SELECT path, length(content) FROM file WHERE {_BELOW}", {"top": top}))

    def _entries(self, location: str) -> Sequence[FolderEntry]:
        above = f"{location}/" if location else ""
        inside = {key.removeprefix(above): size for key, size in self._sizes(location).items() if key.startswith(above)}
        if location and not inside:
            raise FileNotFoundError(f"{location} is no folder of {self._file}")
        files = [FolderEntry(name, False, size) for name, size in inside.items() if "/" not in name]
        return [*files, *(FolderEntry(name, True) for name in {key.partition("/")[0] for key in inside if "/" in key})]

    def _key(self, *texts: str) -> str:
        return checked_below(self._uri, *texts)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """The database, for one transaction; what it refuses is a store that is full, or does not answer."""
        if not self._file.is_file() and self._in_use():
            raise StorageUnavailableError(f"{self._file} is not there, though it was used: is its disk mounted?")
        try:
            with closing(sqlite3.connect(self._file, self._patience, isolation_level=None)) as database:
                database.execute(_TABLE)
                database.execute("BEGIN IMMEDIATE")
                with database:
                    yield database
        except sqlite3.Error as error:
            full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            raise (StorageFullError if full else StorageUnavailableError)(f"{self._file}: {error}") from error


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
