"""Copies the bytes of a generation from one store to another, within the bandwidth limit of one worker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence

import xxhash

from springline.persistence.backends.spec import Backend
from springline.persistence.catalog.claims import LeaseLostError
from springline.persistence.errors import CorruptCopyError, InvalidPathError, MissingDataError
from springline.persistence.model.manifest import File, Manifest

_YIELD_CHECK_SECONDS = 0.05  # interval between two checks whether a sending worker has to yield the link


class CorruptCacheError(CorruptCopyError):
    """The cached bytes differ from what was written."""


def copy_files(
    source: Backend,
    location: str,
    target: Backend,
    to: str,
    *,
    files: Sequence[File] | None = None,
    limiter: Callable[[int], None] = lambda count: None,
    lease_lost: threading.Event | None = None,
) -> Manifest:
    """Copy the files of `location` to the new location `to`; returns the manifest of what was read, with checksums.

    `files` are those of `location`, in the order of their names; by default they are listed. `limiter` is called with
    the size of every chunk and may block; the copy raises `LeaseLostError` once `lease_lost` is set. Raises
    `MissingDataError` if the source is missing or has become a link, `CorruptCopyError` if another process removes the
    target during the copy.
    """
    try:
        files = source.files(location) if files is None else files
    except (FileNotFoundError, InvalidPathError) as error:
        raise MissingDataError(f"{location}: {error}") from error
    copied = []
    for file in files:
        hasher = xxhash.xxh3_128()
        size = 0
        try:
            with target.create(to, file.name, file.bytes) as out:
                for chunk in _read_chunks(source, location, file.name):
                    if lease_lost is not None and lease_lost.is_set():
                        raise LeaseLostError(f"{location}: the lease expired during the copy")
                    limiter(len(chunk))
                    hasher.update(chunk)
                    size += len(chunk)
                    out.write(chunk)
        except FileNotFoundError as error:
            raise CorruptCopyError(f"{to}: the partial copy was removed by another process: {error}") from error
        copied.append(File(file.name, size, hasher.hexdigest()))
    return Manifest(tuple(copied))


def _read_chunks(source: Backend, location: str, name: str) -> Iterator[bytes]:
    try:
        yield from source.chunks(location, name)
    except (FileNotFoundError, InvalidPathError) as error:
        raise MissingDataError(f"{location}/{name}: {error}") from error


class BandwidthLimiter:
    """Limits one worker to `bandwidth` bytes per second (0: no limit), and pauses it while `should_yield()` is true.

    `yielded_seconds` is the total time it paused, which must not count as transfer time of the link.
    """

    def __init__(
        self,
        bandwidth: float = 0,
        should_yield: Callable[[], bool] = lambda: False,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.yielded_seconds = 0.0
        self._bandwidth = bandwidth
        self._should_yield = should_yield
        self._clock = clock
        self._sleep = sleep
        self._checked_at = float("-inf")
        self._free_at = 0.0

    def __call__(self, count: int) -> None:
        """Block until `count` more bytes may be sent."""
        self._yield_link()
        if not self._bandwidth:
            return
        now = self._clock()
        self._free_at = max(self._free_at, now) + count / self._bandwidth
        if self._free_at > now:
            self._sleep(self._free_at - now)

    def _yield_link(self) -> None:
        started_at = self._clock()
        if started_at - self._checked_at < _YIELD_CHECK_SECONDS:
            return
        while self._should_yield():
            self._sleep(_YIELD_CHECK_SECONDS)
        self._checked_at = self._clock()
        self.yielded_seconds += self._checked_at - started_at
