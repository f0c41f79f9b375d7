"""HDFS behind a link of set bandwidth, and an Alluxio that is mounted on it, for the time of a benchmark."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import requests

from springline.persistence.backends.alluxio_proxy import AlluxioProxy, Options, ProxyUpload
from springline.persistence.backends.hdfs_filesystem import HdfsFileSystem, HdfsUpload
from springline.services.registry import make_servers
from springline.services.scratch_home import scratch_settings
from springline.services.server import Server
from springline.services.servers.alluxio import ramdisk
from springline.services.settings import ServiceSettings, conf_path
from springline.services.supervisor import Supervisor

PATIENCE = 300.0  # seconds for a server to be ready
_WORKER = "worker-1"
_CHUNK = bytes(1 << 20)
_LIMIT = "dfs.datanode.data.write.bandwidthPerSec"


@dataclass(frozen=True)
class Cluster:
    """Where the two serve."""

    settings: ServiceSettings
    supervisor: Supervisor

    @property
    def alluxio(self) -> str:
        """The URI of Alluxio, whose root is the folder /alluxio of HDFS."""
        return f"alluxio://127.0.0.1:{self.settings.alluxio_port}"

    @property
    def hdfs(self) -> str:
        """The URI of HDFS."""
        return f"hdfs://127.0.0.1:{self.settings.hdfs_port}"

    @property
    def proxy(self) -> str:
        """Alluxio's REST address."""
        return f"http://127.0.0.1:{self.settings.alluxio_proxy_port}"

    @property
    def web(self) -> str:
        """The address of WebHDFS."""
        return f"http://127.0.0.1:{self.settings.hdfs_http_port}"

    def kill_worker(self) -> None:
        """Kill Alluxio's worker with -9, and let its memory be gone."""
        self.supervisor.kill("alluxio", _WORKER)
        for path in (ramdisk(self.settings) / _WORKER).iterdir():
            shutil.rmtree(path, ignore_errors=True)
            path.unlink(missing_ok=True)

    def start_worker(self) -> None:
        """Start it again, and wait until it serves."""
        self.supervisor.up(make_servers(["alluxio"], self.settings), PATIENCE)

    def files(self, folder: str) -> list[dict[str, Any]]:
        """What Alluxio's master knows of all files below a folder; nothing if there is no such folder."""
        options: dict[str, bool | str] = {"recursive": True, "loadMetadataType": "NEVER"}
        answer = requests.post(f"{self.proxy}/api/v1/paths//{folder.strip('/')}/list-status", json=options, timeout=30)
        if "NOT_FOUND" in answer.text:
            return []
        answer.raise_for_status()
        return [status for status in answer.json() if not status["folder"]]

    def write_rates(self, size: int) -> tuple[float, float]:
        """Bytes a second that HDFS takes of `size` bytes from HDFS's own client, and from Alluxio's worker."""
        proxy = AlluxioProxy(self.proxy, server=self.alluxio)
        options = Options({"writeType": "CACHE_THROUGH", "recursive": True})
        started_at = time.monotonic()
        filesystem = HdfsFileSystem(self.hdfs)
        _fill(HdfsUpload(filesystem, "/measured/direct", filesystem.client.create("/measured/direct")), size)
        between = time.monotonic()
        _fill(ProxyUpload(proxy, "/measured/through", proxy.create_file("/measured/through", options)), size)
        ended = time.monotonic()
        self.clear("/measured")
        return size / (between - started_at), size / (ended - between)

    def clear(self, folder: str) -> None:
        """Remove a folder from Alluxio and from HDFS."""
        options = {"recursive": True}
        requests.post(f"{self.proxy}/api/v1/paths//{folder.strip('/')}/delete", json=options, timeout=60)
        HdfsFileSystem(self.hdfs).client.delete(f"/{folder.strip('/')}", True)


@contextmanager
def cluster(*, link: float, memory: int) -> Iterator[Cluster]:
    """One DataNode that takes `link` bytes a second from whoever writes, one Alluxio worker with `memory` bytes.

    Everything is ended afterwards, also after an error, Ctrl-C or a request to end.
    """
    home = Path(tempfile.mkdtemp(prefix="springline-bench-", dir="/tmp"))
    settings = scratch_settings(home, hdfs_datanodes=1, hdfs_replication=1, alluxio_memory=memory)
    settings = settings.model_copy(update={"alluxio_under_uri": f"hdfs://127.0.0.1:{settings.hdfs_port}/alluxio"})
    supervisor = Supervisor(home, say=lambda text: print(text, file=sys.stderr, flush=True))
    with ExitStack() as leaving:
        leaving.enter_context(_ended_by_request())
        leaving.callback(shutil.rmtree, ramdisk(settings), ignore_errors=True)
        leaving.callback(shutil.rmtree, home, ignore_errors=True)
        for name in ("hdfs", "alluxio"):
            leaving.callback(supervisor.down, name, 5)
        (hdfs,) = make_servers(["hdfs"], settings)
        supervisor.up([_limited(hdfs, home / "limited", link)], PATIENCE)
        HdfsFileSystem(f"hdfs://127.0.0.1:{settings.hdfs_port}").makedirs("/alluxio")
        supervisor.up(make_servers(["alluxio"], settings), PATIENCE)
        yield Cluster(settings, supervisor)


class _Written(Protocol):
    def write(self, chunk: bytes) -> None: ...
    def close(self) -> None: ...


def _fill(file: _Written, size: int) -> None:
    for _ in range(size // len(_CHUNK)):
        file.write(_CHUNK)
    file.close()


def _limited(hdfs: Server, folder: Path, link: float) -> Server:
    """The server with the project's own configuration and a limit for what a DataNode takes."""
    folder.mkdir()
    limit = f"<property><name>{_LIMIT}</name><value>{link:.0f}</value></property>"
    ours = (conf_path("hdfs") / "hdfs-site.xml").read_text()
    (folder / "hdfs-site.xml").write_text(ours.replace("</configuration>", f"{limit}</configuration>"))
    before, after = str(conf_path("hdfs")), f"{folder}:{conf_path('hdfs')}"
    processes = tuple(
        replace(process, command=tuple(part.replace(before, after) for part in process.command))
        for process in hdfs.processes
    )
    return replace(hdfs, processes=processes)


@contextmanager
def _ended_by_request() -> Iterator[None]:
    """Inside, a request to end is taken as Ctrl-C is."""

    def end(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
