"""Waits for other processes as long as they make progress."""

from __future__ import annotations

import time
from collections.abc import Callable

_POLL_SECONDS = 0.5


class ProgressTimeout:
    """A timeout that expires after `seconds` without progress, since a busy machine is slow but not faulty."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._progress: object = None
        self._since = clock()

    def is_over(self, progress: object = None) -> bool:
        """Return whether the timeout has expired; `progress` is any value that changes when there is progress."""
        now = self._clock()
        if progress != self._progress:
            self._progress, self._since = progress, now
        return now - self._since > self._seconds


def wait_until(condition: Callable[[], bool], patience: float, progress: Callable[[], object] = lambda: None) -> bool:
    """Wait for `condition`; returns False if `progress` has not changed for `patience` seconds, otherwise True.

    `condition` is called twice a second, and may display progress.
    """
    timer = ProgressTimeout(patience)
    while not condition():
        if timer.is_over(progress()):
            return False
        time.sleep(_POLL_SECONDS)
    return True
