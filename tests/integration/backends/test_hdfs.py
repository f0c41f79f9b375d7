"""HDFS as a backend passes the suite, and what is its own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
import pytest

from springline.persistence.backends.hdfs import HdfsStore
from springline.persistence.backends.registry import open_backend
from springline.persistence.backends.root_mark import MARK_NAME
from springline.persistence.backends.spec import Backend
from springline.persistence.errors import StorageFullError, StorageUnavailableError
from springline.persistence.settings import Settings
from springline.services.scratch_home import scratch_settings
from springline.testing.store_suite import read_contents, send, send_files
from springline.testing.under_store_suite import UnderStoreSuite
from tests.support.servers.hdfs_admin import dfsadmin, safe_mode
from tests.support.servers.servers import Running

Open = Callable[..., HdfsStore]


class TestHdfs(UnderStoreSuite):
    """A folder of HDFS as an under-store."""

    @pytest.fixture
    def backend(self, open_hdfs: Open) -> Backend:
        return open_hdfs()

    @pytest.fixture
    def tiny(self, open_hdfs: Open) -> Backend:
        return open_hdfs(under_capacity=1000)

    @pytest.fixture
    def refusing(self, hdfs: Running, tmp_path: Path) -> Backend:
        free = scratch_settings(tmp_path)
        nobody = {"hdfs_http": f"http://127.0.0.1:{free.hdfs_http_port}"}
        return open_backend(f"hdfs://127.0.0.1:{free.hdfs_port}/x", "under", Settings(home=tmp_path, **nobody))  # type: ignore[arg-type]

    def in_use(self, backend: Backend) -> Backend:
        return self.open_hdfs(self.path_of(backend).strip("/"), in_use=lambda: True)

    def empty(self, backend: Backend) -> None:
        folder = f"{self.rest}{self.path_of(backend)}"
        self.http.delete(folder, params={"op": "DELETE", "recursive": "true"}).raise_for_status()
        self.http.put(folder, params={"op": "MKDIRS"}).raise_for_status()

    def put_mark(self, backend: Backend) -> None:
        self.write_as_engine(backend.uri("x").removesuffix("/x"), MARK_NAME, b"")

    def path_of(self, backend: Backend) -> str:
        """The path of the root."""
        return urlsplit(backend.uri("x")).path.removesuffix("/x")

    @pytest.fixture(autouse=True)
    def _webhdfs(self, hdfs: Running, open_hdfs: Open) -> Iterator[None]:
        self.open_hdfs = open_hdfs
        self.rest = f"http://127.0.0.1:{hdfs.settings.hdfs_http_port}/webhdfs/v1"
        with httpx.Client(timeout=30, verify=False) as self.http:  # no certificates to load, which takes longer
            yield

    def write_as_engine(self, uri: str, name: str, content: bytes) -> None:
        path = f"{uri.removeprefix(f'hdfs://{urlsplit(uri).netloc}')}/{name}"
        response = self.http.put(f"{self.rest}{quote(path)}", params={"op": "CREATE", "noredirect": "true"})
        self.http.put(response.raise_for_status().json()["Location"], content=content).raise_for_status()


def test_a_copy_is_verified_by_the_checksum_of_hdfs_and_not_read_back(
    open_hdfs: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HDFS returns the CRC32C of the whole file; nothing crosses the network twice, whatever the number of blocks."""
    backend = open_hdfs()
    manifest = send_files(backend, "a/@1-1", {"part.txt": bytes(range(256)) * 9000, "empty.txt": b""})
    monkeypatch.setattr(backend, "chunks", None)
    assert backend.holds("a/@1-1", manifest)


def test_a_copy_that_another_process_sent_is_read_back(open_hdfs: Open) -> None:
    """Who has not sent it has nothing to compare HDFS's checksum with."""
    backend = open_hdfs("shared")
    manifest = send_files(backend, "a/@1-1", {"part.txt": b"abc"})
    assert open_hdfs("shared").holds("a/@1-1", manifest)


def test_a_quota_that_is_used_up_is_no_room(hdfs: Running, open_hdfs: Open) -> None:
    """The error names server and path, and what was there stays."""
    folder = uuid.uuid4().hex
    backend = open_hdfs(folder)
    send(backend, "a/@1", "part.txt", b"x" * 100)
    dfsadmin(hdfs, "-setSpaceQuota", str(1 << 20), f"/{folder}")
    with pytest.raises(StorageFullError, match=f"{hdfs.address}/{folder}/b/@1/part.txt.*quota"):
        send(backend, "b/@1", "part.txt", b"x" * 100)
    with pytest.raises(StorageFullError, match="quota"):
        backend.publish("b/@1", b"{}")
    assert read_contents(backend, "a/@1") == {"part.txt": b"x" * 100}


def test_in_safe_mode_it_can_be_read_but_not_written(hdfs: Running, open_hdfs: Open) -> None:
    """The error says what HDFS is in, and how it gets out."""
    backend = open_hdfs()
    send(backend, "a/@1", "part.txt", b"abc")
    with safe_mode(hdfs):
        assert read_contents(backend, "a/@1") == {"part.txt": b"abc"}
        for ask in (
            lambda: send(backend, "b/@1", "part.txt", b"x"),
            lambda: backend.publish("a/@1", b"{}"),
            lambda: backend.delete("a/@1"),
        ):
            with pytest.raises(StorageUnavailableError, match="safe mode"):
                ask()
    send(backend, "b/@1", "part.txt", b"x")


def test_names_that_webhdfs_would_read_as_markers_or_escapes_are_names(open_hdfs: Open) -> None:
    """`#LATEST` is a marker of the client library, `%41` an escaped letter, `;` ends a path for some servers."""
    backend = open_hdfs()
    for name in ("#LATEST", "a%41b", "x;y=1", "q?r", "[a-b]"):
        send(backend, f"p/{name}/@1", name, name.encode())
        assert read_contents(backend, f"p/{name}/@1") == {name: name.encode()}
    assert backend.names("p") == tuple(sorted(("#LATEST", "a%41b", "x;y=1", "q?r", "[a-b]")))


def test_names_and_bytes_are_written_as_the_user_that_is_set(
    hdfs: Running, open_hdfs: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over WebHDFS and by HDFS's own protocol alike."""
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody")  # the backend would set it for the whole process
    backend = open_hdfs(hdfs_user="somebody")
    send(backend, "a/@1", "part.txt", b"x")
    backend.publish("a/@1", b"{}")
    path = backend.uri("a/@1").removeprefix(hdfs.address)
    rest = f"http://127.0.0.1:{hdfs.settings.hdfs_http_port}/webhdfs/v1{path}"
    statuses = httpx.get(rest, params={"op": "LISTSTATUS"}).json()["FileStatuses"]["FileStatus"]
    assert {status["pathSuffix"]: status["owner"] for status in statuses} == {
        "part.txt": "somebody",
        "_springline.json": "somebody",
    }
