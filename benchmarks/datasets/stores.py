"""How quickly bytes go to and come from HDFS and Alluxio, by each of the ways that there are."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import requests

from benchmarks.report import Report
from springline.persistence.backends.alluxio import AlluxioBackend
from springline.persistence.backends.hdfs import HdfsStore
from springline.persistence.backends.registry import open_backend
from springline.persistence.backends.upload import Upload
from springline.persistence.settings import Settings
from springline.services.registry import make_servers
from springline.services.scratch_home import scratch_settings
from springline.services.servers.alluxio import ramdisk
from springline.services.settings import ServiceSettings
from springline.services.supervisor import Supervisor

_MEGABYTES = {"quick": 100, "full": 400}
_ROUNDS = {"quick": 3, "full": 9}
_CHUNK = 1 << 20


def run(size: str) -> Report:
    """Send one file and read it back, all ways in turn, several times."""
    load = os.getloadavg()[0]
    chunks, rates = _MEGABYTES[size], dict[str, list[float]]()
    chunk = os.urandom(_CHUNK)
    with _servers() as (settings, hdfs, alluxio):
        for _ in range(_ROUNDS[size]):
            for backend in (hdfs, alluxio):
                backend.delete("x")
            for name, pass_once in _ways(settings, hdfs, alluxio, chunk, chunks).items():
                started_at = time.perf_counter()
                pass_once()
                rates.setdefault(name, []).append(chunks * _CHUNK / 1e6 / (time.perf_counter() - started_at))
    rows = [
        {
            "way": name,
            "MB_s": statistics.median(rates_of_store),
            "least_MB_s": min(rates_of_store),
            "most_MB_s": max(rates_of_store),
        }
        for name, rates_of_store in rates.items()
    ]
    return Report(
        "stores",
        size,
        rows,
        [],
        (
            f"One file of {chunks * _CHUNK / 1e6:,.0f} MB, {_ROUNDS[size]} times, the ways in turn; medians, the least "
            "and the most. HDFS keeps two copies. Servers and client share the machine, "
            f"whose load was {load:.1f} on {os.cpu_count()} cores when it began.",
        ),
    )


def _ways(
    settings: ServiceSettings, hdfs: HdfsStore, alluxio: AlluxioBackend, chunk: bytes, chunks: int
) -> dict[str, Callable[[], object]]:
    path = f"{urlsplit(hdfs.uri('x')).path}/web.bin"
    web = f"http://127.0.0.1:{settings.hdfs_http_port}/webhdfs/v1{path}"

    def send(backend: HdfsStore | AlluxioBackend) -> None:
        with backend.create("x", "own.bin", chunks * _CHUNK) as out:
            for _ in range(chunks):
                out.write(chunk)

    def send_by_web() -> None:
        response = requests.put(web, params={"op": "CREATE", "noredirect": "true"}, timeout=30)
        upload = Upload("PUT", response.json()["Location"], seconds=30)
        for _ in range(chunks):
            upload.write(chunk)
        status, _ = upload.finish()
        assert status == requests.codes.created

    def read_by_web() -> int:
        with requests.get(web, params={"op": "OPEN"}, stream=True, timeout=30) as answer:
            return sum(map(len, answer.iter_content(_CHUNK)))

    return {
        "to HDFS by its own protocol, with checksums": lambda: send(hdfs),
        "to HDFS by WebHDFS, without": send_by_web,
        "from HDFS by its own protocol": lambda: sum(map(len, hdfs.chunks("x", "own.bin"))),
        "from HDFS by WebHDFS": read_by_web,
        "to Alluxio through its proxy": lambda: send(alluxio),
        "from Alluxio, blocks on this machine": lambda: sum(map(len, alluxio.chunks("x", "own.bin"))),
        "from Alluxio through its proxy": lambda: sum(map(len, alluxio.read_through_proxy("x", "own.bin"))),
    }


@contextmanager
def _servers() -> Iterator[tuple[ServiceSettings, HdfsStore, AlluxioBackend]]:
    """HDFS and Alluxio in a home of their own, ended with the measurement, and a folder in each."""
    home = Path(tempfile.mkdtemp(prefix="springline-bench-", dir="/tmp"))
    settings = scratch_settings(home)
    supervisor = Supervisor(home, say=lambda text: None)
    try:
        for name in ("hdfs", "alluxio"):
            supervisor.up(make_servers([name], settings), settings.start_timeout)
        stores = Settings(  # type: ignore[call-arg]
            home=home,
            hdfs_http=f"http://127.0.0.1:{settings.hdfs_http_port}",
            alluxio_proxy=f"http://127.0.0.1:{settings.alluxio_proxy_port}",
        )
        under = open_backend(f"hdfs://127.0.0.1:{settings.hdfs_port}/bench", "under", stores)
        cache = open_backend(f"alluxio://127.0.0.1:{settings.alluxio_port}/bench", "cache", stores)
        assert isinstance(under, HdfsStore) and isinstance(cache, AlluxioBackend)
        yield settings, under, cache
    finally:
        for name in ("alluxio", "hdfs"):
            supervisor.down(name, 5)
        shutil.rmtree(home, ignore_errors=True)
        shutil.rmtree(ramdisk(settings), ignore_errors=True)
