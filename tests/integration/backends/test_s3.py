"""S3 as an under-store passes the suite on two servers that have nothing in common, and what is its own."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from springline.persistence.backends.registry import open_backend
from springline.persistence.backends.root_mark import MARK_NAME, never_in_use
from springline.persistence.backends.s3 import S3Store
from springline.persistence.backends.spec import Backend, UnderStore
from springline.persistence.errors import StorageUnavailableError
from springline.persistence.model.dataset import Strategy
from springline.persistence.settings import Settings
from springline.services.process.ports import free_ports
from springline.services.servers.s3 import BUCKET
from springline.testing.lines import make_dataset
from springline.testing.platform import platform_in
from springline.testing.store_suite import read_contents, send, send_files
from springline.testing.under_store_suite import UnderStoreSuite
from tests.support.datasets.stages import replace_under_store
from tests.support.servers.faulty_proxy import FaultyProxy
from tests.support.servers.servers import Running

MEGABYTE = 1 << 20
Open = Callable[..., S3Store]


def open_store(
    endpoint: str,
    home: Path,
    folder: str = "",
    *,
    bucket: str = BUCKET,
    in_use: Callable[[], bool] = never_in_use,
    **settings: object,
) -> S3Store:
    """A folder of the bucket that no other test uses, or one by name."""
    options = {"endpoint_url": endpoint, "key": "springline", "secret": "not-to-be-seen", "retry_seconds": "2"}
    options |= settings.pop("options", {})  # type: ignore[call-overload]
    of_stores = Settings(home=home, under_options=options, **settings)  # type: ignore[arg-type]
    uri = f"s3://{bucket}/{folder or uuid.uuid4().hex}"
    store = open_backend(uri, "under", of_stores, in_use=in_use)
    assert isinstance(store, S3Store)
    return store


class S3Suite(UnderStoreSuite):
    """A prefix of a bucket as an under-store."""

    endpoint: str
    home: Path

    @pytest.fixture
    def backend(self) -> S3Store:
        return open_store(self.endpoint, self.home)

    @pytest.fixture
    def tiny(self) -> S3Store:
        return open_store(self.endpoint, self.home, under_capacity=1000)

    @pytest.fixture
    def refusing(self) -> S3Store:
        return open_store(f"http://127.0.0.1:{free_ports(1)}", self.home)

    def in_use(self, backend: Backend) -> UnderStore:
        return open_store(self.endpoint, self.home, self.prefix_of(backend), in_use=lambda: True)

    def empty(self, backend: Backend) -> None:
        self.filesystem_of(backend).rm(f"{BUCKET}/{self.prefix_of(backend)}", recursive=True)

    def put_mark(self, backend: Backend) -> None:
        self.filesystem_of(backend).pipe_file(f"{BUCKET}/{self.prefix_of(backend)}/{MARK_NAME}", b"")

    def write_as_engine(self, uri: str, name: str, content: bytes) -> None:
        path = f"{uri.removeprefix('s3a://')}/{name}"
        self.filesystem_of(open_store(self.endpoint, self.home)).pipe_file(path, content)

    @staticmethod
    def filesystem_of(backend: Backend):  # type: ignore[no-untyped-def]
        """S3 as another client sees it."""
        assert isinstance(backend, S3Store)
        return backend.filesystem

    @staticmethod
    def prefix_of(backend: Backend) -> str:
        """The folder of a store."""
        return backend.uri("x").removeprefix(f"s3a://{BUCKET}/").removesuffix("/x")


class TestS3Mock(S3Suite):
    """The server that the project starts."""

    @pytest.fixture(autouse=True)
    def _server(self, s3: Running, tmp_path: Path) -> None:
        self.endpoint, self.home = s3.address, tmp_path


class TestMoto(S3Suite):
    """A server that shares no code with it."""

    @pytest.fixture(autouse=True)
    def _server(self, moto: str, tmp_path: Path) -> None:
        self.endpoint, self.home = moto, tmp_path


@pytest.fixture
def open_s3(s3: Running, tmp_path: Path) -> Open:
    """Opens a folder of the bucket that no other test uses, or one by name."""
    return lambda folder="", **how: open_store(how.pop("endpoint", s3.address), tmp_path, folder, **how)


@pytest.fixture
def proxy(s3: Running) -> Iterator[FaultyProxy]:
    """A way to the server on which things happen."""
    with FaultyProxy(s3.settings.s3_port) as proxy:
        yield proxy


CONTENTS = {"part-0.bin": bytes(range(256)) * 200, "x/empty.txt": b"", "large.bin": bytes(range(251)) * 150_000}


# ---- what it costs


def test_a_copy_is_verified_by_the_checksums_of_the_server_and_not_read_back(
    open_s3: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one request and of parts; nothing crosses the network twice."""
    store = open_s3()
    manifest = send_files(store, "a/@1-1", CONTENTS)
    assert store.filesystem.requests["upload_part"] == 3
    monkeypatch.setattr(store, "chunks", None)
    assert store.holds("a/@1-1", manifest)


def test_what_a_dataset_costs_is_counted_and_shown(open_s3: Open, tmp_path: Path) -> None:
    """A dataset of one file: of its path's names and of its files, two lists; two puts; the mark, twice; the manifest.

    To see whether the store is there takes no list.
    """
    with platform_in(tmp_path) as platform:
        store = replace_under_store(platform, open_s3("costs"))
        make_dataset(platform, "warm-up", lines=["x"], strategy=Strategy.CACHE_THROUGH)
        dataset = make_dataset(platform, "a", lines=["x"], strategy=Strategy.CACHE_THROUGH)
        (copied,) = [moment.reason for moment in platform.catalog.history(dataset.ref) if moment.event == "copied"]
        assert copied.endswith(", with 7 requests (2 head, 2 list, 2 put, 1 get)")
        before = Counter(store.requests)
        assert platform.under.unavailable_reason() == ""
        assert Counter(store.requests) - before == {"head": 1}


def test_a_copy_that_another_process_sent_is_read_back(open_s3: Open) -> None:
    """Who has not sent it has nothing to compare the server's checksum with."""
    manifest = send_files(open_s3("shared"), "a/@1-1", CONTENTS)
    store = open_s3("shared")
    assert store.holds("a/@1-1", manifest) and store.filesystem.requests["get_object"] >= 2


# ---- faults


def test_a_server_that_is_busy_is_asked_again_within_the_budget_and_no_longer(
    open_s3: Open, proxy: FaultyProxy
) -> None:
    """503 for a second is not noticed but counted; for longer it is an error with the server's word, soon."""
    store = open_s3(endpoint=proxy.address)
    proxy.answer_with(503, seconds=1.0)
    send(store, "a/@1-1", "part.txt", b"abc")
    assert store.filesystem.requests["retry"] >= 1 and read_contents(store, "a/@1-1") == {"part.txt": b"abc"}
    proxy.answer_with(503, seconds=60.0)
    began = time.monotonic()
    with pytest.raises(StorageUnavailableError, match="does not answer, or refuses"):
        store.files("a/@1-1")
    assert 0.5 < time.monotonic() - began < 4.0
    assert "Service Unavailable" in store.unavailable_reason()


@pytest.mark.parametrize(
    "code", ["InvalidAccessKeyId", "SignatureDoesNotMatch", "RequestTimeTooSkewed", "ExpiredToken"]
)
def test_what_the_server_says_of_credentials_and_clocks_is_passed_on_and_they_are_not(
    open_s3: Open, proxy: FaultyProxy, code: str
) -> None:
    """Nothing counts as missing."""
    store = open_s3(endpoint=proxy.address)
    proxy.answer_with(403, seconds=60.0, code=code)
    for ask in (
        lambda: store.exists("a/@1-1"),
        lambda: store.names("a"),
        lambda: store.read_manifest("a/@1-1"),
        lambda: list(store.chunks("a/@1-1", "part.txt")),
        lambda: send(store, "a/@1-1", "part.txt", b"x"),
        lambda: store.delete("a/@1-1"),
    ):
        with pytest.raises(StorageUnavailableError, match="check its credentials") as refused:
            ask()
        assert "not-to-be-seen" not in str(refused.value)
    assert store.unavailable_reason()


def test_a_bucket_that_does_not_exist_is_no_empty_store(open_s3: Open) -> None:
    """Nor is it created."""
    store = open_s3(bucket="nowhere")
    assert store.unavailable_reason().endswith("there is no bucket nowhere; create it")
    for ask in (
        lambda: send(store, "a/@1-1", "part.txt", b"x"),
        lambda: store.publish("a/@1-1", b"{}"),
        lambda: store.files("a/@1-1"),
        lambda: list(store.copies()),
    ):
        with pytest.raises(StorageUnavailableError, match="no bucket nowhere"):
            ask()


@pytest.mark.parametrize("after", [1, 18 * MEGABYTE])
def test_a_connection_that_breaks_in_an_upload_leaves_no_file(open_s3: Open, proxy: FaultyProxy, after: int) -> None:
    """Neither in the first part nor in the second; what was sent of it is swept."""
    folder = uuid.uuid4().hex
    store = open_s3(folder, endpoint=proxy.address, options={"retry_seconds": "0"})
    proxy.break_after(after)
    with pytest.raises(StorageUnavailableError):
        send(store, "a/@1-1", "large.bin", bytes(40 * MEGABYTE), step=MEGABYTE)
    proxy.heal()
    plain = open_s3(folder)
    assert not plain.exists("a/@1-1")
    plain.sweep_uploads(0)
    bucket = plain.filesystem.list_multipart_uploads(BUCKET)
    assert [upload for upload in bucket if upload["Key"].startswith(folder)] == []


def test_a_server_killed_in_an_upload_and_started_again_has_what_was_complete(s3: Running, open_s3: Open) -> None:
    """The upload fails, what was published is there, and the next attempt goes through."""
    store = open_s3()
    send_files(store, "a/@1-1", CONTENTS)
    store.publish("a/@1-1", b"{}")
    with pytest.raises(StorageUnavailableError), store.create("b/@1-1", "large.bin", 40 * MEGABYTE) as file:
        for number in range(40):
            file.write(bytes(MEGABYTE))
            if number == 20:
                s3.kill("server")
    assert store.unavailable_reason()
    s3.restart_stopped()
    assert read_contents(store, "a/@1-1") == CONTENTS and store.read_manifest("a/@1-1") == b"{}"
    assert not store.exists("b/@1-1")
    manifest = send_files(store, "b/@1-2", CONTENTS)
    assert store.holds("b/@1-2", manifest)


def test_a_slow_server_is_waited_for(open_s3: Open, proxy: FaultyProxy) -> None:
    """A megabyte a second, in both directions."""
    store = open_s3(endpoint=proxy.address)
    proxy.limit(MEGABYTE)
    content = bytes(range(256)) * 8192
    send(store, "a/@1-1", "part.bin", content, step=MEGABYTE)
    assert read_contents(store, "a/@1-1") == {"part.bin": content}
