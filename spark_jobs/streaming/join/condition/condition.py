"""A join's condition: filters on rows, the key that finds partners, checks on candidate pairs, and the output.

    Condition.of(left, right, "abs(l.key - r.key) <= 1 AND l.shipmode = 'TRUCK'", ["l.key", "r.name AS customer"])

Conditions on one side drop rows before they are sent. Of those that compare the sides, an equality provides the key if
there is one, else a band, else an order; conditions that the key does not express exactly are checked on each candidate
pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from springline.persistence.model.codec import from_json_value, to_json_value
from springline.spark_jobs.streaming.join.condition.checked_arithmetic import Columns, Ints, Mask, is_true, without_nan
from springline.spark_jobs.streaming.join.condition.key_choice import choose_keys
from springline.spark_jobs.streaming.join.condition.keys import JoinKeys
from springline.spark_jobs.streaming.join.condition.predicate import Names, Relation, RelationSpec, conjuncts
from springline.spark_jobs.streaming.join.errors import InvalidConditionError
from springline.spark_jobs.streaming.join.wire import ACTION, KEY, SEQ, UNIT, JoinSide, KeyBand
from springline.spark_jobs.streaming.sources.field_types import arrow_type, is_stored_as_number, sql_type, stored, typed
from springline.spark_jobs.streaming.sql.expressions import Expression


@dataclass(frozen=True)
class Condition:
    """The condition of a join; rows are batches whose columns are named as the fields of their side.

    `filters` are conditions on one side, `checks` those on candidate pairs, `outputs` the columns of results by name.
    """

    names: Names
    where: str
    select: tuple[str, ...]
    join_keys: JoinKeys = field(repr=False)
    filters: Mapping[JoinSide, tuple[Expression, ...]] = field(repr=False)
    checks: tuple[Expression, ...] = field(repr=False)
    outputs: Mapping[str, Expression] = field(repr=False)

    @staticmethod
    def of(left: Relation, right: Relation, where: str, select: Sequence[str] = ()) -> Condition:
        """Build from texts; without `select`, all fields of both sides are selected.

        Raises `InvalidConditionError`, `InvalidRelationError`.
        """
        names = Names(left, right)
        parts = conjuncts(names, where)
        filters = {side: tuple(part for part in parts if names.sides(part) <= {side}) for side in JoinSide}
        two_sided = [part for part in parts if len(names.sides(part)) == 2]
        join_keys, checks = choose_keys(names, two_sided, where)
        return Condition(names, where, tuple(select), join_keys, filters, checks, _outputs(names, select))

    @property
    def key_band(self) -> KeyBand:
        """Which right keys may match a left one."""
        return self.join_keys.key_band

    @property
    def schema(self) -> pa.Schema:
        """The columns of results."""
        return pa.schema([(name, arrow_type(expression.type)) for name, expression in self.outputs.items()])

    def fields(self, side: JoinSide) -> tuple[str, ...]:
        """Return the fields of a side that filters, keys, checks or results use; in their declared order."""
        return self._fields[side]

    @cached_property
    def _fields(self) -> Mapping[JoinSide, tuple[str, ...]]:
        return {side: self._fields_of(side) for side in JoinSide}

    def _fields_of(self, side: JoinSide) -> tuple[str, ...]:
        own = self.names.of(side)
        needed = {name for condition in self.filters[side] for name in condition.columns}
        needed.update(self.join_keys.names(side), self._carried(side))
        return tuple(name for name in own.fields if own.full_name(name) in needed)

    def carried_schema(self, side: JoinSide) -> pa.Schema:
        """Return the columns of a tuple apart from its key and seq, by the full names of their fields (`l.name`).

        Values are as `field_types.stored` returns them: 64-bit numbers and strings. A field that is the key itself is
        not among them.
        """
        return self._carried_schemas[side]

    @cached_property
    def _carried_schemas(self) -> Mapping[JoinSide, pa.Schema]:
        return {side: self._carried_schema_of(side) for side in JoinSide}

    def _carried_schema_of(self, side: JoinSide) -> pa.Schema:
        own = self.names.of(side)
        needed = self._carried(side) - {self.join_keys.field(side)}
        return pa.schema(
            [(own.full_name(n), _stored_type(kind)) for n, kind in own.fields.items() if own.full_name(n) in needed]
        )

    def tuple_schema(self, side: JoinSide) -> pa.Schema:
        """Return the columns of tuples as tasks store them."""
        return pa.schema([(KEY, pa.int64()), (SEQ, pa.int64()), (UNIT, pa.uint8()), *self.carried_schema(side)])

    def routed_schema(self, side: JoinSide) -> pa.Schema:
        """Return the columns of tuples as routers send them: those of stored ones, with the action after the unit."""
        return self.tuple_schema(side).insert(3, pa.field(ACTION, pa.uint8()))

    def filter(self, side: JoinSide, rows: pa.RecordBatch) -> Mask:
        """Return a mask of the rows of a side that satisfy its filters."""
        columns = self._columns(side, rows)
        mask = np.ones(rows.num_rows, np.bool_)
        for condition in self.filters[side]:
            mask &= is_true(condition, columns, rows.num_rows)
        return mask

    def keys(self, side: JoinSide, rows: pa.RecordBatch) -> tuple[Ints, Mask]:
        """Return the key of each row, and a mask of the rows that have one; the others match nothing."""
        return self.join_keys.of(side, self._columns(side, rows), rows.num_rows)

    def carried(self, side: JoinSide, rows: pa.RecordBatch) -> list[pa.Array]:
        """Return the carried columns of rows, as `carried_schema` orders them."""
        columns = self._columns(side, rows)
        return [stored(columns[name]) for name in self.carried_schema(side).names]

    def residual(self, left: Columns, right: Columns) -> Mask:
        """Return a mask of the candidate pairs that pass the checks; the columns are those of `checked_columns`."""
        columns = self._typed({**left, **right})
        rows = len(next(iter(columns.values()), ()))
        mask = np.ones(rows, np.bool_)
        for condition in self.checks:
            mask &= is_true(condition, columns, rows)
        return mask

    def checked_columns(self, side: JoinSide) -> Mapping[str, str]:
        """Return the columns that `residual` reads, each with its name in stored tuples."""
        return self._stored(side, self.checks)

    def output_columns(self, side: JoinSide) -> Mapping[str, str]:
        """Return the columns that `output` reads, each with its name in stored tuples."""
        return self._stored(side, self.outputs.values())

    def output(self, left: Columns, right: Columns, rows: int, query: str) -> pa.RecordBatch:
        """Return pairs as results of a query, from the columns of `output_columns`."""
        columns = self._typed({**left, **right})
        arrays = [expression.values(columns, rows) for expression in self.outputs.values()]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema.with_metadata({"query": query}))

    def as_json(self) -> dict[str, Any]:
        """Return the condition as JSON, for the arguments of a step."""
        raw: dict[str, Any] = to_json_value(self.spec)
        return raw

    @property
    def spec(self) -> ConditionSpec:
        """The texts that it is built from."""
        return ConditionSpec(self.names.left.spec, self.names.right.spec, self.where, self.select)

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Condition:
        """The inverse of `as_json`; raises `DecodeError`, and the errors of `of`."""
        spec = from_json_value(ConditionSpec, raw, "the condition of a join")
        return Condition.of(spec.left.relation, spec.right.relation, spec.where, spec.select)

    def _typed(self, columns: Columns) -> Columns:
        """Return stored columns in the types of their fields."""
        return {name: typed(column, self._types[name]) for name, column in columns.items()}

    @cached_property
    def _types(self) -> Mapping[str, str]:
        return self.names.types

    def _stored(self, side: JoinSide, expressions: Iterable[Expression]) -> Mapping[str, str]:
        named = {name for expression in expressions for name in expression.columns} & self._carried(side)
        return {name: KEY if name == self.join_keys.field(side) else name for name in sorted(named)}

    def _carried(self, side: JoinSide) -> frozenset[str]:
        prefix = f"{self.names.of(side).alias}."
        return frozenset(name for name in self._used if name.startswith(prefix))

    @cached_property
    def _used(self) -> frozenset[str]:
        """The columns that checks or results use."""
        return frozenset(name for each in (*self.checks, *self.outputs.values()) for name in each.columns)

    def _columns(self, side: JoinSide, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        columns = {}
        for name, full_name, expected in self._typed_fields[side]:
            array = rows.column(name)
            columns[full_name] = without_nan(array if array.type == expected else array.cast(expected))
        return columns

    @cached_property
    def _typed_fields(self) -> Mapping[JoinSide, list[tuple[str, str, pa.DataType]]]:
        """The fields of each side with their full names and types."""
        sides = {side: self.names.of(side) for side in JoinSide}
        return {
            side: [(name, own.full_name(name), arrow_type(own.fields[name])) for name in self.fields(side)]
            for side, own in sides.items()
        }


def _stored_type(declared: str) -> pa.DataType:
    """Return the type of the values of a field in tuples."""
    kind = sql_type(declared)
    if kind == "float":
        return pa.float64()
    return pa.int64() if is_stored_as_number(kind) or kind == "boolean" else pa.string()


@dataclass(frozen=True, slots=True)
class ConditionSpec:
    """The JSON form of a condition."""

    left: RelationSpec
    right: RelationSpec
    where: str
    select: tuple[str, ...] = ()


def _outputs(names: Names, select: Sequence[str]) -> dict[str, Expression]:
    """Return the columns of results, by name."""
    if not select:
        return _all_outputs(names)
    outputs: dict[str, Expression] = {}
    for text in select:
        node = names.parse(text, "one column of the results, such as r.name AS customer")
        value = names.check_types(node.this if isinstance(node, exp.Alias) else node, text)
        if isinstance(node, exp.Alias):
            name = node.alias
        elif isinstance(value.node, exp.Column):
            name = value.node.name.partition(".")[2]
        else:
            raise InvalidConditionError(text, "name it with AS, such as AS total")
        if value.type == "null":
            raise InvalidConditionError(text, "NULL has no type")
        if name in outputs:
            raise InvalidConditionError(text, f"duplicate column {name!r} in the results: rename one with AS")
        outputs[name] = value
    return outputs


def _all_outputs(names: Names) -> dict[str, Expression]:
    """Return all fields of both sides; names that both have are prefixed as l_name and r_name."""
    common = set(names.left.fields) & set(names.right.fields)
    outputs: dict[str, Expression] = {}
    for own in (names.left, names.right):
        for name in own.fields:
            label = f"{own.alias}_{name}" if name in common else name
            if label in outputs:
                raise InvalidConditionError("*", f"duplicate column {label!r} in the results: name columns in `select`")
            outputs[label] = names.check_types(exp.column(own.full_name(name), quoted=True), own.full_name(name))
    return outputs
