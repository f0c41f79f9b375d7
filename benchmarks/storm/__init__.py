"""Storm's own acker beside ours, from its published jar."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.report import Row


def storm(size: str) -> Iterator[Row]:
    yield from ()
