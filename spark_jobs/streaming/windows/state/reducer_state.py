"""State of a reducer unit: runs of slices, rows without a certain position, totals of landmark windows, and marks.

runs    <cube>           slices of time, or panes of rows
        <cube>-rows      rows of count windows whose position is not certain yet
        <base>           open slices of a base cube
        <cube>-forwarded rows of open slices that mappers have forwarded and that are not aggregated yet
        <cube>-<since>   the total of a landmark window, as one slice

A mark is the event time (or row number) up to which the windows of a query were emitted.
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
from springline.spark_jobs.streaming.windows.aggregation.partials import column_values, merge
from springline.spark_jobs.streaming.windows.aggregation.row_aggregation import (
    forwarded_rows_of,
    partials_of,
    slices_of_rows,
)
from springline.spark_jobs.streaming.windows.aggregation.row_layout import are_rows
from springline.spark_jobs.streaming.windows.coverage import CoveredSpan
from springline.spark_jobs.streaming.windows.errors import QueryError, computing
from springline.spark_jobs.streaming.windows.group_messages import PartialsOrigin, failed_dead_letter, late_dead_letter
from springline.spark_jobs.streaming.windows.multi_query import Cube
from springline.spark_jobs.streaming.windows.query import Query
from springline.spark_jobs.streaming.windows.state.open_bases import OpenBases
from springline.spark_jobs.streaming.windows.state.result_rows import result_batch
from springline.spark_jobs.streaming.windows.state.row_order import pane_partials, settled_rows
from springline.spark_jobs.streaming.windows.state.slices import (
    Runs,
    push_run,
    slices_between,
    slices_in,
    window_groups,
)
from springline.spark_jobs.streaming.windows.state.triggers import (
    WindowBounds,
    floor_of,
    landmark_begin,
    needed_from,
    windows_to_fire,
)
from springline.spark_jobs.streaming.windows.state.watermarks import EventTime

_MAX_ROWS = 2_000_000  # forwarded rows of a cube that wait to be aggregated: about 20 MB
_MAX_ROW_BATCHES = 64


class ReducerState:
    """The state of one unit while a round changes it; `counts` are the counters of the round.

    The rows of its groups come from the topic `source`.
    """

    def __init__(self, runs: Mapping[str, Runs], scalars: Mapping[str, Any], counts: Counter[str], source: str) -> None:
        self.runs = dict(runs)
        self.dead: list[DeadLetter] = []
        self._counts = counts
        self._source = source
        self._cubes: set[str] = set(scalars.get("cubes", ()))
        self._row_counts: dict[str, int] = dict(scalars.get("numbered", {}))
        self._floors: dict[str, int] = dict(scalars.get("floors", {}))
        self._marks: dict[str, int | None] = dict(scalars.get("marks", {}))
        self._totals_by_end: dict[
            str, dict[int, pa.RecordBatch]
        ] = {}  # totals of landmark windows by the ends reached in this round
        self._totals: dict[str, list[int]] = dict(scalars.get("totals", {}))  # [begin, end] of each landmark total
        self._landmarks: dict[str, str] = dict(scalars.get("landmarks", {}))  # the landmark total of each query
        self._bases = OpenBases.of(scalars.get("bases", {}), self.runs)

    @staticmethod
    def of(state: State, counts: Counter[str], source: str) -> ReducerState:
        """Create from the state that the previous round left."""
        return ReducerState(state.runs, state.scalars, counts, source)

    def as_json(self) -> dict[str, Any]:
        """Return the scalars for the next round's state."""
        named: dict[str, dict[str, Any]] = {
            "numbered": self._row_counts,
            "floors": self._floors,
            "marks": self._marks,
            "totals": self._totals,
            "landmarks": self._landmarks,
        }
        return {
            "cubes": sorted(self._cubes),
            "bases": self._bases.as_json(),
            **{name: dict(sorted(entries.items())) for name, entries in named.items()},
        }

    def adopt(self, cube: Cube, time: EventTime) -> None:
        """Start to serve a cube; partials that were sent for it earlier, when no query used it, are not available."""
        if cube.id not in self._cubes:
            self._cubes.add(cube.id)
            if time.highs and cube.width:
                self._floors[cube.id] = max(time.highs.values()) + 1

    def store(self, name: str, fresh: Sequence[pa.RecordBatch]) -> None:
        """Store the partials of a cube that this stage does not know yet."""
        self._cubes.add(name)
        fresh = [batch.replace_schema_metadata(None) for batch in partials_of(fresh)]
        rows = [batch for batch in fresh if "time" in batch.schema.names]
        self._set_runs(f"{name}-rows", (*self.runs.get(f"{name}-rows", ()), *rows))
        self._set_runs(name, push_run(self.runs.get(name, ()), merge([batch for batch in fresh if batch not in rows])))

    def add_partials(self, cube: Cube, fresh: Sequence[pa.RecordBatch], closed: int | None) -> None:
        """Add partials as received from mappers, without the late ones."""
        self._counts["partials"] += sum(batch.num_rows for batch in fresh)
        fresh = [self._drop_late(cube, batch, closed) for batch in self._without_rows(cube, fresh, closed)]
        fresh = [batch for batch in fresh if batch.num_rows]
        name = cube.id if cube.width else f"{cube.id}-rows"
        runs = self.runs.get(name, ())
        self._set_runs(name, push_run(runs, merge(fresh), self._floors.get(cube.id)) if cube.width else (*runs, *fresh))

    def receive_bases(self, fresh: Iterable[pa.RecordBatch], closed: int | None) -> dict[str, list[pa.RecordBatch]]:
        """Store partials of base cubes; return, by cube, those of slices that were rolled up already."""
        fresh = list(fresh)
        self._counts["partials"] += sum(batch.num_rows for batch in fresh)
        rolled_up: dict[str, list[pa.RecordBatch]] = {}
        for batch in fresh:
            for cube, partials in self._bases.receive(batch, closed):
                rolled_up.setdefault(cube, []).append(partials)
        return rolled_up

    def roll_up(self, closed: int | None, cubes: Collection[str], newer: Collection[str]) -> None:
        """Roll up the closed slices of base cubes to the cubes that this stage serves, or will serve."""
        for cube, partials in self._bases.close(closed):
            if cube in newer:
                self._cubes.add(cube)
            if cube in cubes or cube in newer:
                self._set_runs(cube, push_run(self.runs.get(cube, ()), partials, self._floors.get(cube)))
            else:
                self._counts["unregistered"] += partials.num_rows

    def aggregate(self, cube: Cube, closed: int | None) -> None:
        """Aggregate the forwarded rows of a cube if a slice of theirs is closed, or if there are too many."""
        name = forwarded_rows_of(cube.id)
        rows = self.runs.get(name, ())
        is_due = len(rows) > _MAX_ROW_BATCHES or sum(batch.num_rows for batch in rows) > _MAX_ROWS
        if rows and (is_due or any(_has_closed_slice(cube, batch, closed) for batch in rows)):
            self._set_runs(name, ())
            partials = merge(partials_of(rows))
            self._set_runs(cube.id, push_run(self.runs.get(cube.id, ()), partials, self._floors.get(cube.id)))

    def emit(
        self, cube: Cube, covered_spans: Mapping[Query, CoveredSpan | None], closed: int | None, before: int | None
    ) -> list[pa.RecordBatch]:
        """Return the results of the windows that are due; `covered_spans` has the complete windows of each query.

        `closed` is the watermark, `before` is the watermark of the previous round.
        """
        limits = {query.name: _limit(cube, span, closed) for query, span in covered_spans.items()}
        if not cube.width:
            before = self._row_counts.get(cube.id, 0)
            least = min((limit for limit in limits.values() if limit is not None), default=None)
            limits = dict.fromkeys(limits, self._number_rows(cube, least if None not in limits.values() else None))
        results: list[pa.RecordBatch] = []
        slices = slices_in(self.runs.get(cube.id, ()))
        windows: dict[tuple[int, int], pa.RecordBatch | None] = {}
        for query, span in covered_spans.items():
            mark, limit = self._marks.setdefault(_mark(cube, query.name), before), limits[query.name]
            after = span.after if span is not None and cube.width else None
            bounds = WindowBounds(mark, limit, after, self._floors.get(cube.id))
            keys = [f"k{index}" for index in range(len(query.keys))]
            if isinstance(query.window, Landmark):
                results += self._landmark_results(cube, query, query.window, slices, bounds)
            elif query.window is not None:
                for begin, end in windows_to_fire(query.window, slices, bounds):
                    if (begin, end) not in windows:
                        windows[begin, end] = window_groups(self.runs.get(cube.id, ()), begin, end)
                    groups = windows[begin, end]
                    if groups is not None:
                        shown = begin if isinstance(query.window, Hop) else max(begin, 0)
                        results += self._window_results(query, groups, keys, shown, end)
            if limit is not None:
                self._marks[_mark(cube, query.name)] = limit if mark is None else max(mark, limit)
        self._counts["windows"] += len(results)
        return results

    def trim(self, cube: Cube, queries: Iterable[Query], closed: int | None, stream: Stream) -> None:
        """Delete the slices that neither windows nor ad hoc queries need."""
        needs = []
        for query in queries:
            mark = self._marks.get(_mark(cube, query.name))
            if isinstance(query.window, Landmark):
                total = self._totals.get(self._landmarks.get(query.name, ""))
                mark = total[1] if total is not None else query.window.since
            needs.append(needed_from(query.window, mark) if query.window is not None else None)
        retain = to_micros(stream.adhoc_retention)
        retained_from = closed - retain if cube.width and retain and closed is not None else None
        floor = floor_of(needs, self._floors.get(cube.id), retained_from)
        if floor is not None:
            self._floors[cube.id] = floor
            self._set_runs(cube.id, push_run(self.runs.get(cube.id, ()), None, floor))

    def forget(self, queries: Collection[str], cubes: Collection[str]) -> None:
        """Delete the state of queries and cubes that no longer exist."""
        retained = {*cubes, *self._bases.names}
        self.runs = {name: runs for name, runs in self.runs.items() if name.partition("-")[0] in retained}
        self._cubes &= set(cubes)
        self._marks = {name: mark for name, mark in self._marks.items() if name.partition(" ")[0] in queries}
        self._landmarks = {query: name for query, name in self._landmarks.items() if query in queries}
        self._totals = {name: total for name, total in self._totals.items() if name in self._landmarks.values()}
        self.runs = {name: runs for name, runs in self.runs.items() if name in self._totals or name.count("-") < 2}
        for by_cube in (self._row_counts, self._floors):
            for name in [name for name in by_cube if name not in cubes]:
                del by_cube[name]

    def _landmark_results(
        self, cube: Cube, query: Query, landmark: Landmark, slices: Sequence[int], bounds: WindowBounds
    ) -> list[pa.RecordBatch]:
        """Return the totals since the landmark, at the end of each interval that is due."""
        name = f"{cube.id}-{landmark.since}-{'all' if bounds.after is None else bounds.after}"
        if bounds.limit is not None:
            self._landmarks[query.name] = name
        if name not in self._totals_by_end:
            self._totals_by_end[name] = self._advance_landmark(name, cube, landmark, slices, bounds)
        keys = [f"k{index}" for index in range(len(query.keys))]
        totals = self._totals_by_end[name].items()
        return [
            batch
            for end, total in totals
            if bounds.mark is None or end > bounds.mark
            for batch in self._window_results(query, total, keys, self._totals[name][0], end)
        ]

    def _window_results(
        self, query: Query, groups: pa.RecordBatch, keys: list[str], begin: int, end: int
    ) -> list[pa.RecordBatch]:
        """Return the results of one window; groups for which the query fails become dead letters instead."""
        try:
            with computing([query.name]):
                return [result_batch(query, groups, keys, begin, end)]
        except QueryError as error:
            if groups.num_rows > 1:
                half = groups.num_rows // 2
                halves = (groups.slice(0, half), groups.slice(half))
                return [batch for each in halves for batch in self._window_results(query, each, keys, begin, end)]
            self._counts["failed"] += 1
            self.dead.append(failed_dead_letter(groups, str(error), begin, end))
            return []

    def _advance_landmark(
        self, name: str, cube: Cube, landmark: Landmark, slices: Sequence[int], bounds: WindowBounds
    ) -> dict[int, pa.RecordBatch]:
        """Add the closed slices to the stored total; return the groups that changed, by the end of the slice."""
        first = landmark_begin(landmark, bounds.after, bounds.floor)
        begin, until = self._totals.get(name) or (first, first)
        changed_groups: dict[int, pa.RecordBatch] = {}
        for slice_begin in slices:
            end = slice_begin + cube.width
            if slice_begin >= until and bounds.limit is not None and end <= bounds.limit:
                fresh = merge([slices_between(run, slice_begin, end) for run in self.runs[cube.id]])
                assert fresh is not None  # `slices` lists only slices with partials
                total = merge([*self.runs.get(name, ()), fresh], into=begin)
                assert total is not None
                changed = np.isin(column_values(total, "hash"), column_values(fresh, "hash"))
                changed_groups[end] = total.filter(pa.array(changed))
                self._set_runs(name, (total,))
                self._totals[name] = [begin, end]
        return changed_groups

    def _number_rows(self, cube: Cube, before: int | None) -> int:
        """Number the rows whose position is certain; return how many rows are numbered in total."""
        row_count = self._row_counts.get(cube.id, 0)
        rows, waiting = settled_rows(self.runs.get(f"{cube.id}-rows", ()), before)
        self._set_runs(f"{cube.id}-rows", waiting)
        if rows is not None:
            self._set_runs(cube.id, push_run(self.runs.get(cube.id, ()), pane_partials(rows, row_count, cube.pane)))
            row_count += rows.num_rows
            self._row_counts[cube.id] = row_count
        return row_count

    def _without_rows(self, cube: Cube, fresh: Sequence[pa.RecordBatch], closed: int | None) -> list[pa.RecordBatch]:
        """Store forwarded rows; return the partials, and those of forwarded rows of which some are late."""
        partials: list[pa.RecordBatch] = []
        rows: list[pa.RecordBatch] = []
        for batch in fresh:
            if not are_rows(batch):
                partials.append(batch)
            elif _has_closed_slice(cube, batch, closed):
                partials += partials_of([batch])
            else:
                rows.append(batch)
        name = forwarded_rows_of(cube.id)
        self._set_runs(name, (*self.runs.get(name, ()), *rows))
        return partials

    def _drop_late(self, cube: Cube, batch: pa.RecordBatch, closed: int | None) -> pa.RecordBatch:
        if closed is None:
            return batch.replace_schema_metadata(None)
        ends = column_values(batch, "slice") + cube.width if cube.width else column_values(batch, "time") + 1
        late = ends + cube.lateness <= closed
        origin, batch = PartialsOrigin.of(batch), batch.replace_schema_metadata(None)
        if late.any():
            self._counts["late"] += int(column_values(batch, "rows()")[late].sum())
            self.dead.append(late_dead_letter(batch.filter(pa.array(late)), cube.queries, closed, self._source, origin))
            batch = batch.filter(pa.array(~late))
        return batch

    def _set_runs(self, name: str, runs: Runs) -> None:
        if runs:
            self.runs[name] = runs
        else:
            self.runs.pop(name, None)


def _has_closed_slice(cube: Cube, rows: pa.RecordBatch, closed: int | None) -> bool:
    """Return whether one of the slices of forwarded rows is closed."""
    return closed is not None and bool((slices_of_rows(rows) + cube.width + cube.lateness <= closed).any())


def _mark(cube: Cube, query: str) -> str:
    """Return the name of a query's mark; for windows of rows with the cube, since each cube numbers its rows."""
    return query if cube.width else f"{query} {cube.id}"


def _limit(cube: Cube, span: CoveredSpan | None, closed: int | None) -> int | None:
    """Return the time up to which windows are closed and complete; None if none are."""
    if span is None or closed is None:
        return None
    return (closed if span.until is None else min(closed, span.until)) - cube.lateness
