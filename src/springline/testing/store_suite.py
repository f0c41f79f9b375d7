"""Conformance suite of stores: subclass `StoreSuite`, and provide fixtures that open the store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import xxhash
from sqlalchemy import URL

from springline.persistence.backends.local import LocalBackend
from springline.persistence.backends.spec import Backend, UnderStore
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.engine.replacement import Replacement, victim_by_hand
from springline.persistence.engine.verification import Verifier
from springline.persistence.errors import (
    InvalidPathError,
    StorageFullError,
    StorageUnavailableError,
    UnderStoreUnavailableError,
)
from springline.persistence.model.dataset import Dataset, Strategy
from springline.persistence.model.manifest import FILE_NAME, File, Manifest, encode_manifest
from springline.persistence.model.transitions import Event

NAMES = ["part-0.txt", "day=2013-01-05/part 1.txt", "Zürich Köln/рейс один.txt", "100% +sure & more.txt"]
NAMES += ["_region=EU/part.csv", "_index.json", ".columns", "_SUCCESS", "sub/.hidden", "_temporary/0/part.txt"]


def send(backend: Backend, location: str, name: str, content: bytes, *, step: int = 7) -> None:
    """Write one file to the store, in chunks of `step` bytes."""
    with backend.create(location, name, len(content)) as out:
        for start in range(0, len(content), step):
            out.write(content[start : start + step])


def read_contents(backend: Backend, location: str) -> dict[str, bytes]:
    """Read every file of a location from the store; returns their bytes by name."""
    return {file.name: b"".join(backend.chunks(location, file.name)) for file in backend.files(location)}


def send_files(backend: Backend, location: str, contents: dict[str, bytes]) -> Manifest:
    """Write files to the store; returns the manifest that the sender computes."""
    for name, content in contents.items():
        send(backend, location, name, content, step=max(7, len(content) // 5))
    files = (File(name, len(content), xxhash.xxh3_128_hexdigest(content)) for name, content in contents.items())
    return Manifest(tuple(sorted(files)))


def publish_lines(under: UnderStore, dataset: Dataset, location: str, content: bytes = b"ten bytes.") -> None:
    """Write a copy of `dataset` of one file, and publish it."""
    manifest = send_files(under, location, {"part.txt": content})
    under.publish(location, encode_manifest(replace(dataset, bytes=manifest.bytes), manifest))


@contextmanager
def evictable_dataset(
    folder: Path, cache: Backend, under: UnderStore
) -> Iterator[tuple[Catalog, Dataset, Replacement]]:
    """Yield a catalog, a dataset in `cache` that is recorded as persisted, and the `Replacement` that can evict it."""
    catalog = Catalog(URL.create("sqlite", database=str(folder / "catalog.db")))
    dataset = catalog.begin("a", strategy=Strategy.CACHE_THROUGH)
    send(cache, dataset.cache_location, "part.txt", b"ten bytes.")
    catalog.change(dataset.ref, Event.CACHED, bytes=10, checksum="c")
    catalog.change(dataset.ref, Event.CLAIMED)
    catalog.change(dataset.ref, Event.COPIED, under_location="a/@1-1", under_checksum="c")
    verifier = Verifier(catalog, cache, under)
    yield catalog, catalog.commit(dataset.ref), Replacement(catalog, cache, under, verifier, limit=10, order="lru")
    catalog.engine.dispose()


class StoreSuite(ABC):
    """The contract of a store (`springline.Backend`) as tests, one fact each: subclass it in a test file of your own.

    The subclass defines three fixtures that open the store, and a method; pytest runs the tests. A class in which one
    of them is missing cannot be collected.

    Attributes:
        tiny_bytes: capacity of the store of the fixture `tiny`, in bytes; at least 100.

    Example:
        A folder as a store::

            import pytest
            from springline.testing import StoreSuite
            from my_store import FolderStore

            class TestFolderStore(StoreSuite):
                @pytest.fixture
                def backend(self, tmp_path):
                    return FolderStore(tmp_path / "root")

                @pytest.fixture
                def tiny(self, tmp_path):
                    return FolderStore(tmp_path / "tiny", capacity=self.tiny_bytes)

                @pytest.fixture
                def refusing(self, tmp_path):
                    (tmp_path / "file").touch()
                    return FolderStore(tmp_path / "file" / "no folder")

                def write_as_engine(self, uri, name, content):
                    file = Path(uri.removeprefix("file://")) / name
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(content)
    """

    tiny_bytes = 1000  # capacity of `tiny`

    @pytest.fixture
    @abstractmethod
    def backend(self) -> Backend:
        """Return an empty store with a capacity of at least a few megabytes."""

    @pytest.fixture
    @abstractmethod
    def tiny(self) -> Backend:
        """Return an empty store with a capacity of `tiny_bytes`."""

    @pytest.fixture
    @abstractmethod
    def refusing(self) -> Backend:
        """Return an unavailable store: its server or disk refuses every call."""

    @abstractmethod
    def write_as_engine(self, uri: str, name: str, content: bytes) -> None:
        """Write one file below a URI of the store, with its parent folders, as Spark would: bypassing the store."""

    def wait_for_space(self) -> None:  # noqa: B027
        """Wait until the space of deleted files is free; a store that frees it asynchronously overrides this."""

    # ---- files

    @pytest.mark.parametrize("name", NAMES)
    def test_what_was_sent_is_read_back(self, backend: Backend, name: str) -> None:
        """Bytes come back as they went, whatever letters the name has."""
        send(backend, "a/@1-1", name, b"some bytes of a file")
        assert read_contents(backend, "a/@1-1") == {name: b"some bytes of a file"}

    def test_an_empty_file_is_a_file(self, backend: Backend) -> None:
        """Nothing to send still makes a file of no bytes."""
        send(backend, "a/@1", "empty.txt", b"")
        (file,) = backend.files("a/@1")
        assert (file.name, file.bytes) == ("empty.txt", 0)
        assert read_contents(backend, "a/@1") == {"empty.txt": b""}

    def test_a_large_file_comes_in_chunks(self, backend: Backend) -> None:
        """No chunk holds a large file whole, and together they are the file."""
        content = bytes(range(256)) * 12_000
        with backend.create("a/@1", "large.bin", len(content)) as out:
            out.write(content)
        chunks = list(backend.chunks("a/@1", "large.bin"))
        assert len(chunks) > 1 and b"".join(chunks) == content

    def test_a_range_of_a_file_is_read_alone(self, backend: Backend) -> None:
        """Wherever it begins; it is shorter only at the end of the file."""
        content = bytes(range(256)) * 12_000
        send_files(backend, "a/@1", {"large.bin": content})
        for offset in (0, 1_048_570, 3_071_990, 3_072_000, 4_000_000):
            assert backend.read_range("a/@1", "large.bin", offset, 20) == content[offset : offset + 20], offset

    def test_files_are_listed_by_name_with_their_sizes(self, backend: Backend) -> None:
        """The order is that of the names, folders included."""
        for name in ("b.txt", "a/z.txt", "a.txt"):
            send(backend, "p/@1", name, name.encode() * 3)
        assert [(file.name, file.bytes) for file in backend.files("p/@1")] == [
            ("a.txt", 15),
            ("a/z.txt", 21),
            ("b.txt", 15),
        ]

    def test_whatever_an_engine_wrote_is_part_of_a_generation_and_the_manifest_is_not(self, backend: Backend) -> None:
        """However a name begins; a manifest that is still being written is none of them either."""
        for name in (*NAMES, FILE_NAME, f"{FILE_NAME}.half"):
            self.write_as_engine(backend.uri("p/@1"), name, b"data")
        assert [file.name for file in backend.files("p/@1")] == sorted(NAMES)
        assert [file.name for file in backend.manifest("p/@1").files] == sorted(NAMES)

    def test_what_an_engine_writes_under_the_uri_is_at_the_location(self, backend: Backend) -> None:
        """URI and location name the same place, with spaces and letters of any script too."""
        location = "etl/Zürich 100%/рейс/@1"
        self.write_as_engine(backend.uri(location), "part-0.txt", b"written by an engine")
        assert read_contents(backend, location) == {"part-0.txt": b"written by an engine"}

    def test_what_is_not_there_is_said_to_be_not_there(self, backend: Backend) -> None:
        """Listing, reading and checking a location or file that does not exist raise FileNotFoundError."""
        send(backend, "a/@1", "part.txt", b"x")
        for ask in (
            lambda: backend.files("a/@2"),
            lambda: backend.manifest("a/@2"),
            lambda: list(backend.chunks("a/@1", "other.txt")),
            lambda: list(backend.chunks("a/@2", "part.txt")),
        ):
            with pytest.raises(FileNotFoundError):
                ask()
        assert not backend.exists("a/@2") and backend.exists("a/@1")

    # ---- manifests

    def test_a_manifest_has_the_checksum_of_every_file(self, backend: Backend) -> None:
        """Checksums are xxh3 of 128 bits over the files' bytes."""
        send(backend, "a/@1", "one.txt", b"one")
        send(backend, "a/@1", "two.txt", b"")
        files = {file.name: (file.bytes, file.checksum) for file in backend.manifest("a/@1").files}
        assert files == {
            "one.txt": (3, xxhash.xxh3_128_hexdigest(b"one")),
            "two.txt": (0, xxhash.xxh3_128_hexdigest(b"")),
        }

    def test_equal_content_has_an_equal_checksum_wherever_it_lies(self, backend: Backend, tmp_path: Path) -> None:
        """Two copies of the same files agree, in other places and other stores."""
        (tmp_path / "other").mkdir()
        other = LocalBackend(tmp_path / "other")
        for target, location in ((backend, "a/@1"), (backend, "b/@7-2"), (other, "c/@1")):
            send(target, location, "x/part.txt", b"the same")
        checksums = {backend.manifest("a/@1").checksum, backend.manifest("b/@7-2").checksum}
        assert checksums == {other.manifest("c/@1").checksum}

    @pytest.mark.parametrize(
        "other", [{"part.txt": b"abd"}, {"part2.txt": b"abc"}, {"part.txt": b"abc", "more.txt": b""}, {}]
    )
    def test_a_flipped_byte_another_name_or_a_missing_file_changes_the_checksum(
        self, backend: Backend, other: dict[str, bytes]
    ) -> None:
        """Whatever differs between two copies shows in the one checksum over all files."""
        send(backend, "a/@1", "part.txt", b"abc")
        send(backend, "b/@1", "unrelated", b"")
        backend.delete("b/@1")
        self.write_as_engine(backend.uri("b/@1"), "_SUCCESS", b"")
        for name, content in other.items():
            send(backend, "b/@1", name, content)
        assert backend.manifest("a/@1").checksum != backend.manifest("b/@1").checksum

    # ---- removing

    def test_delete_removes_all_and_only_that_location(self, backend: Backend) -> None:
        """What lies beside it stays, a longer name with the same beginning too."""
        for location in ("a/@1", "a/@10", "a/b/@1"):
            send(backend, location, "part.txt", b"x")
        backend.delete("a/@1")
        assert [backend.exists(location) for location in ("a/@1", "a/@10", "a/b/@1")] == [False, True, True]

    def test_deleting_what_is_not_there_is_no_error(self, backend: Backend) -> None:
        """A second delete, or one of nothing, goes well."""
        backend.delete("never/@1")
        send(backend, "a/@1", "part.txt", b"x")
        backend.delete("a/@1")
        backend.delete("a/@1")
        assert not backend.exists("a/@1")

    def test_a_single_file_can_be_deleted_too(self, backend: Backend) -> None:
        """A location may be one file."""
        send(backend, "a/@1", "part.txt", b"x")
        send(backend, "a/@1", "other.txt", b"y")
        backend.delete("a/@1/part.txt")
        assert read_contents(backend, "a/@1") == {"other.txt": b"y"}

    # ---- finding

    def test_names_lists_what_lies_directly_at_a_location(self, backend: Backend) -> None:
        """Copies and folders alike, sorted, and nothing below them; nothing there is no error."""
        for location in ("a/@1-2", "a/.other", "a/b/@1-1"):
            send(backend, location, "x/part.txt", b"x")
        assert backend.names("a") == (".other", "@1-2", "b")
        assert backend.names("nothing/here") == ()

    def test_copies_finds_every_copy_and_nothing_in_one(self, backend: Backend) -> None:
        """Every folder whose name begins as a copy's does, wherever it lies."""
        for location in ("a/@1", "a/@1-5_x", "a/b c/@2-x", "adopted/files"):
            send(backend, location, "part.txt", b"x")
        self.write_as_engine(backend.uri("a/@1"), ".part.txt.crc", b"not a copy")
        self.write_as_engine(backend.uri("a/@1"), "_temporary/@1/y", b"not a copy")
        assert sorted(backend.copies()) == ["a/@1", "a/@1-5_x", "a/b c/@2-x"]

    def test_an_empty_backend_has_nothing_to_find(self, backend: Backend) -> None:
        """No copy, and no error."""
        assert list(backend.copies()) == []

    # ---- refusals

    @pytest.mark.parametrize("location", ["", "/etc", "..", "../a", "a/../../b", "a/.."])
    def test_a_location_that_leaves_the_root_is_refused(self, backend: Backend, location: str) -> None:
        """No call reaches beyond the root."""
        send(backend, "inside/@1", "part.txt", b"x")
        for ask in (
            lambda: backend.uri(location),
            lambda: backend.exists(location),
            lambda: backend.files(location),
            lambda: backend.manifest(location),
            lambda: backend.names(location),
            lambda: backend.delete(location),
            lambda: send(backend, location, "part.txt", b"x"),
            lambda: list(backend.chunks(location, "part.txt")),
        ):
            with pytest.raises(InvalidPathError):
                ask()
        assert read_contents(backend, "inside/@1") == {"part.txt": b"x"}

    @pytest.mark.parametrize("name", ["../../../outside.txt", "/etc/hostname", "..", ""])
    def test_a_file_name_that_leaves_its_location_is_refused(self, backend: Backend, name: str) -> None:
        """A name stays below its location."""
        send(backend, "inside/@1", "part.txt", b"x")
        for ask in (
            lambda: send(backend, "inside/@1", name, b"x"),
            lambda: list(backend.chunks("inside/@1", name)),
        ):
            with pytest.raises(InvalidPathError):
                ask()

    def test_a_full_backend_says_so_and_takes_what_still_fits(self, tiny: Backend) -> None:
        """What does not fit raises StorageFullError; what was there stays, and smaller files still go in."""
        large, small = b"x" * (self.tiny_bytes * 6 // 10), b"x" * (self.tiny_bytes * 3 // 10)
        step = max(7, self.tiny_bytes // 50)
        send(tiny, "a/@1", "part.txt", large, step=step)
        with pytest.raises(StorageFullError):
            send(tiny, "b/@1", "part.txt", large, step=step)
        self.wait_for_space()
        send(tiny, "c/@1", "part.txt", small, step=step)
        assert tiny.manifest("a/@1").bytes == len(large)
        tiny.delete("a/@1")
        self.wait_for_space()
        send(tiny, "d/@1", "part.txt", large, step=step)

    def test_a_backend_that_refuses_says_so(self, refusing: Backend) -> None:
        """Every write and every question raises `StorageUnavailableError`: missing is not the same as unreachable."""
        for ask in (
            lambda: send(refusing, "a/@1", "part.txt", b"x"),
            lambda: refusing.delete("a/@1"),
            lambda: refusing.files("a/@1"),
            lambda: refusing.manifest("a/@1"),
            lambda: refusing.names("a"),
            lambda: refusing.exists("a/@1"),
            lambda: list(refusing.chunks("a/@1", "part.txt")),
            lambda: list(refusing.copies()),
        ):
            with pytest.raises(StorageUnavailableError):
                ask()

    # ---- eviction

    def test_a_store_that_answers_is_not_away_and_one_that_refuses_says_why(
        self, backend: Backend, refusing: Backend
    ) -> None:
        """Whatever there is to say of any one location."""
        assert backend.unavailable_reason() == "" != refusing.unavailable_reason()

    def test_as_a_cache_it_gives_nothing_up_while_the_under_store_is_away(
        self, backend: Backend, tmp_path: Path
    ) -> None:
        """What it holds may be all that is left; it goes when the copy can be asked for."""
        (tmp_path / "below").mkdir()
        under = LocalBackend(tmp_path / "below", durable=True)
        with evictable_dataset(tmp_path, backend, under) as (catalog, dataset, replacement):
            publish_lines(under, dataset, "a/@1-1")
            away = under.root.rename(tmp_path / "away")
            victim = victim_by_hand(dataset.ref, dataset.bytes)
            with pytest.raises(UnderStoreUnavailableError, match="does not answer"):
                replacement.evict(victim)
            assert replacement.plan(10).victims == () and replacement.ensure_free_bytes(1) == 1
            assert catalog.get(dataset.ref).in_cache and backend.exists(dataset.cache_location)
            away.rename(under.root)
            assert replacement.evict(victim)
            assert not backend.exists(dataset.cache_location)
