"""What expressions of SQL give for columns of values, by pyarrow and, for numbers, by `arithmetic`.

Nulls are SQL's. What has no value (a whole number beyond 64 bits, x / 0) is null: no row can make an expression fail.
Columns hold no NaN.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from springline.spark_jobs.streaming.sql.arithmetic import (
    Values,
    absolute,
    added,
    as_double,
    as_whole,
    cut_off,
    divided,
    floored,
    is_number,
    multiplied,
    negated,
    raised,
    remainder,
    rounded,
    subtracted,
    worked_out,
)
from springline.spark_jobs.streaming.sql.windowing import instant

COMPARISONS: Mapping[type[exp.Expr], Callable[..., Any]] = {
    exp.EQ: pc.equal, exp.NEQ: pc.not_equal, exp.LT: pc.less, exp.LTE: pc.less_equal, exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}  # fmt: skip
_LEAST = "9223372036854775808"  # with a sign before it, it fits
_INT, _FLOAT, _TEXT, _BOOL = pa.int64(), pa.float64(), pa.string(), pa.bool_()


def is_int(text: str) -> bool:
    """Whether a literal is a whole number."""
    return text.isdecimal()


def is_least(node: exp.Expr) -> bool:
    """Whether it is the least whole number, whose digits alone do not fit 64 bits."""
    return isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and node.this.this == _LEAST


def parts_of(node: exp.Expr) -> list[exp.Expr]:
    """What an operation is applied to."""
    return [part for part in node.iter_expressions() if not isinstance(part, exp.DataType)]


def value(node: exp.Expr, columns: Mapping[str, pa.Array]) -> Values:
    """The value of an expression that was checked: an array, or a scalar where it names no column."""
    if isinstance(node, exp.Column):
        return columns[node.name]
    if isinstance(node, exp.Literal):
        return pa.scalar(node.this if node.is_string else int(node.this) if is_int(node.this) else float(node.this))
    if is_least(node):
        return pa.scalar(-int(_LEAST))
    if isinstance(node, exp.Null | exp.Boolean):
        return pa.scalar(None if isinstance(node, exp.Null) else bool(node.this))
    if isinstance(node, exp.Case):
        return _case(node, columns)
    if isinstance(node, exp.Is):
        return _is(value(node.this, columns), node.expression)
    if isinstance(node, exp.Like):
        pattern = like(node.expression.this)
        return pc.match_substring_regex(_as(value(node.this, columns), _TEXT), pattern=pattern)
    if isinstance(node, exp.Round):
        digits = int(node.args["decimals"].this) if node.args.get("decimals") is not None else 0
        return worked_out(rounded(digits), _numbers([value(node.this, columns)]))
    parts = [value(part, columns) for part in parts_of(node)]
    if type(node) in COMPARISONS:
        return _compared(type(node), parts[0], parts[1])
    if type(node) in _ARITHMETIC:
        return worked_out(_ARITHMETIC[type(node)], _numbers(parts))
    return _OPERATIONS[type(node)](node, parts)


@lru_cache(maxsize=1000)
def like(pattern: str) -> str:
    r"""The regular expression of a pattern of LIKE, in which a backslash is a character as any other."""
    told = {"%": ".*", "_": "."}
    parts = re.findall("(?s)%+|.", pattern)
    return r"(?s)\A" + "".join(told.get(part[0]) or re.escape(part) for part in parts) + r"\z"


def _as(given: Values, kind: pa.DataType) -> Values:
    """As a value of a type that it can be: null as any, a whole number as a double, a text that is a time."""
    if given.type == kind:
        return given
    if pa.types.is_timestamp(kind) and isinstance(given, pa.StringScalar):
        return pa.scalar(instant(given.as_py()), kind)
    return worked_out(as_double, [given]) if pa.types.is_integer(given.type) else given.cast(kind)


def _alike(parts: Sequence[Values]) -> Sequence[Values]:
    """As values of one type: whole numbers beside doubles as doubles, texts beside times as times."""
    kinds = {part.type for part in parts if not pa.types.is_null(part.type)}
    if not kinds:
        return parts
    times = [kind for kind in kinds if pa.types.is_timestamp(kind)]
    wanted = next(iter(times), _FLOAT) if len(kinds) > 1 else kinds.pop()
    return [_as(part, wanted) for part in parts]


def _numbers(parts: Sequence[Values]) -> Sequence[Values]:
    """As numbers of one type; nulls alone as whole numbers."""
    return [part if is_number(part.type) else part.cast(_INT) for part in _alike(parts)]


def _compared(kind: type[exp.Expr], left: Values, right: Values) -> Values:
    left, right = _alike((left, right))
    return pa.scalar(None, _BOOL) if pa.types.is_null(left.type) else COMPARISONS[kind](left, right)


def _is(subject: Values, wanted: exp.Expr) -> Values:
    if isinstance(wanted, exp.Null):
        return pc.is_null(subject)
    return pc.fill_null(pc.equal(_as(subject, _BOOL), pa.scalar(bool(wanted.this))), False)


def _case(node: exp.Case, columns: Mapping[str, pa.Array]) -> Values:
    whens = [value(branch.this, columns) for branch in node.args["ifs"]]
    if node.this is not None:
        subject, *whens = _alike([value(node.this, columns), *whens])
        whens = [_compared(exp.EQ, subject, when) for when in whens]
    default = node.args.get("default")
    last = value(default, columns) if default is not None else pa.scalar(None)
    *results, found = _alike([*(value(branch.args["true"], columns) for branch in node.args["ifs"]), last])
    for when, then in reversed(list(zip(whens, results, strict=True))):
        found = pc.if_else(pc.fill_null(_as(when, _BOOL), False), then, found)
    return found


def _in(parts: Sequence[Values]) -> Values:
    """Whether it is one of some values: looked up where they are written out."""
    subject, *some = _alike(parts)
    if isinstance(subject, pa.Scalar) or not all(isinstance(each, pa.Scalar) for each in some):
        return reduce(pc.or_kleene, [_compared(exp.EQ, subject, each) for each in some])
    if pa.types.is_null(subject.type):
        return pa.scalar(None, _BOOL)
    if pa.types.is_floating(subject.type):
        subject, *some = [pc.add(each, pa.scalar(0.0)) for each in (subject, *some)]  # -0.0 is 0.0
    there = [each for each in some if each.is_valid]
    found = pc.is_in(subject, value_set=pa.array([each.as_py() for each in there], subject.type))
    unknown = pc.is_null(subject) if len(there) == len(some) else pc.or_(pc.is_null(subject), pc.invert(found))
    return pc.if_else(unknown, pa.scalar(None, _BOOL), found)


def _between(parts: Sequence[Values]) -> Values:
    parts = _alike(parts)
    return pc.and_kleene(_compared(exp.GTE, parts[0], parts[1]), _compared(exp.LTE, parts[0], parts[2]))


_CASTS: Mapping[Any, pa.DataType] = {
    exp.DataType.Type.INT: _INT, exp.DataType.Type.BIGINT: _INT, exp.DataType.Type.DOUBLE: _FLOAT,
    exp.DataType.Type.FLOAT: _FLOAT, exp.DataType.Type.TEXT: _TEXT, exp.DataType.Type.VARCHAR: _TEXT,
}  # fmt: skip


def _cast(node: exp.Expr, given: Values) -> Values:
    wanted = _CASTS[node.args["to"].this]
    if pa.types.is_floating(given.type) and pa.types.is_integer(wanted):
        return worked_out(as_whole, [given])
    return _as(given, wanted) if pa.types.is_floating(wanted) else given.cast(wanted)


_ARITHMETIC: Mapping[type[exp.Expr], Callable[..., Any]] = {
    exp.Add: added, exp.Sub: subtracted, exp.Mul: multiplied, exp.IntDiv: cut_off, exp.Mod: remainder,
    exp.Neg: negated, exp.Abs: absolute, exp.Floor: floored, exp.Ceil: raised,
}  # fmt: skip
_OPERATIONS: Mapping[type[exp.Expr], Callable[[exp.Expr, Sequence[Values]], Values]] = {
    exp.Paren: lambda node, p: p[0],
    exp.Div: lambda node, p: worked_out(divided, [_as(part, _FLOAT) for part in p]),
    exp.Lower: lambda node, p: pc.utf8_lower(_as(p[0], _TEXT)),
    exp.Upper: lambda node, p: pc.utf8_upper(_as(p[0], _TEXT)),
    exp.Length: lambda node, p: pc.utf8_length(_as(p[0], _TEXT)).cast(_INT),
    exp.DPipe: lambda node, p: pc.binary_join_element_wise(*(_as(v, _TEXT) for v in p), pa.scalar("")),
    exp.And: lambda node, p: pc.and_kleene(*(_as(v, _BOOL) for v in p)),
    exp.Or: lambda node, p: pc.or_kleene(*(_as(v, _BOOL) for v in p)),
    exp.Not: lambda node, p: pc.invert(_as(p[0], _BOOL)),
    exp.In: lambda node, p: _in(p),
    exp.Between: lambda node, p: _between(p),
    exp.Coalesce: lambda node, p: pc.coalesce(*_alike(p)),
    exp.Cast: lambda node, p: _cast(node, p[0]),
}
