"""Segments: the remaining rows of a run in a store, in disjoint ranges of (key, seq) within a level.

Rows before `start` have been merged into another level. Tuples of dropped migrations are hidden; they are removed when
the other rows are merged, as are purged ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.spark_jobs.streaming.join.unit.migration_select import Flags, Ints, Selection
from springline.spark_jobs.streaming.join.unit.sorted_runs import SortedRun, bytes_of, merge_runs, run_of

Bound = tuple[int, int]  # a key and a seq, in the sort order of tuples


@dataclass(frozen=True, eq=False)
class Segment:
    """The rows of a run from `start` on, without `hidden` ones (of `hidden_bytes`), by the cuts from `since` on."""

    run: SortedRun
    start: int = 0
    hidden: int = 0
    hidden_bytes: int = 0
    since: int = 0

    def __len__(self) -> int:
        return len(self.run) - self.start - self.hidden

    @cached_property
    def bytes(self) -> int:
        """Bytes of all values that are not hidden."""
        return self.stored_bytes - self.hidden_bytes

    @cached_property
    def stored_bytes(self) -> int:
        """Bytes of all values, including hidden ones."""
        return self.run.bytes if not self.start else bytes_of(self.run.batch.slice(self.start))

    @property
    def least(self) -> Bound:
        """The (key, seq) of the first row."""
        return self.run.bound(self.start)

    @property
    def greatest(self) -> Bound:
        """The (key, seq) of the last row."""
        return self.run.bound(len(self.run) - 1)

    def end_of(self, before: Bound | None, most: int) -> int:
        """Return the end of the rows below a bound, at most about `most` bytes of them, at least one row."""
        row_limit = self.start + max(most * (len(self.run) - self.start) // max(self.stored_bytes, 1), 1)
        below = len(self.run) if before is None else self.run.below(before)
        return min(row_limit, max(below, self.start))

    def visible_mask(self, rows: npt.NDArray[np.integer[Any]], hiding: Selection) -> Flags | None:
        """Return a mask of the given rows that are not hidden; None if no row of the segment is."""
        return ~hiding.matches(self.run, rows, self.since) if self.hidden else None

    def find_rows(self, selection: Selection, hiding: Selection) -> tuple[Ints, Ints]:
        """Return the rows that `selection` covers and that are not hidden yet, and the cut of each."""
        rows, cuts = selection.rows(self.run, self.start, len(self.run))
        is_visible = self.visible_mask(rows, hiding)
        return (rows, cuts) if is_visible is None else (rows[is_visible], cuts[is_visible])

    def unpurged_mask(self, rows: npt.NDArray[np.integer[Any]], purged: int) -> Flags | None:
        """Return a mask of the given rows with seqs from `purged` on; None if the segment has no purged rows."""
        return self.run.seqs[rows] >= purged if purged and self.run.least < purged else None

    def with_hidden(self, rows: Ints, number: int) -> Segment:
        """Return the segment with more rows hidden, by the cuts `number`."""
        size = _bytes_of_rows(self.run, rows)
        since = self.since if self.hidden else number
        return replace(self, hidden=self.hidden + rows.size, hidden_bytes=self.hidden_bytes + size, since=since)

    def split(self, row: int, hiding: Selection) -> tuple[pa.RecordBatch, Segment | None]:
        """Return the rows before `row` without those that are hidden or purged, and the rest."""
        batch = self.run.batch.slice(self.start, row - self.start)
        mask = self.unpurged_mask(np.arange(self.start, row), hiding.purged) if hiding.purged else None
        hidden, hidden_bytes = self.hidden, self.hidden_bytes
        if hidden:
            rows, _ = hiding.rows(self.run, self.start, row, self.since)
            mask = np.ones(row - self.start, np.bool_) if mask is None else mask
            mask[rows - self.start] = False
            hidden, hidden_bytes = hidden - rows.size, hidden_bytes - _bytes_of_rows(self.run, rows)
        if mask is not None:
            batch = batch.filter(pa.array(mask))
        if row == len(self.run) or len(self.run) - row == hidden:
            return batch, None
        return batch, Segment(self.run, row, hidden, hidden_bytes, self.since if hidden else 0)

    def layout(self) -> list[int]:
        """Return the values for a state's scalars; empty if no rows are left out."""
        values = [self.start, self.hidden, self.hidden_bytes, self.since]
        return values if any(values) else []


def visible_run(parts: Sequence[Segment], hiding: Selection) -> SortedRun | None:
    """Return segments of one level as one run, without rows that are hidden or purged; None if there are none.

    The run of a single complete segment is returned unchanged.
    """
    if len(parts) == 1 and not parts[0].layout() and not (hiding.purged and parts[0].run.least < hiding.purged):
        return parts[0].run
    return concat_run([part.split(len(part.run), hiding)[0] for part in parts])


def concat_run(batches: Sequence[pa.RecordBatch]) -> SortedRun | None:
    """Concatenate consecutive batches into one run; None without tuples."""
    filled = [batch.replace_schema_metadata(None) for batch in batches if batch.num_rows]
    if not filled:
        return None
    return run_of(filled[0] if len(filled) == 1 else pa.concat_batches(filled))


def cut_run(run: SortedRun | None, most: int, boundary: Bound | None = None) -> tuple[Segment, ...]:
    """Cut a run into segments of about equal size and at most about `most` bytes; none extends across `boundary`."""
    if run is None:
        return ()
    segments = []
    ends = sorted({0, len(run), *([] if boundary is None else [run.below(boundary)])})
    for begin, end in pairwise(ends):
        count = min(-(-bytes_of(run.batch.slice(begin, end - begin)) // most), end - begin)
        places = [begin + (end - begin) * part // count for part in range(count + 1)]
        for first, last in pairwise(places):
            is_complete = last - first == len(run)
            segments.append(Segment(run if is_complete else run_of(run.batch.slice(first, last - first))))
    return tuple(segments)


def merge_optional(first: SortedRun | None, other: SortedRun | None) -> SortedRun | None:
    """Merge two runs, either of which may be None."""
    if first is None or other is None:
        return other if first is None else first
    return merge_runs(first, other)


def _bytes_of_rows(run: SortedRun, rows: Ints) -> int:
    return run.width * rows.size + int(run.text_bytes(rows).sum())
