"""The router's step: tuples of both streams to the units that store them and to those that may hold partners.

Even router units read partitions of the left topic, odd ones those of the right topic. Of a join of a topic with
itself, every row is a tuple of both sides: row i is the left tuple 2i and the right tuple 2i + 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.persistence.model.codec import from_plain, plain
from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.predicate import Relation, RelationTold
from springline.spark_jobs.streaming.join.errors import ValueTooLongError
from springline.spark_jobs.streaming.join.routing.routes import ACTS, Grouped, Routes
from springline.spark_jobs.streaming.join.routing.sketch import Sketch
from springline.spark_jobs.streaming.join.routing.table import SIDES, Table
from springline.spark_jobs.streaming.join.wire import KEY, ROWS, SEQ, Orders, Reach, Sent, Side, first_seq
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Input, Output, State
from springline.spark_jobs.streaming.sources.decoder import rows_of
from springline.spark_jobs.streaming.sources.layout import Layout

TABLE = "routing"  # the name that rounds give the table
BATCH = 32_768  # rows of a batch that is sent, at most

_HELD = "held"  # the run of rows that did not fit into their round
_TUPLES = pa.schema([pa.field(KEY, pa.int64()), pa.field(SEQ, pa.int64())])

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Source:
    """Where a relation's rows come from: a topic, and the form of its messages; CSV has the fields in their order."""

    topic: str
    relation: Relation
    form: str = "csv"
    delimiter: str = ","

    @property
    def layout(self) -> Layout:
        """How its rows are written."""
        return Layout(self.form, self.relation.fields, self.delimiter)

    def as_json(self) -> dict[str, Any]:
        """For the arguments of a step."""
        told: dict[str, Any] = plain(_SourceTold(self.topic, self.relation.told, self.form, self.delimiter))
        return told

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> Source:
        """The inverse of `as_json`; raises `InvalidRelationError` and `DecodeError`."""
        found = from_plain(_SourceTold, told, "a side of a join")
        return Source(found.topic, found.relation.relation, found.form, found.delimiter)


@dataclass(frozen=True, slots=True)
class _SourceTold:
    """A source as JSON has it."""

    topic: str
    relation: RelationTold
    form: str
    delimiter: str


class Keyed(Protocol):
    """What a router needs of a join's condition; rows are batches whose columns are called as the relation's fields."""

    @property
    def reach(self) -> Reach:
        """Which right keys may match a left one."""

    def fields(self, side: Side) -> Sequence[str]:
        """The fields of a side that must be read."""

    def filter(self, side: Side, rows: pa.RecordBatch) -> Flags:
        """Which rows can have partners at all, by what is asked of one side alone."""

    def keys(self, side: Side, rows: pa.RecordBatch) -> tuple[Ints, Flags]:
        """The key of each row, and which rows have one."""

    def tuples(self, side: Side, keys: Ints, seqs: Ints, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows as units get them: key, seq, and the columns that the side carries."""


class Router:
    """The step; `units` are all that there is room for.

    If it is `clocked`, its watermark is the round's clock, by which units know what has expired.
    """

    def __init__(self, left: Source, right: Source, units: int, condition: Keyed, *, clocked: bool = False) -> None:
        self._sources = (left, right)
        self._itself = left.topic == right.topic
        self._units = units
        self._condition = condition
        self._clocked = clocked
        self._told: Any = None
        self._table: Table | None = None
        self._routes: tuple[Routes, ...] = ()

    def __call__(self, state: State, given: Input) -> Output:
        """One round."""
        table = self._look(given.round.versions[TABLE])
        sides = SIDES if self._itself else (SIDES[given.unit % len(SIDES)],)
        source = self._sources[sides[0]]
        needed = {name for side in sides for name in self._condition.fields(side)}
        found = rows_of(source.layout, needed, given.messages)
        rows, held = _within(found.table, state, ROWS // len(sides))
        counts = Counter(
            rows=found.table.num_rows, dead=len(found.dead), filtered=0, unjoinable=0, tuples=0, messages=0
        )
        sketches = _sketches(state)
        sent = np.array(state.scalars.get("sent", np.zeros((len(SIDES), self._units), np.int64)))
        anew = state.scalars.get("epoch") != table.epoch
        begun = [one.as_json() for one in sketches] if anew else state.scalars["begun"]
        parts: list[list[Sent]] = [[] for _ in range(self._units)]
        for place, side in enumerate(sides):
            kept, keys = self._keyed(side, rows, counts)
            seqs = first_seq(given.round.number, given.unit) + kept * len(sides) + place
            sketches[side] = sketches[side].counted(keys)
            grouped = self._routes[side].grouped(keys, seqs)
            counts.update(tuples=keys.size, messages=grouped.messages)
            sent[side] += grouped.stored
            tuples = self._condition.tuples(side, keys, seqs, _taken(rows, kept))
            _send(parts, grouped, Sent(given.round.number, tuples, side))
        if anew:
            parts = [_ordered(sent, given.round.number, table.orders) for sent in parts]
        return Output(
            _after(state, {"epoch": table.epoch, "begun": begun, "sent": sent.tolist()}, sketches, held),
            {unit: [one.batch() for one in sent] for unit, sent in enumerate(parts) if sent},
            watermark=given.round.clock if self._clocked else None,
            dead=[self._placed(letter, source.topic, given.unit) for letter in found.dead],
            counts=counts,
            gauges={
                "epoch": table.epoch,
                "held": held.num_rows,
                "sketch": [one.as_json() for one in sketches],
                "begun": begun,
                "sent": sent.tolist(),
            },
        )

    def _keyed(self, side: Side, rows: pa.RecordBatch, counts: Counter[str]) -> tuple[Ints, Ints]:
        """The rows that take part, and their keys."""
        passed = np.asarray(self._condition.filter(side, rows), np.bool_)
        keys, valid = self._condition.keys(side, rows)
        kept = np.flatnonzero(passed & valid)
        counts.update(filtered=passed.size - int(passed.sum()), unjoinable=int(passed.sum()) - kept.size)
        return kept, keys if kept.size == keys.size else keys[kept]

    def _placed(self, letter: DeadLetter, topic: str, unit: int) -> DeadLetter:
        """With the topic and the partition there of the message that it was in: the two topics are read as one."""
        return replace(letter, topic=topic, partition=unit if self._itself else unit // len(SIDES))

    def _look(self, told: Any) -> Table:
        """The table of a round; it is the same for many."""
        if self._table is None or (told is not self._told and told != self._told):
            self._table, self._told = Table.from_json(told), told
            self._routes = tuple(Routes.of(self._table, side, self._condition.reach) for side in SIDES)
        return self._table


def make_router(
    left: Mapping[str, Any],
    right: Mapping[str, Any],
    units: int,
    condition: Mapping[str, Any],
    *,
    clocked: bool = False,
) -> Router:
    """The step from plain values, as a stage names it."""
    sides = (Source.from_json(left), Source.from_json(right))
    return Router(*sides, units, Condition.from_json(condition), clocked=clocked)


def _send(parts: list[list[Sent]], grouped: Grouped, whole: Sent) -> None:
    """Add the tuples of a side to what is sent each unit, by act and in their order."""
    for target in np.flatnonzero(np.diff(grouped.bounds)).tolist():
        own = grouped.rows[grouped.bounds[target] : grouped.bounds[target + 1]]
        for first in range(0, own.size, BATCH):
            tuples = whole.tuples.take(pa.array(own[first : first + BATCH]))
            parts[target // len(ACTS)].append(replace(whole, tuples=tuples, act=ACTS[target % len(ACTS)]))


def _ordered(sent: Sequence[Sent], round_: int, orders: Orders) -> list[Sent]:
    """With orders in the first batch, which is an empty one where there is none."""
    first, *rest = sent or [Sent(round_, pa.RecordBatch.from_pylist([], schema=_TUPLES))]
    return [replace(first, orders=orders), *rest]


def _within(table: pa.Table, state: State, most: int) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The rows of this round, those that are left from earlier ones first, and those that are left now."""
    left = state.runs.get(_HELD, ())
    whole = _whole(pa.concat_tables([pa.Table.from_batches(left), table]) if left else table)
    return whole.slice(0, most), whole.slice(most)


def _whole(table: pa.Table) -> pa.RecordBatch:
    if table.num_columns == 0 or table.num_rows == 0:
        return pa.RecordBatch.from_pylist([], schema=table.schema)
    whole, *more = table.combine_chunks().to_batches()
    if more:
        raise ValueTooLongError(
            f"{table.num_rows:,} rows of {table.nbytes:,} bytes in a round, and a column of texts holds 2 GB: "
            "declare a smaller `admitted`, and let the job begin anew"
        )
    return whole


def _taken(rows: pa.RecordBatch, kept: Ints) -> pa.RecordBatch:
    return rows if kept.size == rows.num_rows else rows.take(pa.array(kept))


def _sketches(state: State) -> list[Sketch]:
    told = state.scalars.get("sketch")
    if told is None:
        return [Sketch.empty(), Sketch.empty()]
    return [Sketch.of_batch(state.runs[side.name][0], *told[side]) for side in SIDES]


def _after(state: State, scalars: Mapping[str, Any], sketches: Sequence[Sketch], held: pa.RecordBatch) -> State:
    """The state after a round; runs that say the same are the same objects."""
    told = [[one.total, one.missed] for one in sketches]
    before = state.scalars.get("sketch", [None, None])
    runs = {
        side.name: state.runs[side.name] if told[side] == before[side] else (sketches[side].batch(),) for side in SIDES
    }
    if held.num_rows:
        runs[_HELD] = (held,)
    return State({**scalars, "sketch": told}, runs)
