"""Alluxio as a backend: a cache in memory that drops nothing by itself, since all its files wait to be persisted."""

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

from springline.persistence.backends.alluxio_proxy import AlluxioProxy, Block, Status, Worker, Writing
from springline.persistence.backends.listing import Entry, ListedBackend, checked_below, files_below
from springline.persistence.backends.registry import StoreRequest
from springline.persistence.backends.spec import File
from springline.persistence.errors import StorageUnavailableError

_CHUNK = 1 << 20
_SECONDS = 2.0  # for a worker to say where its blocks lie and whether it is idle
_BUSY = ("Worker.BlockReaderThreadActiveCount", "Worker.BlockWriterThreadActiveCount")


def open_alluxio(request: StoreRequest) -> AlluxioBackend:
    """The folder of an `alluxio` URI, as a cache: Alluxio drops what it holds when its workers die."""
    parts, settings = request.uri, request.settings
    request.require(parts.hostname and request.role == "cache", "alluxio://host:port/folder, as cache")
    request.require_options()
    server = f"alluxio://{parts.netloc}"
    urls = settings.alluxio_proxy or f"http://{parts.hostname}:39999"
    proxies = [AlluxioProxy(url, server=server, ca_bundle=settings.ca_bundle) for url in urls.split(";") if url]
    return AlluxioBackend(f"{server}{parts.path}", proxies)


class AlluxioBackend(ListedBackend):
    """The folder at `uri` (alluxio://host:port/folder), through one or several of its proxies.

    Every file is written with ASYNC_THROUGH and a persistence wait of -1: it waits to be persisted, which
    keeps it from being evicted, and Alluxio never begins to. What goes, goes because this platform deletes
    it. A file with a block that no worker holds is not there: the next scan records its loss.
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
        return tuple(sorted(files_below(self._whole_entries, location)))

    def chunks(self, location: str, name: str) -> Iterator[bytes]:
        path = self._path(location, name)
        status = self._proxy.status(path)
        if status.folder:
            raise FileNotFoundError(errno.ENOENT, "it is a folder", f"{self._proxy.server}{path}")
        self._require_whole(status, path)
        sender = self._sender(status)
        with ExitStack() as opened:
            blocks = [self._block_file(block, sender, opened) for block in status.blocks]
            if None not in blocks and status.blocks:
                for block in blocks:
                    while chunk := cast(BinaryIO, block).read(_CHUNK):
                        yield chunk
                return
        yield from self._proxy_beside(sender).bytes_of(path, status.bytes)

    def through_the_proxy(self, location: str, name: str) -> Iterator[bytes]:
        """The bytes of one file as `chunks` has them where no block lies on this machine."""
        path = self._path(location, name)
        status = self._proxy.status(path)
        self._require_whole(status, path)
        return self._proxy_beside(self._sender(status)).bytes_of(path, status.bytes)

    def create(self, location: str, name: str, size: int) -> BinaryIO:
        return cast(BinaryIO, _Sending(self._proxy.created(self._path(location, name), size)))

    def rename(self, old: str, new: str) -> None:
        self._proxy.move(self._path(old), self._path(new))

    def delete(self, location: str) -> None:
        self._proxy.remove(self._path(location))

    def names(self, location: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(status.name for status in self._proxy.listing(self._path(location))))
        except FileNotFoundError:
            return ()

    def read_small(self, location: str, name: str) -> bytes:
        return b"".join(self.chunks(location, name))

    def write_small(self, location: str, name: str, content: bytes) -> None:
        path = self._path(location, name)
        self._proxy.remove(path)  # a file is written once
        with _Sending(self._proxy.created(path, len(content))) as out:
            out.write(content)

    def state(self, location: str, name: str) -> Status:
        """What Alluxio's master knows of one file: persisted, lost, and which workers hold its blocks."""
        return self._proxy.status(self._path(location, name))

    # ---- names

    def _listing(self, location: str) -> list[Status]:
        return self._proxy.listing(self._folder(location))

    def _entries(self, location: str) -> list[Entry]:
        try:
            return [Entry(s.name, s.folder, s.bytes) for s in self._listing(location)]
        except FileNotFoundError:
            if location:
                raise
            return []

    def _whole_entries(self, location: str) -> list[Entry]:
        found = self._listing(location)
        for status in found:
            if status.name[0] not in "._":
                self._require_whole(status, f"{self._root}/{location}/{status.name}")
        return [Entry(s.name, s.folder, s.bytes) for s in found]

    def _require_whole(self, status: Status, path: str) -> None:
        if not status.completed and not status.folder:
            raise FileNotFoundError(errno.ENOENT, "its writer has not closed it", f"{self._proxy.server}{path}")
        if status.lost:
            raise FileNotFoundError(errno.ENOENT, "lost with the worker that held it", f"{self._proxy.server}{path}")

    # ---- bytes

    def _sender(self, status: Status) -> Worker | None:
        """The worker that sends a file: see `sending_worker`; if none is idle, one of those that hold it."""
        workers = sorted({worker for block in status.blocks for worker in block.workers}, key=_distance)
        if len(workers) < 2:
            return workers[0] if workers else None
        named = {worker.name: worker for worker in workers}
        idle = [worker.name for worker in workers if _is_idle(worker)]
        blocks = [{worker.name for worker in block.workers} for block in status.blocks]
        return named[sending_worker(blocks, idle or list(named)) or workers[0].name]

    def _proxy_beside(self, worker: Worker | None) -> AlluxioProxy:
        """The proxy on the worker's machine, if there is one: it reads the blocks there without a network."""
        beside = [proxy for proxy in self._proxies if worker and proxy.host_name == worker.host]
        return beside[0] if beside else self._proxy

    def _block_file(self, block: Block, sender: Worker | None, opened: ExitStack) -> BinaryIO | None:
        """A block as a file of this machine, opened; None if it lies elsewhere."""
        for worker in sorted(block.workers, key=lambda worker: worker != sender):
            for folder in self._folders(worker):
                try:
                    file = opened.enter_context((folder / str(block.number)).open("rb", buffering=0))
                except OSError:
                    continue
                if os.fstat(file.fileno()).st_size == block.bytes:
                    return cast(BinaryIO, file)
        return None

    def _folders(self, worker: Worker) -> tuple[Path, ...]:
        if worker not in self._tiers and _distance(worker)[0] == 0:
            try:
                told = _ask(worker, "/api/v1/worker/info")["tierPaths"]
            except StorageUnavailableError:
                return ()
            tiers = [Path(path) for paths in told.values() for path in paths]
            self._tiers[worker] = tuple(folder for tier in tiers for folder in (tier, tier / "alluxioworker"))
        return self._tiers.get(worker, ())


class _Sending:
    """A file being written."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def write(self, chunk: bytes) -> int:
        self._writing.write(chunk)
        return len(chunk)

    def __enter__(self) -> _Sending:
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        if failed:
            self._writing.abandon()
        else:
            self._writing.close()


def _distance(worker: Worker) -> tuple[int, Worker]:
    """0 for a worker of this machine, 1 for another."""
    here = worker.host in ("localhost", "127.0.0.1", socket.gethostname(), socket.getfqdn())
    return (0 if here else 1, worker)


def _is_idle(worker: Worker) -> bool:
    """Whether nobody reads from it or writes to it now, by its own count."""
    try:
        gauges = _ask(worker, "/metrics/json/")["gauges"]
    except StorageUnavailableError:
        return False
    active = [gauge["value"] for name, gauge in gauges.items() if name in _BUSY]
    return not any(active)


def _ask(worker: Worker, question: str):  # type: ignore[no-untyped-def]
    try:
        answer = requests.get(f"http://{worker.host}:{worker.web_port}{question}", timeout=_SECONDS)
        answer.raise_for_status()
        return answer.json()
    except (requests.RequestException, ValueError) as error:
        raise StorageUnavailableError(f"Alluxio's worker {worker.name} does not answer: {error}") from error


def sending_worker(blocks: Sequence[Collection[str]], idle: Sequence[str]) -> str | None:
    """The idle worker that holds most consecutive blocks of a file, else the nearest idle one; None if none is idle.

    `blocks` tells for each block of the file, in order, which workers hold it; `idle` are the idle
    workers, the nearest first. Of two that hold as many the nearer one sends.
    Source: the paper, its rules for transferring data.
    """
    return max(idle, key=lambda worker: longest_stretch(blocks, worker), default=None)


def longest_stretch(blocks: Sequence[Collection[str]], worker: str) -> int:
    """The length of the longest stretch of consecutive blocks that a worker holds."""
    held = groupby(worker in holders for holders in blocks)
    return max((len(list(stretch)) for holds, stretch in held if holds), default=0)
