"""Choice of a join's key: equality before a band before an order; the other conditions are checked on pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from springline.spark_jobs.streaming.join.condition.band_predicates import (
    DifferenceBounds,
    KeyComparison,
    difference_bounds,
    key_comparison,
)
from springline.spark_jobs.streaming.join.condition.keys import BandKey, FloatKey, HashKey, IntegerKey, JoinKeys
from springline.spark_jobs.streaming.join.condition.predicate import Names
from springline.spark_jobs.streaming.join.errors import InvalidConditionError
from springline.spark_jobs.streaming.join.wire import GREATEST, KeyBand
from springline.spark_jobs.streaming.sql.expressions import Expression

KeyChoice = tuple[JoinKeys, tuple[Expression, ...]]  # a key, and the conditions that it expresses exactly


def choose_keys(names: Names, conditions: Sequence[Expression], text: str) -> tuple[JoinKeys, tuple[Expression, ...]]:
    """Choose the key for conditions that compare the sides; returns it and the conditions that it does not imply.

    Raises `InvalidConditionError` if no condition provides a key, or if two of them exclude each other.
    """
    pairings = [comparison for each in conditions if (comparison := key_comparison(names, each, text)) is not None]
    differences = list(
        _merge_bounds(
            difference for each in conditions if (difference := difference_bounds(names, each, text)) is not None
        )
    )
    for band in differences:
        if band.is_exact and band.low is not None and band.high is not None and band.low > band.high:
            raise InvalidConditionError(text, "no pair can match: two of its conditions exclude each other")
    choices = (*_equality(pairings), *_bands(differences), *_orders(pairings, differences))
    for keys, exact_conditions in choices:
        if max(abs(bound) for bound in (keys.key_band.low, keys.key_band.high) if bound is not None) > GREATEST:
            raise InvalidConditionError(text, "the sides are compared beyond 64 bits")
        return keys, tuple(each for each in conditions if each not in exact_conditions)
    raise InvalidConditionError(
        text,
        "it would need to compare all pairs; add at least one of these by AND: l.a = r.b, "
        "abs(l.a - r.b) <= 5, l.a BETWEEN r.b - 5 AND r.b + 5, l.a < r.b (of numbers, with one side on each side)",
    )


def _merge_bounds(all_bounds: Iterable[DifferenceBounds]) -> Iterable[DifferenceBounds]:
    """Intersect bounds of the same ends."""
    by_ends: dict[tuple[Expression, Expression], DifferenceBounds] = {}
    for each in all_bounds:
        by_ends[each.ends] = by_ends[each.ends].intersect(each) if each.ends in by_ends else each
    return by_ends.values()


def _equality(pairings: Sequence[KeyComparison]) -> Iterator[KeyChoice]:
    equal = [each for each in pairings if each.key_band.is_equality]
    if len(equal) == 1 and equal[0].has_order:
        (only,) = equal
        kind = IntegerKey if only.is_int else FloatKey
        yield kind((only.left, only.right), only.key_band), (only.condition,) if only.is_exact else ()
    elif equal:
        yield HashKey(tuple((each.left, each.right) for each in equal)), ()


def _bands(differences: Sequence[DifferenceBounds]) -> Iterator[KeyChoice]:
    for each in differences:
        if not each.is_band:
            continue
        assert each.low is not None and each.high is not None
        if each.is_exact:
            yield IntegerKey(each.ends, KeyBand(int(each.low), int(each.high))), each.conditions
        elif each.low == each.high == 0:
            yield FloatKey(each.ends, KeyBand(0, 0)), ()
        elif math.isfinite(width := 2 * float(max(abs(each.low), abs(each.high)))):
            yield BandKey(each.ends, width), ()


def _orders(pairings: Sequence[KeyComparison], differences: Sequence[DifferenceBounds]) -> Iterator[KeyChoice]:
    for each in differences:
        if each.is_exact:
            low, high = (None if bound is None else int(bound) for bound in (each.low, each.high))
            yield IntegerKey(each.ends, KeyBand(low, high)), each.conditions
    for pair in pairings:
        ends = (pair.left, pair.right)
        if pair.is_int:
            yield IntegerKey(ends, pair.key_band), (pair.condition,)
        elif pair.has_order and pair.is_exact:
            yield FloatKey(ends, pair.key_band), (pair.condition,)
        elif pair.has_order:
            yield FloatKey(ends, _with_equal(pair.key_band)), ()


def _with_equal(band: KeyBand) -> KeyBand:
    """Return the band with equal keys too: different values may have the same key."""
    low = None if band.low is None else min(band.low, 0)
    return KeyBand(low, None if band.high is None else max(band.high, 0))
