"""Expressions of SQL over columns: which are known, and what types they take and give; `values` works them out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
from sqlglot import exp

from spark_jobs.streaming.windows.clause import instant, position
from spark_jobs.streaming.windows.errors import BadQuery
from spark_jobs.streaming.windows.values import COMPARISONS, is_int, parts_of, value

_MOST = (1 << 63) - 1
_DIGITS = len(str(_MOST))
_ROUNDED = 18  # digits behind the point
Type = Literal["int", "float", "text", "bool", "time", "null"]
ARROW: Mapping[str, pa.DataType] = {
    "int": pa.int64(), "float": pa.float64(), "text": pa.string(), "bool": pa.bool_(), "null": pa.null(),
    "time": pa.timestamp("us", tz="UTC"),
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


@dataclass(frozen=True)
class Scope:
    """What an expression may name: columns and their types; `query` and `lines` are for errors."""

    query: str
    lines: tuple[str, ...]
    types: Mapping[str, Type]
    of: str = "the stream"

    def bad(self, node: exp.Expr, message: str) -> BadQuery:
        """An error at the place of `node`, or of the first part of it whose place is known."""
        starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        if not starts:
            return BadQuery(self.query, message)
        line, column = position(min(starts), list(self.lines))
        return BadQuery(self.query, message, line=line, column=column)


def checked(node: exp.Expr, scope: Scope) -> Expression:
    """Check names and types; raises `BadQuery`."""
    node = node.transform(_plain)
    while isinstance(node, exp.Paren):
        node = node.this
    columns = tuple(sorted({column.name for column in node.find_all(exp.Column)}))
    return Expression(plain_text(node), _type(node, scope), columns, node)


def plain_text(node: exp.Expr) -> str:
    """The text of an expression: the same, whether names are quoted or not where they need no quotes."""
    return node.transform(_unquoted).sql(dialect="duckdb")


def _unquoted(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Identifier) and node.args.get("quoted") and re.fullmatch(r"[A-Za-z_]\w*", node.name):
        node.set("quoted", False)
    return node


def _plain(node: exp.Expr) -> exp.Expr:
    """`TIMESTAMP '2013-01-01'` and `DATE '…'` as the text alone: beside a time it means the same."""
    times = (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPNTZ, exp.DataType.Type.DATE)
    if isinstance(node, exp.Cast) and node.to.this in times and isinstance(node.this, exp.Literal):
        return node.this
    return node


def _type(node: exp.Expr, scope: Scope) -> Type:
    if isinstance(node, exp.Column):
        if node.table or node.name not in scope.types:
            known = ", ".join(sorted(name for name in scope.types if not name.startswith("$")))
            raise scope.bad(node, f"{scope.of} has no column {node.sql()!r}; it has {known}")
        return scope.types[node.name]
    if isinstance(node, exp.Literal):
        return _type_of_literal(node, scope)
    if isinstance(node, exp.Null | exp.Boolean):
        return "null" if isinstance(node, exp.Null) else "bool"
    if isinstance(node, exp.Case):
        return _type_of_case(node, scope)
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
        return _type_of_cast(node, scope)
    for kinds, rule in _RULES:
        if isinstance(node, kinds):
            return rule(node, [_type(part, scope) for part in parts_of(node)], scope)
    raise scope.bad(node, f"{node.sql(dialect='duckdb')!r} is not known here; {_KNOWN}")


def _type_of_literal(node: exp.Literal, scope: Scope) -> Type:
    if node.is_string:
        return "text"
    if not is_int(node.this):
        return "float"
    if len(node.this) > _DIGITS or int(node.this) > _MOST:
        raise scope.bad(node, f"{node.this[:40]} does not fit 64 bits; write it with a decimal point")
    return "int"


def _numbers(node: exp.Expr, types: Sequence[Type], scope: Scope) -> Type:
    if wrong := sorted({kind for kind in types if kind not in ("int", "float", "null")}):
        raise scope.bad(node, f"{node.sql(dialect='duckdb')!r} needs numbers, and has {', '.join(wrong)}")
    return "float" if "float" in types else "int"


def _quotient(node: exp.Expr, types: Sequence[Type], scope: Scope) -> Type:
    _numbers(node, types, scope)
    return "float"


def _rounded(node: exp.Expr, types: Sequence[Type], scope: Scope) -> Type:
    if len(types) > 1:
        digits = node.args.get("decimals")
        if not (isinstance(digits, exp.Literal) and is_int(digits.this)) or int(digits.this) > _ROUNDED:
            raise scope.bad(node, f"round() takes the number of digits as it is, {_ROUNDED} at most")
    return _numbers(node, types, scope)


def _whole(node: exp.Expr, types: Sequence[Type], scope: Scope) -> Type:
    if len(types) > 1:
        raise scope.bad(node, f"{node.sql(dialect='duckdb')!r}: only one argument is known here")
    return _numbers(node, types, scope)


def _texts(node: exp.Expr, types: Sequence[Type], scope: Scope) -> Type:
    if wrong := sorted({kind for kind in types if kind not in ("text", "null")}):
        raise scope.bad(node, f"{node.sql(dialect='duckdb')!r} needs texts, and has {', '.join(wrong)}")
    return "text"


def _length(node: exp.Expr, types: Sequence[Type], scope: Scope) -> Type:
    _texts(node, types, scope)
    return "int"


def _pattern(node: exp.Expr, types: Sequence[Type], scope: Scope) -> Type:
    _texts(node, types, scope)
    if not isinstance(node.expression, exp.Literal):
        raise scope.bad(node, "LIKE takes its pattern as it is")
    return "bool"


def _truth(node: exp.Expr, types: Sequence[Type], scope: Scope) -> Type:
    if wrong := sorted({kind for kind in types if kind not in ("bool", "null")}):
        raise scope.bad(node, f"{node.sql(dialect='duckdb')!r} needs conditions, and has {', '.join(wrong)}")
    return "bool"


def _any(node: exp.Expr, types: Sequence[Type], scope: Scope) -> Type:
    return "bool"


def _comparable(node: exp.Expr, types: Sequence[Type], scope: Scope) -> Type:
    _common(node, types, scope)
    return "bool"


def _common(node: exp.Expr, types: Sequence[Type], scope: Scope) -> Type:
    """The one type that all have: int widens to float; a text that is written out beside a time must be one."""
    kinds = {kind for kind in types if kind != "null"}
    if kinds == {"time", "text"}:
        for part, kind in zip(parts_of(node), types, strict=True):
            if kind == "text":
                _time_of(part, scope)
        return "time"
    if kinds <= {"int", "float"}:
        return "float" if "float" in kinds else "int" if kinds else "null"
    if len(kinds) > 1:
        raise scope.bad(node, f"{node.sql(dialect='duckdb')!r} compares {' with '.join(sorted(kinds))}")
    return kinds.pop()


def _time_of(node: exp.Expr, scope: Scope) -> None:
    try:
        instant(node.this if isinstance(node, exp.Literal) else "")
    except ValueError:
        raise scope.bad(node, f"{node.sql()} is no date and time, such as '2013-01-31 12:00:00'") from None


def _type_of_case(node: exp.Case, scope: Scope) -> Type:
    subject = node.this
    for branch in node.args["ifs"]:
        when = exp.EQ(this=subject.copy(), expression=branch.this.copy()) if subject is not None else branch.this
        if _type(when, scope) not in ("bool", "null"):
            raise scope.bad(when, f"{when.sql(dialect='duckdb')!r} is no condition")
    results = [branch.args["true"] for branch in node.args["ifs"]]
    results += [node.args["default"]] if node.args.get("default") is not None else []
    return _common(node, [_type(result, scope) for result in results], scope)


_CASTS: Mapping[Any, Type] = {
    exp.DataType.Type.INT: "int", exp.DataType.Type.BIGINT: "int", exp.DataType.Type.DOUBLE: "float",
    exp.DataType.Type.FLOAT: "float", exp.DataType.Type.TEXT: "text", exp.DataType.Type.VARCHAR: "text",
}  # fmt: skip


def _type_of_cast(node: exp.Cast, scope: Scope) -> Type:
    given, wanted = _type(node.this, scope), _CASTS.get(node.to.this)
    fits = {("int", "int"), ("int", "float"), ("float", "int"), ("float", "float"), ("int", "text"), ("text", "text")}
    if wanted is None or (given, wanted) not in fits:
        raise scope.bad(
            node, f"{node.sql(dialect='duckdb')!r}: {given} cannot be cast so; declare the field with the type it has"
        )
    return wanted


_Rule = Callable[[exp.Expr, Sequence[Type], Scope], Type]
_RULES: Sequence[tuple[tuple[type[exp.Expr], ...], _Rule]] = (
    ((exp.Paren,), lambda node, types, scope: types[0]),
    ((exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv, exp.Neg, exp.Abs), _numbers),
    ((exp.Div,), _quotient),
    ((exp.Round,), _rounded),
    ((exp.Floor, exp.Ceil), _whole),
    ((exp.Lower, exp.Upper, exp.DPipe), _texts),
    ((exp.Length,), _length),
    ((exp.Like,), _pattern),
    ((exp.And, exp.Or, exp.Not), _truth),
    ((exp.Is,), _any),
    ((*COMPARISONS, exp.In, exp.Between), _comparable),
    ((exp.Coalesce,), _common),
)
_KNOWN = (
    "known are + - * / // % ||, comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL, CASE, CAST, abs, round, floor, "
    "ceil, lower, upper, length and coalesce; and count, sum, min, max, avg where rows are aggregated"
)
