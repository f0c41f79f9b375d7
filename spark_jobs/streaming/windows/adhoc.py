"""Ad hoc queries, answered at any moment from the slices that the reducers hold at that moment.

    SELECT sip, count(*) AS n FROM S WHERE kind = 'a' AND time >= '2013-01-31 12:00' GROUP BY sip HAVING count(*) > 9
    SELECT kind, avg(bytes) FROM S GROUP BY kind WINDOWING 5 min

The planner answers a query from a cube of the registered queries: one that has the query's keys, its aggregates, and
the columns of its filter beyond the cube's own filter. Conditions on the stream's time select the slices; their bounds
are widened to whole slices, and the answer states the bounds. Without WINDOWING the answer is one window over all
retained slices. The stream's `adhoc_retention` sets how long slices are retained. Slices that are not closed yet are
part of the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from springline.spark_jobs.streaming.runtime.step import State
from springline.spark_jobs.streaming.sources.schema import Stream
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.sql.expressions import Expression, canonical_sql
from springline.spark_jobs.streaming.sql.windowing import Hop, instant
from springline.spark_jobs.streaming.windows.aggregation.grouping import regroup
from springline.spark_jobs.streaming.windows.aggregation.partials import accumulate_measures, partial_schema
from springline.spark_jobs.streaming.windows.measures import Measure, measures_of
from springline.spark_jobs.streaming.windows.multi_query import Cube, cubes_of
from springline.spark_jobs.streaming.windows.query import Query, read_query
from springline.spark_jobs.streaming.windows.registry import QueryRegistry
from springline.spark_jobs.streaming.windows.retained_slices import SliceQuestion, slices_of
from springline.spark_jobs.streaming.windows.state.result_rows import result_batch
from springline.spark_jobs.streaming.windows.state.triggers import WindowBounds, windows_to_fire

NAME = "ad hoc"


@dataclass(frozen=True)
class AdHocPlan:
    """How an ad hoc query is answered: the cube, the slices [begin, end), and the conditions on groups."""

    query: Query
    cube: Cube
    conditions: tuple[Expression, ...]
    begin: int | None
    end: int | None

    @property
    def question(self) -> SliceQuestion:
        """The question to the states; its bounds are those of whole slices."""
        cube, begin = self.cube, self.begin
        first = None if begin is None else (begin - cube.phase) // cube.width * cube.width + cube.phase
        return SliceQuestion(cube.id, tuple(_empty_batch(cube).schema.names), first, self.end)


@dataclass(frozen=True)
class Answer:
    """The rows, the cube that they were computed from, and the slices [begin, end) that it held, in microseconds."""

    rows: pa.Table
    cube: Cube
    begin: int | None
    end: int | None


@dataclass(frozen=True)
class Askable:
    """What ad hoc queries may use of one kind of retained slices: keys and aggregates over the rows that pass `where`.

    `seconds` is the length of a slice; windows must be multiples of it. `queries` are the registered queries that keep
    the slices.
    """

    stream: str
    keys: tuple[str, ...]
    aggregates: tuple[str, ...]
    where: str
    seconds: float
    queries: tuple[str, ...]

    def __str__(self) -> str:
        where = f" WHERE {self.where}" if self.where else ""
        return (
            f"{', '.join(self.aggregates)} by {', '.join(self.keys) or 'no keys'}{where} in slices of "
            f"{self.seconds:g} s (for {', '.join(self.queries)})"
        )


class AdHocPlanner:
    """Plans ad hoc queries over the slices of a registry's queries; creating it takes longer than an answer."""

    def __init__(self, registry: QueryRegistry) -> None:
        self._streams = {stream.name: stream for stream in registry.streams}
        self._cubes = {
            name: [cube for cube in cubes_of(registry.queries(name), stream) if cube.width]
            for name, stream in self._streams.items()
        }

    def plan(self, sql: str) -> AdHocPlan:
        """Choose the smallest cube that can answer the query.

        Raises `InvalidQueryError`, which lists what can be queried.
        """
        query = read_query(NAME, sql, self._streams, ad_hoc=True)
        if not isinstance(query.window, Hop | None):
            raise InvalidQueryError(NAME, "ad hoc queries support no window, or windows of time: 60 s, TUMBLE or HOP")
        cubes = self._cubes[query.stream]
        plans = [_plan_for(query, cube, self._streams[query.stream]) for cube in cubes]
        candidates = [plan for plan in plans if plan is not None]
        if not candidates:
            available = "; ".join(str(each) for each in self.askable(query.stream)) or "none: register a query"
            raise InvalidQueryError(NAME, f"no slices can answer it. Available: {available}")
        return min(candidates, key=lambda plan: (len(plan.cube.keys), -plan.cube.width, plan.cube.id))

    def askable(self, stream: str = "") -> tuple[Askable, ...]:
        """List what ad hoc queries can use, of one stream or of all: one entry for each kind of retained slices."""
        return tuple(
            Askable(
                name,
                tuple(key.sql for key in cube.keys),
                tuple(dict.fromkeys(text for measure in cube.measures for text in _aggregates(measure, cube))),
                cube.where.sql if cube.where is not None else "",
                cube.width / 1e6,
                tuple(cube.queries),
            )
            for name, cubes in self._cubes.items()
            if stream in ("", name)
            for cube in cubes
        )


def answer_from_states(plan: AdHocPlan, states: Sequence[State]) -> Answer:
    """Compute the answer from the states of all reducer units."""
    question = plan.question
    return answer_from_slices(plan, [list(slices_of(state, question)) for state in states])


def answer_from_slices(plan: AdHocPlan, slices_by_unit: Sequence[Sequence[pa.RecordBatch]]) -> Answer:
    """Compute the answer from the slices that the reducer units have answered to the plan's question."""
    tables = [pa.Table.from_batches(batches) for batches in slices_by_unit if batches]
    query, cube = plan.query, plan.cube
    if not tables:
        empty_result = result_batch(query, _empty_batch(cube), _keys(query, cube), 0, 0)
        return Answer(_without_name([empty_result]), cube, None, None)
    table = pa.concat_tables([part.select(tables[0].column_names) for part in tables]).combine_chunks()
    slices = np.asarray(table.column("slice"))
    begin, end = int(slices.min()), int(slices.max()) + cube.width
    keep = np.ones(table.num_rows, np.bool_)
    columns = {name: table.column(f"k{i}").combine_chunks() for i, name in enumerate(map(_column, cube.keys)) if name}
    for condition in plan.conditions:
        keep &= np.asarray(condition.values(columns, table.num_rows).fill_null(False).to_numpy(zero_copy_only=False))
    windows = [(begin, end)]
    if isinstance(query.window, Hop):
        windows = windows_to_fire(query.window, np.unique(slices).tolist(), WindowBounds(None, 2**62, None, None))
    batches = [
        result_batch(query, groups, _keys(query, cube), *bounds)
        for bounds in windows
        if (groups := _window_groups(table, query, cube, keep & (slices >= bounds[0]) & (slices < bounds[1])))
        is not None
    ]
    empty_result = result_batch(query, _empty_batch(cube), _keys(query, cube), begin, end)
    return Answer(_without_name(batches or [empty_result]), cube, begin, end)


def _plan_for(query: Query, cube: Cube, stream: Stream) -> AdHocPlan | None:
    """Return how the cube answers the query, or None if it cannot."""
    cube_keys = {key.sql for key in cube.keys}
    measures = {measure.name for measure in cube.measures}
    fits = {key.sql for key in query.keys} <= cube_keys
    fits = fits and {measure.name for measure in measures_of(query.aggregates)} <= measures
    if isinstance(query.window, Hop):
        fits = fits and query.window.width % cube.width == 0 and cube.phase == 0
    remaining = {condition.sql: condition for condition in _conditions(query.where)}
    for condition in _conditions(cube.where):
        fits = fits and remaining.pop(condition.sql, None) is not None
    begin: int | None = None
    end: int | None = None
    for text, condition in list(remaining.items()):
        if (bounds := _bounds(condition.node, stream.time)) is not None:
            begin = bounds[0] if begin is None else max(begin, bounds[0] or begin)
            end = bounds[1] if end is None else min(end, bounds[1] or end)
            del remaining[text]
    plain = {_column(key) for key in cube.keys}
    if not fits or any(not set(condition.columns) <= plain for condition in remaining.values()):
        return None
    return AdHocPlan(query, cube, tuple(remaining.values()), begin, end)


def _conditions(where: Expression | None) -> list[Expression]:
    """Split a condition into the parts that AND joins."""
    if where is None:
        return []
    parts = list(where.node.flatten()) if isinstance(where.node, exp.And) else [where.node]
    plain = [part.unnest() for part in parts]
    return [
        replace(
            where,
            sql=canonical_sql(part),
            columns=tuple(sorted({column.name for column in part.find_all(exp.Column)})),
            node=part,
        )
        for part in plain
    ]


def _bounds(node: exp.Expr, time: str) -> tuple[int | None, int | None] | None:
    """Return the time range [begin, end) that a condition such as `time >= '…'` allows; None for other conditions."""
    if isinstance(node, exp.Between) and _is_column(node.this, time):
        low, high = node.args["low"].unnest(), node.args["high"].unnest()
        written = isinstance(low, exp.Literal) and isinstance(high, exp.Literal)
        return (instant(low.this), instant(high.this) + 1) if written else None
    if not isinstance(node, exp.GTE | exp.GT | exp.LT | exp.LTE):
        return None
    left, right = node.this.unnest(), node.expression.unnest()
    if _is_column(left, time) and isinstance(right, exp.Literal):
        micros, lower = instant(right.this), isinstance(node, exp.GTE | exp.GT)
    elif _is_column(right, time) and isinstance(left, exp.Literal):
        micros, lower = instant(left.this), isinstance(node, exp.LT | exp.LTE)
    else:
        return None
    after = isinstance(node, exp.GT) if lower else isinstance(node, exp.LTE)
    return (micros + after, None) if lower else (None, micros + after)


def _column(key: Expression) -> str:
    """Return the name of the column that a key consists of; empty if the key is a larger expression."""
    return key.node.name if isinstance(key.node, exp.Column) else ""


def _is_column(node: exp.Expr, column: str) -> bool:
    return isinstance(node, exp.Column) and node.name == column


def _empty_batch(cube: Cube) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=partial_schema(cube.keys, cube.measures))


def _without_name(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches).drop_columns(["query"]).replace_schema_metadata(None)


def _keys(query: Query, cube: Cube) -> list[str]:
    """Return the names of the cube's columns that hold the query's keys."""
    places = [key.sql for key in cube.keys]
    return [f"k{places.index(key.sql)}" for key in query.keys]


def _window_groups(table: pa.Table, query: Query, cube: Cube, keep: Any) -> pa.RecordBatch | None:
    """Merge the groups of one window from the cube's keys to the query's keys; None if there are none."""
    names = _keys(query, cube)
    encoded = [pc.dictionary_encode(table.column(name).combine_chunks(), null_encoding="encode") for name in names]
    codes = [np.asarray(column.indices).astype(np.int64) + 1 for column in encoded]
    groups, count, firsts = regroup(np.zeros(table.num_rows, np.int64), codes, keep)
    if not count:
        return None
    measured = [field.name for measure in cube.measures for field in measure.fields]
    sums = accumulate_measures({name: table.column(name) for name in measured}, groups, count)
    arrays = {name: table.column(name).take(pa.array(firsts)).combine_chunks() for name in names}
    arrays |= {
        name: pa.array(values, pa.binary()) if isinstance(values, list) else pa.array(values)
        for name, values in sums.items()
    }
    return pa.RecordBatch.from_pydict(arrays)


def _aggregates(measure: Measure, cube: Cube) -> tuple[str, ...]:
    """Return the aggregates that a measure of a cube can answer, as SQL text."""
    if measure.argument is None:
        return ("count(*)",)
    argument = measure.argument.sql
    if measure.kind == "distinct":
        return (f"count(DISTINCT {argument})",)
    averaged = measure.kind == "sum" and any(other.name == f"count({argument})" for other in cube.measures)
    return (f"{measure.kind}({argument})", *([f"avg({argument})"] if averaged else []))
