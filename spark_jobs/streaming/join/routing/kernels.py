"""The loops of looking up: places of keys, units of places, rows by target."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from springline.spark_jobs.streaming.join.buckets import BUCKETS, bucket_in, part_in
from springline.spark_jobs.streaming.tracking.ids import mix

_ZERO = np.uint64(0)
_LEAST, _GREATEST = np.int64(-(1 << 63)), np.int64((1 << 63) - 1)


class Slots(NamedTuple):
    """Keys with entries, hashed: the key of each slot, its places by its entries (-1: none), and which are taken.

    `marked` are the buckets that such keys are in.
    """

    keys: npt.NDArray[np.int64]
    own: npt.NDArray[np.int32]
    other: npt.NDArray[np.int32]
    taken: npt.NDArray[np.bool_]
    marked: npt.NDArray[np.bool_]


def slots_of(keys: Any, own: Any, other: Any, buckets: Any) -> Slots:
    """Slots for some keys, at most half of them taken."""
    size = 2 << int(keys.size).bit_length()
    slots = Slots(
        np.zeros(size, np.int64), np.full(size, -1, np.int32), np.full(size, -1, np.int32), np.zeros(size, np.bool_),
        np.zeros(BUCKETS, np.bool_),
    )  # fmt: skip
    slots.marked[buckets] = True
    _fill_slots(keys, own, other, *slots[:4])
    return slots


@njit(cache=True, nogil=True, inline="always")
def slot_of(key, keys, taken):  # type: ignore[no-untyped-def]
    """The slot of a key, or the free one where it would be."""
    last = np.int64(keys.size - 1)
    at = np.int64(mix(np.uint64(key)) & np.uint64(last))
    while taken[at] and keys[at] != key:
        at = (at + 1) & last
    return at


@njit(cache=True, nogil=True)
def _fill_slots(given, own_of, other_of, keys, own, other, taken):  # type: ignore[no-untyped-def]
    for i in range(given.size):
        at = slot_of(given[i], keys, taken)
        keys[at], taken[at], own[at], other[at] = given[i], True, own_of[i], other_of[i]


@njit(cache=True, nogil=True)
def places_of(  # type: ignore[no-untyped-def]
    keys, seqs, block, own_of, other_of, slot_keys, slot_own, slot_other, taken, marked, starts, units, upto, stored,
    probes,
):  # fmt: skip
    """The unit that stores each tuple, and the other side's place of its key."""
    for i in range(keys.size):
        bucket = bucket_in(keys[i], block)
        own, other = own_of[bucket], other_of[bucket]
        if marked[bucket]:
            at = slot_of(keys[i], slot_keys, taken)
            if taken[at]:
                own = slot_own[at] if slot_own[at] >= 0 else own
                other = slot_other[at] if slot_other[at] >= 0 else other
        at = starts[own]
        if starts[own + 1] - at > 1:
            part = part_in(seqs[i], _ZERO)
            while part >= upto[at]:
                at += 1
        stored[i] = units[at]
        probes[i] = other


@njit(cache=True, nogil=True)
def count_held(places, held_starts, starts):  # type: ignore[no-untyped-def]
    """Where each tuple's probes begin, one place a tuple."""
    for i in range(places.size):
        starts[i + 1] = starts[i] + held_starts[places[i] + 1] - held_starts[places[i]]


@njit(cache=True, nogil=True)
def fill_held(places, held_starts, held, starts, probed):  # type: ignore[no-untyped-def]
    """The units that each tuple probes, one place a tuple."""
    for i in range(places.size):
        first = held_starts[places[i]]
        for j in range(starts[i + 1] - starts[i]):
            probed[starts[i] + j] = held[first + j]


@njit(cache=True, nogil=True, inline="always")
def _moved(key, by):  # type: ignore[no-untyped-def]
    if by >= 0:
        return key + by if key <= _GREATEST - by else _GREATEST
    return key + by if key >= _LEAST - by else _LEAST


@njit(cache=True, nogil=True)
def reach_held(  # type: ignore[no-untyped-def]
    keys, block, low, high, buckets, entry_keys, entries, held_starts, held, room, starts, probed, counting
):
    """The units that each tuple probes, over all keys that may match its own: first to be counted, then filled in."""
    seen = np.full(room, -1, np.int64)
    for i in range(keys.size):
        key, count = keys[i], np.int64(0)
        if (low <= 0 or key <= _GREATEST - low) and (high >= 0 or key >= _LEAST - high):
            first, last = _moved(key, low), _moved(key, high)
            at = np.searchsorted(entry_keys, first)
            own = first
            for number in range((last >> block) - (first >> block) + 1):
                if block == 0:
                    own = first + number
                    while at < entry_keys.size and entry_keys[at] < own:
                        at += 1
                    entered = at < entry_keys.size and entry_keys[at] == own
                    place = entries[at] if entered else buckets[bucket_in(own, block)]
                else:
                    place = buckets[bucket_in(((first >> block) + number) << block, block)]
                count += _add(place, i, held_starts, held, seen, starts[i] + count, probed, counting)
            while block > 0 and at < entry_keys.size and entry_keys[at] <= last:
                count += _add(entries[at], i, held_starts, held, seen, starts[i] + count, probed, counting)
                at += 1
        if counting:
            starts[i + 1] = starts[i] + count


@njit(cache=True, nogil=True, inline="always")
def _add(place, i, held_starts, held, seen, at, probed, counting):  # type: ignore[no-untyped-def]
    added = 0
    for j in range(held_starts[place], held_starts[place + 1]):
        if seen[held[j]] != i:
            seen[held[j]] = i
            if not counting:
                probed[at + added] = held[j]
            added += 1
    return added


@njit(cache=True, nogil=True)
def count_targets(stored, starts, probed, bounds):  # type: ignore[no-untyped-def]
    """Where the rows of each target begin: a store and a probe at one unit are one."""
    for i in range(stored.size):
        act = 0
        for j in range(starts[i], starts[i + 1]):
            if probed[j] == stored[i]:
                act = 2
            else:
                bounds[3 * probed[j] + 2] += 1
        bounds[3 * stored[i] + act + 1] += 1
    for target in range(bounds.size - 1):
        bounds[target + 1] += bounds[target]


@njit(cache=True, nogil=True)
def fill_targets(stored, starts, probed, at, rows):  # type: ignore[no-untyped-def]
    """The rows of each target, in their order."""
    for i in range(stored.size):
        act = 0
        for j in range(starts[i], starts[i + 1]):
            if probed[j] == stored[i]:
                act = 2
            else:
                target = 3 * probed[j] + 1
                rows[at[target]] = i
                at[target] += 1
        target = 3 * stored[i] + act
        rows[at[target]] = i
        at[target] += 1
