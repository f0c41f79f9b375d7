"""The router's step: sends tuples of both streams to the tasks of the units that store them or may hold partners.

Even partitions are those of the left topic, odd ones those of the right topic. Row i of the left topic in a round of a
unit is tuple 2i, row i of the right topic is tuple 2i + 1. In a self-join of a topic, every row is a tuple of both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.persistence.model.codec import from_json_value, to_json_value
from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.predicate import Relation, RelationSpec
from springline.spark_jobs.streaming.join.errors import ValueTooLongError
from springline.spark_jobs.streaming.join.routing.kernels import gather_targets
from springline.spark_jobs.streaming.join.routing.routes import Routes, RowsByTask
from springline.spark_jobs.streaming.join.routing.sketch import Sketch
from springline.spark_jobs.streaming.join.routing.table import SIDES, RoutingTable
from springline.spark_jobs.streaming.join.wire import (
    KEY,
    ROWS,
    SEQ,
    EpochCommands,
    JoinSide,
    KeyBand,
    RoutedBatch,
    first_seq,
)
from springline.spark_jobs.streaming.runtime.message import MessageBatch
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Input, Output, State
from springline.spark_jobs.streaming.sources.decoder import rows_of
from springline.spark_jobs.streaming.sources.format import open_format
from springline.spark_jobs.streaming.sources.layout import Layout

TABLE = "routing"  # the name of the table's version in rounds
BATCH_ROWS = 32_768  # maximum rows of a batch that is sent

_BUFFERED = ("buffered-left", "buffered-right")  # the runs of rows that did not fit into their round, by side
_TUPLES = pa.schema([pa.field(KEY, pa.int64()), pa.field(SEQ, pa.int64())])

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RelationSource:
    """The source of a relation's rows: a topic and the format of its messages; CSV depends on the fields' order."""

    topic: str
    relation: Relation
    format: str = "csv"
    format_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def layout(self) -> Layout:
        """The layout of the rows in messages."""
        return Layout(self.format, self.relation.fields, self.format_options)

    def as_json(self) -> dict[str, Any]:
        """Return the source as JSON, for the arguments of a step."""
        raw: dict[str, Any] = to_json_value(
            _SourceSpec(self.topic, self.relation.spec, self.format, self.format_options)
        )
        return raw

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> RelationSource:
        """The inverse of `as_json`; raises `InvalidRelationError` and `DecodeError`."""
        spec = from_json_value(_SourceSpec, raw, "a side of a join")
        return RelationSource(spec.topic, spec.relation.relation, spec.format, spec.format_options)


@dataclass(frozen=True, slots=True)
class _SourceSpec:
    """The JSON form of a source."""

    topic: str
    relation: RelationSpec
    format: str
    format_options: Mapping[str, Any]


class RoutingCondition(Protocol):
    """The part of a join's condition that a router uses; columns of row batches are named as the relation's fields."""

    @property
    def key_band(self) -> KeyBand:
        """Which right keys may match a left key."""

    def fields(self, side: JoinSide) -> Sequence[str]:
        """Return the fields of a side that must be read."""

    def filter(self, side: JoinSide, rows: pa.RecordBatch) -> Flags:
        """Return a flag per row: whether it passes the conjuncts on this side alone, so that it can have partners."""

    def keys(self, side: JoinSide, rows: pa.RecordBatch) -> tuple[Ints, Flags]:
        """Return the key of each row, and a flag per row: whether it has a key."""

    def routed_schema(self, side: JoinSide) -> pa.Schema:
        """Return the columns of tuples as they are sent to tasks: key, seq, unit, action, and the carried ones."""

    def carried(self, side: JoinSide, rows: pa.RecordBatch) -> list[pa.Array]:
        """Return the columns of rows that the side carries."""


class Router:
    """The router's step for a join with up to `units` units on `tasks` tasks.

    If tuples expire (`expires`), its watermark is the round's clock, from which units determine which tuples have
    expired.
    """

    def __init__(
        self,
        left: RelationSource,
        right: RelationSource,
        units: int,
        tasks: int,
        condition: RoutingCondition,
        *,
        expires: bool = False,
    ) -> None:
        self._is_self_join = left.topic == right.topic
        needed = [set(condition.fields(side)) for side in SIDES]  # by side
        if self._is_self_join:  # every row is one of both
            needed = [needed[0] | needed[1]] * len(SIDES)
        topics = 1 if self._is_self_join else len(SIDES)
        self._formats = [
            open_format(source.layout, needed[side], topics) for side, source in zip(SIDES, (left, right), strict=True)
        ]
        self._units = units
        self._tasks = tasks
        self._condition = condition
        self._expires = expires
        self._table_json: Any = None
        self._table: RoutingTable | None = None
        self._routes: tuple[Routes, ...] = ()

    def __call__(self, state: State, step_input: Input) -> Output:
        """Process one round."""
        table = self._read_table(step_input.round.broadcast_values[TABLE])
        counts = Counter(dict.fromkeys(("rows", "dead_letters", "filtered", "unjoinable", "tuples", "messages"), 0))
        sketches = _read_sketches(state)
        sent = np.array(state.scalars.get("sent", np.zeros((len(SIDES), self._units), np.int64)))
        is_new_epoch = state.scalars.get("epoch") != table.epoch
        epoch_sketches = [one.as_json() for one in sketches] if is_new_epoch else state.scalars["epoch_sketches"]
        batches: list[list[RoutedBatch]] = [[] for _ in range(self._tasks)]
        buffered: dict[str, pa.RecordBatch] = {}
        dead: list[DeadLetter] = []
        for first, read in self._batches_by_side(step_input).items():
            sides = SIDES if self._is_self_join else (first,)
            decoded = rows_of(self._formats[first], read)
            dead += decoded.dead
            rows, rest = _split_rows(decoded.table, state.runs.get(_BUFFERED[first], ()))
            buffered |= {_BUFFERED[first]: rest} if rest.num_rows else {}
            counts.update(rows=decoded.table.num_rows, dead_letters=len(decoded.dead))
            for side in sides:
                joinable, keys = self._joinable_keys(side, rows, counts)
                seqs = first_seq(step_input.round.number, step_input.unit) + joinable * len(SIDES) + side
                sketches[side] = sketches[side].with_keys(keys)
                grouped = self._routes[side].group_rows(keys, seqs)
                counts.update(tuples=keys.size, messages=grouped.sent)
                sent[side] += np.bincount(grouped.stored, minlength=self._units)
                schema, carried = self._condition.routed_schema(side), self._condition.carried(side, rows)
                tuples = _RoutedTuples.of(schema, keys, seqs, joinable, carried, grouped)
                for task, own in enumerate(batches):
                    own += [RoutedBatch(step_input.round.number, batch, side) for batch in tuples.batches(task)]
        if is_new_epoch:
            batches = [_with_commands(sent, step_input.round.number, table.commands) for sent in batches]
        return Output(
            _next_state(
                state,
                {"epoch": table.epoch, "epoch_sketches": epoch_sketches, "sent": sent.tolist()},
                sketches,
                buffered,
            ),
            {task: [one.to_batch() for one in sent] for task, sent in enumerate(batches) if sent},
            watermark=step_input.round.clock if self._expires else None,
            dead_letters=dead,
            counts=counts,
            timer=step_input.round.clock if buffered else None,
            gauges={
                "epoch": table.epoch,
                "buffered": sum(rest.num_rows for rest in buffered.values()),
                "sketch": [one.as_json() for one in sketches],
                "epoch_sketches": epoch_sketches,
                "sent": sent.tolist(),
            },
        )

    def _batches_by_side(self, step_input: Input) -> Mapping[JoinSide, Iterable[MessageBatch]]:
        """Return the messages of each side that the unit reads; those of a self-join are under the left one."""
        if self._is_self_join:
            return {JoinSide.LEFT: step_input.batches}
        sides = sorted({SIDES[partition % len(SIDES)] for partition in step_input.ranges})
        if len(sides) == 1:
            return {sides[0]: step_input.batches}
        by_side: dict[JoinSide, list[MessageBatch]] = {side: [] for side in sides}
        for batch in step_input.batches:
            by_side[SIDES[batch.partition % len(SIDES)]].append(batch)
        return by_side

    def _joinable_keys(self, side: JoinSide, rows: pa.RecordBatch, counts: Counter[str]) -> tuple[Ints, Ints]:
        """Return the rows that can have partners, and their keys."""
        passed = np.asarray(self._condition.filter(side, rows), np.bool_)
        keys, valid = self._condition.keys(side, rows)
        joinable = np.flatnonzero(passed & valid)
        counts.update(filtered=passed.size - int(passed.sum()), unjoinable=int(passed.sum()) - joinable.size)
        return joinable, np.require(keys, requirements="A") if joinable.size == keys.size else keys[joinable]

    def _read_table(self, table_json: Any) -> RoutingTable:
        """Return the routing table of a round, decoded only when it changes."""
        if self._table is None or (table_json is not self._table_json and table_json != self._table_json):
            self._table, self._table_json = RoutingTable.from_json(table_json), table_json
            self._routes = tuple(Routes.of(self._table, side, self._condition.key_band, self._tasks) for side in SIDES)
        return self._table


def make_router(
    left: Mapping[str, Any],
    right: Mapping[str, Any],
    units: int,
    tasks: int,
    condition: Mapping[str, Any],
    *,
    expires: bool = False,
) -> Router:
    """Build the step from the plain values of a stage's arguments."""
    sides = (RelationSource.from_json(left), RelationSource.from_json(right))
    return Router(*sides, units, tasks, Condition.from_json(condition), expires=expires)


@dataclass(frozen=True)
class _RoutedTuples:
    """Tuples of one side in the order of their tasks and actions; `rows` has the row of each in `carried`."""

    schema: pa.Schema
    numbers: Sequence[pa.Array]  # key, seq, unit and action
    rows: pa.Array
    carried: Sequence[pa.Array]
    bounds: Ints

    @staticmethod
    def of(
        schema: pa.Schema, keys: Ints, seqs: Ints, joinable: Ints, carried: Sequence[pa.Array], grouped: RowsByTask
    ) -> _RoutedTuples:
        """Gather the tuples; `joinable` has the row of each in `carried`, columns of all rows."""
        columns = [np.empty(grouped.sent, kind) for kind in (np.int64, np.int64, np.uint8, np.uint8, np.int64)]
        gather_targets(grouped.rows, grouped.bounds, keys, seqs, grouped.stored, joinable, *columns)
        *numbers, rows = map(pa.array, columns)
        return _RoutedTuples(schema, numbers, rows, carried, grouped.bounds)

    def batches(self, task: int) -> Iterator[pa.RecordBatch]:
        """Yield the tuples of a task in batches of bounded size, by action and in order."""
        end = int(self.bounds[3 * task + 3])
        for first in range(int(self.bounds[3 * task]), end, BATCH_ROWS):
            size = min(BATCH_ROWS, end - first)
            rows = self.rows.slice(first, size)
            arrays = [column.slice(first, size) for column in self.numbers]
            yield pa.RecordBatch.from_arrays(
                [*arrays, *(column.take(rows) for column in self.carried)], schema=self.schema
            )


def _with_commands(sent: Sequence[RoutedBatch], round_: int, commands: EpochCommands) -> list[RoutedBatch]:
    """Return the batches with commands in the first one; an empty batch carries them if there is none."""
    first, *rest = sent or [RoutedBatch(round_, pa.RecordBatch.from_pylist([], schema=_TUPLES))]
    return [replace(first, commands=commands), *rest]


def _split_rows(table: pa.Table, leftover: Sequence[pa.RecordBatch]) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the rows of this round, leftovers of earlier rounds first, and the rows that do not fit into it."""
    batch = _single_batch(pa.concat_tables([pa.Table.from_batches(leftover), table]) if leftover else table)
    return batch.slice(0, ROWS), batch.slice(ROWS)


def _single_batch(table: pa.Table) -> pa.RecordBatch:
    if table.num_columns == 0 or table.num_rows == 0:
        return pa.RecordBatch.from_pylist([], schema=table.schema)
    batch, *more = table.combine_chunks().to_batches()
    if more:
        raise ValueTooLongError(
            f"{table.num_rows:,} rows of {table.nbytes:,} bytes in a round, but a text column can hold 2 GB: "
            "declare a smaller `max_messages_per_round`, and reset the job"
        )
    return batch


def _read_sketches(state: State) -> list[Sketch]:
    summary = state.scalars.get("sketch")
    if summary is None:
        return [Sketch.empty(), Sketch.empty()]
    return [Sketch.from_batch(state.runs[side.name][0], *summary[side]) for side in SIDES]


def _next_state(
    state: State, scalars: Mapping[str, Any], sketches: Sequence[Sketch], buffered: Mapping[str, pa.RecordBatch]
) -> State:
    """Return the state after a round; unchanged runs stay the same objects."""
    summary = [[one.total, one.missed] for one in sketches]
    previous = state.scalars.get("sketch", [None, None])
    runs = {
        side.name: state.runs[side.name] if summary[side] == previous[side] else (sketches[side].to_batch(),)
        for side in SIDES
    }
    runs |= {name: (rest,) for name, rest in buffered.items()}
    return State({**scalars, "sketch": summary}, runs)
