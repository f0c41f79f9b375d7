"""Which worker sends a file that several hold parts of; source: the paper, its rules for transferring data."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby


def sending_worker(blocks: Sequence[Collection[str]], idle: Sequence[str]) -> str | None:
    """The idle worker that holds most consecutive blocks of a file, else the nearest idle one; None if none is idle.

    `blocks` tells for each block of the file, in order, which workers hold it; `idle` are the idle
    workers, the nearest first. Of two that hold as many the nearer one sends.
    """
    return max(idle, key=lambda worker: longest_stretch(blocks, worker), default=None)


def longest_stretch(blocks: Sequence[Collection[str]], worker: str) -> int:
    """The length of the longest stretch of consecutive blocks that a worker holds."""
    held = groupby(worker in holders for holders in blocks)
    return max((len(list(stretch)) for holds, stretch in held if holds), default=0)
