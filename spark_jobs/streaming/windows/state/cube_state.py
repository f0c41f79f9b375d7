"""State of a cube in a reducer unit: its slices, and what of them was emitted.

`CubeState.advance` is one round of it: partials are received, windows that are closed are emitted, and slices that
nobody needs are deleted, in this order. Slices are of time (`TimeCubeState`), or panes of rows (`CountCubeState`).

A mark is the event time (or row number) up to which the windows of a query were emitted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.kernels.hash_tables import Ints
from springline.spark_jobs.streaming.runtime.step import DeadLetter
from springline.spark_jobs.streaming.sources.schema import Stream, to_micros
from springline.spark_jobs.streaming.sql.windowing import Hop, Landmark
from springline.spark_jobs.streaming.windows.aggregation.partials import column_values, merge
from springline.spark_jobs.streaming.windows.coverage import CoveredSpan
from springline.spark_jobs.streaming.windows.errors import QueryError, computing
from springline.spark_jobs.streaming.windows.multi_query import Cube
from springline.spark_jobs.streaming.windows.payload import Partials
from springline.spark_jobs.streaming.windows.query import Query
from springline.spark_jobs.streaming.windows.state.dead_letters import failed_dead_letter, late_dead_letter
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

CoveredSpans = Mapping[Query, CoveredSpan | None]
"""For which span the windows of each query are complete; None: of no span yet."""


@dataclass
class CubeScalars:
    """What is stored of a cube beside its runs.

    Args:
        floor: slices before it are deleted; None: none is.
        rows: how many rows are numbered, of a cube of panes.
        totals: the span [begin, end) of each total of landmark windows, by the name of its runs.
        landmarks: the name of the total of each query with a landmark window.
    """

    floor: int | None = None
    rows: int = 0
    totals: dict[str, tuple[int, int]] = field(default_factory=dict)
    landmarks: dict[str, str] = field(default_factory=dict)


@dataclass
class ReducerRound:
    """What all cubes of a reducer unit share in a round.

    Args:
        stream: the declaration of the stream.
        source: the topic that the mappers read.
        before: the watermark of the previous round; None: before all rows.
        closed: the watermark of this round.
        runs: the runs of all cubes by name, which the round changes.
        marks: the marks by query, which the round changes.
        dead: dead letters of the round.
        counts: counters of the round.
    """

    stream: Stream
    source: str
    before: int | None
    closed: int | None
    runs: dict[str, Runs]
    marks: dict[str, int | None]
    dead: list[DeadLetter] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def set_runs(self, name: str, runs: Runs) -> None:
        """Replace runs; empty ones are not kept."""
        if runs:
            self.runs[name] = runs
        else:
            self.runs.pop(name, None)


class CubeState(ABC):
    """The state of one cube while a round changes it."""

    def __init__(self, cube: Cube, scalars: CubeScalars, reducer_round: ReducerRound) -> None:
        self._cube = cube
        self._scalars = scalars
        self._round = reducer_round

    def advance(self, fresh: Sequence[Partials], spans: CoveredSpans) -> list[pa.RecordBatch]:
        """Take the partials that mappers have sent, and return the results of the windows that are closed by now."""
        self._round.counts["partials"] += sum(each.batch.num_rows for each in fresh)
        self._receive([batch for each in fresh if (batch := self._on_time(each)).num_rows])
        limits = {query.name: self._limit(span) for query, span in spans.items()}
        results = self._emit(spans, limits)
        self._round.counts["windows"] += len(results)
        self._trim(spans)
        return results

    @abstractmethod
    def _ends(self, batch: pa.RecordBatch) -> Ints:
        """Return the event time at which each of some partials can be late, without the query's lateness."""

    @abstractmethod
    def _receive(self, fresh: Sequence[pa.RecordBatch]) -> None:
        """Store partials that are not late."""

    @abstractmethod
    def _emit(self, spans: CoveredSpans, limits: Mapping[str, int | None]) -> list[pa.RecordBatch]:
        """Return the results of the windows that are due; `limits` has the event time up to which each query's are."""

    @abstractmethod
    def _trim(self, spans: CoveredSpans) -> None:
        """Delete the slices that neither windows nor ad hoc queries need."""

    @property
    def _slices(self) -> Runs:
        return self._round.runs.get(self._cube.id, ())

    def _push(self, fresh: pa.RecordBatch | None) -> None:
        self._round.set_runs(self._cube.id, push_run(self._slices, fresh, self._scalars.floor))

    def _limit(self, span: CoveredSpan | None) -> int | None:
        """Return the event time up to which windows are closed and complete; None if none are."""
        if span is None or self._round.closed is None:
            return None
        closed = self._round.closed if span.until is None else min(self._round.closed, span.until)
        return closed - self._cube.lateness

    def _on_time(self, partials: Partials) -> pa.RecordBatch:
        """Return the partials that are not late; the others become a dead letter."""
        batch, closed = partials.batch, self._round.before
        if closed is None or not (late := self._ends(batch) + self._cube.lateness <= closed).any():
            return batch
        self._round.counts["late"] += int(column_values(batch, "rows()")[late].sum())
        letter = late_dead_letter(
            batch.filter(pa.array(late)), self._cube.queries, closed, self._round.source, partials.origin
        )
        self._round.dead.append(letter)
        return batch.filter(pa.array(~late))

    def _pass_mark(self, name: str, mark: int | None, limit: int | None) -> None:
        if limit is not None:
            self._round.marks[name] = limit if mark is None else max(mark, limit)

    def _window_results(self, query: Query, groups: pa.RecordBatch, begin: int, end: int) -> list[pa.RecordBatch]:
        """Return the results of one window; groups for which the query fails become dead letters instead."""
        keys = [f"k{index}" for index in range(len(query.keys))]
        try:
            with computing([query.name]):
                return [result_batch(query, groups, keys, begin, end)]
        except QueryError as error:
            if groups.num_rows > 1:
                half = groups.num_rows // 2
                halves = (groups.slice(0, half), groups.slice(half))
                return [batch for each in halves for batch in self._window_results(query, each, begin, end)]
            self._round.counts["failed"] += 1
            self._round.dead.append(failed_dead_letter(groups, str(error), begin, end))
            return []


class TimeCubeState(CubeState):
    """The state of a cube whose slices are of time."""

    def _ends(self, batch: pa.RecordBatch) -> Ints:
        return np.asarray(column_values(batch, "slice") + self._cube.width)

    def _receive(self, fresh: Sequence[pa.RecordBatch]) -> None:
        self._push(merge(fresh))

    def _emit(self, spans: CoveredSpans, limits: Mapping[str, int | None]) -> list[pa.RecordBatch]:
        results: list[pa.RecordBatch] = []
        slices = slices_in(self._slices)
        groups_of: dict[tuple[int, int], pa.RecordBatch | None] = {}
        changes_of: dict[str, dict[int, pa.RecordBatch]] = {}
        for query, span in spans.items():
            mark, limit = self._round.marks.setdefault(query.name, self._round.before), limits[query.name]
            bounds = WindowBounds(mark, limit, span.after if span is not None else None, self._scalars.floor)
            if isinstance(query.window, Landmark):
                name = self._total_of(query, query.window, bounds)
                if name not in changes_of:
                    changes_of[name] = self._add_slices(name, query.window, slices, bounds)
                for end, groups in changes_of[name].items():
                    if mark is None or end > mark:
                        results += self._window_results(query, groups, self._scalars.totals[name][0], end)
            elif isinstance(query.window, Hop):
                for place in windows_to_fire(query.window, slices, bounds):
                    if place not in groups_of:
                        groups_of[place] = window_groups(self._slices, *place)
                    if (window := groups_of[place]) is not None:
                        results += self._window_results(query, window, *place)
            self._pass_mark(query.name, mark, limit)
        return results

    def _trim(self, spans: CoveredSpans) -> None:
        needs = []
        for query in spans:
            mark = self._round.marks.get(query.name)
            if isinstance(query.window, Landmark):
                total = self._scalars.totals.get(self._scalars.landmarks.get(query.name, ""))
                mark = query.window.since if total is None else total[1]
            needs.append(None if query.window is None else needed_from(query.window, mark))
        closed, retained = self._round.closed, to_micros(self._round.stream.adhoc_retention)
        floor = floor_of(needs, self._scalars.floor, closed - retained if retained and closed is not None else None)
        if floor is not None:
            self._scalars.floor = floor
            self._push(None)
        current = {query.name for query in spans}
        self._scalars.landmarks = {q: name for q, name in self._scalars.landmarks.items() if q in current}
        for name in self._scalars.totals.keys() - set(self._scalars.landmarks.values()):
            del self._scalars.totals[name]
            self._round.set_runs(name, ())

    def _total_of(self, query: Query, landmark: Landmark, bounds: WindowBounds) -> str:
        """Return the name of the total of a query's landmark; queries with the same landmark and span share it."""
        name = f"{self._cube.id}-{landmark.since}-{'all' if bounds.after is None else bounds.after}"
        if bounds.limit is not None:
            self._scalars.landmarks[query.name] = name
        return name

    def _add_slices(
        self, name: str, landmark: Landmark, slices: Sequence[int], bounds: WindowBounds
    ) -> dict[int, pa.RecordBatch]:
        """Add the closed slices to a total; return the groups that changed, by the end of the slice."""
        first = landmark_begin(landmark, bounds.after, bounds.floor)
        begin, until = self._scalars.totals.get(name, (first, first))
        changed_groups: dict[int, pa.RecordBatch] = {}
        for slice_begin in slices:
            end = slice_begin + self._cube.width
            if slice_begin >= until and bounds.limit is not None and end <= bounds.limit:
                fresh = merge([slices_between(run, slice_begin, end) for run in self._slices])
                assert fresh is not None  # `slices` lists only slices with partials
                total = merge([*self._round.runs.get(name, ()), fresh], into=begin)
                assert total is not None
                changed = np.isin(column_values(total, "hash"), column_values(fresh, "hash"))
                changed_groups[end] = total.filter(pa.array(changed))
                self._round.set_runs(name, (total,))
                self._scalars.totals[name] = (begin, end)
        return changed_groups


class CountCubeState(CubeState):
    """The state of a cube whose slices are panes of rows; rows wait in `<cube>-rows` until their position is certain.

    Marks are of a query and its cube, since each cube numbers its rows.
    """

    def _ends(self, batch: pa.RecordBatch) -> Ints:
        return np.asarray(column_values(batch, "time") + 1)

    def _receive(self, fresh: Sequence[pa.RecordBatch]) -> None:
        self._round.set_runs(waiting_rows_of(self._cube.id), (*self._waiting, *fresh))

    @property
    def _waiting(self) -> Runs:
        return self._round.runs.get(waiting_rows_of(self._cube.id), ())

    def _emit(self, spans: CoveredSpans, limits: Mapping[str, int | None]) -> list[pa.RecordBatch]:
        numbered_before = self._scalars.rows
        certain = [limit for limit in limits.values() if limit is not None]
        self._number_rows(min(certain) if certain and len(certain) == len(limits) else None)
        results: list[pa.RecordBatch] = []
        slices = slices_in(self._slices)
        for query in spans:
            mark = self._round.marks.setdefault(self._mark_of(query), numbered_before)
            assert query.window is not None
            assert not isinstance(query.window, Landmark)
            bounds = WindowBounds(mark, self._scalars.rows, None, self._scalars.floor)
            for begin, end in windows_to_fire(query.window, slices, bounds):
                if (groups := window_groups(self._slices, begin, end)) is not None:
                    results += self._window_results(query, groups, max(begin, 0), end)
            self._pass_mark(self._mark_of(query), mark, self._scalars.rows)
        return results

    def _number_rows(self, before: int | None) -> None:
        """Number the rows with times before `before`, whose position is certain."""
        rows, waiting = settled_rows(self._waiting, before)
        self._round.set_runs(waiting_rows_of(self._cube.id), waiting)
        if rows is not None:
            panes = pane_partials(rows, self._scalars.rows, self._cube.pane)
            self._round.set_runs(self._cube.id, push_run(self._slices, panes))
            self._scalars.rows += rows.num_rows

    def _trim(self, spans: CoveredSpans) -> None:
        marks = ((query.window, self._round.marks.get(self._mark_of(query))) for query in spans)
        needs = [None if window is None else needed_from(window, mark) for window, mark in marks]
        floor = floor_of(needs, self._scalars.floor, None)
        if floor is not None:
            self._scalars.floor = floor
            self._push(None)

    def _mark_of(self, query: Query) -> str:
        return f"{query.name} {self._cube.id}"


def waiting_rows_of(cube: str) -> str:
    """Return the name of the runs of a cube's rows whose position is not certain yet."""
    return f"{cube}-rows"
