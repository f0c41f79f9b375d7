"""A folder as a backend: in memory (/dev/shm) it is the embedded cache, on disk the embedded under-store."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

import xxhash

from persistence.backends.link import Link
from persistence.backends.spec import Backend, File, Manifest, visible
from persistence.errors import InvalidPath, StorageFull, StorageUnavailable

_CHUNK = 1 << 20


class LocalBackend(Backend):
    """The folder `root`; `link` limits its bandwidth, `capacity` (bytes, 0: the disk's) what it holds."""

    def __init__(self, root: Path, *, link: Link | None = None, capacity: int = 0, durable: bool = False) -> None:
        self.root = root.resolve()
        self._link = link
        self._capacity = capacity
        self._durable = durable

    def uri(self, location: str) -> str:
        # Hadoop takes a path as it stands; a percent-encoded one would name another file.
        return f"file://{self._path(location)}"

    def exists(self, location: str) -> bool:
        return self._path(location).exists()

    def files(self, location: str) -> tuple[File, ...]:
        top = self._path(location)
        with _speaking_of(top):
            if not top.is_dir():
                raise FileNotFoundError(errno.ENOENT, "no such location", str(top))
            found = ((path.relative_to(top).as_posix(), path) for path in top.rglob("*") if path.is_file())
            return tuple(sorted(File(name, path.stat().st_size) for name, path in found if visible(name)))

    def manifest(self, location: str) -> Manifest:
        top = self._path(location)
        return Manifest(tuple(File(file.name, file.bytes, _checksum(top / file.name)) for file in self.files(location)))

    def chunks(self, location: str, name: str) -> Iterator[bytes]:
        path = self._path(location) / name
        with _speaking_of(path), path.open("rb", buffering=0) as file:
            while chunk := file.read(_CHUNK):
                if self._link:
                    self._link.pass_bytes(len(chunk))
                yield chunk

    def create(self, location: str, name: str, size: int) -> BinaryIO:
        path = self._path(location) / name
        with _speaking_of(path):
            if self._capacity and self._used() + size > self._capacity:
                raise StorageFull(f"{self.root} is full: {name} of {size:,} bytes does not fit")
            path.parent.mkdir(parents=True, exist_ok=True)
            return cast(BinaryIO, _Sending(path, self._link, self._durable))

    def rename(self, old: str, new: str) -> None:
        target = self._path(new)
        with _speaking_of(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.exists():
                raise FileExistsError(errno.EEXIST, "the location exists", str(target))
            self._path(old).rename(target)
            if self._durable:
                _sync_folder(target.parent)

    def delete(self, location: str) -> None:
        path = self._path(location)
        with _speaking_of(path):
            if path.exists():
                shutil.rmtree(path)

    def locations(self, marker: str) -> Iterator[str]:
        for folder, folders, files in os.walk(self.root):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            if marker in files:
                yield Path(folder).relative_to(self.root).as_posix()

    def read_small(self, location: str, name: str) -> bytes:
        return (self._path(location) / name).read_bytes()

    def write_small(self, location: str, name: str, content: bytes) -> None:
        path = self._path(location) / name
        with _speaking_of(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.write(content)
                if self._durable:
                    file.flush()
                    os.fsync(file.fileno())

    def _path(self, location: str) -> Path:
        parts = PurePosixPath(location).parts
        if not parts or location.startswith("/") or ".." in parts:
            raise InvalidPath(f"location {location!r} leaves {self.root}")
        path = self.root.joinpath(*parts)
        if not path.resolve().is_relative_to(self.root):
            raise InvalidPath(f"location {location!r} leads out of {self.root} by a link")
        return path

    def _used(self) -> int:
        return sum(path.stat().st_size for path in self.root.rglob("*") if path.is_file())


class _Sending:
    """A file being written across a link."""

    def __init__(self, path: Path, link: Link | None, durable: bool) -> None:
        self._path = path
        self._link = link
        self._durable = durable
        self._file = path.open("xb", buffering=0)

    def write(self, chunk: bytes) -> int:
        with _speaking_of(self._path):
            if self._link:
                self._link.pass_bytes(len(chunk))
            return self._file.write(chunk)

    def __enter__(self) -> _Sending:
        return self

    def __exit__(self, *_: object) -> None:
        with _speaking_of(self._path):
            if self._durable:
                os.fsync(self._file.fileno())
            self._file.close()


@contextmanager
def _speaking_of(path: Path) -> Iterator[None]:
    """Turn the system's errors into this package's, naming the path."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(f"{path}: no space left") from error
        raise StorageUnavailable(f"{path}: {error.strerror or error}") from error


def _checksum(path: Path) -> str:
    with _speaking_of(path), path.open("rb", buffering=0) as file:
        hasher = xxhash.xxh3_128()
        while chunk := file.read(_CHUNK):
            hasher.update(chunk)
        return hasher.hexdigest()


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
