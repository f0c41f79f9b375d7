"""What expressions of SQL give for columns of values, by pyarrow.

Nulls are SQL's. What has no value (x / 0, x % 0) is null: no row can make an expression fail. `/` divides exactly,
`//` rounds down. Whole numbers are 64 bits wide and wrap around.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from spark_jobs.streaming.windows.clause import instant

Values = Any  # an array or a scalar of pyarrow, which has no types
COMPARISONS: Mapping[type[exp.Expr], Callable[..., Any]] = {
    exp.EQ: pc.equal, exp.NEQ: pc.not_equal, exp.LT: pc.less, exp.LTE: pc.less_equal, exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}  # fmt: skip


def is_int(text: str) -> bool:
    """Whether a literal is a whole number."""
    return text.isdecimal()


def parts_of(node: exp.Expr) -> list[exp.Expr]:
    """What an operation is applied to."""
    return [part for part in node.iter_expressions() if not isinstance(part, exp.DataType)]


def value(node: exp.Expr, columns: Mapping[str, pa.Array]) -> Values:
    """The value of an expression that was checked: an array, or a scalar where it names no column."""
    if isinstance(node, exp.Column):
        return columns[node.name]
    if isinstance(node, exp.Literal):
        return pa.scalar(node.this if node.is_string else int(node.this) if is_int(node.this) else float(node.this))
    if isinstance(node, exp.Null | exp.Boolean):
        return pa.scalar(None if isinstance(node, exp.Null) else bool(node.this))
    if isinstance(node, exp.Case):
        return _case(node, columns)
    if isinstance(node, exp.In):
        return _any_of([_compared(exp.EQ, value(node.this, columns), value(v, columns)) for v in node.expressions])
    if isinstance(node, exp.Is):
        return _is(node, columns)
    if isinstance(node, exp.Like):
        return pc.match_like(value(node.this, columns).cast(pa.string()), pattern=node.expression.this)
    if isinstance(node, exp.Round) and node.args.get("decimals") is not None:
        return pc.round(value(node.this, columns), ndigits=int(node.args["decimals"].this))
    parts = [value(part, columns) for part in parts_of(node)]
    if type(node) in COMPARISONS:
        return _compared(type(node), parts[0], parts[1])
    return _OPERATIONS[type(node)](node, parts)


def _compared(kind: type[exp.Expr], left: Values, right: Values) -> Values:
    if pa.types.is_timestamp(left.type) and isinstance(right, pa.StringScalar):
        right = pa.scalar(instant(right.as_py()), left.type)
    elif pa.types.is_timestamp(right.type) and isinstance(left, pa.StringScalar):
        left = pa.scalar(instant(left.as_py()), right.type)
    elif pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return pa.scalar(None, pa.bool_())
    return COMPARISONS[kind](*_alike((left, right)))


def _any_of(conditions: Sequence[Values]) -> Values:
    found = conditions[0]
    for condition in conditions[1:]:
        found = pc.or_kleene(found, condition)
    return found


def _is(node: exp.Is, columns: Mapping[str, pa.Array]) -> Values:
    subject = value(node.this, columns)
    if isinstance(node.expression, exp.Null):
        return pc.is_null(subject)
    wanted = pc.equal(subject.cast(pa.bool_()), pa.scalar(bool(node.expression.this)))
    return pc.fill_null(wanted, False)


def _case(node: exp.Case, columns: Mapping[str, pa.Array]) -> Values:
    default = node.args.get("default")
    found = value(default, columns) if default is not None else pa.scalar(None)
    for branch in reversed(node.args["ifs"]):
        when = value(branch.this, columns)
        if node.this is not None:
            when = _compared(exp.EQ, value(node.this, columns), when)
        then = value(branch.args["true"], columns)
        when, then, found = _same_type(when.cast(pa.bool_()), then, found)
        found = pc.if_else(pc.fill_null(when, False), then, found)
    return found


def _same_type(when: Values, then: Values, otherwise: Values) -> tuple[Values, Values, Values]:
    """`if_else` widens numbers by itself, and nulls not."""
    if pa.types.is_null(otherwise.type):
        otherwise = otherwise.cast(then.type)
    elif pa.types.is_null(then.type):
        then = then.cast(otherwise.type)
    then, otherwise = _alike((then, otherwise))
    return when, then, otherwise


def _without_zero(divisor: Values) -> Values:
    zero = pc.equal(divisor, pa.scalar(0, divisor.type))
    return pc.if_else(pc.fill_null(zero, True), pa.scalar(None, divisor.type), divisor)


def _divided(parts: Sequence[Values]) -> Values:
    left, right = (_number(part, pa.float64()) for part in parts)
    return pc.divide(left, _without_zero(right))


def _divided_down(parts: Sequence[Values]) -> Values:
    left, right = _numbers(parts)
    right = _without_zero(right)
    if pa.types.is_floating(left.type) or pa.types.is_floating(right.type):
        return pc.floor(pc.divide(left, right))
    whole = pc.divide(left, right)  # towards zero
    rest = pc.subtract(left, pc.multiply(whole, right))
    below = pc.and_(pc.not_equal(rest, 0), pc.not_equal(pc.less(rest, 0), pc.less(right, 0)))
    return pc.subtract(whole, below.cast(pa.int64()))


def _remainder(parts: Sequence[Values]) -> Values:
    """With the sign of the dividend, as in SQL."""
    left, right = _numbers(parts)
    right = _without_zero(right)
    whole = pc.divide(left, right)
    if pa.types.is_floating(whole.type):
        whole = pc.trunc(whole)
    return pc.subtract(left, pc.multiply(whole, right))


def _number(given: Values, wanted: pa.DataType | None = None) -> Values:
    if pa.types.is_null(given.type):
        return given.cast(wanted or pa.int64())
    return given if wanted is None or given.type == wanted else given.cast(wanted, safe=False)


def _numbers(parts: Sequence[Values]) -> Sequence[Values]:
    return _alike([_number(part) for part in parts])


def _alike(parts: Sequence[Values]) -> Sequence[Values]:
    """Whole numbers beside doubles as doubles; pyarrow by itself refuses those above 2^53."""
    if len({part.type for part in parts}) > 1 and all(_is_number(part.type) for part in parts):
        return [_number(part, pa.float64()) for part in parts]
    return parts


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


_CASTS: Mapping[Any, pa.DataType] = {
    exp.DataType.Type.INT: pa.int64(), exp.DataType.Type.BIGINT: pa.int64(), exp.DataType.Type.DOUBLE: pa.float64(),
    exp.DataType.Type.FLOAT: pa.float64(), exp.DataType.Type.TEXT: pa.string(), exp.DataType.Type.VARCHAR: pa.string(),
}  # fmt: skip


def _cast(node: exp.Expr, parts: Sequence[Values]) -> Values:
    wanted = _CASTS[node.args["to"].this]
    given = parts[0]
    if pa.types.is_floating(given.type) and pa.types.is_integer(wanted):
        fits = pc.less(pc.abs(given), pa.scalar(2.0**63))  # not for infinity and NaN either
        given = pc.round(pc.if_else(pc.fill_null(fits, False), given, pa.scalar(None, given.type)))
    return given.cast(wanted, safe=not pa.types.is_floating(wanted))


def _between(node: exp.Expr, parts: Sequence[Values]) -> Values:
    return pc.and_kleene(_compared(exp.GTE, parts[0], parts[1]), _compared(exp.LTE, parts[0], parts[2]))


def _rounding(function: Callable[[Values], Values]) -> Callable[[exp.Expr, Sequence[Values]], Values]:
    def rounded(node: exp.Expr, parts: Sequence[Values]) -> Values:
        return parts[0] if pa.types.is_integer(parts[0].type) else function(parts[0])

    return rounded


_OPERATIONS: Mapping[type[exp.Expr], Callable[[exp.Expr, Sequence[Values]], Values]] = {
    exp.Paren: lambda node, p: p[0],
    exp.Add: lambda node, p: pc.add(*_numbers(p)),
    exp.Sub: lambda node, p: pc.subtract(*_numbers(p)),
    exp.Mul: lambda node, p: pc.multiply(*_numbers(p)),
    exp.Div: lambda node, p: _divided(p),
    exp.IntDiv: lambda node, p: _divided_down(p),
    exp.Mod: lambda node, p: _remainder(p),
    exp.Neg: lambda node, p: pc.negate(_number(p[0])),
    exp.Abs: lambda node, p: pc.abs(_number(p[0])),
    exp.Round: _rounding(pc.round),
    exp.Floor: _rounding(pc.floor),
    exp.Ceil: _rounding(pc.ceil),
    exp.Lower: lambda node, p: pc.utf8_lower(p[0]),
    exp.Upper: lambda node, p: pc.utf8_upper(p[0]),
    exp.Length: lambda node, p: pc.utf8_length(p[0]).cast(pa.int64()),
    exp.DPipe: lambda node, p: pc.binary_join_element_wise(*(v.cast(pa.string()) for v in p), pa.scalar("")),
    exp.And: lambda node, p: pc.and_kleene(*(v.cast(pa.bool_()) for v in p)),
    exp.Or: lambda node, p: pc.or_kleene(*(v.cast(pa.bool_()) for v in p)),
    exp.Not: lambda node, p: pc.invert(p[0].cast(pa.bool_())),
    exp.Between: _between,
    exp.Coalesce: lambda node, p: pc.coalesce(*_alike(p)),
    exp.Cast: _cast,
}
