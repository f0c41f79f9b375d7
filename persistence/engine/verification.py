"""Verifies that the copies the catalog names exist and are intact, and marks missing or damaged ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from springline.persistence.backends.spec import Backend
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.errors import (
    CorruptCopyError,
    InvalidPathError,
    PersistenceError,
    StorageUnavailableError,
    TransitionError,
    UnderStoreUnavailableError,
)
from springline.persistence.model import sidecar
from springline.persistence.model.dataset import Dataset
from springline.persistence.model.transitions import Event

_UNAVAILABLE_PREFIX = "the under-store does not answer:"
_UNDER_STORE_LOST_REASON = "its files in the under-store are missing or damaged"


@dataclass
class Verifier:
    """Compares the catalog with both stores; a store that does not respond counts as having lost nothing."""

    catalog: Catalog
    cache: Backend
    under: Backend

    def verify(self, dataset: Dataset, *, deep: bool = False) -> Dataset:
        """Verify that the bytes are where the catalog says; missing or damaged copies are marked lost.

        Checks where a reader would read: in the cache, else in the under-store. Compares sizes, with `deep`
        also checksums, and then in both stores. Returns the generation as recorded afterwards.
        """
        if dataset.in_cache and not _is_intact(self.cache, dataset.cache_location, dataset.checksum, dataset, deep):
            dataset = self.mark_lost(dataset, Event.LOST, "its cached files are missing or damaged")
        checks_under_store = dataset.persisted and (deep or not dataset.in_cache)
        if checks_under_store and not _is_intact(
            self.under, dataset.under_location, dataset.under_checksum, dataset, deep
        ):
            dataset = self.mark_lost(dataset, Event.UNDER_STORE_LOST, _UNDER_STORE_LOST_REASON)
        return dataset

    def check_under_copy(self, dataset: Dataset) -> str:
        """Return why the copy in the under-store is not reliable; empty if it exists with its recorded size.

        Only metadata is requested from the under-store, no bytes are read. A missing copy is marked lost. Raises
        `UnderStoreUnavailableError`.
        """
        try:
            files = self.under.files(dataset.under_location)
            is_there = bool(files) and sum(file.bytes for file in files) == self._under_copy_bytes(dataset)
        except (FileNotFoundError, InvalidPathError):
            is_there = False
        except StorageUnavailableError as error:
            raise UnderStoreUnavailableError(f"{_UNAVAILABLE_PREFIX} {error}") from error
        except PersistenceError as error:
            return f"the size of its copy in the under-store cannot be determined: {error}"
        if is_there:
            return ""
        self.mark_lost(dataset, Event.UNDER_STORE_LOST, _UNDER_STORE_LOST_REASON)
        return f"its copy in the under-store ({dataset.under_location}) is missing or incomplete"

    def mark_lost(self, dataset: Dataset, event: Event, reason: str) -> Dataset:
        """Record a loss, unless the catalog names another copy by now."""
        column = "cache_location" if event is Event.LOST else "under_location"
        try:
            return self.catalog.change(dataset.ref, event, reason=reason, only_if={column: getattr(dataset, column)})
        except TransitionError:
            return self.catalog.get(dataset.ref)

    def _under_copy_bytes(self, dataset: Dataset) -> int:
        """Return the size of the copy in the under-store, which may differ from the cache if an operation wrote it."""
        if dataset.under_checksum == dataset.checksum:
            return dataset.bytes
        content = self.under.read_small(dataset.under_location, sidecar.FILE_NAME)
        return sidecar.read_copy_bytes(content, where=dataset.under_location)


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
    under: Backend
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


def _is_intact(backend: Backend, location: str, checksum: str, dataset: Dataset, deep: bool) -> bool:
    try:
        if deep:
            return backend.manifest(location).checksum == checksum
        files = backend.files(location)
    except (FileNotFoundError, InvalidPathError, CorruptCopyError):  # a link is not the copy that was made
        return False
    # The size of a copy that an operation wrote beside the under-store may differ.
    return bool(files) and (checksum != dataset.checksum or sum(f.bytes for f in files) == dataset.bytes)
