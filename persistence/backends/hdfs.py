"""HDFS as an under-store: by its own protocol, verified by the checksums that HDFS keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from springline.persistence.backends.fsspec_store import FsspecStore, SentHash
from springline.persistence.backends.hdfs_checksum import HdfsChecksum
from springline.persistence.backends.hdfs_filesystem import HdfsFileSystem, HdfsUpload, WebHdfs
from springline.persistence.backends.registry import StoreRequest
from springline.persistence.model.manifest import File, is_reserved


def open_hdfs(request: StoreRequest) -> HdfsStore:
    """Open the folder of an `hdfs` URI, as an under-store."""
    parts, settings = request.uri, request.settings
    request.require(parts.hostname and request.role == "under", "hdfs://host:port/folder, as under-store")
    request.require_options()
    server, folder = f"hdfs://{parts.netloc}", request.path.rstrip("/")
    web = WebHdfs(
        settings.hdfs_http or f"http://{parts.hostname}:9870",
        user=settings.hdfs_user,
        token=settings.hdfs_token.get_secret_value(),
        ca_bundle=settings.ca_bundle,
    )
    return HdfsStore(
        f"{server}{folder}", lambda: (HdfsFileSystem(server, user=settings.hdfs_user), folder), web=web,
        link=request.link, capacity=request.capacity, in_use=request.in_use,
    )  # fmt: skip


class HdfsStore(FsspecStore):
    """The folder at `uri` (hdfs://host:port/folder).

    DataNodes verify what they receive against checksums that the sender computed. So a copy is verified by comparing
    HDFS's checksum of each file with that of the bytes that were sent; if they differ, or HDFS has a checksum of
    another kind, the file is read back.
    """

    filesystem: HdfsFileSystem
    has_folders = False  # which HDFS creates with their files

    def __init__(self, *args: Any, web: WebHdfs, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._web = web

    def _open_for_writing(self, path: str, size: int) -> tuple[HdfsUpload, SentHash]:
        full = self._full(path)
        upload = HdfsUpload(self.filesystem, full, self.filesystem.client.create(full))
        return upload, HdfsChecksum(self.filesystem.client.get_file_info(full).blocksize)

    def _has_arrived(self, location: str, file: File, info: Mapping[str, Any]) -> bool:
        if not file.bytes:
            return True  # HDFS has no checksum of it
        checksum = self._web.file_checksum(self._full(self._path(location, file.name)))
        return super()._has_arrived(location, file, {**info, **checksum})

    def _read_chunks(self, path: str) -> Iterator[bytes]:
        return self.filesystem.chunks(self._full(path))

    def _read(self, path: str, start: int, end: int) -> bytes:
        return self.filesystem.cat_file(self._full(path), start, end)

    def _find(self, path: str) -> Mapping[str, Mapping[str, Any]]:
        top = self._full(path)
        statuses = self.filesystem.client.list_status(top, recursive=True)
        infos = {
            status.path.removeprefix(f"{top}/"): {"size": status.length} for status in statuses if not status.isdir
        }
        return {name: info for name, info in infos.items() if "/" in name or not is_reserved(name)}

    def _remove(self, path: str) -> None:
        self.filesystem.client.delete(self._full(path), True)

    def _replace(self, partial: str, path: str) -> None:
        self.filesystem.mv(partial, path, overwrite=True)

    def _used_bytes(self) -> int:
        try:
            return int(self.filesystem.client.get_content_summary(self._full("") or "/").length)
        except FileNotFoundError:
            return 0
