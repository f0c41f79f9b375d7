"""Conformance suite of under-stores: copies exist with their manifests, and a missing root is not an empty store."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

from springline.persistence.backends.copy_layout import list_copies
from springline.persistence.backends.local import LocalBackend
from springline.persistence.backends.spec import Backend, UnderStore
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.claims import Claims
from springline.persistence.engine.attempt import Sender
from springline.persistence.engine.catalog_rebuild import rebuild
from springline.persistence.engine.replacement import victim_by_hand
from springline.persistence.engine.verification import Verifier
from springline.persistence.errors import InvalidPathError, StorageUnavailableError, UnderStoreUnavailableError
from springline.persistence.model.dataset import CacheState, Dataset, Strategy, TransferMethod
from springline.persistence.model.manifest import FILE_NAME
from springline.persistence.model.transitions import Event
from springline.testing.lines import LinesRunner
from springline.testing.store_suite import (
    StoreSuite,
    evictable_dataset,
    publish_lines,
    read_contents,
    send,
    send_files,
)

_LEASE_SECONDS = 0.3  # of a worker that is killed
_CONTENTS = {"part-0.txt": b"some bytes", "x/part-1.txt": b"", "x/part-2.txt": b"more bytes of it"}


class _Killed(BaseException):
    """The worker is dead."""


class _Mortal:
    """An under-store in a process that is killed before its write number `left`, and does nothing from then on."""

    def __init__(self, inner: UnderStore, left: int) -> None:
        self.inner, self.left = inner, left

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)
        if not callable(method):
            return method

        def call(*arguments: Any) -> Any:
            self.count(0)
            if name == "create":
                self.count()
                return _MortalFile(self, method(*arguments))
            if name != "publish":
                return method(*arguments)
            self.count()
            method(*arguments)
            self.count()
            return None

        return call

    def count(self, writes: int = 1) -> None:
        """Die, if that is the write before which it was to happen, or has happened."""
        self.left -= writes
        if self.left < 0:
            raise _Killed


class _MortalFile:
    """A file that is being written by such a process."""

    def __init__(self, store: _Mortal, file: Any) -> None:
        self._store, self._file = store, file

    def write(self, chunk: bytes) -> int:
        self._store.count()
        return int(self._file.write(chunk))

    def __enter__(self) -> _MortalFile:
        self._file.__enter__()
        return self

    def __exit__(self, error_type: object, *error: Any) -> None:
        if error_type is _Killed:
            return  # nobody closes it
        self._store.count()
        self._file.__exit__(error_type, *error)


class UnderStoreSuite(StoreSuite):
    """`StoreSuite`, and the contract of an under-store: what it publishes is complete, and it knows its place.

    The subclass defines three more methods, which act on the place without the store: `in_use`, `empty`, `put_mark`.
    Its fixtures return an `UnderStore`.

    Example:
        In addition to the fixtures of `StoreSuite`::

            class TestFolderStore(UnderStoreSuite):
                def in_use(self, backend):
                    return FolderStore(backend.root, in_use=lambda: True)

                def empty(self, backend):
                    shutil.rmtree(backend.root)
                    backend.root.mkdir()

                def put_mark(self, backend):
                    (backend.root / ".springline-store").touch()
    """

    @abstractmethod
    def in_use(self, backend: Backend) -> UnderStore:
        """Return a store on the same place, opened with a catalog that records copies in it."""

    @abstractmethod
    def empty(self, backend: Backend) -> None:
        """Replace the root by an empty folder, as an unmounted disk does, bypassing the backend."""

    @abstractmethod
    def put_mark(self, backend: Backend) -> None:
        """Mark the root as an administrator would, bypassing the backend."""

    @pytest.fixture
    def used(self, backend: UnderStore) -> UnderStore:
        """Return a store that is in use, with one copy."""
        send(backend, "a/@1-1", "part.txt", b"x")
        backend.publish("a/@1-1", b"{}")
        return self.in_use(backend)

    # ---- what was sent

    def test_a_copy_holds_what_was_sent(self, backend: UnderStore) -> None:
        """Also several files, empty ones, and files of more than one chunk."""
        contents = {"part.txt": b"abc", "x/empty.txt": b"", "x/large.bin": bytes(range(256)) * 12_000}
        assert backend.holds("b/@1-1", send_files(backend, "b/@1-1", contents))

    @pytest.mark.parametrize("damage", ["another byte", "a shorter file", "an extra file", "a missing file"])
    def test_a_copy_that_was_changed_does_not_hold_what_was_sent(self, backend: UnderStore, damage: str) -> None:
        """Also if the size is unchanged."""
        sent_manifest = send_files(backend, "b/@1-1", {"one.txt": b"abc", "two.txt": b"xyz"})
        uri = backend.uri("b/@1-1")
        if damage != "an extra file":
            backend.delete("b/@1-1/one.txt")
        replacement = {"another byte": b"abd", "a shorter file": b"ab"}.get(damage)
        if replacement:
            self.write_as_engine(uri, "one.txt", replacement)
        if damage == "an extra file":
            self.write_as_engine(uri, "three.txt", b"abc")
        assert not backend.holds("b/@1-1", sent_manifest)

    def test_a_copy_that_was_taken_away_holds_nothing(self, backend: UnderStore) -> None:
        """It is not there, and that is said."""
        sent_manifest = send_files(backend, "b/@1-1", {"one.txt": b"abc"})
        backend.delete("b/@1-1")
        with pytest.raises(FileNotFoundError):
            backend.holds("b/@1-1", sent_manifest)

    # ---- publishing

    def test_a_copy_exists_with_its_manifest(self, backend: UnderStore) -> None:
        """Before there is none; it is none of the files, and goes with them."""
        send_files(backend, "a b/Köln/@1-1", _CONTENTS)
        with pytest.raises(FileNotFoundError):
            backend.read_manifest("a b/Köln/@1-1")
        backend.publish("a b/Köln/@1-1", "größer".encode())
        assert backend.read_manifest("a b/Köln/@1-1") == "größer".encode()
        assert read_contents(backend, "a b/Köln/@1-1") == _CONTENTS
        backend.delete("a b/Köln/@1-1")
        with pytest.raises(FileNotFoundError):
            backend.read_manifest("a b/Köln/@1-1")

    def test_publishing_once_more_is_no_error(self, backend: UnderStore) -> None:
        """Who got no answer to the first attempt tries again, and finds it."""
        send_files(backend, "a/@1-1", _CONTENTS)
        for _ in range(2):
            backend.publish("a/@1-1", b'{"a": 1}')
        assert backend.read_manifest("a/@1-1") == b'{"a": 1}' and backend.names("a") == ("@1-1",)

    def test_a_manifest_is_read_whole_or_not_at_all(self, backend: UnderStore) -> None:
        """However large it is, and whoever reads while it is written."""
        manifest = b"{%s}" % (b" " * (3 << 20))
        send(backend, "a/@1-1", "part.txt", b"x")
        readings: list[bytes] = []
        published = threading.Event()

        def read_on() -> None:
            while not published.is_set():
                try:
                    readings.append(backend.read_manifest("a/@1-1"))
                except FileNotFoundError:
                    readings.append(manifest)

        reader = threading.Thread(target=read_on)
        reader.start()
        try:
            backend.publish("a/@1-1", manifest)
        finally:
            published.set()
            reader.join()
        assert set(readings) <= {manifest} and backend.read_manifest("a/@1-1") == manifest

    def test_a_worker_killed_between_any_two_writes_is_replaced_by_the_next(
        self, backend: UnderStore, tmp_path: Path
    ) -> None:
        """What it left is no copy, or a complete one: a rebuild finds no other, and the next worker leaves its own."""
        cache = LocalBackend(tmp_path / "cache")
        with _catalog_in(tmp_path / "catalog.db") as catalog:
            kills = 0
            while self._is_replaced(catalog, cache, backend, kills):
                kills += 1
        assert kills > 2 * len(_CONTENTS)

    # ---- refusals

    @pytest.mark.parametrize("location", ["", "/etc", "..", "../a", "a/../../b", "a/.."])
    def test_no_manifest_leaves_the_root(self, backend: UnderStore, location: str) -> None:
        """Neither written nor read."""
        for ask in (lambda: backend.publish(location, b"{}"), lambda: backend.read_manifest(location)):
            with pytest.raises(InvalidPathError):
                ask()

    def test_a_store_that_refuses_publishes_nothing_and_knows_of_no_manifest(self, refusing: UnderStore) -> None:
        """Missing is not the same as unreachable."""
        for ask in (lambda: refusing.publish("a/@1", b"{}"), lambda: refusing.read_manifest("a/@1")):
            with pytest.raises(StorageUnavailableError):
                ask()

    # ---- eviction

    @pytest.mark.parametrize("stored", [None, b"ten b"], ids=["not there", "cut short"])
    def test_it_is_asked_for_the_copy_by_its_size(
        self, backend: UnderStore, tmp_path: Path, stored: bytes | None
    ) -> None:
        """Without that nothing leaves the cache; with it, it does."""
        with evictable_dataset(tmp_path, LocalBackend(tmp_path / "fast"), backend) as (catalog, dataset, replacement):
            if stored is not None:
                publish_lines(backend, dataset, "a/@1-1", stored)
            victim = victim_by_hand(dataset.ref, dataset.bytes)
            assert not replacement.evict(victim)
            catalog.change(dataset.ref, Event.CLAIMED)
            publish_lines(backend, dataset, "a/@1-2")
            catalog.change(dataset.ref, Event.COPIED, under_location="a/@1-2", under_checksum="c")
            assert replacement.evict(victim)

    def test_files_without_a_manifest_are_no_copy_to_rely_on(self, backend: UnderStore, tmp_path: Path) -> None:
        """Nothing leaves the cache for them, and they are sent again."""
        with evictable_dataset(tmp_path, LocalBackend(tmp_path / "fast"), backend) as (catalog, dataset, replacement):
            publish_lines(backend, dataset, "a/@1-1")
            backend.delete(f"a/@1-1/{FILE_NAME}")
            assert "has no manifest" in replacement.try_evict(victim_by_hand(dataset.ref, dataset.bytes))
            record = catalog.get(dataset.ref)
            assert record.in_cache and not record.persisted

    def test_while_it_refuses_all_stays_in_the_cache(self, refusing: UnderStore, tmp_path: Path) -> None:
        """The error has the reason."""
        cache = LocalBackend(tmp_path / "fast")
        with evictable_dataset(tmp_path, cache, refusing) as (catalog, dataset, replacement):
            assert "does not answer" in replacement.plan(10).retention_reasons[dataset.ref]
            with pytest.raises(UnderStoreUnavailableError):
                replacement.evict(victim_by_hand(dataset.ref, dataset.bytes))
            assert catalog.get(dataset.ref).cache is CacheState.PRESENT and cache.exists(dataset.cache_location)

    # ---- the mark

    def test_the_first_copy_leaves_the_mark_by_which_the_store_is_known(self, used: UnderStore) -> None:
        """Opened again, it answers, and says what is not there."""
        assert used.unavailable_reason() == "" and read_contents(used, "a/@1-1") == {"part.txt": b"x"}
        assert not used.exists("b/@1-1") and used.names("b") == ()
        assert list(used.copies()) == ["a/@1-1"]

    def test_an_empty_folder_where_the_store_was_is_a_store_that_is_away(
        self, backend: UnderStore, used: UnderStore
    ) -> None:
        """Nothing is missing from it, nothing is removed from it, and no copy in it counts."""
        self.empty(backend)
        assert "is its disk mounted" in used.unavailable_reason()
        calls: list[Callable[[], object]] = [
            lambda: used.exists("a/@1-1"),
            lambda: used.files("a/@1-1"),
            lambda: used.manifest("a/@1-1"),
            lambda: used.names("a"),
            lambda: used.read_manifest("a/@1-1"),
            lambda: list(used.chunks("a/@1-1", "part.txt")),
            lambda: list(used.copies()),
            lambda: used.delete("a/@1-1"),
            lambda: used.publish("a/@1-1", b"{}"),
            used.mark_root,
        ]
        for ask in calls:
            with pytest.raises(StorageUnavailableError, match="is its disk mounted"):
                ask()

    def test_a_store_that_a_person_marks_again_answers_again(self, backend: UnderStore, used: UnderStore) -> None:
        """As the error says; what is not there is missing then."""
        self.empty(backend)
        self.put_mark(backend)
        assert used.unavailable_reason() == "" and not used.exists("a/@1-1")
        with pytest.raises(FileNotFoundError):
            used.files("a/@1-1")

    def test_a_store_is_marked_once_and_not_by_looking(self, backend: UnderStore, used: UnderStore) -> None:
        """Marking it again is no error; an unused one stays as it is until something is stored in it."""
        used.mark_root()
        self.empty(backend)
        assert backend.unavailable_reason() == "" and not backend.exists("a/@1-1")
        assert self.in_use(backend).unavailable_reason()
        backend.mark_root()
        assert self.in_use(backend).unavailable_reason() == ""

    # ---- kills

    def _is_replaced(self, catalog: Catalog, cache: Backend, under: UnderStore, kills: int) -> bool:
        """Kill a worker after that many writes, and check what it left; returns False if it makes no more."""
        dataset = catalog.begin(f"killed/{kills}", strategy=Strategy.ASYNC_STORE)
        manifest = send_files(cache, dataset.cache_location, _CONTENTS)
        catalog.change(dataset.ref, Event.CACHED, bytes=manifest.bytes, checksum=manifest.checksum)
        dataset = catalog.commit(dataset.ref)
        mortal: Any = _Mortal(under, kills)
        try:
            _send(Sender(catalog, _DeadClaims(catalog, _LEASE_SECONDS), cache, mortal, LinesRunner()), dataset)
        except _Killed:
            pass
        else:
            return False
        with _catalog_in(Path(catalog.engine.url.database or "").with_name(f"rebuilt {kills}.db")) as rebuilt:
            report = rebuild(rebuilt, under)
            assert report.unusable == []
            for ref in report.recorded_refs:
                assert Verifier(rebuilt, cache, under).verify(rebuilt.get(ref), deep=True).persisted, ref
        time.sleep(_LEASE_SECONDS)
        claims = Claims(catalog, _LEASE_SECONDS)
        claims.expire()
        sender = Sender(catalog, claims, cache, under, LinesRunner())
        persisted = _send(sender, catalog.get(dataset.ref))
        assert Verifier(catalog, cache, under).verify(persisted, deep=True).persisted
        assert [copy.location for copy in list_copies(under, dataset.ref)] == [persisted.under_location]
        return True


class _DeadClaims(Claims):
    """The claims of a worker that releases none, since it is dead by then."""

    def release(self, *_: Any, **__: Any) -> bool:
        return False


@contextmanager
def _catalog_in(file: Path) -> Iterator[Catalog]:
    catalog = Catalog(URL.create("sqlite", database=str(file)))
    yield catalog
    catalog.engine.dispose()


def _send(sender: Sender, dataset: Dataset) -> Dataset:
    with sender.attempt(dataset.ref, "worker", TransferMethod.DATA, None) as attempt:
        assert attempt is not None
        return attempt.send_data(dataset)
