"""How the demo waits for what others do."""

from __future__ import annotations

import time
from collections.abc import Callable

_LOOK_SECONDS = 0.5


def comes_true(done: Callable[[], bool], patience: float) -> bool:
    """Whether `done` says so within so many seconds; it is asked twice a second, and may show how far things are."""
    until = time.monotonic() + patience
    while not done():
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_SECONDS)
    return True
