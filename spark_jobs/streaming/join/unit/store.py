"""The stored tuples of one side of a unit: young runs, and levels of segments below them, as in an LSM tree.

What came last lies in a few runs, which are merged at once. When they have grown large they go on as a level of
segments, and are merged into the levels below step by step. Pieces that have left are hidden at once. Where tuples are
kept for a while only, segments go whole once all of their tuples have expired, and merges leave out those that have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from springline.persistence.model.codec import from_plain, plain
from springline.spark_jobs.streaming.join.kernels import order_of
from springline.spark_jobs.streaming.join.unit.compaction import Level, Levels, Shape
from springline.spark_jobs.streaming.join.unit.migration_select import Cut, Selection
from springline.spark_jobs.streaming.join.unit.runs import Run
from springline.spark_jobs.streaming.join.unit.segments import Segment, both, cut, whole_of

_TIMES = 4  # a young run is merged with the next one while it is at most so many times as long
_SHARE = 8  # a segment is written anew when one in so many of its rows is hidden,
_SWITCHES = 16  # or when rows of it have been hidden for so many switches

Known = Mapping[int, Run]  # runs that were seen before, by the identity of their batches


@dataclass(frozen=True)
class Store:
    """Segments of one side; nothing changes in place.

    `cuts` are those that hide tuples still, of so many `switches`; `arrived`: bytes that came since it was settled.
    Tuples with a seq below `expired` answer nothing; those below `purged`, which is that or less, vanish.
    """

    young: Level = ()
    deep: Levels = field(default_factory=Levels)
    cuts: tuple[Cut, ...] = ()
    switches: int = 0
    arrived: int = 0
    expired: int = 0
    purged: int = 0
    shape: Shape = field(default_factory=Shape)

    @staticmethod
    def of(
        batches: tuple[pa.RecordBatch, ...], told: Mapping[str, Any] | None, known: Known, shape: Shape | None = None
    ) -> Store:
        """From a state's batches and scalars."""
        shape = shape or Shape()
        if told is None:
            return Store(shape=shape)
        runs = (known.get(id(batch)) or Run(batch) for batch in batches)
        parts = {int(at): part for at, part in told["parts"].items()}
        segments = iter([Segment(run, *parts.get(at, ())) for at, run in enumerate(runs)])

        def level(count: int) -> Level:
            return tuple(next(segments) for _ in range(count))

        young = level(told["young"])
        waiting, levels = (tuple(level(count) for count in told[name]) for name in ("waiting", "levels"))
        cursors = tuple(None if cursor is None else (cursor[0], cursor[1]) for cursor in told["cursors"])
        cuts = from_plain(tuple[Cut, ...], told["cuts"], "the store of a unit of a join")
        expired, purged = told.get("expired", (0, 0))
        deep = Levels(waiting, levels, cursors)
        return Store(young, deep, cuts, told["switches"], told["arrived"], expired, purged, shape)

    @cached_property
    def segments(self) -> Level:
        """All of them; which they are changes only where tuples come, leave, or settle."""
        return (*self.young, *self.deep.segments)

    @property
    def batches(self) -> tuple[pa.RecordBatch, ...]:
        """For a state; a run that was there before is the same object."""
        return tuple(segment.run.batch for segment in self.segments)

    @property
    def told(self) -> dict[str, Any]:
        """For a state's scalars."""
        return {
            "young": len(self.young),
            "waiting": [len(level) for level in self.deep.waiting],
            "levels": [len(level) for level in self.deep.levels],
            "cursors": [None if cursor is None else list(cursor) for cursor in self.deep.cursors],
            "parts": {str(at): part for at, segment in enumerate(self.segments) if (part := segment.told())},
            "cuts": plain(self.cuts),
            "switches": self.switches,
            "arrived": self.arrived,
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
        """What is hidden, of segments that were there when it was, and what is purged."""
        return Selection(self.cuts, self.purged)

    def plus(self, run: Run | None) -> Store:
        """With one more run, not merged yet."""
        if run is None:
            return self
        return replace(self, young=(*self.young, Segment(run)), arrived=self.arrived + run.bytes)

    def taking(self, run: Run | None) -> Store:
        """With tuples that came from another unit, which are not a round's: they settle with what comes later."""
        left = None if run is None else whole_of([Segment(run)], self.hiding)
        return replace(self, deep=self.deep.with_waiting(cut(left, self.shape.segment)))

    def expiring(self, before: int, *, purging: bool) -> Store:
        """With tuples of seqs below `before` answering nothing from now on, and, with `purging`, on their way out.

        What had expired stays so. While a piece is copied and not dropped yet, there must be no purging: all that was
        copied is to be dropped.
        """
        before = max(before, self.expired)
        purged = before if purging else self.purged
        if (before, purged) == (self.expired, self.purged):
            return self
        store = replace(self, expired=before, purged=purged)
        return store._replaced([each if each.run.greatest >= purged else None for each in self.segments])._forgetting()

    def settled(self) -> Store:
        """With young runs merged, and deeper ones as far as a round allows."""
        young, deep = self._rejuvenated()
        done = 0
        while done <= self.shape.work * self.arrived or not done:
            deep, read = deep.advanced(self.shape, self.hiding)
            if not read:
                break
            done += read
        store = replace(self, young=young, deep=deep, arrived=0)
        return (store if done >= self.shape.segment else store._swept())._forgetting()

    def extract(self, cuts: Sequence[Cut]) -> list[list[pa.RecordBatch]]:
        """The tuples of each piece as one batch, or none, from one pass over the store; not those that are purged."""
        wanted = Selection(cuts)
        found: list[list[pa.RecordBatch]] = [[] for _ in cuts]
        for segment in self.segments:
            rows, which = segment.found(wanted, self.hiding)
            if (lasting := segment.lasting(rows, self.purged)) is not None:
                rows, which = rows[lasting], which[lasting]
            if rows.size:
                batch = segment.run.batch.take(pa.array(rows[order_of(which)]))
                ends = np.cumsum(np.bincount(which, minlength=len(cuts)))
                for at, end in enumerate(ends.tolist()):
                    if count := int(end - ends[at - 1] if at else end):
                        found[at].append(batch.slice(end - count, count).replace_schema_metadata(None))
        return [[pa.concat_batches(batches)] if batches else [] for batches in found]

    def without(self, cuts: Sequence[Cut]) -> tuple[Store, list[int]]:
        """Without the tuples of some pieces, and how many each had, from one pass over the store.

        Those that are purged are not counted, whether they have vanished yet or not.
        """
        number = self.switches + 1
        cuts = [replace(each, number=number) for each in cuts]
        wanted, counts = Selection(cuts), np.zeros(len(cuts), np.int64)
        now: list[Segment | None] = []
        for segment in self.segments:
            rows, which = segment.found(wanted, self.hiding)
            lasting = segment.lasting(rows, self.purged)
            counts += np.bincount(which if lasting is None else which[lasting], minlength=len(cuts))
            if rows.size == len(segment):
                now.append(None)
            else:
                now.append(segment.hiding(rows, number) if rows.size else segment)
        if not counts.any():
            return self, counts.tolist()
        return replace(self._replaced(now), cuts=(*self.cuts, *cuts), switches=number)._forgetting(), counts.tolist()

    def _rejuvenated(self) -> tuple[Level, Levels]:
        """Young runs merged; of a cascade only the last run is left, so only that is written."""
        young = sorted(self.young, key=len, reverse=True)
        large = sum(segment.bytes for segment in young) > self.shape.young
        while len(young) > 1 and (large or len(young[-2]) <= _TIMES * len(young[-1])):
            newer, older = (whole_of([young.pop()], self.hiding) for _ in range(2))
            if (run := both(older, newer)) is not None:
                young.append(Segment(run))
        if not large:
            return tuple(young), self.deep
        level = cut(whole_of(young, self.hiding), self.shape.segment)
        return (), self.deep.with_waiting(level)

    def _swept(self) -> Store:
        """With the segment written anew of which the most is hidden, if that is much, or has been for long."""
        due = [
            (segment.hidden / len(segment.run), at)
            for at, segment in enumerate(self.segments)
            if segment.hidden * _SHARE >= len(segment.run)
            or (segment.hidden and self.switches - segment.since >= _SWITCHES)
        ]
        if not due:
            return self
        _, at = max(due)
        run = whole_of([self.segments[at]], self.hiding)
        now: list[Segment | None] = list(self.segments)
        now[at] = None if run is None else Segment(run)
        return self._replaced(now)

    def _forgetting(self) -> Store:
        """Without cuts that hide nothing any more."""
        since = min((segment.since for segment in self.segments if segment.hidden), default=self.switches + 1)
        if all(each.number >= since for each in self.cuts):
            return self
        return replace(self, cuts=tuple(each for each in self.cuts if each.number >= since))

    def _replaced(self, now: Sequence[Segment | None]) -> Store:
        young = tuple(segment for segment in now[: len(self.young)] if segment is not None)
        return replace(self, young=young, deep=self.deep.replaced(now[len(self.young) :]))
