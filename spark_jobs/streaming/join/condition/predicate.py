"""An SQL predicate over two relations, parsed and checked: its conjuncts, and the sides that they use.

Fields are named with the alias of their relation (`l.orderkey`), or alone if only one side has them. Nulls follow SQL;
NaN is equal to nothing and has no order. Keys are compared exactly; in checks on candidates, an integer that does not
fit 64 bits has no value, and a pair in which one occurs does not match.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from springline.persistence.model.invisible_characters import find_invisible
from springline.spark_jobs.streaming.join.errors import InvalidConditionError, InvalidRelationError
from springline.spark_jobs.streaming.join.wire import JoinSide
from springline.spark_jobs.streaming.sources.field_types import sql_type
from springline.spark_jobs.streaming.sources.layout import fault_of_fields
from springline.spark_jobs.streaming.sql.evaluation import parts_of
from springline.spark_jobs.streaming.sql.expressions import (
    Expression,
    check_expression,
    column_of_path,
    normalize,
)
from springline.spark_jobs.streaming.sql.operations import Scope, Type, path_of
from springline.spark_jobs.streaming.sql.text import Refusal, SqlText

_SHOWN = 200  # characters of a text in an error


@dataclass(frozen=True)
class Relation:
    """One side of a join: its alias in the predicate, and the types of its fields."""

    alias: str
    fields: Mapping[str, str]

    def __post_init__(self) -> None:
        """Raises `InvalidRelationError`."""
        if not self.alias.isidentifier() or find_invisible(self.alias):
            raise InvalidRelationError(f"{self.alias!r} cannot be the alias of a side: write a name such as l")
        if not self.fields:
            raise InvalidRelationError(f"side {self.alias!r} has no fields")
        if fault := fault_of_fields(self.fields.items()):
            raise InvalidRelationError(f"side {self.alias!r}: {fault}")

    def full_name(self, name: str) -> str:
        """Return a field's name that is unique in the join."""
        return f"{self.alias}.{name}"

    @staticmethod
    def of(alias: str, fields: Sequence[tuple[str, str]]) -> Relation:
        """Build from ordered names with types; raises `InvalidRelationError`, also for duplicate names."""
        if fault := fault_of_fields(fields):
            raise InvalidRelationError(f"side {alias!r}: {fault}")
        return Relation(alias, dict(fields))

    @property
    def spec(self) -> RelationSpec:
        """The form for a file or the arguments of a step."""
        return RelationSpec(self.alias, tuple(self.fields.items()))


@dataclass(frozen=True, slots=True)
class RelationSpec:
    """The JSON form of a relation: fields as pairs, since CSV needs their order, which JSON objects do not have."""

    alias: str
    fields: tuple[tuple[str, str], ...]

    @property
    def relation(self) -> Relation:
        """The relation; raises `InvalidRelationError`."""
        return Relation.of(self.alias, self.fields)


@dataclass(frozen=True)
class Names:
    """The names that a text may use: the fields of the two sides, left and right."""

    left: Relation
    right: Relation

    def __post_init__(self) -> None:
        """Raises `InvalidRelationError`."""
        if self.left.alias == self.right.alias:
            raise InvalidRelationError(f"both sides of the join have the alias {self.left.alias!r}")

    def of(self, side: JoinSide) -> Relation:
        """Return the relation of a side."""
        return self.left if side is JoinSide.LEFT else self.right

    @property
    def types(self) -> dict[str, Type]:
        """The types of all fields in SQL, by full name."""
        sides = (self.left, self.right)
        return {side.full_name(name): sql_type(kind) for side in sides for name, kind in side.fields.items()}

    def sides(self, expression: Expression) -> frozenset[JoinSide]:
        """Return the sides whose fields an expression uses."""
        prefix = f"{self.left.alias}."
        return frozenset(JoinSide.LEFT if name.startswith(prefix) else JoinSide.RIGHT for name in expression.columns)

    def parse(self, text: str, what: str) -> exp.Expr:
        """Parse a text with one expression, and qualify its columns by full names; raises `InvalidConditionError`."""
        sql = SqlText.of(text, _refusal(text))
        with sql.translated_errors():
            statements = sql.statements()
            if len(statements) != 1 or isinstance(statements[0], exp.Query | exp.Command):
                raise sql.error_at(f"write {what}")
            node = normalize(statements[0])
            return node.transform(lambda part: self._resolve(part, sql))

    def check_types(self, node: exp.Expr, text: str) -> Expression:
        """Check the types of a parsed expression; raises `InvalidConditionError`."""
        sql = SqlText(text, _refusal(text))
        with sql.translated_errors():
            return check_expression(node, Scope(sql, self.types, "the join", is_join=True))

    def _resolve(self, column: exp.Expr, sql: SqlText) -> exp.Expr:
        """Qualify a column by its full name; `l.user.id` is the field `user.id` of the side l."""
        if not (path := path_of(column)):
            return column
        alias, _, name = path.partition(".")
        sides = [side for side in (self.left, self.right) if name and side.alias == alias]
        if not sides:
            sides = [side for side in (self.left, self.right) if path in side.fields or "." not in path]
            alias, name = "", path
        if isinstance(column, exp.Dot | exp.Bracket) and not any(name in side.fields for side in sides):
            return column  # the column in it is none either
        if not sides:
            called = path.rpartition(".")[0]
            aliases = f"{self.left.alias} and {self.right.alias}"
            raise sql.error_at_node(column, f"there is no side {called!r}; the sides are {aliases}")
        owners = [side for side in sides if name in side.fields]
        if not owners:
            where = " or ".join(f"{side.alias} (it has {', '.join(side.fields)})" for side in sides)
            raise sql.error_at_node(column, f"there is no field {name!r} in {where}")
        if len(owners) > 1:
            both = " or ".join(side.full_name(name) for side in owners)
            raise sql.error_at_node(column, f"both sides have a field {name!r}: write {both}")
        return column_of_path(column, owners[0].full_name(name))


def _refusal(text: str) -> Refusal:
    return lambda message, line, column: InvalidConditionError(text[:_SHOWN], message, line=line, column=column)


def conjuncts(names: Names, text: str) -> tuple[Expression, ...]:
    """Return the conditions that a predicate joins by AND; BETWEEN is two. Raises `InvalidConditionError`."""
    predicate = names.parse(text, "one condition, such as l.custkey = r.custkey")
    if names.check_types(predicate, text).type != "boolean":
        raise InvalidConditionError(text, "it is not a condition; write one, such as l.custkey = r.custkey")
    return tuple(names.check_types(part, text) for part in _conjunct_nodes(names, predicate, text))


def _conjunct_nodes(names: Names, node: exp.Expr, text: str) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Paren):
        yield from _conjunct_nodes(names, node.this, text)
    elif isinstance(node, exp.And):
        yield from _conjunct_nodes(names, node.this, text)
        yield from _conjunct_nodes(names, node.expression, text)
    elif isinstance(node, exp.Between) and len({names.check_types(part, text).type for part in parts_of(node)}) == 1:
        yield exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
        yield exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
    else:  # numbers of both types are compared as doubles, all three
        yield node
