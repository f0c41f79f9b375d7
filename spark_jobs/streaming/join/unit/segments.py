"""Segments: what is left of a run in a store, in disjoint ranges of (key, seq) within a level.

Rows before `start` have been merged away; tuples of pieces that left are hidden, and vanish when the rest is merged, as
do those that are purged.
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
from springline.spark_jobs.streaming.join.unit.runs import Run, bytes_of, merged, run_of

Bound = tuple[int, int]  # in the order of tuples: a key and a seq


@dataclass(frozen=True, eq=False)
class Segment:
    """The rows of a run from `start` on, without `hidden` ones (of `hidden_bytes`): of the cuts from `since` on."""

    run: Run
    start: int = 0
    hidden: int = 0
    hidden_bytes: int = 0
    since: int = 0

    def __len__(self) -> int:
        return len(self.run) - self.start - self.hidden

    @cached_property
    def bytes(self) -> int:
        """Bytes of all values that are not hidden."""
        return self.held - self.hidden_bytes

    @cached_property
    def held(self) -> int:
        """Bytes of all values, hidden ones too."""
        return self.run.bytes if not self.start else bytes_of(self.run.batch.slice(self.start))

    @property
    def least(self) -> Bound:
        """The place of the first row."""
        return self.run.bound(self.start)

    @property
    def greatest(self) -> Bound:
        """The place of the last row."""
        return self.run.bound(len(self.run) - 1)

    def end_of(self, before: Bound | None, most: int) -> int:
        """Where the rows end that lie below a place, of about `most` bytes at most, at least one."""
        room = self.start + max(most * (len(self.run) - self.start) // max(self.held, 1), 1)
        below = len(self.run) if before is None else self.run.below(before)
        return min(room, max(below, self.start))

    def visible(self, rows: npt.NDArray[np.integer[Any]], hiding: Selection) -> Flags | None:
        """Which of the given rows are not hidden; None if all are."""
        return ~hiding.means(self.run, rows, self.since) if self.hidden else None

    def found(self, wanted: Selection, hiding: Selection) -> tuple[Ints, Ints]:
        """The rows that are meant and not hidden yet, and by which cut."""
        rows, cuts = wanted.rows(self.run, self.start, len(self.run))
        seen = self.visible(rows, hiding)
        return (rows, cuts) if seen is None else (rows[seen], cuts[seen])

    def lasting(self, rows: npt.NDArray[np.integer[Any]], purged: int) -> Flags | None:
        """Which of the given rows have no seq below `purged`; None if none of the segment has."""
        return self.run.seqs[rows] >= purged if purged and self.run.least < purged else None

    def hiding(self, rows: Ints, number: int) -> Segment:
        """With some more rows hidden, by the cuts `number`."""
        size = _bytes_of_rows(self.run, rows)
        since = self.since if self.hidden else number
        return replace(self, hidden=self.hidden + rows.size, hidden_bytes=self.hidden_bytes + size, since=since)

    def parted(self, at: int, hiding: Selection) -> tuple[pa.RecordBatch, Segment | None]:
        """The rows before `at` without those that are hidden or purged, and the rest."""
        batch = self.run.batch.slice(self.start, at - self.start)
        mask = self.lasting(np.arange(self.start, at), hiding.purged) if hiding.purged else None
        hidden, hidden_bytes = self.hidden, self.hidden_bytes
        if hidden:
            rows, _ = hiding.rows(self.run, self.start, at, self.since)
            mask = np.ones(at - self.start, np.bool_) if mask is None else mask
            mask[rows - self.start] = False
            hidden, hidden_bytes = hidden - rows.size, hidden_bytes - _bytes_of_rows(self.run, rows)
        if mask is not None:
            batch = batch.filter(pa.array(mask))
        if at == len(self.run) or len(self.run) - at == hidden:
            return batch, None
        return batch, Segment(self.run, at, hidden, hidden_bytes, self.since if hidden else 0)

    def told(self) -> list[int]:
        """For a state's scalars: nothing where nothing is left out."""
        found = [self.start, self.hidden, self.hidden_bytes, self.since]
        return found if any(found) else []


def whole_of(parts: Sequence[Segment], hiding: Selection) -> Run | None:
    """Segments of one level as one run, without rows that are hidden or purged; None if there are none.

    One that is whole is itself.
    """
    if len(parts) == 1 and not parts[0].told() and not (hiding.purged and parts[0].run.least < hiding.purged):
        return parts[0].run
    return in_order([part.parted(len(part.run), hiding)[0] for part in parts])


def in_order(batches: Sequence[pa.RecordBatch]) -> Run | None:
    """Batches that follow each other as one run; None without tuples."""
    filled = [batch.replace_schema_metadata(None) for batch in batches if batch.num_rows]
    if not filled:
        return None
    return run_of(filled[0] if len(filled) == 1 else pa.concat_batches(filled))


def cut(run: Run | None, most: int, at: Bound | None = None) -> tuple[Segment, ...]:
    """A run as segments of at most about so many bytes, as even as they come; none goes across the place `at`."""
    if run is None:
        return ()
    found = []
    ends = sorted({0, len(run), *([] if at is None else [run.below(at)])})
    for begin, end in pairwise(ends):
        count = min(-(-bytes_of(run.batch.slice(begin, end - begin)) // most), end - begin)
        places = [begin + (end - begin) * part // count for part in range(count + 1)]
        for first, last in pairwise(places):
            whole = last - first == len(run)
            found.append(Segment(run if whole else run_of(run.batch.slice(first, last - first))))
    return tuple(found)


def both(first: Run | None, other: Run | None) -> Run | None:
    """Two runs as one."""
    if first is None or other is None:
        return other if first is None else first
    return merged(first, other)


def _bytes_of_rows(run: Run, rows: Ints) -> int:
    return run.width * rows.size + int(run.text_bytes(rows).sum())
