"""What works beside the stages of a job, each in a thread of its own."""

from __future__ import annotations

import threading
from typing import Self


class Beside(threading.Thread):
    """Works while its context is open: `run` goes on until `_over` is set."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._over = threading.Event()
        self._trouble = ""

    @property
    def trouble(self) -> str:
        """What went wrong last, in words; empty where nothing is wrong."""
        return self._trouble

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        self._over.set()
        self.join()
