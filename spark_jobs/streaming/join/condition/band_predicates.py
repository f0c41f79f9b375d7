"""Conditions that compare one side with the other: what a key can be made of.

A comparison is brought to `low <= right - left <= high`, where `left` and `right` name fields of one side each. For
whole numbers that is exact. For doubles it is not, since sums are rounded: there it only finds candidates, which are
checked again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from sqlglot import exp

from springline.spark_jobs.streaming.join.condition.predicate import Names
from springline.spark_jobs.streaming.join.wire import Reach, Side
from springline.spark_jobs.streaming.sql.evaluation import is_int
from springline.spark_jobs.streaming.sql.expressions import Expression

# By operator: which right operands go with a left one, where operands are whole numbers.
_REACHES: dict[type[exp.Expr], Reach] = {
    exp.EQ: Reach(0, 0), exp.LT: Reach(1, None), exp.LTE: Reach(0, None), exp.GT: Reach(None, -1),
    exp.GTE: Reach(None, 0),
}  # fmt: skip
Number = int | float


@dataclass(frozen=True)
class Bounds:
    """`low <= right - left <= high`, None: no bound; `exact` unless rounding may put a pair beyond its bound."""

    left: Expression
    right: Expression
    low: Number | None
    high: Number | None
    exact: bool
    of: tuple[Expression, ...] = field(default=(), compare=False)  # the conditions that say so

    @property
    def ends(self) -> tuple[Expression, Expression]:
        """What it compares."""
        return (self.left, self.right)

    @property
    def is_band(self) -> bool:
        """Whether it is bounded on both sides."""
        return self.low is not None and self.high is not None

    def meet(self, other: Bounds) -> Bounds:
        """Both at once, of the same ends."""
        lows = [bound for bound in (self.low, other.low) if bound is not None]
        highs = [bound for bound in (self.high, other.high) if bound is not None]
        return replace(
            self, low=max(lows, default=None), high=min(highs, default=None), exact=self.exact and other.exact,
            of=(*self.of, *other.of),
        )  # fmt: skip


@dataclass(frozen=True)
class Pairing:
    """`left op right` with each operand of one side, as `reach` of keys that keep the order of their values."""

    left: Expression
    right: Expression
    reach: Reach
    of: Expression = field(compare=False)

    @property
    def is_number(self) -> bool:
        """Whether its keys can be numbers in order."""
        return {self.left.type, self.right.type} <= {"int", "float"}

    @property
    def is_int(self) -> bool:
        """Whether it compares whole numbers."""
        return {self.left.type, self.right.type} == {"int"}


def pairing(names: Names, condition: Expression, text: str) -> Pairing | None:
    """A condition that has each side for itself, as it is written or, of whole numbers that are equal, rearranged."""
    node = condition.node
    if type(node) not in _REACHES:
        return None
    first, second = (names.checked(part, text) for part in (node.this, node.expression))
    reach = _REACHES[type(node)]
    if "null" in (first.type, second.type):
        return None
    sides = [list(names.sides(each)) for each in (first, second)]
    if sides == [[Side.LEFT], [Side.RIGHT]]:
        return Pairing(first, second, reach, condition)
    if sides == [[Side.RIGHT], [Side.LEFT]]:
        return Pairing(second, first, reach.seen_from(Side.RIGHT), condition)
    found = bounds(names, condition, text)
    if found is not None and found.exact and found.low is not None and found.low == found.high:
        shift = exp.Literal.number(abs(found.low))
        moved = (exp.Sub if found.low > 0 else exp.Add)(this=_inner(found.right.node), expression=shift)
        right = found.right if found.low == 0 else names.checked(moved, text)
        return Pairing(found.left, right, Reach(0, 0), condition)
    return None


def bounds(names: Names, condition: Expression, text: str) -> Bounds | None:
    """How far a condition lets the two sides differ, if that is what it is about."""
    found = [each for parts in _inequalities(condition.node) if (each := _bounds(names, *parts, text)) is not None]
    if not found or len({each.ends for each in found}) > 1:
        return None
    whole = reduce(Bounds.meet, found)
    return replace(whole, of=(condition,))


def _inequalities(node: exp.Expr) -> Iterator[tuple[exp.Expr, type[exp.Expr], exp.Expr]]:
    """`abs(x) <= e` is two of them: `x <= e` and `x >= -e`."""
    kind = type(node)
    if kind not in _REACHES:
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


def _bounds(names: Names, first: exp.Expr, kind: type[exp.Expr], second: exp.Expr, text: str) -> Bounds | None:
    """`first op second`, with the terms of each side together."""
    terms = [*_terms(names, first, 1, text), *_terms(names, second, -1, text)]
    constant: Number = sum(term for _, term in terms if isinstance(term, int | float))
    parts = [(sign, term) for sign, term in terms if isinstance(term, Expression)]
    by_side = {side: [each for each in parts if names.sides(each[1]) == {side}] for side in Side}
    lefts, rights = by_side[Side.LEFT], by_side[Side.RIGHT]
    if not lefts or not rights or len(lefts) + len(rights) < len(parts) or not math.isfinite(constant):
        return None
    if {term.type for _, term in parts} - {"int", "float"}:
        return None
    exact = isinstance(constant, int) and all(term.type == "int" for _, term in parts)
    turned = rights[0][0]  # so that the first term of the right side counts as it is
    shifts = sum(1 for _, term in terms if isinstance(term, int | float) and term)
    if not exact and (shifts > 1 or (len(lefts), len(rights), lefts[0][0]) != (1, 1, -turned)):
        return None  # what is rounded away could be any amount
    left = names.checked(_sum([(-sign * turned, term) for sign, term in lefts]), text)
    right = names.checked(_sum([(sign * turned, term) for sign, term in rights]), text)
    # turned * (right - left) + constant op 0
    reach = _REACHES[kind] if turned < 0 else _REACHES[kind].seen_from(Side.RIGHT)
    low, high = (None if each is None else each if exact else 0 for each in (reach.low, reach.high))
    shift = -turned * constant
    return Bounds(left, right, None if low is None else low + shift, None if high is None else high + shift, exact)


def _terms(names: Names, node: exp.Expr, sign: int, text: str) -> Sequence[tuple[int, Any]]:
    """What is added up: numbers with their sign in them, and expressions of one side each, or of none or both."""
    node = _bare(node)
    if (number := _number(node)) is not None:
        return [(sign, sign * number)]
    if isinstance(node, exp.Add | exp.Sub):
        first, second = node.this, node.expression
        spans = len(names.sides(names.checked(node, text))) > 1
        if spans or _number(_bare(first)) is not None or _number(_bare(second)) is not None:
            turned = sign if isinstance(node, exp.Add) else -sign
            return [*_terms(names, first, sign, text), *_terms(names, second, turned, text)]
    if isinstance(node, exp.Neg):
        return _terms(names, node.this, -sign, text)
    return [(sign, names.checked(node, text))]


def _sum(terms: Sequence[tuple[int, Expression]]) -> exp.Expr:
    (sign, first), *rest = terms
    found = _inner(first.node) if sign > 0 else exp.Neg(this=_inner(first.node))
    for sign, term in rest:
        found = (exp.Add if sign > 0 else exp.Sub)(this=found, expression=_inner(term.node))
    return found


def _number(node: exp.Expr) -> Number | None:
    """A number that is written out."""
    if isinstance(node, exp.Neg):
        number = _number(_bare(node.this))
        return None if number is None else -number
    if isinstance(node, exp.Literal) and not node.is_string:
        return int(node.this) if is_int(node.this) else float(node.this)
    return None


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _inner(node: exp.Expr) -> exp.Expr:
    """As a part of another expression."""
    return exp.Paren(this=node.copy()) if isinstance(node, exp.Binary) else node.copy()
