"""Any file system that fsspec can open as an under-store; `persistence/backends/s3.py` knows more of S3."""

from __future__ import annotations

import os
import uuid
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from errno import EDQUOT, ENOENT, ENOSPC
from functools import cache
from hashlib import md5
from typing import Any, BinaryIO, Protocol, cast

import fsspec
from fsspec import AbstractFileSystem

from springline.persistence.backends.bandwidth_limit import Link, limit_bandwidth
from springline.persistence.backends.capacity import Capacity
from springline.persistence.backends.listing import FolderEntry, ListedBackend, checked_below, files_below
from springline.persistence.backends.registry import StoreRequest
from springline.persistence.backends.root_mark import MARK_NAME, RootMark, never_in_use
from springline.persistence.backends.spec import UnderStore
from springline.persistence.errors import PersistenceError, StorageFullError, StorageUnavailableError, describe_error
from springline.persistence.model.manifest import FILE_NAME, File, Manifest, is_reserved
from springline.persistence.text.redaction import redact_secrets

_CHUNK = 1 << 20
_RANGE = 16 << 20  # bytes of one request when a file is read
PART_BYTES = 16 << 20  # of an upload in parts
_MAX_PARTS = 10_000


def open_fsspec(request: StoreRequest) -> FsspecStore:
    """Open the folder at a URI of a file system of fsspec, as an under-store; its options are those of fsspec."""
    parts = request.uri
    request.require(request.role == "under", f"{parts.scheme}://… as under-store")
    uri = parts.geturl().rstrip("/")
    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")  # without a password

    def open_filesystem() -> tuple[AbstractFileSystem, str]:
        filesystem, root = fsspec.url_to_fs(uri, use_listings_cache=False, **request.options)
        return filesystem, str(root)

    return FsspecStore(shown, open_filesystem, link=request.link, capacity=request.capacity, in_use=request.in_use)


class FsspecStore(ListedBackend, UnderStore):
    """The folder at `uri`; `link` limits its bandwidth, `capacity` its size in bytes.

    `open_filesystem` returns the file system and the path of the folder in it; it is called once in each process.
    Files are verified by the MD5 that the file system reports of them, if it does, and else by reading them back.
    Whatever it raises counts as unavailable, except for what is known to be missing.
    """

    can_seek = True
    has_folders = True  # which are created before their files

    def __init__(
        self,
        uri: str,
        open_filesystem: Callable[[], tuple[AbstractFileSystem, str]],
        *,
        link: Link | None = None,
        capacity: int = 0,
        in_use: Callable[[], bool] = never_in_use,
    ) -> None:
        super().__init__(uri, uri.partition("://")[0] + "://")
        self._open_filesystem = cache(lambda process: open_filesystem())  # its threads do not outlive a fork
        self._link = link
        self._capacity = Capacity(self._uri, capacity, self._used_bytes)
        self._sent_hashes: dict[str, SentHash] = {}  # of files that were sent and not compared yet, by path
        self._mark = RootMark(self._uri, self._has_mark, lambda: self._put(MARK_NAME, b""), in_use)

    @property
    def filesystem(self) -> AbstractFileSystem:
        """The file system, opened once in each process."""
        return self._open_filesystem(os.getpid())[0]

    def exists(self, location: str) -> bool:
        path = self._path(location)
        try:
            with self.asking(path):
                self.filesystem.info(self._full(path))
        except FileNotFoundError:
            return False
        return True

    def unavailable_reason(self) -> str:
        try:
            self._mark.require()
        except StorageUnavailableError as error:
            return str(error)
        return ""

    def mark_root(self) -> None:
        self._mark.ensure()

    def files(self, location: str) -> tuple[File, ...]:
        path = self._path(location)
        with self.asking(path):
            return tuple(sorted(files_below(self._entries, path)))

    def holds(self, location: str, sent: Manifest) -> bool:
        path = self._path(location)
        with self.asking(path):
            infos = self._find(path)
            if not infos:
                raise FileNotFoundError(path)
        if {name: info["size"] for name, info in infos.items()} != {file.name: file.bytes for file in sent.files}:
            return False
        return all(self._has_arrived(location, file, infos[file.name]) for file in sent.files)

    def chunks(self, location: str, name: str) -> Iterator[bytes]:
        path = self._path(location, name)
        with self.asking(path):
            yield from limit_bandwidth(self._link, self._read_chunks(path))

    def read_range(self, location: str, name: str, start: int, size: int) -> bytes:
        path = self._path(location, name)
        with self.asking(path):
            return b"".join(limit_bandwidth(self._link, [self._read(path, start, start + size)]))

    def create(self, location: str, name: str, size: int) -> BinaryIO:
        path = self._path(location, name)
        self._capacity.reserve(name, size)
        with self.asking(path):
            if self.has_folders:
                self.filesystem.makedirs(self._full(path.rpartition("/")[0]), exist_ok=True)
            file, sent_hash = self._open_for_writing(path, size)
        self._sent_hashes[path] = sent_hash
        return cast(BinaryIO, _FsspecWriter(self, path, file, self._link, sent_hash))

    def publish(self, location: str, manifest: bytes) -> None:
        path = self._path(location, FILE_NAME)
        self._mark.ensure()
        self._put(path, manifest)

    def read_manifest(self, location: str) -> bytes:
        path = self._path(location, FILE_NAME)
        with self.asking(path):
            return bytes(self.filesystem.cat_file(self._full(path)))

    def delete(self, location: str) -> None:
        path = self._path(location)
        self._mark.require()
        with self.translating(path), suppress(FileNotFoundError):
            self._remove(path)
        for sent_path in [sent for sent in self._sent_hashes if sent == path or sent.startswith(f"{path}/")]:
            del self._sent_hashes[sent_path]

    def names(self, location: str) -> tuple[str, ...]:
        path = self._path(location)
        try:
            with self.asking(path):
                return tuple(sorted(entry.name for entry in self._entries(path)))
        except FileNotFoundError:
            return ()

    def copies(self) -> Iterator[str]:
        self._mark.require()
        with self.asking(""):
            yield from super().copies()

    # ---- what a kind of file system may do better

    def _open_for_writing(self, path: str, size: int) -> tuple[Any, SentHash]:
        """Open a new file, and what computes the hash that the file system reports of it."""
        part_bytes = max(PART_BYTES, -(-size // _MAX_PARTS))
        return self.filesystem.open(self._full(path), "wb", block_size=part_bytes), UploadHash(part_bytes)

    def _find(self, path: str) -> Mapping[str, Mapping[str, Any]]:
        """Return what the file system knows of every file below a path but manifests, by the name below it."""
        top = self._full(path)
        infos: dict[str, Mapping[str, Any]] = {}
        for folder, _, files in self.filesystem.walk(top, detail=True, on_error="raise"):
            for name, info in files.items():
                infos["/".join(filter(None, [_below(top, folder), name]))] = info
        return {name: info for name, info in infos.items() if "/" in name or not is_reserved(name)}

    def _head(self, path: str) -> None:
        """Raise `FileNotFoundError` unless there is a file at a path."""
        self.filesystem.info(self._full(path))

    def _remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it; raises `FileNotFoundError`."""
        if self.filesystem.info(self._full(path))["type"] != "directory":
            self.filesystem.rm_file(self._full(path))
            return
        folders = []
        for folder, _, files in self.filesystem.walk(self._full(path), detail=True, on_error="raise"):
            folders.append(folder)
            for info in files.values():  # `rm` would take a name for a pattern
                self.filesystem.rm_file(info["name"])
        for folder in reversed(folders):
            self.filesystem.rmdir(folder)

    def _put(self, path: str, content: bytes) -> None:
        """Write one small file, so that a reader finds it whole or not at all."""
        partial = f"{path}.{uuid.uuid4().hex}"
        with self.translating(path):
            if self.has_folders:
                self.filesystem.makedirs(self._full(path).rpartition("/")[0], exist_ok=True)
            self.filesystem.pipe_file(self._full(partial), content)
            self._replace(self._full(partial), self._full(path))

    def _replace(self, partial: str, path: str) -> None:
        """Rename a file, in the place of one that is there."""
        self.filesystem.mv(partial, path)

    # ---- names

    def _path(self, *texts: str) -> str:
        return checked_below(self._uri, *texts)

    def _full(self, path: str) -> str:
        """Return the path in the file system of one below the root."""
        root = self._open_filesystem(os.getpid())[1].rstrip("/")
        return f"{root}/{path}" if path else root

    def _entries(self, location: str) -> Sequence[FolderEntry]:
        top = self._full(location)
        entries = []
        for info in self.filesystem.ls(top, detail=True):
            if name := _below(top, info["name"]):
                entries.append(FolderEntry(name, info["type"] == "directory", int(info["size"] or 0)))
            elif info["type"] != "directory":
                raise FileNotFoundError(ENOENT, "is a file", top)
        return entries

    # ---- errors

    @contextmanager
    def translating(self, path: str) -> Iterator[None]:
        """Translate whatever the file system raises to this package's errors, naming the path."""
        where = f"{self._uri}/{path}"
        try:
            yield
        except FileNotFoundError as error:
            raise FileNotFoundError(ENOENT, "no such file or folder", where) from error
        except (FileExistsError, PersistenceError):
            raise
        except Exception as error:
            text = redact_secrets(describe_error(error))
            if isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT):
                raise StorageFullError(f"{where}: no space left: {text}") from error
            if isinstance(error, PermissionError):
                raise StorageUnavailableError(f"{where}: access is denied: check its credentials: {text}") from error
            raise StorageUnavailableError(f"{where}: it does not answer, or refuses: {text}") from error

    @contextmanager
    def asking(self, path: str) -> Iterator[None]:
        """Translate errors; without the root's mark it is not known what is missing."""
        try:
            with self.translating(path):
                yield
        except FileNotFoundError:
            self._mark.require()
            raise

    def _has_mark(self) -> bool:
        try:
            with self.translating(MARK_NAME):
                self._head(MARK_NAME)
        except FileNotFoundError:
            self._require_container()
            return False
        return True

    def _require_container(self) -> None:
        """Raise `StorageUnavailableError` if the bucket does not exist, which no writer creates."""

    # ---- bytes

    def _read_chunks(self, path: str) -> Iterator[bytes]:
        size = int(self.filesystem.info(self._full(path))["size"])
        for start in range(0, size, _RANGE):
            content = memoryview(self._read_known(path, start, min(start + _RANGE, size)))
            for offset in range(0, len(content), _CHUNK):
                yield bytes(content[offset : offset + _CHUNK])

    def _read(self, path: str, start: int, end: int) -> bytes:
        end = min(end, int(self.filesystem.info(self._full(path))["size"]))
        return self._read_known(path, start, end) if start < end else b""

    def _read_known(self, path: str, start: int, end: int) -> bytes:
        content = bytes(self.filesystem.cat_file(self._full(path), start=start, end=end))
        if len(content) != end - start:
            raise StorageUnavailableError(f"{self._uri}/{path} ended {end - start - len(content):,} bytes too early")
        return content

    def _has_arrived(self, location: str, file: File, info: Mapping[str, Any]) -> bool:
        sent_hash = self._sent_hashes.pop(self._path(location, file.name), None)
        if sent_hash is not None and sent_hash.matches(info):
            return True
        return self._checksum(location, file.name) == file.checksum

    def _used_bytes(self) -> int:
        try:
            with self.asking(""):
                return sum(int(info["size"] or 0) for info in self._find("").values())
        except FileNotFoundError:
            return 0


class SentHash(Protocol):
    """Computes a hash of a file while it is sent, to be compared with what its file system reports."""

    def update(self, chunk: bytes) -> None:
        """Add the next bytes."""

    def matches(self, info: Mapping[str, Any]) -> bool:
        """Whether the file system reports the same hash; False if it reports none of this kind."""


class UploadHash:
    """The MD5 of a file, and of its parts of `part_bytes`, while it is sent."""

    def __init__(self, part_bytes: int) -> None:
        self._part_bytes = part_bytes
        self._bytes = 0
        self._content = md5(usedforsecurity=False)
        self._part = md5(usedforsecurity=False)
        self._parts = b""

    def update(self, chunk: bytes) -> None:
        """Add the next bytes."""
        self._content.update(chunk)
        data = memoryview(chunk)
        while data:
            piece = data[: self._part_bytes - self._bytes % self._part_bytes]
            self._part.update(piece)
            self._bytes += len(piece)
            data = data[len(piece) :]
            if self._bytes % self._part_bytes == 0:
                self._end_part()

    def matches(self, info: Mapping[str, Any]) -> bool:
        """Whether the file system reports the same MD5 of the whole, or of its parts; False if it reports none."""
        content = self._content.hexdigest()
        reported = {str(info.get("ETag", "")).strip('"'), _hex_of(info.get("md5Hash"))}
        reported.add(_hex_of((info.get("content_settings") or {}).get("content_md5")))
        return content in reported or self._etag_of_parts() in reported

    def _etag_of_parts(self) -> str:
        parts = self._parts if self._bytes % self._part_bytes == 0 else self._parts + self._part.digest()
        return f"{md5(parts, usedforsecurity=False).hexdigest()}-{len(parts) // 16}"

    def _end_part(self) -> None:
        self._parts += self._part.digest()
        self._part = md5(usedforsecurity=False)


class _FsspecWriter:
    """A file that is being written over a link; it exists when it is closed without an error."""

    def __init__(self, store: FsspecStore, path: str, file: Any, link: Link | None, sent_hash: SentHash) -> None:
        self._store = store
        self._path = path
        self._file = file
        self._stream = link.stream() if link else None
        self._hash = sent_hash

    def write(self, chunk: bytes) -> int:
        if self._stream:
            self._stream.pass_bytes(len(chunk))
        with self._store.asking(self._path):
            self._file.write(chunk)
        self._hash.update(chunk)
        return len(chunk)

    def __enter__(self) -> _FsspecWriter:
        return self

    def __exit__(self, error_type: object, *_: object) -> None:
        if error_type:
            self._discard()
            return
        if self._stream:
            self._stream.finish()
        try:
            with self._store.asking(self._path):
                self._file.close()
        except BaseException:
            self._discard()
            raise

    def _discard(self) -> None:
        """Give up what was sent of it; if that fails too, its location is deleted later."""
        with suppress(Exception):
            self._file.discard() if hasattr(self._file, "discard") else self._file.close()
        with suppress(AttributeError):
            self._file.closed = True  # else its destructor sends the rest


def _below(top: str, path: str) -> str:
    """Return a path of a file system relative to `top`, however it begins."""
    return path.strip("/").removeprefix(top.strip("/")).strip("/")


def _hex_of(digest: Any) -> str:
    """Return a digest in hexadecimal that a file system reports as base64 or as bytes; empty if it is neither."""
    if isinstance(digest, str):
        with suppress(ValueError):
            return b64decode(digest).hex()
    return bytes(digest).hex() if isinstance(digest, bytes | bytearray) else ""
