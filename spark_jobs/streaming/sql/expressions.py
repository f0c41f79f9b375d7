"""Checked SQL expressions over columns; two expressions are equal if their texts are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from springline.spark_jobs.streaming.sources.field_types import arrow_type
from springline.spark_jobs.streaming.sql.evaluation import evaluate
from springline.spark_jobs.streaming.sql.operations import Scope, Type, type_of


@dataclass(frozen=True)
class Expression:
    """A checked expression; equal to another if their texts are."""

    sql: str
    type: Type
    columns: tuple[str, ...] = field(compare=False)
    node: exp.Expr = field(compare=False, repr=False)

    def values(self, columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
        """Evaluate the expression for each of `rows` rows."""
        result = evaluate(self.node, columns)
        if isinstance(result, pa.Scalar):
            result = pa.repeat(result, rows)
        target = arrow_type(self.type)
        return result.cast(target) if result.type != target else result


def check_expression(node: exp.Expr, scope: Scope) -> Expression:
    """Check names and types of an expression; raises the refusal of the scope's text."""
    node = normalize(node.copy())
    while isinstance(node, exp.Paren):
        node = node.this
    columns = tuple(sorted({column.name for column in node.find_all(exp.Column)}))
    return Expression(canonical_sql(node), type_of(node, scope), columns, node)


def canonical_sql(node: exp.Expr) -> str:
    """Return the canonical text of an expression, without quotes on names that need none."""
    return node.transform(_unquote).sql(dialect="duckdb", comments=False)


def _unquote(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Identifier) and node.args.get("quoted") and re.fullmatch(r"[A-Za-z_]\w*", node.name):
        node.set("quoted", False)
    return node


def normalize(node: exp.Expr) -> exp.Expr:
    """Rewrite a parsed expression, in place, to one of several forms with the same meaning.

    It removes comments, which would become part of texts and names. `TIMESTAMP '2013-01-01'` and `DATE '…'` become the
    text alone, which has the same meaning when compared with a time; `NOT LIKE` becomes NOT of LIKE.
    """
    for part in reversed(list(node.walk())):
        part.pop_comments()
        plain = _simplify(part)
        if plain is not part:
            node = plain if part is node else node
            part.replace(plain)
    return node


def column_of_path(node: exp.Expr, name: str) -> exp.Column:
    """Return the column of that name in place of a path, with the path's position in the text."""
    column = exp.column(exp.to_identifier(name, quoted=True))
    column.this.meta.update(next(node.find_all(exp.Identifier)).meta)
    return column


def _simplify(node: exp.Expr) -> exp.Expr:
    times = (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPNTZ, exp.DataType.Type.DATE)
    if isinstance(node, exp.Cast) and node.to.this in times and isinstance(node.this, exp.Literal):
        return node.this
    if node.args.get("negate") and isinstance(node, exp.Is | exp.Like):
        positive = node.copy()
        positive.set("negate", None)
        return exp.Not(this=positive)
    return node
