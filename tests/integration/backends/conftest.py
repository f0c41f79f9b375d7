"""Folders of their own on the real servers, as backends."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from s3fs import S3FileSystem

from springline.persistence.backends.alluxio import AlluxioBackend
from springline.persistence.backends.registry import open_backend
from springline.persistence.backends.root_mark import never_in_use
from springline.persistence.backends.spec import Backend
from springline.persistence.settings import Settings
from springline.services.process.ports import free_ports
from springline.services.servers.s3 import BUCKET
from tests.support.servers.servers import Running
from tests.support.waiting import until

Open = Callable[..., Backend]


@pytest.fixture
def open_hdfs(hdfs: Running, tmp_path: Path) -> Open:
    """Opens a folder of HDFS that no other test uses, or one by name."""

    def open_(folder: str = "", *, in_use: Callable[[], bool] = never_in_use, **settings: object) -> Backend:
        http = f"http://127.0.0.1:{hdfs.settings.hdfs_http_port}"
        hdfs_settings = Settings(home=tmp_path, hdfs_http=http, **settings)  # type: ignore[arg-type]
        return open_backend(f"{hdfs.address}/{folder or uuid.uuid4().hex}", "under", hdfs_settings, in_use=in_use)

    return open_


@pytest.fixture
def open_alluxio(alluxio: Running, tmp_path: Path) -> Iterator[Open]:
    """Opens a folder of Alluxio of its own; it is emptied in the end, since nothing there goes by itself."""
    opened: list[AlluxioBackend] = []

    def open_(folder: str = "", **settings: object) -> Backend:
        proxy = f"http://127.0.0.1:{alluxio.settings.alluxio_proxy_port}"
        alluxio_settings = Settings(home=tmp_path, alluxio_proxy=proxy, **settings)  # type: ignore[arg-type]
        backend = open_backend(f"{alluxio.address}/{folder or uuid.uuid4().hex}", "cache", alluxio_settings)
        assert isinstance(backend, AlluxioBackend)
        opened.append(backend)
        return backend

    yield open_
    for backend in opened:
        backend._proxy.remove(backend._root)


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    """The address of a server of S3's protocol that is not the project's, in memory, with a bucket of the same name."""
    port = free_ports(1)
    command = [Path(sys.executable).with_name("moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        address = f"http://127.0.0.1:{port}"
        until(lambda: _makes_bucket(address))
        yield address
        process.terminate()


def _makes_bucket(address: str) -> bool:
    try:
        S3FileSystem(endpoint_url=address, key="springline", secret="springline", skip_instance_cache=True).mkdir(
            BUCKET
        )
    except Exception:
        return False
    return True
