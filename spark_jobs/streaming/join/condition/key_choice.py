"""Which key a join has: equality before a band before an order; and what is left to check on candidate pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from springline.spark_jobs.streaming.join.condition.band_predicates import Bounds, Pairing, bounds, pairing
from springline.spark_jobs.streaming.join.condition.keys import Buckets, Hashed, Keys, Ordered, Whole
from springline.spark_jobs.streaming.join.condition.predicate import Names
from springline.spark_jobs.streaming.join.errors import InvalidConditionError
from springline.spark_jobs.streaming.join.wire import GREATEST, Reach
from springline.spark_jobs.streaming.sql.expressions import Expression

Choice = tuple[Keys, tuple[Expression, ...]]  # a key, and the conditions that it says exactly


def chosen(names: Names, conditions: Sequence[Expression], text: str) -> tuple[Keys, tuple[Expression, ...]]:
    """The key for conditions that compare the sides, and those of them that it does not say exactly.

    Raises `InvalidConditionError` where none of them makes a key, or two of them exclude each other.
    """
    pairings = [found for each in conditions if (found := pairing(names, each, text)) is not None]
    differences = list(_together(near for each in conditions if (near := bounds(names, each, text)) is not None))
    for band in differences:
        if band.exact and band.low is not None and band.high is not None and band.low > band.high:
            raise InvalidConditionError(text, "no pair can ever match: two of its conditions exclude each other")
    choices = (*_equality(pairings), *_bands(differences), *_orders(pairings, differences))
    for keys, exactly in choices:
        if max(abs(bound) for bound in (keys.reach.low, keys.reach.high) if bound is not None) > GREATEST:
            raise InvalidConditionError(text, "the sides are compared beyond 64 bits")
        return keys, tuple(each for each in conditions if each not in exactly)
    raise InvalidConditionError(
        text,
        "nothing in it finds partners but trying all pairs; join by AND at least one of: l.a = r.b, "
        "abs(l.a - r.b) <= 5, l.a BETWEEN r.b - 5 AND r.b + 5, l.a < r.b (of numbers, with one side on each side)",
    )


def _together(found: Iterable[Bounds]) -> Iterable[Bounds]:
    """Bounds of the same ends as one."""
    by_ends: dict[tuple[Expression, Expression], Bounds] = {}
    for each in found:
        by_ends[each.ends] = by_ends[each.ends].meet(each) if each.ends in by_ends else each
    return by_ends.values()


def _equality(pairings: Sequence[Pairing]) -> Iterator[Choice]:
    equal = [each for each in pairings if each.reach.is_equality]
    if len(equal) == 1 and equal[0].is_number:
        (only,) = equal
        kind = Whole if only.is_int else Ordered
        yield kind((only.left, only.right), only.reach), (only.of,)
    elif equal:
        yield Hashed(tuple((each.left, each.right) for each in equal)), ()


def _bands(differences: Sequence[Bounds]) -> Iterator[Choice]:
    for each in differences:
        if not each.is_band:
            continue
        assert each.low is not None and each.high is not None
        if each.exact:
            yield Whole(each.ends, Reach(int(each.low), int(each.high))), each.of
        elif each.low == each.high == 0:
            yield Ordered(each.ends, Reach(0, 0)), ()
        elif math.isfinite(width := 2 * float(max(abs(each.low), abs(each.high)))):
            yield Buckets(each.ends, width), ()


def _orders(pairings: Sequence[Pairing], differences: Sequence[Bounds]) -> Iterator[Choice]:
    for each in differences:
        if each.exact:
            low, high = (None if bound is None else int(bound) for bound in (each.low, each.high))
            yield Whole(each.ends, Reach(low, high)), each.of
    for pair in pairings:
        if pair.is_number and not pair.is_int:
            yield Ordered((pair.left, pair.right), pair.reach), (pair.of,)
