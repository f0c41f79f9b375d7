"""Evaluation of SQL expressions over columns, by pyarrow and, for numbers, by `arithmetic`.

Nulls follow SQL. An undefined result (integer overflow, x / 0, a decimal of more than 18 digits) is null: no row can
make an expression fail. Columns hold no NaN.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from springline.spark_jobs.streaming.sources.field_types import MAX_DIGITS, decimal_type, stored, typed
from springline.spark_jobs.streaming.sql.arithmetic import (
    Values,
    absolute_value,
    add,
    apply_kernel,
    as_digits,
    as_double,
    as_integer,
    ceil,
    ceil_places,
    days,
    divide,
    divide_truncating,
    floor,
    floor_places,
    is_number,
    limited,
    midnights,
    multiply,
    negate,
    remainder,
    round_to,
    scaled_to_double,
    subtract,
    with_places,
)
from springline.spark_jobs.streaming.sql.windowing import instant

COMPARISONS: Mapping[type[exp.Expr], Callable[..., Any]] = {
    exp.EQ: pc.equal, exp.NEQ: pc.not_equal, exp.LT: pc.less, exp.LTE: pc.less_equal, exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}  # fmt: skip
_LEAST = "9223372036854775808"  # with a minus sign it fits 64 bits
_INT, _FLOAT, _TEXT, _BOOL = pa.int64(), pa.float64(), pa.string(), pa.bool_()
_DATE, _TIMESTAMP = pa.date32(), pa.timestamp("us", "UTC")
TIMESTAMP_TYPES = (
    exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPNTZ, exp.DataType.Type.TIMESTAMPTZ,
)  # fmt: skip
_WIDE = 38  # digits of decimals that are compared: all of those of both operands
_WITH_POINT = re.compile(r"[0-9]*\.[0-9]*")


def is_int(text: str) -> bool:
    """Return whether a literal is an integer."""
    return text.isdecimal()


def is_least(node: exp.Expr) -> bool:
    """Return whether a node is the least integer, whose digits alone do not fit 64 bits."""
    return isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and node.this.this == _LEAST


def parts_of(node: exp.Expr) -> list[exp.Expr]:
    """Return the operands of an operation."""
    return [part for part in node.iter_expressions() if not isinstance(part, exp.DataType)]


def decimal_literal(node: exp.Expr) -> tuple[Decimal, int] | None:
    """Return the value and the decimal places of a literal with a point; None if it is none, or has too many digits.

    Example:
        >>> decimal_literal(exp.Literal.number("9.90"))
        (Decimal('9.90'), 2)
    """
    if isinstance(node, exp.Paren):
        return decimal_literal(node.this)
    if isinstance(node, exp.Neg):
        positive = decimal_literal(node.this)
        return None if positive is None else (-positive[0], positive[1])
    if not isinstance(node, exp.Literal) or node.is_string or not _WITH_POINT.fullmatch(node.this):
        return None
    if len(node.this) - 1 > MAX_DIGITS:
        return None
    return Decimal(node.this), len(node.this.partition(".")[2])


def decimal_of_cast(target: exp.DataType) -> tuple[int, int] | None:
    """Return digits and decimal places of `DECIMAL(p, s)`, by default (18, 3); None if they cannot be."""
    parts = [part.this.this for part in target.expressions if isinstance(part.this, exp.Literal)]
    if len(parts) != len(target.expressions) or not all(part.isdecimal() and len(part) < 3 for part in parts):
        return None
    digits, scale = ([int(part) for part in parts] + [0])[:2] if parts else (MAX_DIGITS, 3)
    return (digits, scale) if 1 <= digits <= MAX_DIGITS and scale <= digits else None


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
        subject = evaluate(node.this, columns)
        if pa.types.is_decimal(subject.type):
            places = subject.type.scale
            return _decimals(
                apply_kernel(with_places(places, min(digits, places)), [_digits(subject)]), min(digits, places)
            )
        return apply_kernel(round_to(digits), _numbers([subject]))
    parts = _evaluate_all(parts_of(node), columns)
    if type(node) in COMPARISONS:
        return _compare(type(node), parts[0], parts[1])
    if type(node) in _ARITHMETIC:
        kinds = {part.type for part in parts}
        if any(map(pa.types.is_decimal, kinds)) and _FLOAT not in kinds:
            return _decimal_arithmetic(type(node), parts)
        return apply_kernel(_ARITHMETIC[type(node)], _numbers(parts))
    return _OPERATIONS[type(node)](node, parts)


def _evaluate_all(nodes: Sequence[exp.Expr], columns: Mapping[str, pa.Array]) -> list[Values]:
    """Evaluate operands; a literal with a point beside a decimal is one."""
    values = [evaluate(node, columns) for node in nodes]
    if any(pa.types.is_decimal(each.type) for each in values):
        for index, node in enumerate(nodes):
            if (exact := decimal_literal(node)) is not None:
                values[index] = pa.scalar(exact[0], pa.decimal128(MAX_DIGITS, exact[1]))
    return values


def _digits(values: Values) -> Values:
    """Return decimals as integers: the number times 10^scale."""
    if isinstance(values, pa.Scalar):
        return stored(pa.array([values.as_py()], values.type))[0]
    return stored(values)


def _decimals(digits: Values, scale: int) -> Values:
    """Return integers as decimals; null if there are more than 18 digits."""
    checked = apply_kernel(limited, [digits])
    if isinstance(checked, pa.Scalar):
        return typed(pa.array([checked.as_py()], _INT), decimal_type(scale))[0]
    return typed(checked, decimal_type(scale))


def _decimal_arithmetic(kind: type[exp.Expr], parts: Sequence[Values]) -> Values:
    """Compute with decimals and integers; nulls alone are integers."""
    scales = [part.type.scale if pa.types.is_decimal(part.type) else 0 for part in parts]
    digits = [_digits(part) if pa.types.is_decimal(part.type) else part.cast(_INT) for part in parts]
    if kind is exp.Mul:
        return _decimals(apply_kernel(multiply, digits), sum(scales))
    if kind in (exp.Floor, exp.Ceil):
        kernel = floor_places if kind is exp.Floor else ceil_places
        return _decimals(apply_kernel(kernel(scales[0]), digits), 0)
    scale = max(scales)
    same = [apply_kernel(with_places(each, scale), [part]) for part, each in zip(digits, scales, strict=True)]
    return _decimals(apply_kernel(_ARITHMETIC[kind], same), scale)


def _narrowed(values: Values) -> Values:
    """Return decimals with up to 18 digits; null if one has more."""
    if not pa.types.is_decimal(values.type) or values.type.precision == MAX_DIGITS:
        return values
    target = pa.decimal128(MAX_DIGITS, values.type.scale)
    if isinstance(values, pa.Scalar):
        fits = values.is_valid and len(values.as_py().as_tuple().digits) <= MAX_DIGITS
        return pa.scalar(values.as_py() if fits else None, target)
    halves = np.frombuffer(values.buffers()[1] or b"", np.int64)[2 * values.offset : 2 * (values.offset + len(values))]
    low, high = halves[::2], halves[1::2]
    fits = (high == low >> 63) & (low > -(10**MAX_DIGITS)) & (low < 10**MAX_DIGITS)
    return pc.if_else(pa.array(fits), values, pa.scalar(None, values.type)).cast(target)


@lru_cache(maxsize=1000)
def like_regex(pattern: str) -> str:
    r"""Return the regular expression of a LIKE pattern, in which a backslash is an ordinary character."""
    wildcards = {"%": ".*", "_": "."}
    parts = re.findall("(?s)%+|.", pattern)
    return r"(?s)\A" + "".join(wildcards.get(part[0]) or re.escape(part) for part in parts) + r"\z"


def _cast_to(values: Values, kind: pa.DataType) -> Values:
    """Cast values to a type that they convert to: null to any, numbers to wider ones, a date or a text to a time."""
    if values.type == kind:
        return values
    if isinstance(values, pa.StringScalar) and kind == _TIMESTAMP:
        return pa.scalar(instant(values.as_py()), kind)
    if isinstance(values, pa.StringScalar) and kind == _DATE:
        return pa.scalar(date.fromisoformat(values.as_py()), kind)
    if pa.types.is_decimal(values.type) and kind == _FLOAT:
        return apply_kernel(scaled_to_double(values.type.scale), [_digits(_narrowed(values))])
    if pa.types.is_integer(values.type) and kind == _FLOAT:
        return apply_kernel(as_double, [values])
    return values.cast(kind)


def _unify_types(parts: Sequence[Values]) -> Sequence[Values]:
    """Cast values to one type: numbers to the widest of them, texts and dates to times."""
    kinds = {part.type for part in parts if not pa.types.is_null(part.type)}
    if not kinds:
        return parts
    scales = [kind.scale for kind in kinds if pa.types.is_decimal(kind)]
    if len(kinds) == 1:
        common = next(iter(kinds))
    elif _TIMESTAMP in kinds or _DATE in kinds:
        common = _TIMESTAMP if _TIMESTAMP in kinds else _DATE
    else:
        common = pa.decimal128(_WIDE, max(scales)) if scales and _FLOAT not in kinds else _FLOAT
    return [_cast_to(part, common) for part in parts]


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
    whens = [branch.this for branch in node.args["ifs"]]
    if node.this is not None:
        subject, *whens = _unify_types(_evaluate_all([node.this, *whens], columns))
        whens = [_compare(exp.EQ, subject, when) for when in whens]
    else:
        whens = [evaluate(when, columns) for when in whens]
    last = node.args.get("default") or exp.Null()
    *results, result = _unify_types(
        _evaluate_all([*(branch.args["true"] for branch in node.args["ifs"]), last], columns)
    )
    for when, then in reversed(list(zip(whens, results, strict=True))):
        result = pc.if_else(pc.fill_null(_cast_to(when, _BOOL), False), then, result)
    return _narrowed(result)


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
    exp.DataType.Type.DATE: _DATE, exp.DataType.Type.BOOLEAN: _BOOL,
    **dict.fromkeys(TIMESTAMP_TYPES, _TIMESTAMP),
}  # fmt: skip


def _cast(node: exp.Expr, values: Values) -> Values:
    target = node.args["to"]
    if isinstance(values, pa.Scalar):
        return _cast(node, pa.array([values.as_py()], values.type))[0]
    if target.this == exp.DataType.Type.DECIMAL:
        return _as_decimals(values, *(decimal_of_cast(target) or (MAX_DIGITS, 0)))
    source_type, target_type = values.type, _CASTS[target.this]
    if pa.types.is_decimal(source_type):
        if target_type == _INT:
            return apply_kernel(with_places(source_type.scale, 0), [stored(values)])
        if target_type == _TEXT:
            texts = [None if each is None else f"{each:f}" for each in values.to_pylist()]
            return pa.array(texts, _TEXT)
    if (source_type, target_type) == (_TIMESTAMP, _DATE):
        return typed(apply_kernel(days, [stored(values)]), "date")
    if (source_type, target_type) == (_DATE, _TIMESTAMP):
        return typed(apply_kernel(midnights, [stored(values)]), "timestamp")
    if pa.types.is_floating(source_type) and target_type == _INT:
        return apply_kernel(as_integer, [values])
    return _cast_to(values, target_type)


def _as_decimals(values: pa.Array, digits: int, scale: int) -> pa.Array:
    """Cast numbers to decimals; null if one has more digits."""
    if pa.types.is_floating(values.type):
        plain = apply_kernel(as_digits(scale), [values])
    else:
        is_decimal = pa.types.is_decimal(values.type)
        places = values.type.scale if is_decimal else 0
        plain = apply_kernel(with_places(places, scale), [stored(values) if is_decimal else values.cast(_INT)])
    most = 10**digits
    fits = pc.and_(pc.greater(plain, -most), pc.less(plain, most))
    return typed(pc.if_else(fits, plain, pa.scalar(None, _INT)), decimal_type(scale))


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
    exp.Coalesce: lambda node, p: _narrowed(pc.coalesce(*_unify_types(p))),
    exp.Cast: lambda node, p: _cast(node, p[0]),
}
