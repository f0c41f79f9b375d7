"""A link of limited bandwidth that all processes of a machine share; stands for the way to a remote store."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

BUFFER = 4 << 20  # bytes of one file that may be on their way
_FREE_AT = struct.Struct("d")


class Link:
    """Lets `bandwidth` bytes a second pass, whichever process sends them.

    The state is one file: the moment (monotonic clock of the machine) at which the link is free
    again. A sender books its bytes behind what is booked already and sleeps until they are through.

    Args:
        bandwidth: bytes a second; 0 lets everything pass.
        state: the file that the processes share.
        clock: seconds, the same in every process.
        sleep: waits for so many seconds.

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

    def stream(self, buffer: int = BUFFER) -> Stream:
        """A way through for the bytes of one file, of which up to `buffer` may be on their way at a time."""
        return Stream(self, buffer)

    def wait_until(self, moment: float) -> None:
        """Return at a moment of the machine's clock, or at once if it has passed."""
        if (wait := moment - self._clock()) > 0:
            self._sleep(wait)

    def _book(self, count: int) -> float:
        """Book `count` bytes behind all that is booked; returns the moment at which they are through."""
        if not self.bandwidth or not count:
            return float("-inf")
        seconds = count / self.bandwidth
        descriptor = os.open(self._state, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            now = self._clock()
            stored = os.pread(descriptor, _FREE_AT.size, 0)
            free_at = _FREE_AT.unpack(stored)[0] if len(stored) == _FREE_AT.size else 0.0
            # A booking far ahead was left by an earlier boot, whose clock ran on.
            start = free_at if now < free_at < now + 3600 else now
            os.pwrite(descriptor, _FREE_AT.pack(start + seconds), 0)
        finally:
            os.close(descriptor)
        return start + seconds


class Stream:
    """The bytes of one file on a link: the sender runs ahead by a buffer, as with a socket, so the link never idles."""

    def __init__(self, link: Link, buffer: int) -> None:
        self._link = link
        self._ahead = buffer / link.bandwidth if link.bandwidth else 0.0
        self._through = float("-inf")

    def pass_bytes(self, count: int) -> None:
        """Return when all but the buffer's bytes are through."""
        self._through = max(self._link._book(count), self._through)
        self._link.wait_until(self._through - self._ahead)

    def finish(self) -> None:
        """Return when all bytes are through."""
        self._link.wait_until(self._through)


def limit_bandwidth(link: Link | None, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The bytes of one file as they come across a link.

    Args:
        link: what all processes of the machine share; None lets everything pass.
        chunks: the bytes.

    Returns:
        The same chunks, each when the link has let it through, up to 4 MiB ahead.

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
