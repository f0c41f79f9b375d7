"""HDFS as a backend: metadata over WebHDFS, bytes over HDFS's native protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, cast

from springline.persistence.backends.bandwidth_limit import Link, limit_bandwidth
from springline.persistence.backends.capacity import Capacity
from springline.persistence.backends.hdfs_bytes import HdfsBytes, HdfsUpload
from springline.persistence.backends.hdfs_checksum import HdfsChecksum
from springline.persistence.backends.listing import FolderEntry, ListedBackend, checked_below, files_below
from springline.persistence.backends.registry import StoreRequest
from springline.persistence.backends.root_mark import MARK_NAME, RootMark, never_in_use
from springline.persistence.backends.spec import UnderStore
from springline.persistence.backends.webhdfs import WebHdfs
from springline.persistence.model.manifest import FILE_NAME, File, Manifest


def open_hdfs(request: StoreRequest) -> HdfsBackend:
    """Open the folder of an `hdfs` URI, as an under-store."""
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
    uri = f"{server}{request.path}"
    return HdfsBackend(uri, web, content, link=request.link, capacity=request.capacity, in_use=request.in_use)


class HdfsBackend(ListedBackend, UnderStore):
    """The folder at `uri` (hdfs://host:port/folder); `link` limits its bandwidth, `capacity` its size in bytes.

    DataNodes verify what they receive against checksums that the sender computed. So a copy is verified by comparing
    HDFS's checksum of each file with that of the bytes that were sent; if they differ, or HDFS has a checksum of
    another kind, the file is read back.
    The root's mark is checked when something is missing, and before a copy is published, not with every call.
    """

    can_seek = True

    def __init__(
        self,
        uri: str,
        web: WebHdfs,
        content: HdfsBytes,
        *,
        link: Link | None = None,
        capacity: int = 0,
        in_use: Callable[[], bool] = never_in_use,
    ) -> None:
        super().__init__(uri, web.server)
        self.server = web.server
        self._web = web
        self._content = content
        self._link = link
        self._capacity = Capacity(self._uri, capacity, lambda: web.used_bytes(self._root))
        self._sent_checksums: dict[str, HdfsChecksum] = {}  # of bytes that were sent and not compared yet, by path
        mark = self._path(MARK_NAME)
        self._mark = RootMark(self._uri, lambda: web.exists(mark), lambda: web.put(mark, b""), in_use)

    def exists(self, location: str) -> bool:
        if self._web.exists(self._path(location)):
            return True
        self._mark.require()
        return False

    def mark_root(self) -> None:
        self._mark.ensure()

    def files(self, location: str) -> tuple[File, ...]:
        checked_below(self._uri, location)
        with self._require_mark_if_missing():
            return tuple(sorted(files_below(self._entries, location)))

    def holds(self, location: str, sent: Manifest) -> bool:
        stored_files = self.files(location)
        if stored_files != tuple(File(file.name, file.bytes) for file in sent.files):
            return False
        return all(self._has_arrived(location, file) for file in sent.files)

    def chunks(self, location: str, name: str) -> Iterator[bytes]:
        with self._require_mark_if_missing():
            yield from limit_bandwidth(self._link, self._content.read(self._path(location, name)))

    def read_range(self, location: str, name: str, start: int, size: int) -> bytes:
        with self._require_mark_if_missing():
            content = self._content.read_range(self._path(location, name), start, size)
            return b"".join(limit_bandwidth(self._link, [content]))

    def create(self, location: str, name: str, size: int) -> BinaryIO:
        path = self._path(location, name)
        self._capacity.reserve(name, size)
        upload = self._content.create(path)
        self._sent_checksums[path] = HdfsChecksum(self._web.block_size(path))
        return cast(BinaryIO, _HdfsWriter(upload, self._link, self._sent_checksums[path]))

    def publish(self, location: str, manifest: bytes) -> None:
        final = self._path(location, FILE_NAME)
        self._mark.ensure()
        self._web.put_atomically(final, manifest)

    def read_manifest(self, location: str) -> bytes:
        with self._require_mark_if_missing():
            return self._web.get(self._path(location, FILE_NAME))

    def delete(self, location: str) -> None:
        path = self._path(location)
        if not self._web.remove(path):
            self._mark.require()
        for sent_path in [sent for sent in self._sent_checksums if sent == path or sent.startswith(f"{path}/")]:
            del self._sent_checksums[sent_path]

    def names(self, location: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(entry.name for entry in self._web.list_folder(self._path(location))))
        except FileNotFoundError:
            self._mark.require()
            return ()

    def copies(self) -> Iterator[str]:
        self._mark.require()
        return super().copies()

    def _entries(self, location: str) -> Sequence[FolderEntry]:
        return self._web.list_folder(self._folder(location))

    @contextmanager
    def _require_mark_if_missing(self) -> Iterator[None]:
        """Check the root's mark if a file is missing inside the block; without the mark nothing is known."""
        try:
            yield
        except FileNotFoundError:
            self._mark.require()
            raise

    def _has_arrived(self, location: str, file: File) -> bool:
        path = self._path(location, file.name)
        sent_checksum = self._sent_checksums.pop(path, None)
        if sent_checksum is not None and (not file.bytes or sent_checksum.matches(self._web.file_checksum(path))):
            return True
        return self._checksum(location, file.name) == file.checksum


class _HdfsWriter:
    """A file that is being written over a link, with its checksum computed on the way."""

    def __init__(self, upload: HdfsUpload, link: Link | None, checksum: HdfsChecksum) -> None:
        self._upload = upload
        self._stream = link.stream() if link else None
        self._checksum = checksum

    def write(self, chunk: bytes) -> int:
        if self._stream:
            self._stream.pass_bytes(len(chunk))
        self._upload.write(chunk)
        self._checksum.update(chunk)
        return len(chunk)

    def __enter__(self) -> _HdfsWriter:
        return self

    def __exit__(self, error_type: object, *_: object) -> None:
        if error_type:
            return  # it stays partial, to be deleted
        if self._stream:
            self._stream.finish()
        self._upload.close()
