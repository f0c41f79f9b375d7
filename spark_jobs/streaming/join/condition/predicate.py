"""A predicate in SQL over two relations, read and checked: the conditions that it joins by AND, and their sides.

Fields are named with the alias of their relation (`l.orderkey`), or alone where only one side has them. Nulls are
SQL's; NaN is equal to nothing and in no order. Keys are compared exactly; in what is checked on candidates, a whole
number that does not fit 64 bits has no value, and a pair in which one comes up is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from sqlglot import exp

from springline.persistence.model.names import unseen_in
from springline.spark_jobs.streaming.join.errors import InvalidConditionError, InvalidRelationError
from springline.spark_jobs.streaming.join.wire import Side
from springline.spark_jobs.streaming.sources.layout import fault_of_fields
from springline.spark_jobs.streaming.sql.evaluation import parts_of
from springline.spark_jobs.streaming.sql.expressions import Expression, checked, normal
from springline.spark_jobs.streaming.sql.operations import Scope, Type
from springline.spark_jobs.streaming.sql.text import Refusal, SqlText

_SHOWN = 200  # characters of a text in an error


@dataclass(frozen=True)
class Relation:
    """One side of a join: the alias that the predicate calls it by, and the types of its fields."""

    alias: str
    fields: Mapping[str, Type]

    def __post_init__(self) -> None:
        """Raises `InvalidRelationError`."""
        if not self.alias.isidentifier() or unseen_in(self.alias):
            raise InvalidRelationError(f"{self.alias!r} cannot be the alias of a side: write a name such as l")
        if not self.fields:
            raise InvalidRelationError(f"side {self.alias!r} has no fields")
        if fault := fault_of_fields(self.fields.items()):
            raise InvalidRelationError(f"side {self.alias!r}: {fault}")

    def full(self, name: str) -> str:
        """A field's name as it is unique in the join."""
        return f"{self.alias}.{name}"

    @staticmethod
    def of(alias: str, fields: Sequence[tuple[str, str]]) -> Relation:
        """From names with types, in their order; raises `InvalidRelationError`, also where a name comes twice."""
        if fault := fault_of_fields(fields):
            raise InvalidRelationError(f"side {alias!r}: {fault}")
        return Relation(alias, cast(Mapping[str, Type], dict(fields)))

    @property
    def told(self) -> RelationTold:
        """For a file or the arguments of a step."""
        return RelationTold(self.alias, tuple(self.fields.items()))


@dataclass(frozen=True, slots=True)
class RelationTold:
    """A relation as JSON has it: fields as pairs, since CSV has them in an order, and JSON's objects have none."""

    alias: str
    fields: tuple[tuple[str, str], ...]

    @property
    def relation(self) -> Relation:
        """The relation; raises `InvalidRelationError`."""
        return Relation.of(self.alias, self.fields)


@dataclass(frozen=True)
class Names:
    """What a text may name: the fields of the two sides, left and right."""

    left: Relation
    right: Relation

    def __post_init__(self) -> None:
        """Raises `InvalidRelationError`."""
        if self.left.alias == self.right.alias:
            raise InvalidRelationError(f"both sides of the join are called {self.left.alias!r}")

    def of(self, side: Side) -> Relation:
        """A side."""
        return self.left if side is Side.LEFT else self.right

    @property
    def types(self) -> dict[str, Type]:
        """The types of all fields, by full name."""
        sides = (self.left, self.right)
        return {side.full(name): kind for side in sides for name, kind in side.fields.items()}

    def sides(self, expression: Expression) -> frozenset[Side]:
        """The sides whose fields an expression names."""
        prefix = f"{self.left.alias}."
        return frozenset(Side.LEFT if name.startswith(prefix) else Side.RIGHT for name in expression.columns)

    def parsed(self, text: str, what: str) -> exp.Expr:
        """The one expression of a text, its columns under their full names; raises `InvalidConditionError`."""
        sql = SqlText.of(text, _refusal(text))
        with sql.reading():
            found = sql.statements()
            if len(found) != 1 or isinstance(found[0], exp.Query | exp.Command):
                raise sql.bad(f"write {what}")
            node = normal(found[0])
            return node.transform(lambda part: self._resolved(part, sql) if isinstance(part, exp.Column) else part)

    def checked(self, node: exp.Expr, text: str) -> Expression:
        """Check the types of what was parsed; raises `InvalidConditionError`."""
        sql = SqlText(text, _refusal(text))
        with sql.reading():
            return checked(node, Scope(sql, self.types, "the join", joined=True))

    def _resolved(self, column: exp.Column, sql: SqlText) -> exp.Expr:
        alias, name = column.table, column.name
        sides = [side for side in (self.left, self.right) if not alias or side.alias == alias]
        if not sides or column.args.get("db"):
            called = column.sql().rpartition(".")[0]
            known = f"{self.left.alias} and {self.right.alias}"
            raise sql.bad_part(column, f"no side is called {called!r}; the sides are {known}")
        having = [side for side in sides if name in side.fields]
        if not having:
            where = " or ".join(f"{side.alias} (it has {', '.join(side.fields)})" for side in sides)
            raise sql.bad_part(column, f"there is no field {name!r} in {where}")
        if len(having) > 1:
            both = " or ".join(side.full(name) for side in having)
            raise sql.bad_part(column, f"both sides have a field {name!r}: write {both}")
        found = exp.column(having[0].full(name), quoted=True)
        found.this.meta.update(column.this.meta)
        return found


def _refusal(text: str) -> Refusal:
    return lambda message, line, column: InvalidConditionError(text[:_SHOWN], message, line=line, column=column)


def conjuncts(names: Names, text: str) -> tuple[Expression, ...]:
    """The conditions that a predicate joins by AND; BETWEEN is two of them. Raises `InvalidConditionError`."""
    whole = names.parsed(text, "one condition, such as l.custkey = r.custkey")
    if names.checked(whole, text).type != "bool":
        raise InvalidConditionError(text, "it is no condition: write one, such as l.custkey = r.custkey")
    return tuple(names.checked(part, text) for part in _parts(names, whole, text))


def _parts(names: Names, node: exp.Expr, text: str) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Paren):
        yield from _parts(names, node.this, text)
    elif isinstance(node, exp.And):
        yield from _parts(names, node.this, text)
        yield from _parts(names, node.expression, text)
    elif isinstance(node, exp.Between) and len({names.checked(part, text).type for part in parts_of(node)}) == 1:
        yield exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
        yield exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
    else:  # numbers of both types are compared as doubles, all three
        yield node
