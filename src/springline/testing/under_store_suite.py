"""Conformance suite of under-stores: a missing or foreign root must not be taken for a store that lost everything."""

from __future__ import annotations

from abc import abstractmethod

import pytest

from springline.persistence.backends.root_mark import MARK_NAME
from springline.persistence.backends.spec import Backend
from springline.persistence.errors import StorageUnavailableError
from springline.testing.store_suite import StoreSuite, read_contents, send


class UnderStoreSuite(StoreSuite):
    """`StoreSuite`, and the contract of a store that is opened as an under-store: durable, identified by a mark file.

    The subclass defines three more methods, which act on the place without the store: `in_use`, `empty`, `put_mark`.

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
    def in_use(self, backend: Backend) -> Backend:
        """Return a store on the same place, opened with a catalog that records copies in it."""

    @abstractmethod
    def empty(self, backend: Backend) -> None:
        """Replace the root by an empty folder, as an unmounted disk does, bypassing the backend."""

    @abstractmethod
    def put_mark(self, backend: Backend) -> None:
        """Write the mark file into the root as an administrator would, bypassing the backend."""

    @pytest.fixture
    def used(self, backend: Backend) -> Backend:
        """Return a store that is in use, with one copy."""
        send(backend, "a/.@1-1", "part.txt", b"x")
        backend.rename("a/.@1-1", "a/@1-1")
        return self.in_use(backend)

    def test_the_first_copy_leaves_the_mark_by_which_the_store_is_known(self, used: Backend) -> None:
        """Opened again, it answers, and says what is not there."""
        assert used.unavailable_reason() == "" and read_contents(used, "a/@1-1") == {"part.txt": b"x"}
        assert not used.exists("b/@1-1") and used.names("b") == ()
        assert list(used.copies()) == ["a/@1-1"]

    def test_an_empty_folder_where_the_store_was_is_a_store_that_is_away(self, backend: Backend, used: Backend) -> None:
        """Nothing is missing from it, nothing is removed from it, and no copy in it counts."""
        self.empty(backend)
        assert MARK_NAME in used.unavailable_reason() and "is its disk mounted" in used.unavailable_reason()
        for ask in (
            lambda: used.exists("a/@1-1"),
            lambda: used.files("a/@1-1"),
            lambda: used.manifest("a/@1-1"),
            lambda: used.names("a"),
            lambda: used.read_small("a/@1-1", "_mark.json"),
            lambda: list(used.chunks("a/@1-1", "part.txt")),
            lambda: list(used.locations("_mark.json")),
            lambda: list(used.copies()),
            lambda: used.delete("a/@1-1"),
            lambda: used.rename("a/.@1-1", "a/@1-1"),
            used.mark_root,
        ):
            with pytest.raises(StorageUnavailableError, match=MARK_NAME):
                ask()

    def test_a_store_that_a_person_marks_again_answers_again(self, backend: Backend, used: Backend) -> None:
        """As the error says; what is not there is missing then."""
        self.empty(backend)
        self.put_mark(backend)
        assert used.unavailable_reason() == "" and not used.exists("a/@1-1")
        with pytest.raises(FileNotFoundError):
            used.files("a/@1-1")

    def test_a_store_is_marked_once_and_not_by_looking(self, backend: Backend, used: Backend) -> None:
        """Marking it again is no error; an unused one stays as it is until something is kept in it."""
        used.mark_root()
        self.empty(backend)
        assert backend.unavailable_reason() == "" and not backend.exists("a/@1-1")
        assert self.in_use(backend).unavailable_reason()
        backend.mark_root()
        assert self.in_use(backend).unavailable_reason() == ""
