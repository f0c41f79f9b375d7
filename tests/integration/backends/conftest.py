"""Folders of their own on the real servers, as backends."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from springline.persistence.backends.alluxio import AlluxioBackend
from springline.persistence.backends.registry import open_backend
from springline.persistence.backends.root_mark import never_in_use
from springline.persistence.backends.spec import Backend
from springline.persistence.settings import Settings
from tests.support.servers.servers import Running

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
