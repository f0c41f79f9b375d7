"""Verifies that the copies the catalog names exist and are intact, and marks missing or damaged ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from springline.persistence.backends.copy_layout import parse_location, read_copy
from springline.persistence.backends.spec import Backend, UnderStore
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.errors import (
    CorruptCopyError,
    InvalidPathError,
    PersistenceError,
    StorageUnavailableError,
    TransitionError,
    UnderStoreUnavailableError,
)
from springline.persistence.model.dataset import Dataset
from springline.persistence.model.manifest import File
from springline.persistence.model.transitions import Event

_UNAVAILABLE_PREFIX = "the under-store does not answer:"
_UNDER_STORE_LOST_REASON = "its files in the under-store are missing or damaged"


@dataclass
class Verifier:
    """Compares the catalog with both stores; a store that does not respond counts as having lost nothing."""

    catalog: Catalog
    cache: Backend
    under: UnderStore

    def verify(self, dataset: Dataset, *, deep: bool = False) -> Dataset:
        """Verify that the bytes are where the catalog says; missing or damaged copies are marked lost.

        Checks where a reader would read: in the cache, else in the under-store. Compares sizes, with `deep`
        also checksums, and then in both stores. Returns the generation as recorded afterwards.
        """
        if dataset.in_cache and not self._is_cached_copy_intact(dataset, deep):
            dataset = self.mark_lost(dataset, Event.LOST, "its cached files are missing or damaged")
        checks_under_store = dataset.persisted and (deep or not dataset.in_cache)
        if checks_under_store and not self._is_under_copy_intact(dataset, deep):
            dataset = self.mark_lost(dataset, Event.UNDER_STORE_LOST, _UNDER_STORE_LOST_REASON)
        return dataset

    def check_under_copy(self, dataset: Dataset) -> str:
        """Return why the copy in the under-store is not reliable; empty if its manifest and its files are there.

        Only metadata is requested from the under-store, no bytes are read. A missing copy is marked lost. Raises
        `UnderStoreUnavailableError`.
        """
        try:
            problem = self._find_manifest_problem(dataset)
            is_intact = self._is_under_copy_intact(dataset, deep=False)
        except StorageUnavailableError as error:
            raise UnderStoreUnavailableError(f"{_UNAVAILABLE_PREFIX} {error}") from error
        except PersistenceError as error:
            return f"its copy in the under-store cannot be checked: {error}"
        if is_intact and not problem:
            return ""
        if not is_intact or dataset.in_cache:  # so that it is sent again; files without a manifest can still be read
            self.mark_lost(dataset, Event.UNDER_STORE_LOST, problem or _UNDER_STORE_LOST_REASON)
        return problem or f"its copy in the under-store ({dataset.under_location}) is missing or incomplete"

    def mark_lost(self, dataset: Dataset, event: Event, reason: str) -> Dataset:
        """Record a loss, unless the catalog names another copy by now."""
        column = "cache_location" if event is Event.LOST else "under_location"
        try:
            return self.catalog.change(dataset.ref, event, reason=reason, only_if={column: getattr(dataset, column)})
        except TransitionError:
            return self.catalog.get(dataset.ref)

    def _is_cached_copy_intact(self, dataset: Dataset, deep: bool) -> bool:
        try:
            if deep:
                return self.cache.manifest(dataset.cache_location).checksum == dataset.checksum
            files = self.cache.files(dataset.cache_location)
        except (FileNotFoundError, InvalidPathError, CorruptCopyError):  # a link is not the copy that was made
            return False
        return bool(files) and sum(file.bytes for file in files) == dataset.bytes

    def _is_under_copy_intact(self, dataset: Dataset, deep: bool) -> bool:
        try:
            if deep:
                return self.under.manifest(dataset.under_location).checksum == dataset.under_checksum
            files = self.under.files(dataset.under_location)
        except (FileNotFoundError, InvalidPathError, CorruptCopyError):
            return False
        has_same_files = bool(files) and dataset.under_checksum == dataset.checksum
        if has_same_files and sum(file.bytes for file in files) == dataset.bytes:
            return True
        return self._are_all_there(dataset, files)  # another size than in the cache, or a list that is out of date

    def _are_all_there(self, dataset: Dataset, listed_files: tuple[File, ...]) -> bool:
        """Whether each file that the manifest of a copy names is there: as listed, or else when it is asked for."""
        if parse_location(dataset.under_location) is None:
            return False
        try:
            _, manifest = read_copy(self.under, dataset.under_location)
        except FileNotFoundError:
            return False
        sizes = {file.name: file.bytes for file in listed_files}
        unlisted_names = [file.name for file in manifest.files if file.name not in sizes]
        return (
            manifest.checksum == dataset.under_checksum
            and all(sizes.get(file.name, file.bytes) == file.bytes for file in manifest.files)
            and all(self.under.exists(f"{dataset.under_location}/{name}") for name in unlisted_names)
        )

    def _find_manifest_problem(self, dataset: Dataset) -> str:
        """Return that a copy has no manifest, from which a lost catalog is rebuilt; empty if it has, or was adopted."""
        if parse_location(dataset.under_location) is None:
            return ""
        try:
            read_copy(self.under, dataset.under_location)
        except FileNotFoundError:
            return f"its copy in the under-store ({dataset.under_location}) has no manifest"
        return ""


def under_store_unavailable_reason(under: Backend) -> str:
    """Return that and why the under-store does not respond, in the uniform wording; empty if it responds."""
    reason = under.unavailable_reason()
    return f"{_UNAVAILABLE_PREFIX} {reason}" if reason else ""


@dataclass
class UnderStoreWatch:
    """Caches the availability of the under-store for frequent callers: one of them checks it every `seconds` seconds.

    The other callers get the last result, so that a slow store blocks at most one of them.
    """

    catalog: Catalog
    under: UnderStore
    seconds: float = 2.0
    clock: Callable[[], float] = time.monotonic
    _poll_lock: threading.Lock = field(default_factory=threading.Lock)
    _polled_at: float = float("-inf")
    _unavailable_reason: str = ""

    def unavailable_reason(self) -> str:
        """Return why the under-store's copies cannot be relied on now; empty if they can, or there are none."""
        is_first_poll = self._polled_at == float("-inf")
        if self._is_stale() and self._poll_lock.acquire(blocking=is_first_poll):
            try:
                if self._is_stale():
                    self._unavailable_reason = (
                        under_store_unavailable_reason(self.under) if self.catalog.uses_under_store() else ""
                    )
                    self._polled_at = self.clock()
            finally:
                self._poll_lock.release()
        return self._unavailable_reason

    def _is_stale(self) -> bool:
        return self.clock() - self._polled_at >= self.seconds
