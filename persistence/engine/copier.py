"""Copies the bytes of a generation from one store to another, at the pace of one worker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import xxhash

from springline.persistence.backends.spec import Backend, File, Manifest
from springline.persistence.catalog.claims import LeaseLostError
from springline.persistence.errors import CorruptCopyError, MissingDataError

_ASK_SECONDS = 0.05  # how often a worker that sends asks whether it is to give way


class CorruptCacheError(CorruptCopyError):
    """The cached bytes are not those that were written."""


def copy(
    source: Backend,
    location: str,
    target: Backend,
    to: str,
    *,
    pace: Callable[[int], None] = lambda count: None,
    lost: threading.Event | None = None,
) -> Manifest:
    """Copy the files of `location` to the new location `to`; returns what was read, with checksums.

    `pace` is told of every chunk and may hold it back; the copy ends with `LeaseLostError` once `lost` is set.
    Raises `MissingDataError` if the source is not there, `CorruptCopyError` if somebody takes the target away
    meanwhile.
    """
    try:
        files = source.files(location)
    except FileNotFoundError as error:
        raise MissingDataError(f"{location}: {error}") from error
    sent = []
    for file in files:
        hasher = xxhash.xxh3_128()
        size = 0
        try:
            with target.create(to, file.name, file.bytes) as out:
                for chunk in _read(source, location, file.name):
                    if lost is not None and lost.is_set():
                        raise LeaseLostError(f"{location}: the lease ran out during the copy")
                    pace(len(chunk))
                    hasher.update(chunk)
                    size += len(chunk)
                    out.write(chunk)
        except FileNotFoundError as error:
            raise CorruptCopyError(f"{to}: somebody took the half copy away: {error}") from error
        sent.append(File(file.name, size, hasher.hexdigest()))
    return Manifest(tuple(sent))


def _read(source: Backend, location: str, name: str) -> Iterator[bytes]:
    try:
        yield from source.chunks(location, name)
    except FileNotFoundError as error:
        raise MissingDataError(f"{location}/{name}: {error}") from error


class Pace:
    """How fast one worker sends: at most `bandwidth` bytes a second (0: no limit), and not while `give_way()`.

    `stood_aside` counts the seconds that it gave way: they say nothing about the link.
    """

    def __init__(
        self,
        bandwidth: float = 0,
        give_way: Callable[[], bool] = lambda: False,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.stood_aside = 0.0
        self._bandwidth = bandwidth
        self._give_way = give_way
        self._clock = clock
        self._sleep = sleep
        self._asked_at = float("-inf")
        self._free_at = 0.0

    def __call__(self, count: int) -> None:
        """Return when `count` more bytes may be sent."""
        self._stand_aside()
        if not self._bandwidth:
            return
        now = self._clock()
        self._free_at = max(self._free_at, now) + count / self._bandwidth
        if self._free_at > now:
            self._sleep(self._free_at - now)

    def _stand_aside(self) -> None:
        begun = self._clock()
        if begun - self._asked_at < _ASK_SECONDS:
            return
        while self._give_way():
            self._sleep(_ASK_SECONDS)
        self._asked_at = self._clock()
        self.stood_aside += self._asked_at - begun
