"""A folder as a backend passes the suite, and what is its own."""

from __future__ import annotations

import os
import resource
import shutil
from pathlib import Path

import pytest

from springline.persistence.backends.bandwidth_limit import Link
from springline.persistence.backends.local import LocalBackend
from springline.persistence.backends.root_mark import MARK_NAME
from springline.persistence.backends.spec import Backend
from springline.persistence.errors import InvalidPathError, StorageUnavailableError
from springline.testing.store_suite import read_contents, send
from springline.testing.under_store_suite import UnderStoreSuite


class TestLocal(UnderStoreSuite):
    """The folder as an under-store: durable, its root always there."""

    @pytest.fixture
    def backend(self, tmp_path: Path) -> LocalBackend:
        (tmp_path / "root").mkdir()
        return LocalBackend(tmp_path / "root", durable=True)

    @pytest.fixture
    def tiny(self, tmp_path: Path) -> LocalBackend:
        (tmp_path / "tiny").mkdir()
        return LocalBackend(tmp_path / "tiny", durable=True, capacity=1000)

    @pytest.fixture
    def refusing(self, tmp_path: Path) -> LocalBackend:
        # A file where the folder should be: refuses root too, whom no permission stops.
        (tmp_path / "refusing").write_text("")
        return LocalBackend(tmp_path / "refusing", durable=True)

    def in_use(self, backend: Backend) -> LocalBackend:
        assert isinstance(backend, LocalBackend)
        return LocalBackend(backend.root, durable=True, in_use=lambda: True)

    def empty(self, backend: Backend) -> None:
        assert isinstance(backend, LocalBackend)
        shutil.rmtree(backend.root)
        backend.root.mkdir()

    def put_mark(self, backend: Backend) -> None:
        assert isinstance(backend, LocalBackend)
        (backend.root / MARK_NAME).touch()

    def write_as_engine(self, uri: str, name: str, content: bytes) -> None:
        file = Path(uri.removeprefix("file://")) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


@pytest.fixture
def cache(tmp_path: Path) -> LocalBackend:
    """The folder as a cache."""
    return LocalBackend(tmp_path / "root")


def test_a_file_is_written_once(cache: LocalBackend) -> None:
    """Creating a file that exists is refused, and it stays as it was."""
    send(cache, "a/@1", "part.txt", b"first")
    with pytest.raises(FileExistsError):
        send(cache, "a/@1", "part.txt", b"second")
    assert read_contents(cache, "a/@1") == {"part.txt": b"first"}


def test_a_cache_whose_folder_is_gone_is_empty(cache: LocalBackend) -> None:
    """The loss of the whole cache is the loss of what was in it, no refusal; the next write recreates it."""
    send(cache, "a/@1", "part.txt", b"x")
    shutil.rmtree(cache.root)
    with pytest.raises(FileNotFoundError):
        cache.files("a/@1")
    assert not cache.exists("a/@1") and cache.names("a") == () and list(cache.copies()) == []
    send(cache, "a/@1", "part.txt", b"y")
    assert read_contents(cache, "a/@1") == {"part.txt": b"y"}


def test_a_location_that_leads_out_by_a_link_is_refused(cache: LocalBackend, tmp_path: Path) -> None:
    """A link inside the root does not open the rest of the disk."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    cache.root.mkdir()
    (cache.root / "a").symlink_to(outside)
    for ask in (lambda: cache.files("a"), lambda: cache.delete("a/secret.txt"), lambda: send(cache, "a/@1", "x", b"")):
        with pytest.raises(InvalidPathError):
            ask()
    cache.delete("a")  # the link, not what it leads to
    assert (outside / "secret.txt").exists() and cache.names(".") == ()


def test_a_link_is_not_taken_for_a_file_of_a_generation(cache: LocalBackend, tmp_path: Path) -> None:
    """What a generation holds are bytes, not links: neither copied from elsewhere, left out silently, nor deleted."""
    send(cache, "a/@1", "part.txt", b"x")
    (tmp_path / "secret.txt").write_text("secret")
    link = cache.root / "a/@1/linked.txt"
    for target in (tmp_path / "secret.txt", tmp_path, tmp_path / "nowhere"):
        link.symlink_to(target)
        with pytest.raises(InvalidPathError, match=r"linked\.txt"):
            cache.files("a/@1")
        with pytest.raises(InvalidPathError):
            list(cache.chunks("a/@1", "linked.txt"))
        link.unlink()
    link.symlink_to(tmp_path / "secret.txt")
    cache.delete("a/@1")
    assert not cache.exists("a/@1") and (tmp_path / "secret.txt").read_text() == "secret"


def test_two_that_delete_the_same_location_do_not_disturb_each_other(
    cache: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What somebody else removes meanwhile is removed."""
    send(cache, "a/@1", "part.txt", b"x")
    removed = shutil.rmtree

    def twice(path: Path) -> None:
        removed(path)
        removed(path)

    monkeypatch.setattr("springline.persistence.backends.local.shutil.rmtree", twice)
    cache.delete("a/@1")
    assert not cache.exists("a/@1")


def test_a_disk_that_takes_only_a_part_of_a_write_is_noticed(cache: LocalBackend) -> None:
    """A short write is gone on with, so that what cannot be written raises instead of being left out."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with cache.create("a/@1", "part.txt", 5000) as out:
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))
        try:
            with pytest.raises(StorageUnavailableError):
                out.write(b"x" * 5000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_both_directions_pass_the_link_but_checksums_and_manifests_do_not(tmp_path: Path) -> None:
    """The link carries what is sent and read; what the far side works out itself crosses nothing."""
    passed: list[float] = []
    link = Link(1.0, tmp_path / "link.state", clock=lambda: 0.0, sleep=passed.append)
    backend = LocalBackend(tmp_path / "root", link=link)
    send(backend, "a/@1", "part.txt", b"x" * 14)
    assert passed == [14.0]
    passed.clear()
    backend.manifest("a/@1")
    backend.publish("a/@1", b"{}")
    backend.read_manifest("a/@1")
    assert passed == []
    list(backend.chunks("a/@1", "part.txt"))
    assert passed == [28.0]


def test_a_copy_is_on_the_disk_before_its_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an engine wrote into it is synced too, and the folders above once the manifest is there."""
    synced: list[str] = []
    real = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real(descriptor)

    root = tmp_path / "root"
    root.mkdir()
    backend = LocalBackend(root, durable=True)
    (root / "a/@1-1").mkdir(parents=True)
    (root / "a/@1-1/part.txt").write_text("written by an engine")
    monkeypatch.setattr("springline.persistence.backends.local.os.fsync", noted)
    backend.publish("a/@1-1", b"{}")
    (manifest,) = (number for number, name in enumerate(synced) if name.startswith("_springline.json"))
    assert synced.index("part.txt") < synced.index("@1-1") < manifest < synced.index("a")
