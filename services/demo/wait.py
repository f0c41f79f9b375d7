"""How the demo waits for what others do: as long as it gets on."""

from __future__ import annotations

import time
from collections.abc import Callable

_LOOK_SECONDS = 0.5


class Patience:
    """Is over once nothing has changed for so many seconds: a busy machine is slow, and no fault."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._progress: object = None
        self._since = clock()

    def is_over(self, progress: object = None) -> bool:
        """Whether it is, `progress` being how far things are by now."""
        now = self._clock()
        if progress != self._progress:
            self._progress, self._since = progress, now
        return now - self._since > self._seconds


def comes_true(done: Callable[[], bool], patience: float, progress: Callable[[], object] = lambda: None) -> bool:
    """Whether `done` says so before `progress` has stayed the same for so many seconds.

    It is asked twice a second, and may show how far things are.
    """
    left = Patience(patience)
    while not done():
        if left.is_over(progress()):
            return False
        time.sleep(_LOOK_SECONDS)
    return True
