"""File systems of fsspec as under-stores pass the suite: one in memory, and one with folders on a disk."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from springline.persistence.backends.fsspec_store import FsspecStore
from springline.persistence.backends.registry import open_backend
from springline.persistence.backends.root_mark import MARK_NAME, never_in_use
from springline.persistence.backends.spec import Backend, UnderStore
from springline.persistence.errors import InvalidPathError, StorageUnavailableError
from springline.persistence.settings import Settings
from springline.testing.store_suite import read_contents, send
from springline.testing.under_store_suite import UnderStoreSuite


class RefusingFileSystem(MemoryFileSystem):
    """One whose server does not answer."""

    def __getattribute__(self, name: str) -> object:
        if name in ("info", "ls", "walk", "open", "makedirs", "cat_file", "pipe_file", "rm_file", "mv"):
            raise ConnectionError("nobody is there")
        return super().__getattribute__(name)


class FsspecSuite(UnderStoreSuite):
    """A folder of a file system as an under-store."""

    def open_folder(self, folder: str, *, capacity: int = 0, in_use: Callable[[], bool] = never_in_use) -> FsspecStore:
        """Open a folder; it need not exist."""
        raise NotImplementedError

    @pytest.fixture
    def backend(self) -> FsspecStore:
        return self.open_folder(uuid.uuid4().hex)

    @pytest.fixture
    def tiny(self) -> FsspecStore:
        return self.open_folder(uuid.uuid4().hex, capacity=1000)

    @pytest.fixture
    def refusing(self) -> FsspecStore:
        return FsspecStore("memory://refusing", lambda: (RefusingFileSystem(), "/refusing"))

    def in_use(self, backend: Backend) -> UnderStore:
        return self.open_folder(backend.uri("x").split("/")[-2], in_use=lambda: True)

    def empty(self, backend: Backend) -> None:
        assert isinstance(backend, FsspecStore)
        backend.filesystem.rm(backend._full(""), recursive=True)

    def put_mark(self, backend: Backend) -> None:
        self.write_as_engine(backend.uri("x").removesuffix("/x"), MARK_NAME, b"")


class TestMemory(FsspecSuite):
    """The file system of a process."""

    def open_folder(self, folder: str, *, capacity: int = 0, in_use: Callable[[], bool] = never_in_use) -> FsspecStore:
        settings = Settings(home=Path("/tmp"), under_capacity=capacity)  # type: ignore[call-arg]
        store = open_backend(f"memory://{folder}", "under", settings, in_use=in_use)
        assert isinstance(store, FsspecStore)
        return store

    def write_as_engine(self, uri: str, name: str, content: bytes) -> None:
        MemoryFileSystem().makedirs(f"{uri}/{name}".rpartition("/")[0], exist_ok=True)
        MemoryFileSystem().pipe_file(f"{uri}/{name}", content)


class TestLocal(FsspecSuite):
    """Folders of this machine as fsspec sees them, which stand for every file system that has some."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def open_folder(self, folder: str, *, capacity: int = 0, in_use: Callable[[], bool] = never_in_use) -> FsspecStore:
        root = self.folder / folder
        return FsspecStore(
            f"local://here/{folder}", lambda: (LocalFileSystem(), str(root)), capacity=capacity, in_use=in_use
        )

    def write_as_engine(self, uri: str, name: str, content: bytes) -> None:
        file = self.folder / uri.removeprefix("local://here/") / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def test_a_name_that_is_a_pattern_deletes_nothing_else() -> None:
    """`rm` of fsspec expands patterns."""
    store = open_backend(f"memory://{uuid.uuid4().hex}", "under", Settings(home=Path("/tmp")))  # type: ignore[call-arg]
    for name in ("part[12].txt", "part1.txt", "part2.txt", "*"):
        send(store, "a/@1-1", name, name.encode())
    for name in ("part[12].txt", "*"):
        store.delete(f"a/@1-1/{name}")
    assert read_contents(store, "a/@1-1") == {"part1.txt": b"part1.txt", "part2.txt": b"part2.txt"}


def test_whatever_a_file_system_raises_is_a_store_that_does_not_answer() -> None:
    """Also what no file system should raise; the place is named, and the words of the error."""

    class BrokenFileSystem(MemoryFileSystem):
        def ls(self, path: str, detail: bool = True, **_: object) -> list[object]:
            raise KeyError("etag")

    store = FsspecStore("memory://broken", lambda: (BrokenFileSystem(), "/broken"))
    with pytest.raises(StorageUnavailableError, match=r"memory://broken/a: it does not answer, or refuses: .*etag"):
        store.names("a")


def test_a_password_in_the_address_is_in_no_error(tmp_path: Path) -> None:
    """Nor in what Spark gets: it is for the connection alone."""
    settings = Settings(home=tmp_path)  # type: ignore[call-arg]
    store = open_backend("sftp://me:hunter2@127.0.0.1:1/folder", "under", settings)
    assert "hunter2" not in store.uri("a") + store.unavailable_reason() and store.unavailable_reason()


def test_a_list_that_breaks_off_is_a_store_that_does_not_answer() -> None:
    """Also in the middle of a walk."""
    calls = []

    class BreakingFileSystem(MemoryFileSystem):
        def ls(self, path: str, detail: bool = True, **how: object) -> list[object]:
            calls.append(path)
            if len(calls) > 1:
                raise ConnectionError("it broke off")
            return list(super().ls(path, detail=detail, **how))

    folder = uuid.uuid4().hex
    store = FsspecStore(f"memory://{folder}", lambda: (BreakingFileSystem(), f"/{folder}"))
    send(store, "a/@1-1", "part.txt", b"x")
    calls.clear()
    with pytest.raises(StorageUnavailableError, match="it broke off"):
        list(store.copies())


def test_it_is_no_cache(tmp_path: Path) -> None:
    """Nothing there would be faster than the under-store."""
    with pytest.raises(Exception, match="as under-store"):
        open_backend("memory://x", "cache", Settings(home=tmp_path))  # type: ignore[call-arg]
    with pytest.raises(InvalidPathError):
        open_backend("memory://x", "under", Settings(home=tmp_path)).uri("../y")  # type: ignore[call-arg]
