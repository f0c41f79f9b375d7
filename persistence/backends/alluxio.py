"""Alluxio as a backend: a cache in memory that evicts nothing by itself, since all its files await persistence."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, cast

import requests

from springline.persistence.backends.alluxio_proxy import AlluxioFileStatus, AlluxioProxy, Block, ProxyUpload, Worker
from springline.persistence.backends.listing import FolderEntry, ListedBackend, checked_below, files_below
from springline.persistence.backends.registry import StoreRequest
from springline.persistence.errors import StorageUnavailableError
from springline.persistence.model.manifest import File

_CHUNK = 1 << 20
_WORKER_TIMEOUT = 2.0  # timeout (s) of a worker's answer about its block folders or its load
_ACTIVE_THREAD_GAUGES = ("Worker.BlockReaderThreadActiveCount", "Worker.BlockWriterThreadActiveCount")


def open_alluxio(request: StoreRequest) -> AlluxioBackend:
    """Open the folder of an `alluxio` URI, as a cache: Alluxio loses its data when its workers die."""
    parts, settings = request.uri, request.settings
    request.require(parts.hostname and request.role == "cache", "alluxio://host:port/folder, as cache")
    request.require_options()
    server = f"alluxio://{parts.netloc}"
    urls = settings.alluxio_proxy or f"http://{parts.hostname}:39999"
    proxies = [AlluxioProxy(url, server=server, ca_bundle=settings.ca_bundle) for url in urls.split(";") if url]
    return AlluxioBackend(f"{server}{request.path}", proxies)


class AlluxioBackend(ListedBackend):
    """The folder at `uri` (alluxio://host:port/folder), accessed by one or several of its proxies.

    Every file is written with ASYNC_THROUGH and a persistence wait of -1: it awaits persistence, which
    protects it from eviction, and Alluxio never begins to persist it. Only this platform deletes files.
    A file with a block that no worker holds counts as missing: the next scan records its loss.
    """

    def __init__(self, uri: str, proxies: Sequence[AlluxioProxy]) -> None:
        super().__init__(uri, proxies[0].server)
        self._proxies = proxies
        self._proxy = proxies[0]
        self._tiers: dict[Worker, tuple[Path, ...]] = {}

    def exists(self, location: str) -> bool:
        try:
            self._proxy.status(self._path(location))
        except FileNotFoundError:
            return False
        return True

    def files(self, location: str) -> tuple[File, ...]:
        checked_below(self._uri, location)
        return tuple(sorted(files_below(self._complete_entries, location)))

    def chunks(self, location: str, name: str) -> Iterator[bytes]:
        path = self._path(location, name)
        status = self._proxy.status(path)
        if status.is_folder:
            raise FileNotFoundError(errno.ENOENT, "is a folder", f"{self._proxy.server}{path}")
        self._require_complete(status, path)
        sender = self._choose_sender(status)
        with ExitStack() as stack:
            blocks = [self._open_block(block, sender, stack) for block in status.blocks]
            if None not in blocks and status.blocks:
                for block in blocks:
                    while chunk := cast(BinaryIO, block).read(_CHUNK):
                        yield chunk
                return
        yield from self._nearest_proxy(sender).read_chunks(path, status.bytes)

    def read_through_proxy(self, location: str, name: str) -> Iterator[bytes]:
        """Yield the bytes of one file as `chunks` does if no block is on this machine."""
        path = self._path(location, name)
        status = self._proxy.status(path)
        self._require_complete(status, path)
        return self._nearest_proxy(self._choose_sender(status)).read_chunks(path, status.bytes)

    def create(self, location: str, name: str, size: int) -> BinaryIO:
        return cast(BinaryIO, _AlluxioWriter(self._proxy.open_upload(self._path(location, name), size)))

    def delete(self, location: str) -> None:
        self._proxy.remove(self._path(location))

    def names(self, location: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(status.name for status in self._proxy.list_folder(self._path(location))))
        except FileNotFoundError:
            return ()

    def file_status(self, location: str, name: str) -> AlluxioFileStatus:
        """Return the master's status of one file: whether persisted or lost, and which workers hold its blocks."""
        return self._proxy.status(self._path(location, name))

    # ---- names

    def _listing(self, location: str) -> list[AlluxioFileStatus]:
        return self._proxy.list_folder(self._folder(location))

    def _entries(self, location: str) -> list[FolderEntry]:
        try:
            return [FolderEntry(s.name, s.is_folder, s.bytes) for s in self._listing(location)]
        except FileNotFoundError:
            if location:
                raise
            return []

    def _complete_entries(self, location: str) -> list[FolderEntry]:
        statuses = self._listing(location)
        for status in statuses:
            self._require_complete(status, f"{self._root}/{location}/{status.name}")
        return [FolderEntry(s.name, s.is_folder, s.bytes) for s in statuses]

    def _require_complete(self, status: AlluxioFileStatus, path: str) -> None:
        if not status.is_complete and not status.is_folder:
            raise FileNotFoundError(errno.ENOENT, "not closed by its writer", f"{self._proxy.server}{path}")
        if status.is_lost:
            raise FileNotFoundError(errno.ENOENT, "lost with the worker that stored it", f"{self._proxy.server}{path}")

    # ---- bytes

    def _choose_sender(self, status: AlluxioFileStatus) -> Worker | None:
        """Return the worker that sends a file: see `sending_worker`; if none is idle, one of those that hold it."""
        workers = sorted({worker for block in status.blocks for worker in block.workers}, key=_distance)
        if len(workers) < 2:
            return workers[0] if workers else None
        workers_by_name = {worker.name: worker for worker in workers}
        idle = [worker.name for worker in workers if _is_idle(worker)]
        blocks = [{worker.name for worker in block.workers} for block in status.blocks]
        return workers_by_name[sending_worker(blocks, idle or list(workers_by_name)) or workers[0].name]

    def _nearest_proxy(self, worker: Worker | None) -> AlluxioProxy:
        """Return the proxy on the worker's machine, if there is one: it reads the blocks there without a network."""
        local_proxies = [proxy for proxy in self._proxies if worker and proxy.host_name == worker.host]
        return local_proxies[0] if local_proxies else self._proxy

    def _open_block(self, block: Block, sender: Worker | None, stack: ExitStack) -> BinaryIO | None:
        """Open a block as a local file; returns None if it is on another machine."""
        for worker in sorted(block.workers, key=lambda worker: worker != sender):
            for folder in self._block_folders(worker):
                try:
                    file = stack.enter_context((folder / str(block.number)).open("rb", buffering=0))
                except OSError:
                    continue
                if os.fstat(file.fileno()).st_size == block.bytes:
                    return cast(BinaryIO, file)
        return None

    def _block_folders(self, worker: Worker) -> tuple[Path, ...]:
        if worker not in self._tiers and _distance(worker)[0] == 0:
            try:
                tier_paths = _get_json(worker, "/api/v1/worker/info")["tierPaths"]
            except StorageUnavailableError:
                return ()
            tiers = [Path(path) for paths in tier_paths.values() for path in paths]
            self._tiers[worker] = tuple(folder for tier in tiers for folder in (tier, tier / "alluxioworker"))
        return self._tiers.get(worker, ())


class _AlluxioWriter:
    """A file that is being written."""

    def __init__(self, upload: ProxyUpload) -> None:
        self._upload = upload

    def write(self, chunk: bytes) -> int:
        self._upload.write(chunk)
        return len(chunk)

    def __enter__(self) -> _AlluxioWriter:
        return self

    def __exit__(self, error_type: object, *_: object) -> None:
        if error_type:
            self._upload.abandon()
        else:
            self._upload.close()


def _distance(worker: Worker) -> tuple[int, Worker]:
    """Return a sort key with 0 for a worker on this machine, 1 for another."""
    is_local = worker.host in ("localhost", "127.0.0.1", socket.gethostname(), socket.getfqdn())
    return (0 if is_local else 1, worker)


def _is_idle(worker: Worker) -> bool:
    """Whether a worker has no active reads or writes, by its own metrics."""
    try:
        gauges = _get_json(worker, "/metrics/json/")["gauges"]
    except StorageUnavailableError:
        return False
    active = [gauge["value"] for name, gauge in gauges.items() if name in _ACTIVE_THREAD_GAUGES]
    return not any(active)


def _get_json(worker: Worker, endpoint: str):  # type: ignore[no-untyped-def]
    try:
        response = requests.get(f"http://{worker.host}:{worker.web_port}{endpoint}", timeout=_WORKER_TIMEOUT)
        response.raise_for_status()
        return response.json()
    except (requests.RequestException, ValueError) as error:
        raise StorageUnavailableError(f"Alluxio's worker {worker.name} does not answer: {error}") from error


def sending_worker(blocks: Sequence[Collection[str]], idle: Sequence[str]) -> str | None:
    """Return the idle worker that holds most consecutive blocks of a file, else the nearest idle one; None if none is.

    `blocks` contains for each block of the file, in order, the workers that hold it; `idle` are the idle
    workers, nearest first. Of two that hold as many, the nearer one sends.
    Source: the paper, its rules for transferring data.
    """
    return max(idle, key=lambda worker: longest_stretch(blocks, worker), default=None)


def longest_stretch(blocks: Sequence[Collection[str]], worker: str) -> int:
    """Return the length of the longest run of consecutive blocks that a worker holds."""
    runs = groupby(worker in holders for holders in blocks)
    return max((len(list(stretch)) for holds, stretch in runs if holds), default=0)
