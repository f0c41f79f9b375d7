"""A folder as a backend: in memory (/dev/shm) it is the embedded cache, on disk the embedded under-store."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

import xxhash

from springline.persistence.backends.bandwidth_limit import Link, limit_bandwidth
from springline.persistence.backends.capacity import Capacity
from springline.persistence.backends.listing import checked_below
from springline.persistence.backends.registry import StoreRequest
from springline.persistence.backends.root_mark import MARK_NAME, RootMark, never_in_use
from springline.persistence.backends.spec import UnderStore
from springline.persistence.errors import CorruptCopyError, InvalidPathError, StorageFullError, StorageUnavailableError
from springline.persistence.model.manifest import FILE_NAME, File, Manifest, is_reserved
from springline.persistence.private_files import create_private_folder

_CHUNK = 1 << 20
_SYNC_BYTES = 8 << 20  # bytes of a file on a slow link between two syncs


def open_folder(request: StoreRequest) -> LocalBackend:
    """Open the folder of a `file` URI, created if missing; as an under-store it is durable and has a mark."""
    parts = request.uri
    request.require(not parts.netloc and parts.path.startswith("/"), "file:///an/absolute/folder")
    request.require_options()
    root = Path(request.path)
    with suppress(OSError):  # unreachable now: the first use raises the error, and may retry
        if (root.is_dir() and root.parent == request.settings.home) or (not root.is_dir() and not request.in_use()):
            create_private_folder(root)  # an existing folder of a user keeps its permissions
    if request.role == "cache":
        return LocalBackend(root)
    store = LocalBackend(root, link=request.link, capacity=request.capacity, durable=True, in_use=request.in_use)
    with suppress(StorageUnavailableError):
        store.mark_root()
    return store


class LocalBackend(UnderStore):
    """The folder `root`; `link` limits its bandwidth, `capacity` its size (bytes, 0: that of the disk).

    A `durable` one syncs its files to the disk, and its root must exist: a root that is
    missing, or has no mark though it is `in_use`, is a disk that is not mounted, and counts as unavailable. A cache
    whose root is missing is empty.
    """

    can_seek = True

    def __init__(
        self,
        root: Path,
        *,
        link: Link | None = None,
        capacity: int = 0,
        durable: bool = False,
        in_use: Callable[[], bool] = never_in_use,
    ) -> None:
        self.root = Path(os.path.realpath(root))  # also of a link to itself, which `resolve` refuses
        mark = self.root / MARK_NAME
        self._mark = RootMark(str(self.root), mark.is_file, lambda: self._write_mark(mark), in_use)
        self._link = link
        self._capacity = Capacity(str(self.root), capacity, self._used_bytes)
        self._durable = durable

    def uri(self, location: str) -> str:
        # Hadoop takes a path literally; a percent-encoded one would name another file.
        return f"file://{self._path(location)}"

    def exists(self, location: str) -> bool:
        path = self._reachable_path(location)
        with _translate_errors(path):
            return path.exists()

    def free_bytes(self) -> int:
        folder = next(each for each in (self.root, *self.root.parents) if each.is_dir())
        with _translate_errors(folder):
            disk = os.statvfs(folder)
            return disk.f_bavail * disk.f_frsize

    def mark_root(self) -> None:
        if self._durable:
            with _translate_errors(self.root):
                self._mark.ensure()

    def files(self, location: str) -> tuple[File, ...]:
        top = self._reachable_path(location)
        with _translate_errors(top):
            if not top.is_dir():
                raise FileNotFoundError(errno.ENOENT, "no such location", str(top))
            return tuple(sorted(_files_below(top)))

    def manifest(self, location: str) -> Manifest:
        top = self._path(location)
        files = self.files(location)
        return Manifest(tuple(File(file.name, file.bytes, self._checksum(top / file.name)) for file in files))

    def chunks(self, location: str, name: str) -> Iterator[bytes]:
        path = self._reachable_path(location, name)
        with _translate_errors(path):
            yield from limit_bandwidth(self._link, _read_chunks(path))

    def read_range(self, location: str, name: str, start: int, size: int) -> bytes:
        path = self._reachable_path(location, name)
        with _translate_errors(path), path.open("rb", buffering=0) as file:
            file.seek(start)
            return b"".join(limit_bandwidth(self._link, [_read_exactly(file, size)]))

    def create(self, location: str, name: str, size: int) -> BinaryIO:
        path = self._reachable_path(location, name)
        with _translate_errors(path):
            self._capacity.reserve(name, size)
            path.parent.mkdir(parents=True, exist_ok=True)
            return cast(BinaryIO, _LocalWriter(path, self._link, self._durable))

    def publish(self, location: str, manifest: bytes) -> None:
        top = self._reachable_path(location)
        final = top / FILE_NAME
        partial = top / f"{FILE_NAME}.{uuid.uuid4().hex}"
        with _translate_errors(final):
            if self._durable:
                self._mark.ensure()
                _sync_tree(top)
            with partial.open("wb") as file:
                file.write(manifest)
                file.flush()
                if self._durable:
                    os.fsync(file.fileno())
            partial.replace(final)
            if self._durable:
                for folder in final.parents:
                    _sync(folder)
                    if folder == self.root:
                        break

    def read_manifest(self, location: str) -> bytes:
        path = self._reachable_path(location, FILE_NAME)
        with _translate_errors(path):
            return path.read_bytes()

    def delete(self, location: str) -> None:
        path = self.root / checked_below(str(self.root), location)
        if path.parent != self.root:
            self._path(str(path.parent.relative_to(self.root)))
        self._require_root()
        # Another process may be deleting the same: files that are missing by now count as deleted.
        with _translate_errors(path), suppress(FileNotFoundError):
            while path.is_dir() and not path.is_symlink():
                with suppress(FileNotFoundError):
                    shutil.rmtree(path)
            path.unlink()

    def names(self, location: str) -> tuple[str, ...]:
        path = self._reachable_path(location)
        with _translate_errors(path):
            return tuple(sorted(entry.name for entry in path.iterdir())) if path.is_dir() else ()

    def copies(self) -> Iterator[str]:
        for folder, folders, _ in self._walk():
            copies = [name for name in folders if name.startswith("@")]
            yield from sorted((folder / name).relative_to(self.root).as_posix() for name in copies)
            folders[:] = sorted(set(folders) - set(copies))

    def _path(self, location: str, name: str = ".") -> Path:
        path = self.root / checked_below(str(self.root), location, name)
        if os.path.realpath(path) != str(path):
            if os.path.realpath(self.root) != str(self.root):
                raise StorageUnavailableError(f"{self.root} has become a link: start again, or set another folder")
            raise InvalidPathError(f"{path} is or leads through a link; put the files themselves there")
        return path

    def _reachable_path(self, location: str, name: str = ".") -> Path:
        path = self._path(location, name)
        self._require_root()
        return path

    def _require_root(self) -> None:
        if not self._durable:
            return
        if not self.root.is_dir():
            raise StorageUnavailableError(f"{self.root} does not exist: is its disk mounted?")
        self._mark.require()

    def _write_mark(self, mark: Path) -> None:
        mark.touch()
        _sync(self.root)

    def _checksum(self, path: Path) -> str:
        hasher = xxhash.xxh3_128()
        with _translate_errors(path):
            try:
                for chunk in _read_chunks(path):
                    hasher.update(chunk)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                os.statvfs(self.root)  # raises if the whole disk is unavailable, which is no damage to this file
                raise CorruptCopyError(f"{path}: {error.strerror}") from error
        return hasher.hexdigest()

    def _walk(self) -> Iterator[tuple[Path, list[str], list[str]]]:
        self._require_root()
        with _translate_errors(self.root):
            for folder, folders, files in os.walk(self.root, onerror=_ignore_missing):
                yield Path(folder), folders, files

    def _used_bytes(self) -> int:
        used_bytes = 0
        for folder, _, files in self._walk():
            for name in files:
                with suppress(FileNotFoundError):  # deleted during the walk
                    used_bytes += (folder / name).lstat().st_size
        return used_bytes


class _LocalWriter:
    """A file that is being written over a link."""

    def __init__(self, path: Path, link: Link | None, durable: bool) -> None:
        self._path = path
        self._stream = link.stream() if link else None
        self._durable = durable
        self._unsynced_bytes = 0
        self._file = path.open("xb", buffering=0)

    def write(self, chunk: bytes) -> int:
        with _translate_errors(self._path):
            if self._stream:
                self._stream.pass_bytes(len(chunk))
            remaining = memoryview(chunk)
            while remaining:  # a disk that is nearly full may write only a part, without an error
                remaining = remaining[self._file.write(remaining) :]
            self._unsynced_bytes += len(chunk)
            if self._stream and self._durable and self._unsynced_bytes >= _SYNC_BYTES:
                os.fdatasync(self._file.fileno())  # while the link is the bottleneck, not all at the end
                self._unsynced_bytes = 0
            return len(chunk)

    def __enter__(self) -> _LocalWriter:
        return self

    def __exit__(self, *_: object) -> None:
        with _translate_errors(self._path):
            if self._stream:
                self._stream.finish()
            if self._durable:
                os.fsync(self._file.fileno())
            self._file.close()


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Translate the system's errors to this package's errors, naming the path."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFullError(f"{path}: no space left") from error
        raise StorageUnavailableError(f"{path}: {error.strerror or error}") from error


def _read_chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _read_exactly(file: BinaryIO, size: int) -> bytes:
    """Read `size` bytes, fewer only at the end; an unbuffered file may return fewer at each call."""
    parts: list[bytes] = []
    while size and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _files_below(top: Path) -> Iterator[File]:
    for folder, folders, files in os.walk(top, onerror=_ignore_missing):
        for path in (Path(folder, name) for name in (*folders, *files)):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                if not (folder == str(top) and is_reserved(path.name)):
                    yield File(path.relative_to(top).as_posix(), status.st_size)
            elif not stat.S_ISDIR(status.st_mode):
                raise InvalidPathError(f"{path} is a link or a device; a generation consists of regular files only")


def _ignore_missing(error: OSError) -> None:
    """Ignore a folder that is deleted during the walk; raise other errors."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _sync_tree(top: Path) -> None:
    """Sync every file below `top`, by whichever process it was written, and the folders that contain them."""
    for folder, _, files in os.walk(top, topdown=False):
        for name in files:
            _sync(Path(folder, name))
        _sync(Path(folder))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
