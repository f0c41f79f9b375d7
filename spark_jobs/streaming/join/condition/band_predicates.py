"""Comparisons of one side with the other, from which a key can be built.

A comparison is normalized to `low <= right - left <= high`, where `left` and `right` name fields of one side each. For
integers that is exact. For doubles it is not, since sums are rounded: there it only finds candidates, which are checked
with the original condition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from sqlglot import exp

from springline.spark_jobs.streaming.join.condition.predicate import Names
from springline.spark_jobs.streaming.join.wire import JoinSide, KeyBand
from springline.spark_jobs.streaming.sources.field_types import is_stored_as_number, scale_of
from springline.spark_jobs.streaming.sql.evaluation import is_int
from springline.spark_jobs.streaming.sql.expressions import Expression

# The right operands that match a left one, by operator, for integer operands.
_KEY_BANDS: dict[type[exp.Expr], KeyBand] = {
    exp.EQ: KeyBand(0, 0), exp.LT: KeyBand(1, None), exp.LTE: KeyBand(0, None), exp.GT: KeyBand(None, -1),
    exp.GTE: KeyBand(None, 0),
}  # fmt: skip
Number = int | float


@dataclass(frozen=True)
class DifferenceBounds:
    """`low <= right - left <= high`, None: no bound; `is_exact` unless rounding may put a pair beyond its bound."""

    left: Expression
    right: Expression
    low: Number | None
    high: Number | None
    is_exact: bool
    conditions: tuple[Expression, ...] = field(default=(), compare=False)  # the conditions that imply it

    @property
    def ends(self) -> tuple[Expression, Expression]:
        """The compared expressions, left and right."""
        return (self.left, self.right)

    @property
    def is_band(self) -> bool:
        """Whether it is bounded on both sides."""
        return self.low is not None and self.high is not None

    def intersect(self, other: DifferenceBounds) -> DifferenceBounds:
        """Return the conjunction with other bounds of the same ends."""
        lower_bounds = [bound for bound in (self.low, other.low) if bound is not None]
        upper_bounds = [bound for bound in (self.high, other.high) if bound is not None]
        return replace(
            self, low=max(lower_bounds, default=None), high=min(upper_bounds, default=None),
            is_exact=self.is_exact and other.is_exact,
            conditions=(*self.conditions, *other.conditions),
        )  # fmt: skip


@dataclass(frozen=True)
class KeyComparison:
    """`left op right` with one side per operand, as a `key_band` of keys that preserve the order of values."""

    left: Expression
    right: Expression
    key_band: KeyBand
    condition: Expression = field(compare=False)

    @property
    def has_order(self) -> bool:
        """Whether its keys can be ordered as 64-bit numbers."""
        return self.is_int or all(map(_is_number, (self.left, self.right)))

    @property
    def is_int(self) -> bool:
        """Whether it compares values of one type that lie in columns as integers."""
        kinds = {self.left.type, self.right.type}
        return len(kinds) == 1 and (
            kinds == {"boolean"} or (kinds != {"float"} and all(map(is_stored_as_number, kinds)))
        )

    @property
    def is_exact(self) -> bool:
        """Whether the order of its keys is that of the values; decimals may be the same double as another number."""
        return self.is_int or "float" in (self.left.type, self.right.type)


def key_comparison(names: Names, condition: Expression, text: str) -> KeyComparison | None:
    """Return a condition with each side on its own, as written or, for equal integers, rearranged; else None."""
    node = condition.node
    if type(node) not in _KEY_BANDS:
        return None
    first, second = (names.check_types(part, text) for part in (node.this, node.expression))
    if {first.type, second.type} == {"date", "timestamp"}:
        first, second = (names.check_types(_as_timestamp(each.node), text) for each in (first, second))
    key_band = _KEY_BANDS[type(node)]
    if "null" in (first.type, second.type):
        return None
    sides = [list(names.sides(each)) for each in (first, second)]
    if sides == [[JoinSide.LEFT], [JoinSide.RIGHT]]:
        return KeyComparison(first, second, key_band, condition)
    if sides == [[JoinSide.RIGHT], [JoinSide.LEFT]]:
        return KeyComparison(second, first, key_band.from_side(JoinSide.RIGHT), condition)
    difference = difference_bounds(names, condition, text)
    if (
        difference is not None
        and difference.is_exact
        and difference.low is not None
        and difference.low == difference.high
    ):
        shift = exp.Literal.number(abs(difference.low))
        shifted = (exp.Sub if difference.low > 0 else exp.Add)(this=_inner(difference.right.node), expression=shift)
        right = difference.right if difference.low == 0 else names.check_types(shifted, text)
        return KeyComparison(difference.left, right, KeyBand(0, 0), condition)
    return None


def difference_bounds(names: Names, condition: Expression, text: str) -> DifferenceBounds | None:
    """Return the bounds that a condition sets on the difference of the sides, or None."""
    inequalities = [
        each for parts in _inequalities(condition.node) if (each := _inequality_bounds(names, *parts, text)) is not None
    ]
    if not inequalities or len({each.ends for each in inequalities}) > 1:
        return None
    combined = reduce(DifferenceBounds.intersect, inequalities)
    return replace(combined, conditions=(condition,))


def _inequalities(node: exp.Expr) -> Iterator[tuple[exp.Expr, type[exp.Expr], exp.Expr]]:
    """Split a comparison into inequalities; `abs(x) <= e` is two of them: `x <= e` and `x >= -e`."""
    kind = type(node)
    if kind not in _KEY_BANDS:
        return
    first, second = _bare(node.this), _bare(node.expression)
    if isinstance(second, exp.Abs):
        mirrored: dict[type[exp.Expr], type[exp.Expr]] = {
            exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE
        }  # fmt: skip
        first, second, kind = second, first, mirrored.get(kind, kind)
    if not isinstance(first, exp.Abs):
        yield first, kind, second
    elif kind in (exp.LT, exp.LTE) and _number(second) is not None:
        opposite: type[exp.Expr] = exp.GT if kind is exp.LT else exp.GTE
        yield first.this, kind, second
        yield first.this, opposite, exp.Neg(this=_inner(second))


def _inequality_bounds(
    names: Names, first: exp.Expr, kind: type[exp.Expr], second: exp.Expr, text: str
) -> DifferenceBounds | None:
    """Return the bounds of `first op second`, with the terms of each side collected."""
    terms = [*_terms(names, first, 1, text), *_terms(names, second, -1, text)]
    constant: Number = sum(term for _, term in terms if isinstance(term, int | float))
    parts = [(sign, term) for sign, term in terms if isinstance(term, Expression)]
    by_side = {side: [each for each in parts if names.sides(each[1]) == {side}] for side in JoinSide}
    lefts, rights = by_side[JoinSide.LEFT], by_side[JoinSide.RIGHT]
    if not lefts or not rights or len(lefts) + len(rights) < len(parts) or not math.isfinite(constant):
        return None
    if not all(_is_number(term) for _, term in parts):
        return None
    is_exact = isinstance(constant, int) and all(term.type == "int" for _, term in parts)
    turned = rights[0][0]  # so that the first term of the right side is positive
    shifts = sum(1 for _, term in terms if isinstance(term, int | float) and term)
    if not is_exact and (shifts > 1 or (len(lefts), len(rights), lefts[0][0]) != (1, 1, -turned)):
        return None  # the rounding error could be arbitrarily large
    left = names.check_types(_sum([(-sign * turned, term) for sign, term in lefts]), text)
    right = names.check_types(_sum([(sign * turned, term) for sign, term in rights]), text)
    # turned * (right - left) + constant op 0
    key_band = _KEY_BANDS[kind] if turned < 0 else _KEY_BANDS[kind].from_side(JoinSide.RIGHT)
    low, high = (None if each is None else each if is_exact else 0 for each in (key_band.low, key_band.high))
    shift = -turned * constant
    return DifferenceBounds(
        left, right, None if low is None else low + shift, None if high is None else high + shift, is_exact
    )


def _terms(names: Names, node: exp.Expr, sign: int, text: str) -> Sequence[tuple[int, Any]]:
    """Return the summands: signed numbers, and expressions of one side each, or of none or both."""
    node = _bare(node)
    if (number := _number(node)) is not None:
        return [(sign, sign * number)]
    if isinstance(node, exp.Add | exp.Sub):
        first, second = node.this, node.expression
        spans = len(names.sides(names.check_types(node, text))) > 1
        if spans or _number(_bare(first)) is not None or _number(_bare(second)) is not None:
            turned = sign if isinstance(node, exp.Add) else -sign
            return [*_terms(names, first, sign, text), *_terms(names, second, turned, text)]
    if isinstance(node, exp.Neg):
        return _terms(names, node.this, -sign, text)
    return [(sign, names.check_types(node, text))]


def _sum(terms: Sequence[tuple[int, Expression]]) -> exp.Expr:
    (sign, first), *rest = terms
    total = _inner(first.node) if sign > 0 else exp.Neg(this=_inner(first.node))
    for sign, term in rest:
        total = (exp.Add if sign > 0 else exp.Sub)(this=total, expression=_inner(term.node))
    return total


def _number(node: exp.Expr) -> Number | None:
    """Return the value of a numeric literal, or None."""
    if isinstance(node, exp.Neg):
        number = _number(_bare(node.this))
        return None if number is None else -number
    if isinstance(node, exp.Literal) and not node.is_string:
        return int(node.this) if is_int(node.this) else float(node.this)
    return None


def _as_timestamp(node: exp.Expr) -> exp.Expr:
    return exp.Cast(this=node.copy(), to=exp.DataType.build("timestamp"))


def _is_number(term: Expression) -> bool:
    return term.type in ("int", "float") or scale_of(term.type) is not None


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _inner(node: exp.Expr) -> exp.Expr:
    """Return a copy for use as an operand, in parentheses if needed."""
    return exp.Paren(this=node.copy()) if isinstance(node, exp.Binary) else node.copy()
