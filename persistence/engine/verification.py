"""Looks whether the copies that the catalog names are where it says, and marks what is missing or damaged."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from springline.persistence.backends.spec import Backend
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.errors import (
    CorruptCopyError,
    PersistenceError,
    StorageUnavailableError,
    TransitionError,
    UnderStoreUnavailableError,
)
from springline.persistence.model import sidecar
from springline.persistence.model.dataset import Dataset
from springline.persistence.model.transitions import Event

_AWAY = "the under-store does not answer:"
_GONE_BELOW = "its files in the under-store are missing or damaged"


@dataclass
class Verifier:
    """Compares the catalog with both stores; a store that does not answer has lost nothing."""

    catalog: Catalog
    cache: Backend
    under: Backend

    def verify(self, dataset: Dataset, *, deep: bool = False) -> Dataset:
        """Look whether the bytes are where the catalog says; what is missing or damaged is marked so.

        Looks where a reader would: in the cache, else in the under-store. Compares sizes, with `deep`
        also checksums, and in both. Returns the generation as it is then.
        """
        if dataset.in_cache and not _whole(self.cache, dataset.cache_location, dataset.checksum, dataset, deep):
            dataset = self.mark(dataset, Event.LOST, "its cached files are missing or damaged")
        look_below = dataset.persisted and (deep or not dataset.in_cache)
        if look_below and not _whole(self.under, dataset.under_location, dataset.under_checksum, dataset, deep):
            dataset = self.mark(dataset, Event.UNDER_LOST, _GONE_BELOW)
        return dataset

    def why_not_below(self, dataset: Dataset) -> str:
        """Why the copy that the catalog names may not be relied on; empty: it is there, with its size.

        The under-store is asked, but reads no bytes. What it has lost is marked so. Raises
        `UnderStoreUnavailableError`.
        """
        try:
            files = self.under.files(dataset.under_location)
            there = bool(files) and sum(file.bytes for file in files) == self._bytes_below(dataset)
        except FileNotFoundError:
            there = False
        except StorageUnavailableError as error:
            raise UnderStoreUnavailableError(f"{_AWAY} {error}") from error
        except PersistenceError as error:
            return f"how large its copy in the under-store is cannot be told: {error}"
        if there:
            return ""
        self.mark(dataset, Event.UNDER_LOST, _GONE_BELOW)
        return f"its copy in the under-store ({dataset.under_location}) is not there, or not whole"

    def mark(self, dataset: Dataset, event: Event, why: str) -> Dataset:
        """Record a loss, unless the copy that was looked at no longer is the one that counts."""
        column = "cache_location" if event is Event.LOST else "under_location"
        try:
            return self.catalog.change(dataset.ref, event, why=why, only_if={column: getattr(dataset, column)})
        except TransitionError:
            return self.catalog.get(dataset.ref)

    def _bytes_below(self, dataset: Dataset) -> int:
        """The bytes of a generation's copy in the under-store: another number if an operation made it there."""
        if dataset.under_checksum == dataset.checksum:
            return dataset.bytes
        told = self.under.read_small(dataset.under_location, sidecar.NAME)
        return sidecar.bytes_of_copy(told, where=dataset.under_location)


def why_away(under: Backend) -> str:
    """That the under-store does not answer, and why, as it is said everywhere; empty: it answers."""
    why = under.why_away()
    return f"{_AWAY} {why}" if why else ""


@dataclass
class UnderStoreWatch:
    """Tells those who look often whether the under-store answers: it is asked once in `seconds`, by one of them.

    The others are told what was found last, so that a store that is slow to say nothing holds up one of them at most.
    """

    catalog: Catalog
    under: Backend
    seconds: float = 2.0
    clock: Callable[[], float] = time.monotonic
    _asking: threading.Lock = field(default_factory=threading.Lock)
    _asked_at: float = float("-inf")
    _why: str = ""

    def why_away(self) -> str:
        """Why the under-store's copies count for nothing now; empty: they count, or there are none."""
        never = self._asked_at == float("-inf")
        if self._is_old() and self._asking.acquire(blocking=never):
            try:
                if self._is_old():
                    self._why = why_away(self.under) if self.catalog.uses_under_store() else ""
                    self._asked_at = self.clock()
            finally:
                self._asking.release()
        return self._why

    def _is_old(self) -> bool:
        return self.clock() - self._asked_at >= self.seconds


def _whole(backend: Backend, location: str, checksum: str, dataset: Dataset, deep: bool) -> bool:
    try:
        if deep:
            return backend.manifest(location).checksum == checksum
        files = backend.files(location)
    except (FileNotFoundError, CorruptCopyError):
        return False
    # The bytes of a copy that an operation made beside the under-store may differ in number.
    return bool(files) and (checksum != dataset.checksum or sum(f.bytes for f in files) == dataset.bytes)
