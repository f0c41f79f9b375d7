"""Runs of partials: a small one a round, merged as in a log-structured merge tree; what stays is not rewritten."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from spark_jobs.streaming.windows.partials import column, merge

Runs = tuple[pa.RecordBatch, ...]
_RATIO = 4  # a run is merged into one before it that is at most so many times its size


def pushed(runs: Runs, fresh: pa.RecordBatch | None, floor: int | None = None) -> Runs:
    """With one more run; merging takes out what lies before `floor`, and runs that lie before it altogether go."""
    kept = [run for run in runs if floor is None or int(column(run, "slice")[-1]) >= floor]
    if fresh is None or not fresh.num_rows:
        return tuple(kept)
    merging = [fresh]
    rows = fresh.num_rows
    while kept and kept[-1].num_rows <= _RATIO * rows:
        merging.insert(0, kept.pop())
        rows += merging[0].num_rows
    merged = merge([between(run, floor, None) for run in merging])
    return (*kept, merged) if merged is not None else tuple(kept)


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
