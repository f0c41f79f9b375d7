"""Ad hoc queries: answered at any moment from the slices that reducers hold at that moment.

    SELECT sip, count(*) AS n FROM S WHERE kind = 'a' AND time >= '2013-01-31 12:00' GROUP BY sip HAVING count(*) > 9
    SELECT kind, avg(bytes) FROM S GROUP BY kind WINDOWING 5 min

A query is answered from a cube that registered queries keep, one that has its keys, what its filter needs beyond the
cube's own, and its aggregates. Conditions on the stream's time bound the slices; bounds are widened to whole slices,
and the answer says to which. Without WINDOWING it is one window of all that is held. How long slices are held is the
stream's `retain`. What has just come, and is not closed yet, is in the answer.
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
from springline.spark_jobs.streaming.sql.expressions import Expression, plain_text
from springline.spark_jobs.streaming.sql.windowing import Hop, instant
from springline.spark_jobs.streaming.windows.aggregation.grouping import regrouped
from springline.spark_jobs.streaming.windows.aggregation.partials import add_up, schema_of
from springline.spark_jobs.streaming.windows.measures import Measure, measures_of
from springline.spark_jobs.streaming.windows.multi_query import Cube, cubes_of
from springline.spark_jobs.streaming.windows.query import Query, read
from springline.spark_jobs.streaming.windows.registry import Registry
from springline.spark_jobs.streaming.windows.state.result_rows import finished
from springline.spark_jobs.streaming.windows.state.slices import between
from springline.spark_jobs.streaming.windows.state.triggers import Bounds, due

NAME = "ad hoc"


@dataclass(frozen=True)
class Plan:
    """How an ad hoc query is answered: from which cube and slices, with which conditions on groups."""

    query: Query
    cube: Cube
    conditions: tuple[Expression, ...]
    begin: int | None
    end: int | None


@dataclass(frozen=True)
class Answer:
    """The rows, the cube that they came from, and the slices [begin, end) that it held, in microseconds."""

    rows: pa.Table
    cube: Cube
    begin: int | None
    end: int | None


@dataclass(frozen=True)
class Askable:
    """What slices that are held can be asked for: some of the keys, the aggregates, of the rows that `where` let in.

    `seconds`: how long a slice is, so that windows are multiples of it; `queries`: the registered ones that keep it.
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


class AdHoc:
    """Plans ad hoc queries over what the queries of a registry keep; reading those takes longer than an answer."""

    def __init__(self, registry: Registry) -> None:
        self._streams = {stream.name: stream for stream in registry.streams}
        self._cubes = {
            name: [cube for cube in cubes_of(registry.queries(name), stream) if cube.width]
            for name, stream in self._streams.items()
        }

    def plan(self, sql: str) -> Plan:
        """Choose the smallest cube that can answer; raises `InvalidQueryError`, which says what there is."""
        query = read(NAME, sql, self._streams, ad_hoc=True)
        if not isinstance(query.window, Hop | None):
            raise InvalidQueryError(
                NAME, "it can be asked over all that is held, or over windows of time: 60 s, TUMBLE or HOP"
            )
        cubes = self._cubes[query.stream]
        fits = [_fitted(query, cube, self._streams[query.stream]) for cube in cubes]
        fitting = [found for found in fits if found is not None]
        if not fitting:
            held = "; ".join(str(each) for each in self.askable(query.stream)) or "nothing is: register a query"
            raise InvalidQueryError(NAME, f"no slices are held that it can be answered from. Held are {held}")
        return min(fitting, key=lambda found: (len(found.cube.keys), -found.cube.width, found.cube.id))

    def askable(self, stream: str = "") -> tuple[Askable, ...]:
        """What can be asked of one stream, or of all: one entry for each kind of slices that is held."""
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


def answer(found: Plan, states: Sequence[State]) -> Answer:
    """The answer from the states of all reducer units."""
    parts = [_part(found, state) for state in states]
    held = [part for part in parts if part.num_rows]
    query, cube = found.query, found.cube
    if not held:
        nothing = finished(query, _nothing(cube), _keys(query, cube), 0, 0)
        return Answer(_without_name([nothing]), cube, None, None)
    table = pa.concat_tables([part.select(held[0].column_names) for part in held]).combine_chunks()
    slices = np.asarray(table.column("slice"))
    begin, end = int(slices.min()), int(slices.max()) + cube.width
    keep = np.ones(table.num_rows, np.bool_)
    columns = {name: table.column(f"k{i}").combine_chunks() for i, name in enumerate(map(_column, cube.keys)) if name}
    for condition in found.conditions:
        keep &= np.asarray(condition.values(columns, table.num_rows).fill_null(False).to_numpy(zero_copy_only=False))
    windows = [(begin, end)]
    if isinstance(query.window, Hop):
        windows = due(query.window, np.unique(slices).tolist(), Bounds(None, 2**62, None, None))
    batches = [
        finished(query, groups, _keys(query, cube), *bounds)
        for bounds in windows
        if (groups := _grouped(table, query, cube, keep & (slices >= bounds[0]) & (slices < bounds[1]))) is not None
    ]
    nothing = finished(query, _nothing(cube), _keys(query, cube), begin, end)
    return Answer(_without_name(batches or [nothing]), cube, begin, end)


def _fitted(query: Query, cube: Cube, stream: Stream) -> Plan | None:
    """How the cube answers the query, if it can."""
    known = {key.sql for key in cube.keys}
    measures = {measure.name for measure in cube.measures}
    fits = {key.sql for key in query.keys} <= known
    fits = fits and {measure.name for measure in measures_of(query.aggregates)} <= measures
    if isinstance(query.window, Hop):
        fits = fits and query.window.width % cube.width == 0 and cube.phase == 0
    left = {condition.sql: condition for condition in _conditions(query.where)}
    for condition in _conditions(cube.where):
        fits = fits and left.pop(condition.sql, None) is not None
    begin: int | None = None
    end: int | None = None
    for text, condition in list(left.items()):
        if (bounds := _bounds(condition.node, stream.time)) is not None:
            begin = bounds[0] if begin is None else max(begin, bounds[0] or begin)
            end = bounds[1] if end is None else min(end, bounds[1] or end)
            del left[text]
    plain = {_column(key) for key in cube.keys}
    if not fits or any(not set(condition.columns) <= plain for condition in left.values()):
        return None
    return Plan(query, cube, tuple(left.values()), begin, end)


def _conditions(where: Expression | None) -> list[Expression]:
    """What is joined by AND, each by itself."""
    if where is None:
        return []
    parts = list(where.node.flatten()) if isinstance(where.node, exp.And) else [where.node]
    plain = [part.unnest() for part in parts]
    return [
        replace(
            where,
            sql=plain_text(part),
            columns=tuple(sorted({column.name for column in part.find_all(exp.Column)})),
            node=part,
        )
        for part in plain
    ]


def _bounds(node: exp.Expr, time: str) -> tuple[int | None, int | None] | None:
    """The least and the greatest (not included) time that `time >= '…'` and the like let through."""
    if isinstance(node, exp.Between) and _is(node.this, time):
        low, high = node.args["low"].unnest(), node.args["high"].unnest()
        written = isinstance(low, exp.Literal) and isinstance(high, exp.Literal)
        return (instant(low.this), instant(high.this) + 1) if written else None
    if not isinstance(node, exp.GTE | exp.GT | exp.LT | exp.LTE):
        return None
    left, right = node.this.unnest(), node.expression.unnest()
    if _is(left, time) and isinstance(right, exp.Literal):
        at, lower = instant(right.this), isinstance(node, exp.GTE | exp.GT)
    elif _is(right, time) and isinstance(left, exp.Literal):
        at, lower = instant(left.this), isinstance(node, exp.LT | exp.LTE)
    else:
        return None
    after = isinstance(node, exp.GT) if lower else isinstance(node, exp.LTE)
    return (at + after, None) if lower else (None, at + after)


def _column(key: Expression) -> str:
    """The name of the column that a key is; empty where it is more than that."""
    return key.node.name if isinstance(key.node, exp.Column) else ""


def _is(node: exp.Expr, column: str) -> bool:
    return isinstance(node, exp.Column) and node.name == column


def _part(found: Plan, state: State) -> pa.Table:
    """What one unit holds of the slices that are asked for."""
    cube = found.cube
    floor = state.scalars.get("floors", {}).get(cube.id)
    begin = None if found.begin is None else (found.begin - cube.phase) // cube.width * cube.width + cube.phase
    begins = [at for at in (floor, begin) if at is not None]
    runs = [between(run, max(begins, default=None), found.end) for run in state.runs.get(cube.id, ())]
    names = _nothing(cube).schema.names
    held = [run.select(names) for run in runs if run.num_rows and set(names) <= set(run.schema.names)]
    return pa.Table.from_batches(held) if held else pa.Table.from_batches([_nothing(cube)])


def _nothing(cube: Cube) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema_of(cube.keys, cube.measures))


def _without_name(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches).drop_columns(["query"]).replace_schema_metadata(None)


def _keys(query: Query, cube: Cube) -> list[str]:
    """The columns of the cube that hold the query's keys."""
    places = [key.sql for key in cube.keys]
    return [f"k{places.index(key.sql)}" for key in query.keys]


def _grouped(table: pa.Table, query: Query, cube: Cube, keep: Any) -> pa.RecordBatch | None:
    """The groups of one window by the query's keys, from those by the cube's."""
    names = _keys(query, cube)
    encoded = [pc.dictionary_encode(table.column(name).combine_chunks(), null_encoding="encode") for name in names]
    codes = [np.asarray(column.indices).astype(np.int64) + 1 for column in encoded]
    groups, count, firsts = regrouped(np.zeros(table.num_rows, np.int64), codes, keep)
    if not count:
        return None
    measured = [field.name for measure in cube.measures for field in measure.fields]
    sums = add_up({name: table.column(name) for name in measured}, groups, count)
    arrays = {name: table.column(name).take(pa.array(firsts)).combine_chunks() for name in names}
    arrays |= {
        name: pa.array(values, pa.binary()) if isinstance(values, list) else pa.array(values)
        for name, values in sums.items()
    }
    return pa.RecordBatch.from_pydict(arrays)


def _aggregates(measure: Measure, cube: Cube) -> tuple[str, ...]:
    """The aggregates that a measure of a cube gives, as SQL writes them."""
    if measure.argument is None:
        return ("count(*)",)
    argument = measure.argument.sql
    if measure.kind == "distinct":
        return (f"count(DISTINCT {argument})",)
    averaged = measure.kind == "sum" and any(other.name == f"count({argument})" for other in cube.measures)
    return (f"{measure.kind}({argument})", *([f"avg({argument})"] if averaged else []))
