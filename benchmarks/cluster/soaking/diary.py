"""The events of a soak, in order: printed at once, and counted by type."""

from __future__ import annotations

import sys
import threading
import time

from springline.persistence.text.formatting import format_seconds


class Diary:
    """Lines with the seconds since the start; `count` is how many were of a type."""

    def __init__(self) -> None:
        self._started_at = time.monotonic()
        self._lock = threading.Lock()
        self._kinds: list[str] = []

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started_at

    def note(self, text: str, kind: str = "") -> None:
        """Print a line, with the seconds since the start."""
        with self._lock:
            self._kinds.append(kind)
            print(f"{format_seconds(self.now):>12}  {text}", file=sys.stderr, flush=True)

    def count(self, kind: str) -> int:
        """How many lines of this kind there are."""
        with self._lock:
            return self._kinds.count(kind)
