"""Waiting for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(
    condition: Callable[[], T],
    *,
    seconds: float = 60,
    every: float = 0.05,
    reason: Callable[[], str] = lambda: "in vain",
) -> T:
    """What `condition()` returns, once that is true; fails after so many seconds, and says the `reason`.

    It looks `every` so often, and counts its looks, not the clock: a machine that stood still takes no patience away.
    """
    for _ in range(max(round(seconds / every), 1)):
        if result := condition():
            return result
        time.sleep(every)
    raise AssertionError(f"waited {seconds:g} s: {reason()}")
