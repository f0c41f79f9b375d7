"""A link of limited bandwidth shared by all processes of a machine; it simulates the network to a remote store."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

BUFFER = 4 << 20  # bytes of one file that may be in flight
_FREE_AT = struct.Struct("d")


class Link:
    """Limits all processes together to `bandwidth` bytes per second.

    The state is one file: the time (monotonic clock of the machine) at which the link is free
    again. A sender reserves time for its bytes after all earlier reservations and sleeps until its own ends.

    Args:
        bandwidth: bytes per second; 0: no limit.
        state: the file that the processes share.
        clock: seconds, the same in every process.
        sleep: called with the seconds to wait.

    Example:
        >>> link = Link(1_000_000, folder / "link.state")
        >>> [len(chunk) for chunk in limit_bandwidth(link, [bytes(1_000), bytes(500)])]
        [1000, 500]
    """

    def __init__(
        self,
        bandwidth: float,
        state: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.bandwidth = bandwidth
        self._state = state
        self._clock = clock
        self._sleep = sleep

    def stream(self, buffer: int = BUFFER) -> LinkStream:
        """Return a stream for the bytes of one file, of which up to `buffer` may be in flight at a time."""
        return LinkStream(self, buffer)

    def wait_until(self, moment: float) -> None:
        """Block until `moment` of the machine's clock; returns at once if it has passed."""
        if (wait := moment - self._clock()) > 0:
            self._sleep(wait)

    def _reserve(self, count: int) -> float:
        """Reserve the link for `count` bytes after all reservations; returns the time at which they are transferred."""
        if not self.bandwidth or not count:
            return float("-inf")
        seconds = count / self.bandwidth
        descriptor = os.open(self._state, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            now = self._clock()
            stored = os.pread(descriptor, _FREE_AT.size, 0)
            free_at = _FREE_AT.unpack(stored)[0] if len(stored) == _FREE_AT.size else 0.0
            # A reservation far ahead is from before a reboot, when the clock had a higher value.
            start = free_at if now < free_at < now + 3600 else now
            os.pwrite(descriptor, _FREE_AT.pack(start + seconds), 0)
        finally:
            os.close(descriptor)
        return start + seconds


class LinkStream:
    """The bytes of one file on a link: the sender is ahead by a buffer, as with a socket, so the link never idles."""

    def __init__(self, link: Link, buffer: int) -> None:
        self._link = link
        self._buffer_seconds = buffer / link.bandwidth if link.bandwidth else 0.0
        self._finish_at = float("-inf")

    def pass_bytes(self, count: int) -> None:
        """Block until all but the buffer's bytes are transferred."""
        self._finish_at = max(self._link._reserve(count), self._finish_at)
        self._link.wait_until(self._finish_at - self._buffer_seconds)

    def finish(self) -> None:
        """Block until all bytes are transferred."""
        self._link.wait_until(self._finish_at)


def limit_bandwidth(link: Link | None, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes of one file at the bandwidth of a link.

    Args:
        link: shared by all processes of the machine; None: no limit.
        chunks: the bytes.

    Returns:
        The same chunks, each when the link has transferred it, up to 4 MiB ahead.

    Example:
        >>> list(limit_bandwidth(None, [b"one", b"two"]))
        [b'one', b'two']
    """
    if link is None:
        yield from chunks
        return
    stream = link.stream()
    for chunk in chunks:
        stream.pass_bytes(len(chunk))
        yield chunk
    stream.finish()
