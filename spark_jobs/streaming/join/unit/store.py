"""The stored tuples of one side of a unit: young runs, and levels of segments below them, as in an LSM tree.

The newest tuples are in a few runs, which are merged eagerly. When these exceed their size, they become a level of
segments, and are merged into the levels below step by step. Dropped migrations are hidden immediately. With a limited
retention, segments are removed as a whole once all of their tuples have expired, and merges leave out expired tuples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from springline.persistence.model.codec import from_json_value, to_json_value
from springline.spark_jobs.streaming.join.kernels import sort_order
from springline.spark_jobs.streaming.join.unit.compaction import Level, Levels, Shape
from springline.spark_jobs.streaming.join.unit.migration_select import MigrationCut, Selection
from springline.spark_jobs.streaming.join.unit.segments import Segment, cut_run, merge_optional, visible_run
from springline.spark_jobs.streaming.join.unit.sorted_runs import SortedRun

_MERGE_FACTOR = 4  # a young run is merged with the next one while it is at most this many times as long
_HIDDEN_SHARE = 8  # a segment is rewritten when one in this many of its rows is hidden,
_MAX_CUTOVERS = 16  # or when rows of it have been hidden for this many cutovers

CachedRuns = Mapping[int, SortedRun]  # earlier runs, by the identity of their batches


@dataclass(frozen=True)
class TupleStore:
    """The segments of one side; immutable.

    `cuts` are those that still hide tuples, out of `cutover_count`; `arrived_bytes` are the bytes added since the last
    `settle`. Tuples with a seq below `expired` match no probes; those below `purged`, which is at most `expired`, are
    removed.
    """

    young: Level = ()
    deep: Levels = field(default_factory=Levels)
    cuts: tuple[MigrationCut, ...] = ()
    cutover_count: int = 0
    arrived_bytes: int = 0
    expired: int = 0
    purged: int = 0
    shape: Shape = field(default_factory=Shape)

    @staticmethod
    def of(
        batches: tuple[pa.RecordBatch, ...],
        layout: Mapping[str, Any] | None,
        cached_runs: CachedRuns,
        shape: Shape | None = None,
    ) -> TupleStore:
        """Restore from a state's batches and scalars."""
        shape = shape or Shape()
        if layout is None:
            return TupleStore(shape=shape)
        runs = (cached_runs.get(id(batch)) or SortedRun(batch) for batch in batches)
        parts = {int(index): part for index, part in layout["parts"].items()}
        segments = iter([Segment(run, *parts.get(at, ())) for at, run in enumerate(runs)])

        def level(count: int) -> Level:
            return tuple(next(segments) for _ in range(count))

        young = level(layout["unmerged"])
        incoming, levels = (tuple(level(count) for count in layout[name]) for name in ("incoming", "levels"))
        cursors = tuple(None if cursor is None else (cursor[0], cursor[1]) for cursor in layout["cursors"])
        cuts = from_json_value(tuple[MigrationCut, ...], layout["cuts"], "the store of a unit of a join")
        expired, purged = layout.get("expired", (0, 0))
        deep = Levels(incoming, levels, cursors)
        return TupleStore(young, deep, cuts, layout["switches"], layout["arrived"], expired, purged, shape)

    @cached_property
    def segments(self) -> Level:
        """All segments; they change only when tuples are added, removed or settled."""
        return (*self.young, *self.deep.segments)

    @property
    def batches(self) -> tuple[pa.RecordBatch, ...]:
        """The batches for a state; unchanged runs are the same objects."""
        return tuple(segment.run.batch for segment in self.segments)

    @property
    def layout(self) -> dict[str, Any]:
        """The values for a state's scalars."""
        return {
            "unmerged": len(self.young),
            "incoming": [len(level) for level in self.deep.incoming],
            "levels": [len(level) for level in self.deep.levels],
            "cursors": [None if cursor is None else list(cursor) for cursor in self.deep.cursors],
            "parts": {str(index): part for index, segment in enumerate(self.segments) if (part := segment.layout())},
            "cuts": to_json_value(self.cuts),
            "switches": self.cutover_count,
            "arrived": self.arrived_bytes,
            **({"expired": [self.expired, self.purged]} if self.expired else {}),
        }

    def __len__(self) -> int:
        return sum(len(segment) for segment in self.segments)

    @property
    def bytes(self) -> int:
        """Bytes of all values that are not hidden."""
        return sum(segment.bytes for segment in self.segments)

    @cached_property
    def hiding(self) -> Selection:
        """The selection of hidden tuples, in segments that existed at the cut, and of purged ones."""
        return Selection(self.cuts, self.purged)

    def with_run(self, run: SortedRun | None) -> TupleStore:
        """Return the store with one more run, not merged yet."""
        if run is None:
            return self
        return replace(self, young=(*self.young, Segment(run)), arrived_bytes=self.arrived_bytes + run.bytes)

    def with_copy(self, run: SortedRun | None) -> TupleStore:
        """Return the store with tuples from another unit; they do not count for the round, and are merged later."""
        visible = None if run is None else visible_run([Segment(run)], self.hiding)
        return replace(self, deep=self.deep.with_incoming(cut_run(visible, self.shape.segment)))

    def expire(self, expired: int, *, purging: bool) -> TupleStore:
        """Return the store with tuples below `expired` matching no probes, and, with `purging`, to be removed.

        Expired tuples stay expired. While a migration is copied and not dropped yet, purging is not allowed, since
        exactly the copied tuples must be dropped.
        """
        expired = max(expired, self.expired)
        purged = expired if purging else self.purged
        if (expired, purged) == (self.expired, self.purged):
            return self
        store = replace(self, expired=expired, purged=purged)
        return store._with_segments(
            [each if each.run.greatest >= purged else None for each in self.segments]
        )._without_idle_cuts()

    def settle(self) -> TupleStore:
        """Return the store with young runs merged, and deeper ones as far as a round's limit allows."""
        young, deep = self._merge_young()
        bytes_read = 0
        while bytes_read <= self.shape.work * self.arrived_bytes or not bytes_read:
            deep, read = deep.advance(self.shape, self.hiding)
            if not read:
                break
            bytes_read += read
        store = replace(self, young=young, deep=deep, arrived_bytes=0)
        return (store if bytes_read >= self.shape.segment else store._sweep())._without_idle_cuts()

    def extract(self, cuts: Sequence[MigrationCut]) -> list[list[pa.RecordBatch]]:
        """Return the tuples of each migration as at most one batch, in one pass over the store, without purged ones."""
        selection = Selection(cuts)
        batches_by_cut: list[list[pa.RecordBatch]] = [[] for _ in cuts]
        for segment in self.segments:
            rows, which = segment.find_rows(selection, self.hiding)
            if (is_unpurged := segment.unpurged_mask(rows, self.purged)) is not None:
                rows, which = rows[is_unpurged], which[is_unpurged]
            if rows.size:
                batch = segment.run.batch.take(pa.array(rows[sort_order(which)]))
                ends = np.cumsum(np.bincount(which, minlength=len(cuts)))
                for index, end in enumerate(ends.tolist()):
                    if count := int(end - ends[index - 1] if index else end):
                        batches_by_cut[index].append(batch.slice(end - count, count).replace_schema_metadata(None))
        return [[pa.concat_batches(batches)] if batches else [] for batches in batches_by_cut]

    def without(self, cuts: Sequence[MigrationCut]) -> tuple[TupleStore, list[int]]:
        """Return the store without the tuples of some migrations, and the count of each, in one pass over the store.

        Purged tuples are not counted, whether or not they are already removed.
        """
        number = self.cutover_count + 1
        cuts = [replace(each, number=number) for each in cuts]
        selection, counts = Selection(cuts), np.zeros(len(cuts), np.int64)
        segments: list[Segment | None] = []
        for segment in self.segments:
            rows, which = segment.find_rows(selection, self.hiding)
            is_unpurged = segment.unpurged_mask(rows, self.purged)
            counts += np.bincount(which if is_unpurged is None else which[is_unpurged], minlength=len(cuts))
            if rows.size == len(segment):
                segments.append(None)
            else:
                segments.append(segment.with_hidden(rows, number) if rows.size else segment)
        if not counts.any():
            return self, counts.tolist()
        return replace(
            self._with_segments(segments), cuts=(*self.cuts, *cuts), cutover_count=number
        )._without_idle_cuts(), counts.tolist()

    def _merge_young(self) -> tuple[Level, Levels]:
        """Merge young runs; of a cascade only the last run is kept, so only that is written."""
        young = sorted(self.young, key=len, reverse=True)
        large = sum(segment.bytes for segment in young) > self.shape.young
        while len(young) > 1 and (large or len(young[-2]) <= _MERGE_FACTOR * len(young[-1])):
            newer, older = (visible_run([young.pop()], self.hiding) for _ in range(2))
            if (run := merge_optional(older, newer)) is not None:
                young.append(Segment(run))
        if not large:
            return tuple(young), self.deep
        level = cut_run(visible_run(young, self.hiding), self.shape.segment)
        return (), self.deep.with_incoming(level)

    def _sweep(self) -> TupleStore:
        """Rewrite the segment with the greatest share of hidden rows, if that is large or some are hidden for long."""
        candidates = [
            (segment.hidden / len(segment.run), index)
            for index, segment in enumerate(self.segments)
            if segment.hidden * _HIDDEN_SHARE >= len(segment.run)
            or (segment.hidden and self.cutover_count - segment.since >= _MAX_CUTOVERS)
        ]
        if not candidates:
            return self
        _, at = max(candidates)
        run = visible_run([self.segments[at]], self.hiding)
        segments: list[Segment | None] = list(self.segments)
        segments[at] = None if run is None else Segment(run)
        return self._with_segments(segments)

    def _without_idle_cuts(self) -> TupleStore:
        """Return the store without cuts that no longer hide anything."""
        since = min((segment.since for segment in self.segments if segment.hidden), default=self.cutover_count + 1)
        if all(each.number >= since for each in self.cuts):
            return self
        return replace(self, cuts=tuple(each for each in self.cuts if each.number >= since))

    def _with_segments(self, segments: Sequence[Segment | None]) -> TupleStore:
        young = tuple(segment for segment in segments[: len(self.young)] if segment is not None)
        return replace(self, young=young, deep=self.deep.replaced(segments[len(self.young) :]))
