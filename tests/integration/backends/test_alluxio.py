"""Alluxio as a backend passes the suite, and what is its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
import pytest

from springline.persistence.backends import alluxio_proxy
from springline.persistence.backends.alluxio import AlluxioBackend
from springline.persistence.backends.alluxio_proxy import AlluxioProxy
from springline.persistence.backends.registry import open_backend
from springline.persistence.backends.spec import Backend
from springline.persistence.errors import StorageFullError, StorageUnavailableError
from springline.persistence.settings import Settings
from springline.services.scratch_home import scratch_settings
from springline.testing.store_suite import StoreSuite, read_contents, send
from tests.support.servers.servers import Running
from tests.support.waiting import until

Open = Callable[..., AlluxioBackend]
MEGABYTE = 1 << 20
BLOCK = 64 * MEGABYTE  # Alluxio's default


class TestAlluxio(StoreSuite):
    """A folder of Alluxio as a cache."""

    tiny_bytes = BLOCK

    @pytest.fixture
    def backend(self, open_alluxio: Open) -> Backend:
        return open_alluxio()

    @pytest.fixture
    def tiny(self, open_alluxio: Open) -> Iterator[Backend]:
        # Its workers are filled, and one block is let go again.
        filling = open_alluxio()
        self.wait_for_space()
        for number in range(100):
            if self.free_bytes() < BLOCK - MEGABYTE:
                break
            with suppress(StorageFullError):  # of two workers it may choose the full one, whose news is a second old
                send(filling, "filling/@1", f"{number}.bin", b"x" * BLOCK, step=4 * MEGABYTE)
            self.wait_for_space()
        filling.delete(f"filling/@1/{filling.names('filling/@1')[0]}")
        self.wait_for_space()
        yield open_alluxio()
        filling.delete("filling")

    @pytest.fixture
    def refusing(self, alluxio: Running, tmp_path: Path) -> Backend:
        free = scratch_settings(tmp_path)
        nobody = {"alluxio_proxy": f"http://127.0.0.1:{free.alluxio_proxy_port}"}
        return open_backend(f"{alluxio.address}/x", "cache", Settings(home=tmp_path, **nobody))  # type: ignore[arg-type]

    @pytest.fixture(autouse=True)
    def _rest(self, alluxio: Running) -> Iterator[None]:
        self.rest = f"http://127.0.0.1:{alluxio.settings.alluxio_proxy_port}/api/v1"
        self.master = f"http://127.0.0.1:{alluxio.settings.alluxio_web_port}/api/v1/master/info"
        with httpx.Client(timeout=30, verify=False) as self.http:  # no certificates to load, which takes longer
            yield

    def wait_for_space(self) -> None:
        # The workers learn with their next heartbeat what they may drop, and the master with the one after.
        options = {"recursive": True, "loadMetadataType": "NEVER"}
        files = self.http.post(f"{self.rest}/paths///list-status", json=options).raise_for_status().json()
        stored_bytes = sum(file["length"] for file in files)
        until(lambda: abs(sum(worker["usedBytes"] for worker in self.workers()) - stored_bytes) < MEGABYTE)

    def free_bytes(self) -> int:
        """The bytes that the emptiest worker may still take."""
        return max(worker["capacityBytes"] - worker["usedBytes"] for worker in self.workers())

    def workers(self) -> list[dict[str, int]]:
        """What the master knows of its workers."""
        return self.http.get(self.master).raise_for_status().json()["workers"]

    def write_as_engine(self, uri: str, name: str, content: bytes) -> None:
        path = f"{uri.removeprefix(f'alluxio://{urlsplit(uri).netloc}')}/{name}"
        # As Spark's client does with the settings that the platform gives it.
        options = {"writeType": "ASYNC_THROUGH", "persistenceWaitTime": -1, "recursive": True}
        stream = self.http.post(f"{self.rest}/paths/{quote(path)}/create-file", json=options).json()
        octets = {"Content-Type": "application/octet-stream"}
        write = self.http.post(f"{self.rest}/streams/{stream}/write", content=content, headers=octets)
        write.raise_for_status()
        self.http.post(f"{self.rest}/streams/{stream}/close").raise_for_status()


def test_nothing_is_persisted_or_dropped_by_alluxio_itself(alluxio: Running, open_alluxio: Open) -> None:
    """It waits to be persisted for ever, so it is neither sent below nor evicted."""
    backend = open_alluxio()
    send(backend, "a/@1", "part.txt", b"abc")
    status = backend.file_status("a/@1", "part.txt")
    assert (status.awaits_persist, status.is_persisted, status.is_lost) == (True, False, False)
    assert not list((alluxio.settings.home / "alluxio/under").rglob("part.txt"))


def test_blocks_are_read_as_files_on_this_machine_and_through_the_proxy_elsewhere(
    open_alluxio: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of several blocks on several workers; of those on this machine the proxy carries no byte."""
    monkeypatch.setattr(alluxio_proxy, "_MAX_BLOCK_BYTES", 2 * MEGABYTE)
    backend = open_alluxio()
    content = bytes(range(256)) * (3 * MEGABYTE // 256)
    send(backend, "a/@1", "large.bin", content, step=MEGABYTE)
    assert len(backend.file_status("a/@1", "large.bin").blocks) == 2
    with monkeypatch.context() as here:
        here.setattr(AlluxioProxy, "read_chunks", None)
        assert read_contents(backend, "a/@1") == {"large.bin": content}
    monkeypatch.setattr(backend, "_block_folders", lambda worker: ())
    assert read_contents(backend, "a/@1") == {"large.bin": content}


def test_a_file_that_its_writer_has_not_closed_is_not_there(open_alluxio: Open) -> None:
    """A half copy is no copy."""
    backend = open_alluxio()
    out = backend.create("a/@1", "part.txt", 3)
    out.write(b"abc")
    for ask in (lambda: backend.files("a/@1"), lambda: list(backend.chunks("a/@1", "part.txt"))):
        with pytest.raises(FileNotFoundError):
            ask()
    with out:
        pass
    assert read_contents(backend, "a/@1") == {"part.txt": b"abc"}


def test_what_a_dead_worker_held_is_unreadable_at_once_and_lost_when_the_master_says_so(
    alluxio: Running, open_alluxio: Open
) -> None:
    """First its blocks are out of reach, then the file is not there; what the other worker holds stays."""
    backend = open_alluxio()
    ports_by_number: dict[int, int] = {}
    while len(set(ports_by_number.values())) < 2 and len(ports_by_number) < 60:  # Alluxio draws a worker for each
        number = len(ports_by_number)
        send(backend, f"a/@{number}", "part.txt", b"x" * MEGABYTE, step=MEGABYTE)
        ports_by_number[number] = backend.file_status(f"a/@{number}", "part.txt").blocks[0].workers[0].web_port
    first = alluxio.settings.alluxio_worker_port + 1
    lost_numbers, available_numbers = (
        [n for n in ports_by_number if (ports_by_number[n] == first) == dead] for dead in (True, False)
    )
    alluxio.kill("worker-1")
    try:
        backend._block_folders = lambda worker: ()  # type: ignore[method-assign]  # as from another machine
        for number in lost_numbers[:1]:
            with pytest.raises((StorageUnavailableError, FileNotFoundError)):
                backend.manifest(f"a/@{number}")
        until(lambda: all(backend.file_status(f"a/@{n}", "part.txt").is_lost for n in lost_numbers))
        for number in lost_numbers:
            with pytest.raises(FileNotFoundError, match="lost with the worker"):
                backend.files(f"a/@{number}")
        assert lost_numbers and all(backend.manifest(f"a/@{number}").bytes == MEGABYTE for number in available_numbers)
    finally:
        alluxio.restart_stopped()
    until(lambda: not any(backend.file_status(f"a/@{n}", "part.txt").is_lost for n in lost_numbers))
    assert all(backend.manifest(f"a/@{number}").bytes == MEGABYTE for number in lost_numbers)
