"""The stored tuples of one side of a task: segments of rows in the order in which they came, and an index by key.

Only the segments are in the state; the index is in memory, and is built again from them where it is lost. New rows are
appended as a segment; segments of about the same size are merged until they are large enough to stay as they are.
Tuples that migrate to another unit are dropped from the index at once; their rows stay until their segment is cleaned:
its other rows are appended once more, and it is removed. With a limited retention, segments are removed as a whole once
all of their tuples have expired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from springline.spark_jobs.streaming.join.kernels import sort_order
from springline.spark_jobs.streaming.join.task.candidates import TupleIndex
from springline.spark_jobs.streaming.join.task.hash_index import MAX_PLACES, HashIndex
from springline.spark_jobs.streaming.join.task.migration_select import MigrationCut, Selection
from springline.spark_jobs.streaming.join.task.segments import (
    Ints,
    Segment,
    SegmentTable,
    concat_segments,
)
from springline.spark_jobs.streaming.join.task.sorted_index import SortedIndex
from springline.spark_jobs.streaming.join.wire import MAX_UNITS, KeyBand

_SPARE_PLACES = 1 << 16  # unused ones that are tolerated

Batches = tuple[pa.RecordBatch, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a store: the newest segments are merged, at least `fanout` of them, each not larger than all newer ones.

    A segment of at least `segment` bytes stays as it is. When the dropped and expired rows are more than one in
    `garbage` of the others, a segment is cleaned in each round.
    """

    segment: int = 8 << 20
    fanout: int = 4
    garbage: int = 4


class TupleStore:
    """The tuples of one side, for probes of the other one; `band` says which keys match, as `stored - probe`.

    Tuples with a seq below `expired` match no probes; those below `purged`, which is at most `expired`, are removed.
    `stored` has the number of tuples of each unit. Rows from the position `fresh` on are of the current router round.
    """

    def __init__(self, band: KeyBand, shape: Shape | None = None) -> None:
        self._band = band
        self._shape = shape or Shape()
        self.segments: list[Segment] = []
        self.end = self.fresh = 1
        self.expired = self.purged = 0
        self.stored = np.zeros(MAX_UNITS, np.int64)
        self.dead_batch: pa.RecordBatch | None = None
        self.fingerprint = 0
        self.origin = 0  # positions less this are the places of the index
        self.index: TupleIndex = self._new_index()
        self._table: SegmentTable | None = None

    @staticmethod
    def of(batches: Batches, dead: Batches, layout: Mapping[str, Any], band: KeyBand, shape: Shape) -> TupleStore:
        """Restore from a state's batches and scalars."""
        store = TupleStore(band, shape)
        store.segments = [Segment(first, batch) for first, batch in zip(layout["segments"], batches, strict=True)]
        store.end, store.fresh = layout["end"], layout["fresh"]
        store.expired, store.purged = layout.get("expired", (0, 0))
        store.fingerprint = int(layout["fingerprint"], 16)
        for unit, count in layout["stored"].items():
            store.stored[int(unit)] = count
        if dead:
            (store.dead_batch,) = dead
            store._mark_dead(store.dead_batch.column(0).to_numpy())
        store._build_index(layout["runs"])
        return store

    @property
    def layout(self) -> dict[str, Any]:
        """The values for a state's scalars."""
        return {
            "segments": [segment.first for segment in self.segments],
            "end": self.end,
            "fresh": self.fresh,
            "runs": [first + self.origin for first in self.index.runs],
            "stored": {str(unit): int(self.stored[unit]) for unit in np.flatnonzero(self.stored)},
            "fingerprint": f"{self.fingerprint:016x}",
            **({"expired": [self.expired, self.purged]} if self.expired else {}),
        }

    @property
    def batches(self) -> Batches:
        """The segments for a state; unchanged ones are the same objects."""
        return tuple(segment.batch for segment in self.segments)

    @property
    def dead(self) -> Batches:
        """The positions of dropped rows for a state."""
        return () if self.dead_batch is None else (self.dead_batch,)

    def has_state(self, layout: Mapping[str, Any], batches: Batches, dead: Batches) -> bool:
        """Return whether this store is the one of a state; then its batches are replaced by those of the state."""
        if layout != self.layout or len(batches) != len(self.segments) or len(dead) != len(self.dead):
            return False
        if any(len(segment) != batch.num_rows for segment, batch in zip(self.segments, batches, strict=True)):
            return False
        for segment, batch in zip(self.segments, batches, strict=True):
            if batch is not segment.batch:
                segment.replace_batch(batch)
                self._table = None
        self.dead_batch = dead[0] if dead else None
        return True

    def __len__(self) -> int:
        return int(self.stored.sum())

    @property
    def bytes(self) -> int:
        """Bytes of all values without those of dropped rows, which count by the mean of their segment."""
        return sum(each.bytes * (len(each) - each.dead_rows) // len(each) for each in self.segments)

    @property
    def table(self) -> SegmentTable:
        """The segments, for loops."""
        if self._table is None:
            self._table = SegmentTable(self.segments, self.origin, self.end)
        return self._table

    @property
    def fresh_place(self) -> int:
        """The place of the first row of the current router round."""
        return self.fresh - self.origin

    def append(self, batch: pa.RecordBatch | None) -> None:
        """Append tuples, which need not be sorted."""
        if batch is None or not batch.num_rows:
            return
        segment = Segment(self.end, batch)
        self.stored += np.bincount(segment.units, minlength=MAX_UNITS)
        self._append(segment)

    def begin_round(self) -> None:
        """Consider the rows that are appended from here on as of the current router round."""
        self.fresh = self.end

    def expire(self, expired: int, *, purging: bool) -> None:
        """Let tuples below `expired` match no probes, and, with `purging`, remove them as segments allow.

        Expired tuples stay expired. While a migration is copied and not dropped yet, purging is not allowed, since
        exactly the copied tuples must be dropped.
        """
        self.expired = max(expired, self.expired)
        if not purging or self.expired == self.purged:
            return
        self.purged = self.expired
        while self.segments and self.segments[0].greatest < self.purged:
            self._forget(self.segments.pop(0))
        self.index.remove_until(self._start - 1 - self.origin)
        for segment in [each for each in self.segments if each.greatest < self.purged]:
            self._forget(segment)
            self._remove(segment, segment.live_rows)
        self._table = None
        self._update_dead()

    def settle(self) -> None:
        """Merge segments and runs after a router round, and clean a segment if there are many dropped rows."""
        self._clean()
        self._merge()
        self.index.settle()
        self.fresh = self.end

    def extract(self, cuts: Sequence[MigrationCut]) -> list[list[pa.RecordBatch]]:
        """Return the tuples of each migration as at most one batch, in one pass over the store, without purged ones."""
        selection = Selection(cuts)
        batches_by_cut: list[list[pa.RecordBatch]] = [[] for _ in cuts]
        for segment in self.segments:
            rows, which = selection.live_rows(segment)
            is_unpurged = segment.seqs[rows] >= self.purged
            rows, which = rows[is_unpurged], which[is_unpurged]
            if rows.size:
                batch = segment.batch.take(pa.array(rows[sort_order(which)]))
                ends = np.cumsum(np.bincount(which, minlength=len(cuts)))
                for index, end in enumerate(ends.tolist()):
                    if count := int(end - ends[index - 1] if index else end):
                        batches_by_cut[index].append(batch.slice(end - count, count))
        return [[pa.concat_batches(batches)] if batches else [] for batches in batches_by_cut]

    def drop(self, cuts: Sequence[MigrationCut]) -> list[int]:
        """Drop the tuples of some migrations in one pass over the store; returns the count of each.

        Purged tuples are not counted, whether or not they are already removed.
        """
        selection, counts = Selection(cuts), np.zeros(len(cuts), np.int64)
        for segment in list(self.segments):
            rows, which = selection.live_rows(segment)
            counts += np.bincount(which[segment.seqs[rows] >= self.purged], minlength=len(cuts))
            if rows.size:
                self.stored -= np.bincount(segment.units[rows], minlength=MAX_UNITS)
                self._remove(segment, rows)
        self._update_dead()
        return [int(count) for count in counts]

    @property
    def _start(self) -> int:
        return self.segments[0].first if self.segments else self.end

    def _new_index(self) -> TupleIndex:
        return HashIndex() if self._band.is_equality else SortedIndex(self._band)

    def _build_index(self, runs: Sequence[int]) -> None:
        self.origin, self._table = self._start - 1, None
        self.index = self._new_index()
        if isinstance(self.index, SortedIndex):
            rows = [segment.live_rows for segment in self.segments]
            parts = list(zip(self.segments, rows, strict=True))
            keys = np.concatenate([np.empty(0, np.int64), *(segment.keys[own] for segment, own in parts)])
            places = np.concatenate([np.empty(0, np.int64), *(own + segment.first for segment, own in parts)])
            self.index.rebuild([first - self.origin for first in runs], keys, places - self.origin)
            return
        self.index.remove_until(0)
        for segment in self.segments:
            self.index.append(segment.keys, segment.first - self.origin)
            if segment.dead is not None:
                dead = np.flatnonzero(segment.dead)
                self.index.remove(segment.keys[dead], dead + (segment.first - self.origin))

    def _append(self, segment: Segment) -> None:
        if segment.end - self.origin >= MAX_PLACES:
            self._build_index([first + self.origin for first in self.index.runs])
        self._note(segment.keys, segment.seqs)
        self.index.append(segment.keys, segment.first - self.origin)
        self.segments.append(segment)
        self.end, self._table = segment.end, None

    def _remove(self, segment: Segment, rows: Ints) -> None:
        """Remove live rows from the index, and mark them as dead; a segment without others is removed."""
        self._note(rows + segment.first)
        self.index.remove(segment.keys[rows], rows + (segment.first - self.origin))
        segment.mark_dead(rows)
        if segment.dead_rows == len(segment):
            self.segments.remove(segment)
        self._table = None

    def _forget(self, segment: Segment) -> None:
        """Do not count the tuples of a segment any more."""
        self._note(np.array([segment.first]))
        self.stored -= np.bincount(segment.units[segment.live_rows], minlength=MAX_UNITS)

    def _mark_dead(self, positions: Ints) -> None:
        for segment in self.segments:
            first, end = np.searchsorted(positions, [segment.first, segment.end])
            if first < end:
                segment.mark_dead(positions[first:end] - segment.first)

    def _update_dead(self) -> None:
        """Write the positions of dropped rows, if they have changed."""
        positions = np.concatenate([np.empty(0, np.int64), *(each.dead_positions for each in self.segments)])
        if self.dead_batch is not None and np.array_equal(self.dead_batch.column(0).to_numpy(), positions):
            return
        self.dead_batch = pa.RecordBatch.from_arrays([pa.array(positions)], ["position"]) if positions.size else None

    def _clean(self) -> None:
        """Rewrite the segment with most garbage if there is much of it; or the first one, if places are used up."""
        if not self.segments:
            return
        garbage = [each.garbage_rows(self.purged) for each in self.segments]
        rows = [len(each) for each in self.segments]
        live = sum(rows) - sum(garbage)
        if sum(garbage) * self._shape.garbage > live:
            self._rewrite([self.segments[int(np.argmax(np.array(garbage) / np.array(rows)))]])
        elif self.end - self._start > 2 * live + _SPARE_PLACES:
            self._rewrite(self.segments[:1])

    def _rewrite(self, segments: Sequence[Segment]) -> None:
        """Append the remaining rows of segments once more, as one, and remove the segments."""
        batches = []
        for segment in segments:
            remaining = segment.live_rows
            unpurged = remaining[segment.seqs[remaining] >= self.purged]
            batches.append(segment.batch.take(pa.array(unpurged)))
            self.stored -= np.bincount(segment.units[remaining], minlength=MAX_UNITS)
            self._remove(segment, remaining)
        self.append(pa.concat_batches(batches))
        self.index.remove_until(self._start - 1 - self.origin)
        self._update_dead()

    def _merge(self) -> None:
        """Merge the newest segments, as far as each is not larger than all newer ones together."""
        count = total = 0
        for segment in reversed(self.segments):
            most = self._shape.segment
            if segment.bytes >= most or total >= most or (count and segment.bytes > total):
                break
            count, total = count + 1, total + segment.bytes
        if count < self._shape.fanout:
            return
        segments = self.segments[-count:]
        if all(one.end == other.first for one, other in pairwise(segments)):
            self.segments[-count:] = [concat_segments(segments)]
            self._table = None
        else:
            self._rewrite(segments)

    def _note(self, *values: npt.NDArray[Any]) -> None:
        """Mix a change into the fingerprint, by which a store in memory is compared with a state."""
        for each in values:
            self.fingerprint = xxhash.xxh3_64_intdigest(np.ascontiguousarray(each).data, seed=self.fingerprint)
