"""Runs of partials: one a round, merged as in a log-structured merge tree with tiers; what stays is not rewritten."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.windows.aggregation.partials import column, merge

Runs = tuple[pa.RecordBatch, ...]
_TIER = 8  # so many runs of about one size are merged into one
_RATIO = 4  # of about one size are those of at most so many times the newest


def pushed(runs: Runs, fresh: pa.RecordBatch | None, floor: int | None = None) -> Runs:
    """With one more run; merging takes out what lies before `floor`, and runs that lie before it altogether go."""
    kept = [run for run in runs if floor is None or int(column(run, "slice")[-1]) >= floor]
    if fresh is None or not fresh.num_rows:
        return tuple(kept)
    kept.append(fresh)
    while (tier := _newest_tier(kept)) >= _TIER:
        merged = merge([between(run, floor, None) for run in kept[-tier:]])
        kept[-tier:] = [merged] if merged is not None else []
    return tuple(kept)


def _newest_tier(runs: Sequence[pa.RecordBatch]) -> int:
    """How many runs at the end are of about the size of the last."""
    if not runs:
        return 0
    limit = _RATIO * runs[-1].num_rows
    return next((count for count, run in enumerate(reversed(runs)) if run.num_rows > limit), len(runs))


def between(run: pa.RecordBatch, begin: int | None, end: int | None) -> pa.RecordBatch:
    """The partials of slices that begin in [begin, end)."""
    slices = column(run, "slice")
    first = 0 if begin is None else int(np.searchsorted(slices, begin))
    last = slices.size if end is None else int(np.searchsorted(slices, end))
    return run if (first, last) == (0, slices.size) else run.slice(first, max(last - first, 0))


def window(runs: Sequence[pa.RecordBatch], begin: int, end: int) -> pa.RecordBatch | None:
    """The groups of a window, added up over its slices."""
    return merge([between(run, begin, end) for run in runs], into=begin)


def slices_in(runs: Sequence[pa.RecordBatch]) -> list[int]:
    """The slices that hold anything, ascending."""
    found: set[int] = set()
    for run in runs:
        slices = column(run, "slice")
        at = 0
        while at < slices.size:
            found.add(int(slices[at]))
            at = int(np.searchsorted(slices, slices[at], side="right"))
    return sorted(found)
