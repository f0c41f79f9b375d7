"""Waiting for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(seen: Callable[[], object], *, seconds: float = 60) -> None:
    """Return once `seen()` is true; fails after `seconds`."""
    end = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
