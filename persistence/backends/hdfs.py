"""HDFS as a backend: names and questions over WebHDFS, bytes by HDFS's own protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, cast

from springline.persistence.backends.bandwidth_limit import Link, limit_bandwidth
from springline.persistence.backends.hdfs_bytes import HdfsBytes, Writing
from springline.persistence.backends.hdfs_checksum import FileSum
from springline.persistence.backends.listing import Entry, ListedBackend, checked_below, files_below
from springline.persistence.backends.registry import StoreRequest
from springline.persistence.backends.root_mark import NAME, RootMark, never
from springline.persistence.backends.spec import File, Manifest
from springline.persistence.backends.webhdfs import WebHdfs
from springline.persistence.errors import StorageFullError


def open_hdfs(request: StoreRequest) -> HdfsBackend:
    """The folder of an `hdfs` URI, as an under-store."""
    parts, settings = request.uri, request.settings
    request.require(parts.hostname and request.role == "under", "hdfs://host:port/folder, as under-store")
    request.require_options()
    server = f"hdfs://{parts.netloc}"
    web = WebHdfs(
        settings.hdfs_http or f"http://{parts.hostname}:9870",
        server=server,
        user=settings.hdfs_user,
        token=settings.hdfs_token.get_secret_value(),
        ca_bundle=settings.ca_bundle,
    )
    content = HdfsBytes(server, user=settings.hdfs_user)
    uri = f"{server}{parts.path}"
    return HdfsBackend(uri, web, content, link=request.link, capacity=request.capacity, in_use=request.in_use)


class HdfsBackend(ListedBackend):
    """The folder at `uri` (hdfs://host:port/folder); `link` limits its bandwidth, `capacity` what it holds.

    DataNodes verify what they take in against checksums that the sender worked out. So a copy that was
    sent is verified by comparing HDFS's checksum of each file with that of the bytes that were sent; where
    these say no, or HDFS has a checksum of another kind, the file is read back.

    The root's mark is asked for when something is not there, and before a copy gets its name, not with every call.
    """

    def __init__(
        self,
        uri: str,
        web: WebHdfs,
        content: HdfsBytes,
        *,
        link: Link | None = None,
        capacity: int = 0,
        in_use: Callable[[], bool] = never,
    ) -> None:
        super().__init__(uri, web.server)
        self.server = web.server
        self._web = web
        self._content = content
        self._link = link
        self._capacity = capacity
        self._sent: dict[str, FileSum] = {}  # of what was sent and not compared yet, by path
        mark = self._path(NAME)
        self._mark = RootMark(self._uri, lambda: web.is_there(mark), lambda: web.put(mark, b""), in_use)

    def exists(self, location: str) -> bool:
        if self._web.is_there(self._path(location)):
            return True
        self._mark.require()
        return False

    def mark_root(self) -> None:
        self._mark.leave()

    def files(self, location: str) -> tuple[File, ...]:
        checked_below(self._uri, location)
        with self._missing_only_from_the_store():
            return tuple(sorted(files_below(self._entries, location)))

    def holds(self, location: str, sent: Manifest) -> bool:
        there = self.files(location)
        if there != tuple(File(file.name, file.bytes) for file in sent.files):
            return False
        return all(self._arrived(location, file) for file in sent.files)

    def chunks(self, location: str, name: str) -> Iterator[bytes]:
        with self._missing_only_from_the_store():
            yield from limit_bandwidth(self._link, self._content.read(self._path(location, name)))

    def create(self, location: str, name: str, size: int) -> BinaryIO:
        path = self._path(location, name)
        if self._capacity and self._web.used(self._root) + size > self._capacity:
            raise StorageFullError(f"{self._uri} is full: {name} of {size:,} bytes does not fit")
        writing = self._content.create(path)
        self._sent[path] = FileSum(self._web.block_size(path))
        return cast(BinaryIO, _Sending(writing, self._link, self._sent[path]))

    def rename(self, old: str, new: str) -> None:
        source, target = self._path(old), self._path(new)
        self._mark.leave()
        self._web.move(source, target)

    def delete(self, location: str) -> None:
        path = self._path(location)
        if not self._web.remove(path):
            self._mark.require()
        for sent in [sent for sent in self._sent if sent == path or sent.startswith(f"{path}/")]:
            del self._sent[sent]

    def names(self, location: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(entry.name for entry in self._web.entries(self._path(location))))
        except FileNotFoundError:
            self._mark.require()
            return ()

    def locations(self, marker: str) -> Iterator[str]:
        self._mark.require()
        return super().locations(marker)

    def copies(self) -> Iterator[str]:
        self._mark.require()
        return super().copies()

    def read_small(self, location: str, name: str) -> bytes:
        with self._missing_only_from_the_store():
            return self._web.get(self._path(location, name))

    def write_small(self, location: str, name: str, content: bytes) -> None:
        self._web.put(self._path(location, name), content)

    def _entries(self, location: str) -> Sequence[Entry]:
        return self._web.entries(self._folder(location))

    @contextmanager
    def _missing_only_from_the_store(self) -> Iterator[None]:
        """Inside, what is not there is missing from the store; where the root is another one, nothing is known."""
        try:
            yield
        except FileNotFoundError:
            self._mark.require()
            raise

    def _arrived(self, location: str, file: File) -> bool:
        path = self._path(location, file.name)
        known = self._sent.pop(path, None)
        if known is not None and (not file.bytes or known.is_that_of(self._web.sum_of(path))):
            return True
        return self._checksum(location, file.name) == file.checksum


class _Sending:
    """A file being written across a link, its checksum worked out on the way."""

    def __init__(self, writing: Writing, link: Link | None, known: FileSum) -> None:
        self._writing = writing
        self._stream = link.stream() if link else None
        self._known = known

    def write(self, chunk: bytes) -> int:
        if self._stream:
            self._stream.pass_bytes(len(chunk))
        self._writing.write(chunk)
        self._known.update(chunk)
        return len(chunk)

    def __enter__(self) -> _Sending:
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        if failed:
            return  # it stays half written, to be deleted
        if self._stream:
            self._stream.finish()
        self._writing.close()
