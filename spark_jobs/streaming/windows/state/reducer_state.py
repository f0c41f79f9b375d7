"""What a reducer holds: runs of slices, rows that wait for their place, totals of landmarks, and marks of what is done.

runs    <cube>           slices of time, or panes of rows
        <cube>-rows      rows that wait
        <cube>-<since>   the total of a landmark, as one slice
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.runtime.step import DeadLetter, State
from springline.spark_jobs.streaming.sources.schema import Stream, to_micros
from springline.spark_jobs.streaming.sql.windowing import Hop, Landmark
from springline.spark_jobs.streaming.windows.aggregation.partials import column, merge
from springline.spark_jobs.streaming.windows.coverage import Whole
from springline.spark_jobs.streaming.windows.errors import QueryError, computing
from springline.spark_jobs.streaming.windows.group_messages import Origin, failed_letter, late_letter
from springline.spark_jobs.streaming.windows.multi_query import Cube
from springline.spark_jobs.streaming.windows.query import Query
from springline.spark_jobs.streaming.windows.state.result_rows import finished
from springline.spark_jobs.streaming.windows.state.row_order import numbered, settled
from springline.spark_jobs.streaming.windows.state.slices import Runs, between, pushed, slices_in, window
from springline.spark_jobs.streaming.windows.state.triggers import (
    Bounds,
    due,
    floor_of,
    landmark_begin,
    needed_from,
)
from springline.spark_jobs.streaming.windows.state.watermarks import EventTime


class Holding:
    """The state of one unit, as a round changes it; `counts` are those of the round.

    The rows of its groups came from the topic `source`.
    """

    def __init__(self, runs: Mapping[str, Runs], scalars: Mapping[str, Any], counts: Counter[str], source: str) -> None:
        self.runs = dict(runs)
        self.dead: list[DeadLetter] = []
        self._counts = counts
        self._source = source
        self._cubes: set[str] = set(scalars.get("cubes", ()))
        self._numbered: dict[str, int] = dict(scalars.get("numbered", {}))
        self._floors: dict[str, int] = dict(scalars.get("floors", {}))
        self._marks: dict[str, int | None] = dict(scalars.get("marks", {}))
        self._advanced: dict[
            str, dict[int, pa.RecordBatch]
        ] = {}  # totals of landmarks by the ends reached in this round
        self._totals: dict[str, list[int]] = dict(scalars.get("totals", {}))  # [begin, end] of what is in them
        self._landmarks: dict[str, str] = dict(scalars.get("landmarks", {}))  # the total of each query

    @staticmethod
    def of(state: State, counts: Counter[str], source: str) -> Holding:
        """From the state of the round before."""
        return Holding(state.runs, state.scalars, counts, source)

    def as_json(self) -> dict[str, Any]:
        """For the state of the next round."""
        named: dict[str, dict[str, Any]] = {
            "numbered": self._numbered,
            "floors": self._floors,
            "marks": self._marks,
            "totals": self._totals,
            "landmarks": self._landmarks,
        }
        return {"cubes": sorted(self._cubes), **{name: dict(sorted(held.items())) for name, held in named.items()}}

    def adopt(self, cube: Cube, time: EventTime) -> None:
        """Begin with a cube; what came of it before, when it was not wanted, is not here."""
        if cube.id not in self._cubes:
            self._cubes.add(cube.id)
            if time.highs and cube.width:
                self._floors[cube.id] = max(time.highs.values()) + 1

    def store(self, name: str, fresh: Sequence[pa.RecordBatch]) -> None:
        """Keep partials of a cube that this stage does not know yet."""
        self._cubes.add(name)
        fresh = [batch.replace_schema_metadata(None) for batch in fresh]
        rows = [batch for batch in fresh if "time" in batch.schema.names]
        self._put(f"{name}-rows", (*self.runs.get(f"{name}-rows", ()), *rows))
        self._put(name, pushed(self.runs.get(name, ()), merge([batch for batch in fresh if batch not in rows])))

    def take(self, cube: Cube, fresh: Sequence[pa.RecordBatch], closed: int | None) -> None:
        """Take in partials as mappers sent them, without those that are late."""
        self._counts["partials"] += sum(batch.num_rows for batch in fresh)
        fresh = [self._on_time(cube, batch, closed) for batch in fresh]
        fresh = [batch for batch in fresh if batch.num_rows]
        name = cube.id if cube.width else f"{cube.id}-rows"
        held = self.runs.get(name, ())
        self._put(name, pushed(held, merge(fresh), self._floors.get(cube.id)) if cube.width else (*held, *fresh))

    def emit(
        self, cube: Cube, asked: Mapping[Query, Whole | None], closed: int | None, before: int | None
    ) -> list[pa.RecordBatch]:
        """The results of the windows that are due, of queries and which of their windows are whole.

        `closed` is how far event time is, `before` how far it was in the round before.
        """
        limits = {query.name: _limit(cube, span, closed) for query, span in asked.items()}
        if not cube.width:
            before = self._numbered.get(cube.id, 0)
            least = min((limit for limit in limits.values() if limit is not None), default=None)
            limits = dict.fromkeys(limits, self._number(cube, least if None not in limits.values() else None))
        found: list[pa.RecordBatch] = []
        slices = slices_in(self.runs.get(cube.id, ()))
        windows: dict[tuple[int, int], pa.RecordBatch | None] = {}
        for query, span in asked.items():
            mark, limit = self._marks.setdefault(_mark(cube, query.name), before), limits[query.name]
            after = span.after if span is not None and cube.width else None
            bounds = Bounds(mark, limit, after, self._floors.get(cube.id))
            keys = [f"k{index}" for index in range(len(query.keys))]
            if isinstance(query.window, Landmark):
                found += self._landmark(cube, query, query.window, slices, bounds)
            elif query.window is not None:
                for begin, end in due(query.window, slices, bounds):
                    if (begin, end) not in windows:
                        windows[begin, end] = window(self.runs.get(cube.id, ()), begin, end)
                    groups = windows[begin, end]
                    if groups is not None:
                        shown = begin if isinstance(query.window, Hop) else max(begin, 0)
                        found += self._finished(query, groups, keys, shown, end)
            if limit is not None:
                self._marks[_mark(cube, query.name)] = limit if mark is None else max(mark, limit)
        self._counts["windows"] += len(found)
        return found

    def trim(self, cube: Cube, queries: Iterable[Query], closed: int | None, stream: Stream) -> None:
        """Let slices go that neither windows nor ad hoc queries need."""
        needs = []
        for query in queries:
            mark = self._marks.get(_mark(cube, query.name))
            if isinstance(query.window, Landmark):
                total = self._totals.get(self._landmarks.get(query.name, ""))
                mark = total[1] if total is not None else query.window.since
            needs.append(needed_from(query.window, mark) if query.window is not None else None)
        retain = to_micros(stream.retain)
        retained_from = closed - retain if cube.width and retain and closed is not None else None
        floor = floor_of(needs, self._floors.get(cube.id), retained_from)
        if floor is not None:
            self._floors[cube.id] = floor
            self._put(cube.id, pushed(self.runs.get(cube.id, ()), None, floor))

    def forget(self, queries: Collection[str], cubes: Collection[str]) -> None:
        """Let go what belongs to queries and cubes that are not any more."""
        self.runs = {name: runs for name, runs in self.runs.items() if name.partition("-")[0] in cubes}
        self._cubes &= set(cubes)
        self._marks = {name: mark for name, mark in self._marks.items() if name.partition(" ")[0] in queries}
        self._landmarks = {query: name for query, name in self._landmarks.items() if query in queries}
        self._totals = {name: total for name, total in self._totals.items() if name in self._landmarks.values()}
        self.runs = {name: runs for name, runs in self.runs.items() if name in self._totals or name.count("-") < 2}
        for held in (self._numbered, self._floors):
            for name in [name for name in held if name not in cubes]:
                del held[name]

    def _landmark(
        self, cube: Cube, query: Query, landmark: Landmark, slices: Sequence[int], bounds: Bounds
    ) -> list[pa.RecordBatch]:
        """The total since the landmark at the end of each interval that is due."""
        name = f"{cube.id}-{landmark.since}-{'all' if bounds.after is None else bounds.after}"
        if bounds.limit is not None:
            self._landmarks[query.name] = name
        if name not in self._advanced:
            self._advanced[name] = self._advance(name, cube, landmark, slices, bounds)
        keys = [f"k{index}" for index in range(len(query.keys))]
        totals = self._advanced[name].items()
        return [
            batch
            for end, total in totals
            if bounds.mark is None or end > bounds.mark
            for batch in self._finished(query, total, keys, self._totals[name][0], end)
        ]

    def _finished(
        self, query: Query, groups: pa.RecordBatch, keys: list[str], begin: int, end: int
    ) -> list[pa.RecordBatch]:
        """The results of one window, but for groups that the query cannot be computed for: those are dead letters."""
        try:
            with computing([query.name]):
                return [finished(query, groups, keys, begin, end)]
        except QueryError as error:
            if groups.num_rows > 1:
                half = groups.num_rows // 2
                halves = (groups.slice(0, half), groups.slice(half))
                return [batch for each in halves for batch in self._finished(query, each, keys, begin, end)]
            self._counts["failed"] += 1
            self.dead.append(failed_letter(groups, str(error), begin, end))
            return []

    def _advance(
        self, name: str, cube: Cube, landmark: Landmark, slices: Sequence[int], bounds: Bounds
    ) -> dict[int, pa.RecordBatch]:
        """Add the slices that are closed to the total, which is kept; gives the groups that changed, by the end."""
        first = landmark_begin(landmark, bounds.after, bounds.floor)
        begin, until = self._totals.get(name) or (first, first)
        found: dict[int, pa.RecordBatch] = {}
        for at in slices:
            end = at + cube.width
            if at >= until and bounds.limit is not None and end <= bounds.limit:
                fresh = merge([between(run, at, end) for run in self.runs[cube.id]])
                assert fresh is not None  # slices are those that hold something
                total = merge([*self.runs.get(name, ()), fresh], into=begin)
                assert total is not None
                changed = np.isin(column(total, "hash"), column(fresh, "hash"))
                found[end] = total.filter(pa.array(changed))
                self._put(name, (total,))
                self._totals[name] = [begin, end]
        return found

    def _number(self, cube: Cube, before: int | None) -> int:
        """Number the rows that are certain to be in their places; returns how many are numbered in all."""
        done = self._numbered.get(cube.id, 0)
        rows, waiting = settled(self.runs.get(f"{cube.id}-rows", ()), before)
        self._put(f"{cube.id}-rows", waiting)
        if rows is not None:
            self._put(cube.id, pushed(self.runs.get(cube.id, ()), numbered(rows, done, cube.pane)))
            done += rows.num_rows
            self._numbered[cube.id] = done
        return done

    def _on_time(self, cube: Cube, batch: pa.RecordBatch, closed: int | None) -> pa.RecordBatch:
        if closed is None:
            return batch.replace_schema_metadata(None)
        ends = column(batch, "slice") + cube.width if cube.width else column(batch, "time") + 1
        late = ends + cube.lateness <= closed
        origin, batch = Origin.of(batch), batch.replace_schema_metadata(None)
        if late.any():
            self._counts["late"] += int(column(batch, "rows()")[late].sum())
            self.dead.append(late_letter(batch.filter(pa.array(late)), cube.queries, closed, self._source, origin))
            batch = batch.filter(pa.array(~late))
        return batch

    def _put(self, name: str, runs: Runs) -> None:
        if runs:
            self.runs[name] = runs
        else:
            self.runs.pop(name, None)


def _mark(cube: Cube, query: str) -> str:
    """The name of a query's mark; rows are numbered anew in every cube."""
    return query if cube.width else f"{query} {cube.id}"


def _limit(cube: Cube, span: Whole | None, closed: int | None) -> int | None:
    """Up to where windows are closed and whole; None: nowhere."""
    if span is None or closed is None:
        return None
    return (closed if span.until is None else min(closed, span.until)) - cube.lateness
