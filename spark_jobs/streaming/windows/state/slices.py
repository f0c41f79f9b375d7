"""Runs of partials: one per round, merged in tiers as in an LSM tree; large runs are rarely rewritten."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.windows.aggregation.partials import column_values, merge

Runs = tuple[pa.RecordBatch, ...]
_TIER = 8  # so many runs of similar size are merged into one
_RATIO = 4  # similar size: at most so many times the rows of the newest run


def push_run(runs: Runs, fresh: pa.RecordBatch | None, floor: int | None = None) -> Runs:
    """Append a run; drops runs that lie entirely before `floor`, and slices before `floor` when runs are merged."""
    remaining_runs = [run for run in runs if floor is None or int(column_values(run, "slice")[-1]) >= floor]
    if fresh is None or not fresh.num_rows:
        return tuple(remaining_runs)
    remaining_runs.append(fresh)
    while (tier := _newest_tier(remaining_runs)) >= _TIER:
        merged = merge([slices_between(run, floor, None) for run in remaining_runs[-tier:]])
        remaining_runs[-tier:] = [merged] if merged is not None else []
    return tuple(remaining_runs)


def _newest_tier(runs: Sequence[pa.RecordBatch]) -> int:
    """Return how many runs at the end are of similar size to the last one."""
    if not runs:
        return 0
    limit = _RATIO * runs[-1].num_rows
    return next((count for count, run in enumerate(reversed(runs)) if run.num_rows > limit), len(runs))


def slices_between(run: pa.RecordBatch, begin: int | None, end: int | None) -> pa.RecordBatch:
    """Return the partials of slices that begin in [begin, end)."""
    slices = column_values(run, "slice")
    first = 0 if begin is None else int(np.searchsorted(slices, begin))
    last = slices.size if end is None else int(np.searchsorted(slices, end))
    return run if (first, last) == (0, slices.size) else run.slice(first, max(last - first, 0))


def window_groups(runs: Sequence[pa.RecordBatch], begin: int, end: int) -> pa.RecordBatch | None:
    """Return the groups of a window, merged over its slices."""
    return merge([slices_between(run, begin, end) for run in runs], into=begin)


def slices_in(runs: Sequence[pa.RecordBatch]) -> list[int]:
    """Return the slices that have partials, ascending."""
    begins: set[int] = set()
    for run in runs:
        slices = column_values(run, "slice")
        index = 0
        while index < slices.size:
            begins.add(int(slices[index]))
            index = int(np.searchsorted(slices, slices[index], side="right"))
    return sorted(begins)
