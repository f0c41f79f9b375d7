"""Expressions of SQL over columns, checked: equal if their texts are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from springline.spark_jobs.streaming.sources.layout import ARROW_TYPES
from springline.spark_jobs.streaming.sql.evaluation import value
from springline.spark_jobs.streaming.sql.operations import Scope, Type, type_of

ARROW: Mapping[str, pa.DataType] = {
    **ARROW_TYPES, "bool": pa.bool_(), "null": pa.null(), "time": pa.timestamp("us", tz="UTC"),
}  # fmt: skip


@dataclass(frozen=True)
class Expression:
    """An expression that was checked; equal if their texts are."""

    sql: str
    type: Type
    columns: tuple[str, ...] = field(compare=False)
    node: exp.Expr = field(compare=False, repr=False)

    def values(self, columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
        """Its value for each of the rows."""
        found = value(self.node, columns)
        if isinstance(found, pa.Scalar):
            found = pa.repeat(found, rows)
        return found.cast(ARROW[self.type]) if found.type != ARROW[self.type] else found


def checked(node: exp.Expr, scope: Scope) -> Expression:
    """Check names and types; raises what the text of the scope is refused with."""
    node = normal(node.copy())
    while isinstance(node, exp.Paren):
        node = node.this
    columns = tuple(sorted({column.name for column in node.find_all(exp.Column)}))
    return Expression(plain_text(node), type_of(node, scope), columns, node)


def plain_text(node: exp.Expr) -> str:
    """The text of an expression: the same, whether names are quoted or not where they need no quotes."""
    return node.transform(_unquoted).sql(dialect="duckdb", comments=False)


def _unquoted(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Identifier) and node.args.get("quoted") and re.fullmatch(r"[A-Za-z_]\w*", node.name):
        node.set("quoted", False)
    return node


def normal(node: exp.Expr) -> exp.Expr:
    """What was parsed in one form of those that mean the same; it is changed.

    Comments go, which would be part of texts and names; `TIMESTAMP '2013-01-01'` and `DATE '…'` are the text alone,
    which beside a time means the same; `NOT LIKE` is NOT of LIKE.
    """
    for part in reversed(list(node.walk())):
        part.pop_comments()
        plain = _plain(part)
        if plain is not part:
            node = plain if part is node else node
            part.replace(plain)
    return node


def _plain(node: exp.Expr) -> exp.Expr:
    times = (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPNTZ, exp.DataType.Type.DATE)
    if isinstance(node, exp.Cast) and node.to.this in times and isinstance(node.this, exp.Literal):
        return node.this
    if node.args.get("negate") and isinstance(node, exp.Is | exp.Like):
        found = node.copy()
        found.set("negate", None)
        return exp.Not(this=found)
    return node
