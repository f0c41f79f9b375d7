"""A predicate in SQL over two relations, read and checked: the conditions that it joins by AND, and their sides.

Fields are named with the alias of their relation (`l.orderkey`), or alone where only one side has them. Nulls are
SQL's; NaN is equal to nothing and in no order. Keys are compared exactly; in what is checked on candidates, a whole
number that does not fit 64 bits has no value, and a pair in which one comes up is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from springline.persistence.model.names import unseen_in
from springline.spark_jobs.streaming.join.errors import BadCondition, BadRelation
from springline.spark_jobs.streaming.join.wire import Side
from springline.spark_jobs.streaming.sql.depth import too_deep, too_long
from springline.spark_jobs.streaming.sql.errors import BadQuery
from springline.spark_jobs.streaming.sql.evaluation import parts_of
from springline.spark_jobs.streaming.sql.expressions import Expression, checked, normal
from springline.spark_jobs.streaming.sql.operations import Scope, Type
from springline.spark_jobs.streaming.sql.text import uncommented, unfit

_TYPES = ("int", "float", "text")


@dataclass(frozen=True)
class Relation:
    """One side of a join: the alias that the predicate calls it by, and the types of its fields."""

    alias: str
    fields: Mapping[str, Type]

    def __post_init__(self) -> None:
        """Raises `BadRelation`."""
        if not self.alias.isidentifier() or unseen_in(self.alias):
            raise BadRelation(f"{self.alias!r} cannot be the alias of a side: write a name such as l")
        if not self.fields:
            raise BadRelation(f"side {self.alias!r} has no fields")
        for name, kind in self.fields.items():
            if unseen_in(name):
                raise BadRelation(f"side {self.alias!r}: the name {name!r} has a character that nobody sees")
            if kind not in _TYPES:
                raise BadRelation(f"side {self.alias!r}: {name} is {kind!r}; write int, float or text")

    def full(self, name: str) -> str:
        """A field's name as it is unique in the join."""
        return f"{self.alias}.{name}"

    def as_json(self) -> dict[str, Any]:
        """For a file or a round's versions."""
        return {"alias": self.alias, "fields": [[name, kind] for name, kind in self.fields.items()]}

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> Relation:
        """The inverse of `as_json`; raises `BadRelation`."""
        names = [name for name, _ in told["fields"]]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise BadRelation(f"side {told['alias']!r}: {', '.join(twice)} declared twice")
        return Relation(told["alias"], dict(told["fields"]))


@dataclass(frozen=True)
class Names:
    """What a text may name: the fields of the two sides, left and right."""

    left: Relation
    right: Relation

    def __post_init__(self) -> None:
        """Raises `BadRelation`."""
        if self.left.alias == self.right.alias:
            raise BadRelation(f"both sides of the join are called {self.left.alias!r}")

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
        """The one expression of a text, its columns under their full names; raises `BadCondition`."""
        try:
            return self._parsed(text, what)
        except RecursionError as error:  # what `nesting` has let pass, and the parser has not
            raise BadCondition(text[:200], "it is nested too deeply") from error

    def _parsed(self, text: str, what: str) -> exp.Expr:
        if odd := unfit(text):
            raise BadCondition(text[:200], odd)
        text = uncommented(text)
        try:
            if deep := too_deep(sqlglot.tokenize(text, read="duckdb")):
                raise BadCondition(text[:200], deep)
            found = [each for each in sqlglot.parse(text, read="duckdb") if each is not None]
        except SqlglotError as error:
            first = (getattr(error, "errors", None) or [{}])[0]
            near = f", near {first['highlight']!r}" if first.get("highlight") else ""
            said = first.get("description", str(error)).rstrip(".")
            said = "something is missing" if said.startswith("Required keyword") else said
            place = {"line": first.get("line"), "column": first.get("col")}
            raise BadCondition(text, f"not SQL: {said}{near}", **place) from error
        if len(found) != 1 or isinstance(found[0], exp.Query | exp.Command):
            raise BadCondition(text, f"write {what}")
        node: exp.Expr = found[0]
        if long := too_long(node):
            raise BadCondition(text[:200], long)
        node = normal(node)
        return node.transform(lambda part: self._resolved(part, text) if isinstance(part, exp.Column) else part)

    def checked(self, node: exp.Expr, text: str) -> Expression:
        """Check the types of what was parsed; raises `BadCondition`."""
        try:
            return checked(node, Scope("", tuple(text.split("\n")), self.types, "the join"))
        except SqlglotError as error:  # what was parsed, and cannot be written again
            raise BadCondition(text[:200], f"not SQL: {str(error).splitlines()[0][:200]}") from error
        except BadQuery as error:
            said = str(error).partition(": ")[2].partition("; and count, sum")[0]
            for name in self.types:
                said = said.replace(f'"{name}"', name)
            raise BadCondition(text[:200], said, line=error.line, column=error.column) from error

    def _resolved(self, column: exp.Column, text: str) -> exp.Expr:
        alias, name = column.table, column.name
        sides = [side for side in (self.left, self.right) if not alias or side.alias == alias]
        if not sides or column.args.get("db"):
            called = column.sql().rpartition(".")[0]
            known = f"{self.left.alias} and {self.right.alias}"
            raise self._unknown(column, text, f"no side is called {called!r}; the sides are {known}")
        having = [side for side in sides if name in side.fields]
        if not having:
            where = " or ".join(f"{side.alias} (it has {', '.join(side.fields)})" for side in sides)
            raise self._unknown(column, text, f"there is no field {name!r} in {where}")
        if len(having) > 1:
            both = " or ".join(side.full(name) for side in having)
            raise self._unknown(column, text, f"both sides have a field {name!r}: write {both}")
        found = exp.column(having[0].full(name), quoted=True)
        found.this.meta.update(column.this.meta)
        return found

    def _unknown(self, column: exp.Column, text: str, message: str) -> BadCondition:
        error = Scope("", tuple(text.split("\n")), {}).bad(column, message)
        return BadCondition(text, message, line=error.line, column=error.column)


def conjuncts(names: Names, text: str) -> tuple[Expression, ...]:
    """The conditions that a predicate joins by AND; BETWEEN is two of them. Raises `BadCondition`."""
    whole = names.parsed(text, "one condition, such as l.custkey = r.custkey")
    if names.checked(whole, text).type != "bool":
        raise BadCondition(text, "it is no condition: write one, such as l.custkey = r.custkey")
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
