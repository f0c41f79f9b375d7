"""A join's condition: which rows take part, by which keys partners are found, what is checked, what comes out.

    Condition.of(left, right, "abs(l.key - r.key) <= 1 AND l.shipmode = 'TRUCK'", ["l.key", "r.name AS customer"])

Conditions on one side drop rows before they are sent. Of those that compare the sides, equality makes the key where
there is one, else a band, else an order; whatever the key does not say exactly is checked on each candidate pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from springline.persistence.model.codec import from_plain, plain
from springline.spark_jobs.streaming.join.condition.checked_arithmetic import Columns, Ints, Mask, holds, without_nan
from springline.spark_jobs.streaming.join.condition.key_choice import chosen
from springline.spark_jobs.streaming.join.condition.keys import Keys
from springline.spark_jobs.streaming.join.condition.predicate import Names, Relation, RelationTold, conjuncts
from springline.spark_jobs.streaming.join.errors import InvalidConditionError
from springline.spark_jobs.streaming.join.wire import KEY, SEQ, Reach, Side
from springline.spark_jobs.streaming.sql.expressions import ARROW, Expression


@dataclass(frozen=True)
class Condition:
    """What a join asks for; rows are batches whose columns are called as the fields of their side.

    `filters` are conditions on one side, `checks` those on candidate pairs, `outputs` the columns of results by name.
    """

    names: Names
    where: str
    select: tuple[str, ...]
    by: Keys = field(repr=False)
    filters: Mapping[Side, tuple[Expression, ...]] = field(repr=False)
    checks: tuple[Expression, ...] = field(repr=False)
    outputs: Mapping[str, Expression] = field(repr=False)

    @staticmethod
    def of(left: Relation, right: Relation, where: str, select: Sequence[str] = ()) -> Condition:
        """From its texts; without `select`, all fields of both sides.

        Raises `InvalidConditionError`, `InvalidRelationError`.
        """
        names = Names(left, right)
        parts = conjuncts(names, where)
        of_one = {side: tuple(part for part in parts if names.sides(part) <= {side}) for side in Side}
        both = [part for part in parts if len(names.sides(part)) == 2]
        by, checks = chosen(names, both, where)
        return Condition(names, where, tuple(select), by, of_one, checks, _outputs(names, select))

    @property
    def reach(self) -> Reach:
        """Which right keys may match a left one."""
        return self.by.reach

    @property
    def schema(self) -> pa.Schema:
        """The columns of results."""
        return pa.schema([(name, ARROW[expression.type]) for name, expression in self.outputs.items()])

    def fields(self, side: Side) -> tuple[str, ...]:
        """The fields of a side that must be read: for filters, keys, checks or results; in their declared order."""
        own = self.names.of(side)
        needed = {name for condition in self.filters[side] for name in condition.columns}
        needed.update(self.by.names(side), self._carried(side))
        return tuple(name for name in own.fields if own.full(name) in needed)

    def carried(self, side: Side) -> pa.Schema:
        """The columns that go with a tuple besides its key and seq, by the full names of their fields (`l.name`).

        A field that is the key itself is not among them.
        """
        own = self.names.of(side)
        needed = self._carried(side) - {self.by.field(side)}
        return pa.schema([(own.full(n), ARROW[kind]) for n, kind in own.fields.items() if own.full(n) in needed])

    def tuple_schema(self, side: Side) -> pa.Schema:
        """The columns of tuples as routers send them and units store them."""
        return pa.schema([(KEY, pa.int64()), (SEQ, pa.int64()), *self.carried(side)])

    def filter(self, side: Side, rows: pa.RecordBatch) -> Mask:
        """Which rows of a side take part."""
        columns = self._columns(side, rows)
        mask = np.ones(rows.num_rows, np.bool_)
        for condition in self.filters[side]:
            mask &= holds(condition, columns, rows.num_rows)
        return mask

    def keys(self, side: Side, rows: pa.RecordBatch) -> tuple[Ints, Mask]:
        """The key of each row, and which rows have one; the others match nothing."""
        return self.by.of(side, self._columns(side, rows), rows.num_rows)

    def tuples(self, side: Side, keys: Ints, seqs: Ints, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows as routers send them: key, seq, then what goes with them."""
        columns = self._columns(side, rows)
        arrays = [pa.array(keys), pa.array(seqs), *(columns[name] for name in self.carried(side).names)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.tuple_schema(side))

    def residual(self, left: Columns, right: Columns) -> Mask:
        """Which candidate pairs are pairs; the columns are what `checked` names, a row for each candidate."""
        columns = {**left, **right}
        rows = len(next(iter(columns.values()), ()))
        mask = np.ones(rows, np.bool_)
        for condition in self.checks:
            mask &= holds(condition, columns, rows)
        return mask

    def checked(self, side: Side) -> Mapping[str, str]:
        """The columns that `residual` looks at, each with the one of tuples that it is."""
        return self._stored(side, self.checks)

    def shown(self, side: Side) -> Mapping[str, str]:
        """The columns that `output` looks at, each with the one of tuples that it is."""
        return self._stored(side, self.outputs.values())

    def output(self, left: Columns, right: Columns, rows: int, query: str) -> pa.RecordBatch:
        """Pairs as results of a query, from the columns that `shown` names."""
        columns = {**left, **right}
        arrays = [expression.values(columns, rows) for expression in self.outputs.values()]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema.with_metadata({"query": query}))

    def as_json(self) -> dict[str, Any]:
        """For the arguments of a step."""
        told: dict[str, Any] = plain(self.told)
        return told

    @property
    def told(self) -> ConditionTold:
        """The texts that it is made of."""
        return ConditionTold(self.names.left.told, self.names.right.told, self.where, self.select)

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> Condition:
        """The inverse of `as_json`; raises `DecodeError`, and what `of` raises."""
        found = from_plain(ConditionTold, told, "the condition of a join")
        return Condition.of(found.left.relation, found.right.relation, found.where, found.select)

    def _stored(self, side: Side, expressions: Iterable[Expression]) -> Mapping[str, str]:
        named = {name for expression in expressions for name in expression.columns} & self._carried(side)
        return {name: KEY if name == self.by.field(side) else name for name in sorted(named)}

    def _carried(self, side: Side) -> frozenset[str]:
        prefix = f"{self.names.of(side).alias}."
        return frozenset(name for name in self._used if name.startswith(prefix))

    @cached_property
    def _used(self) -> frozenset[str]:
        """The columns that candidate pairs are checked by, or that results show."""
        return frozenset(name for each in (*self.checks, *self.outputs.values()) for name in each.columns)

    def _columns(self, side: Side, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        own = self.names.of(side)
        found = {}
        for name in self.fields(side):
            array, wanted = rows.column(name), ARROW[own.fields[name]]
            found[own.full(name)] = without_nan(array if array.type == wanted else array.cast(wanted))
        return found


@dataclass(frozen=True, slots=True)
class ConditionTold:
    """A condition as JSON has it."""

    left: RelationTold
    right: RelationTold
    where: str
    select: tuple[str, ...] = ()


def _outputs(names: Names, select: Sequence[str]) -> dict[str, Expression]:
    """The columns of results, by name."""
    if not select:
        return _everything(names)
    found: dict[str, Expression] = {}
    for text in select:
        node = names.parsed(text, "one column of the results, such as r.name AS customer")
        value = names.checked(node.this if isinstance(node, exp.Alias) else node, text)
        if isinstance(node, exp.Alias):
            name = node.alias
        elif isinstance(value.node, exp.Column):
            name = value.node.name.partition(".")[2]
        else:
            raise InvalidConditionError(text, "give it a name: AS total, say")
        if value.type == "null":
            raise InvalidConditionError(text, "NULL has no type")
        if name in found:
            raise InvalidConditionError(text, f"there are two columns {name!r} in the results: rename one with AS")
        found[name] = value
    return found


def _everything(names: Names) -> dict[str, Expression]:
    """All fields of both sides; those that both have are called l_name and r_name."""
    both = set(names.left.fields) & set(names.right.fields)
    found: dict[str, Expression] = {}
    for own in (names.left, names.right):
        for name in own.fields:
            shown = f"{own.alias}_{name}" if name in both else name
            if shown in found:
                raise InvalidConditionError(
                    "*", f"there are two columns {shown!r} in the results: name columns in `select`"
                )
            found[shown] = names.checked(exp.column(own.full(name), quoted=True), own.full(name))
    return found
