"""A link of limited bandwidth that all processes of a machine share; stands for the way to a remote store."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path

_FREE_AT = struct.Struct("d")


class Link:
    """Lets `bandwidth` bytes a second pass, whichever process sends them; 0 lets everything pass.

    The state is one file: the moment (monotonic clock of the machine) at which the link is free
    again. A sender books its bytes behind what is booked already and sleeps until they are through.
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

    def pass_bytes(self, count: int) -> None:
        """Return when `count` bytes are through."""
        if not self.bandwidth or not count:
            return
        seconds = count / self.bandwidth
        descriptor = os.open(self._state, os.O_RDWR | os.O_CREAT, 0o644)
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
        if (wait := start + seconds - now) > 0:
            self._sleep(wait)
