"""Evaluation of SQL expressions over columns, by pyarrow and, for numbers, by `arithmetic`.

Nulls follow SQL. An undefined result (integer overflow, x / 0) is null: no row can make an expression fail. Columns
hold no NaN.
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
    absolute_value,
    add,
    apply_kernel,
    as_double,
    as_integer,
    ceil,
    divide,
    divide_truncating,
    floor,
    is_number,
    multiply,
    negate,
    remainder,
    round_to,
    subtract,
)
from springline.spark_jobs.streaming.sql.windowing import instant

COMPARISONS: Mapping[type[exp.Expr], Callable[..., Any]] = {
    exp.EQ: pc.equal, exp.NEQ: pc.not_equal, exp.LT: pc.less, exp.LTE: pc.less_equal, exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}  # fmt: skip
_LEAST = "9223372036854775808"  # with a minus sign it fits 64 bits
_INT, _FLOAT, _TEXT, _BOOL = pa.int64(), pa.float64(), pa.string(), pa.bool_()


def is_int(text: str) -> bool:
    """Return whether a literal is an integer."""
    return text.isdecimal()


def is_least(node: exp.Expr) -> bool:
    """Return whether a node is the least integer, whose digits alone do not fit 64 bits."""
    return isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and node.this.this == _LEAST


def parts_of(node: exp.Expr) -> list[exp.Expr]:
    """Return the operands of an operation."""
    return [part for part in node.iter_expressions() if not isinstance(part, exp.DataType)]


def evaluate(node: exp.Expr, columns: Mapping[str, pa.Array]) -> Values:
    """Evaluate a checked expression: an array, or a scalar if it contains no column."""
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
        return _is(evaluate(node.this, columns), node.expression)
    if isinstance(node, exp.Like):
        pattern = like_regex(node.expression.this)
        return pc.match_substring_regex(_cast_to(evaluate(node.this, columns), _TEXT), pattern=pattern)
    if isinstance(node, exp.Round):
        digits = int(node.args["decimals"].this) if node.args.get("decimals") is not None else 0
        return apply_kernel(round_to(digits), _numbers([evaluate(node.this, columns)]))
    parts = [evaluate(part, columns) for part in parts_of(node)]
    if type(node) in COMPARISONS:
        return _compare(type(node), parts[0], parts[1])
    if type(node) in _ARITHMETIC:
        return apply_kernel(_ARITHMETIC[type(node)], _numbers(parts))
    return _OPERATIONS[type(node)](node, parts)


@lru_cache(maxsize=1000)
def like_regex(pattern: str) -> str:
    r"""Return the regular expression of a LIKE pattern, in which a backslash is an ordinary character."""
    wildcards = {"%": ".*", "_": "."}
    parts = re.findall("(?s)%+|.", pattern)
    return r"(?s)\A" + "".join(wildcards.get(part[0]) or re.escape(part) for part in parts) + r"\z"


def _cast_to(values: Values, kind: pa.DataType) -> Values:
    """Cast values to a type that they convert to: null to any, an integer to double, a text literal to a time."""
    if values.type == kind:
        return values
    if pa.types.is_timestamp(kind) and isinstance(values, pa.StringScalar):
        return pa.scalar(instant(values.as_py()), kind)
    return apply_kernel(as_double, [values]) if pa.types.is_integer(values.type) else values.cast(kind)


def _unify_types(parts: Sequence[Values]) -> Sequence[Values]:
    """Cast values to one type: integers mixed with doubles to double, texts mixed with times to time."""
    kinds = {part.type for part in parts if not pa.types.is_null(part.type)}
    if not kinds:
        return parts
    times = [kind for kind in kinds if pa.types.is_timestamp(kind)]
    common_type = next(iter(times), _FLOAT) if len(kinds) > 1 else kinds.pop()
    return [_cast_to(part, common_type) for part in parts]


def _numbers(parts: Sequence[Values]) -> Sequence[Values]:
    """Cast values to one numeric type; nulls alone become integers."""
    return [part if is_number(part.type) else part.cast(_INT) for part in _unify_types(parts)]


def _compare(kind: type[exp.Expr], left: Values, right: Values) -> Values:
    left, right = _unify_types((left, right))
    return pa.scalar(None, _BOOL) if pa.types.is_null(left.type) else COMPARISONS[kind](left, right)


def _is(subject: Values, expected: exp.Expr) -> Values:
    if isinstance(expected, exp.Null):
        return pc.is_null(subject)
    return pc.fill_null(pc.equal(_cast_to(subject, _BOOL), pa.scalar(bool(expected.this))), False)


def _case(node: exp.Case, columns: Mapping[str, pa.Array]) -> Values:
    whens = [evaluate(branch.this, columns) for branch in node.args["ifs"]]
    if node.this is not None:
        subject, *whens = _unify_types([evaluate(node.this, columns), *whens])
        whens = [_compare(exp.EQ, subject, when) for when in whens]
    default = node.args.get("default")
    last = evaluate(default, columns) if default is not None else pa.scalar(None)
    *results, result = _unify_types([*(evaluate(branch.args["true"], columns) for branch in node.args["ifs"]), last])
    for when, then in reversed(list(zip(whens, results, strict=True))):
        result = pc.if_else(pc.fill_null(_cast_to(when, _BOOL), False), then, result)
    return result


def _in(parts: Sequence[Values]) -> Values:
    """Evaluate IN; a list of literals is looked up in a hash table."""
    subject, *some = _unify_types(parts)
    if isinstance(subject, pa.Scalar) or not all(isinstance(each, pa.Scalar) for each in some):
        return reduce(pc.or_kleene, [_compare(exp.EQ, subject, each) for each in some])
    if pa.types.is_null(subject.type):
        return pa.scalar(None, _BOOL)
    if pa.types.is_floating(subject.type):
        subject, *some = [pc.add(each, pa.scalar(0.0)) for each in (subject, *some)]  # replace -0.0 by 0.0
    non_null = [each for each in some if each.is_valid]
    matches = pc.is_in(subject, value_set=pa.array([each.as_py() for each in non_null], subject.type))
    unknown = pc.is_null(subject) if len(non_null) == len(some) else pc.or_(pc.is_null(subject), pc.invert(matches))
    return pc.if_else(unknown, pa.scalar(None, _BOOL), matches)


def _between(parts: Sequence[Values]) -> Values:
    parts = _unify_types(parts)
    return pc.and_kleene(_compare(exp.GTE, parts[0], parts[1]), _compare(exp.LTE, parts[0], parts[2]))


_CASTS: Mapping[Any, pa.DataType] = {
    exp.DataType.Type.INT: _INT, exp.DataType.Type.BIGINT: _INT, exp.DataType.Type.DOUBLE: _FLOAT,
    exp.DataType.Type.FLOAT: _FLOAT, exp.DataType.Type.TEXT: _TEXT, exp.DataType.Type.VARCHAR: _TEXT,
}  # fmt: skip


def _cast(node: exp.Expr, values: Values) -> Values:
    target_type = _CASTS[node.args["to"].this]
    if pa.types.is_floating(values.type) and pa.types.is_integer(target_type):
        return apply_kernel(as_integer, [values])
    return _cast_to(values, target_type) if pa.types.is_floating(target_type) else values.cast(target_type)


_ARITHMETIC: Mapping[type[exp.Expr], Callable[..., Any]] = {
    exp.Add: add, exp.Sub: subtract, exp.Mul: multiply, exp.IntDiv: divide_truncating, exp.Mod: remainder,
    exp.Neg: negate, exp.Abs: absolute_value, exp.Floor: floor, exp.Ceil: ceil,
}  # fmt: skip
_OPERATIONS: Mapping[type[exp.Expr], Callable[[exp.Expr, Sequence[Values]], Values]] = {
    exp.Paren: lambda node, p: p[0],
    exp.Div: lambda node, p: apply_kernel(divide, [_cast_to(part, _FLOAT) for part in p]),
    exp.Lower: lambda node, p: pc.utf8_lower(_cast_to(p[0], _TEXT)),
    exp.Upper: lambda node, p: pc.utf8_upper(_cast_to(p[0], _TEXT)),
    exp.Length: lambda node, p: pc.utf8_length(_cast_to(p[0], _TEXT)).cast(_INT),
    exp.DPipe: lambda node, p: pc.binary_join_element_wise(*(_cast_to(v, _TEXT) for v in p), pa.scalar("")),
    exp.And: lambda node, p: pc.and_kleene(*(_cast_to(v, _BOOL) for v in p)),
    exp.Or: lambda node, p: pc.or_kleene(*(_cast_to(v, _BOOL) for v in p)),
    exp.Not: lambda node, p: pc.invert(_cast_to(p[0], _BOOL)),
    exp.In: lambda node, p: _in(p),
    exp.Between: lambda node, p: _between(p),
    exp.Coalesce: lambda node, p: pc.coalesce(*_unify_types(p)),
    exp.Cast: lambda node, p: _cast(node, p[0]),
}
