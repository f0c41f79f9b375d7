"""Loops of routing lookups, compiled by numba: placements of keys, units of placements, rows by target."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from springline.spark_jobs.streaming.join.buckets import BUCKETS, bucket_in, part_in
from springline.spark_jobs.streaming.tracking.ids import mix

_ZERO = np.uint64(0)
_LEAST, _GREATEST = np.int64(-(1 << 63)), np.int64((1 << 63) - 1)


class EntrySlots(NamedTuple):
    """Hash table of the keys with entries: key of each slot, its placements by its entries (-1: none), and used flags.

    `marked` are the buckets that contain such keys.
    """

    keys: npt.NDArray[np.int64]
    own: npt.NDArray[np.int32]
    other: npt.NDArray[np.int32]
    is_used: npt.NDArray[np.bool_]
    marked: npt.NDArray[np.bool_]


def slots_of(keys: Any, own: Any, other: Any, buckets: Any) -> EntrySlots:
    """Build slots for keys, at most half of them used."""
    size = 2 << int(keys.size).bit_length()
    slots = EntrySlots(
        np.zeros(size, np.int64), np.full(size, -1, np.int32), np.full(size, -1, np.int32), np.zeros(size, np.bool_),
        np.zeros(BUCKETS, np.bool_),
    )  # fmt: skip
    slots.marked[buckets] = True
    _fill_slots(keys, own, other, *slots[:4])
    return slots


@njit(cache=True, nogil=True, inline="always")
def slot_of(key, keys, is_used):  # type: ignore[no-untyped-def]
    """Return the slot of a key, or the free slot where it would be inserted."""
    last = np.int64(keys.size - 1)
    at = np.int64(mix(np.uint64(key)) & np.uint64(last))
    while is_used[at] and keys[at] != key:
        at = (at + 1) & last
    return at


@njit(cache=True, nogil=True)
def _fill_slots(entry_keys, own_of, other_of, keys, own, other, is_used):  # type: ignore[no-untyped-def]
    for i in range(entry_keys.size):
        at = slot_of(entry_keys[i], keys, is_used)
        keys[at], is_used[at], own[at], other[at] = entry_keys[i], True, own_of[i], other_of[i]


@njit(cache=True, nogil=True)
def find_placements(  # type: ignore[no-untyped-def]
    keys, seqs, block, own_of, other_of, slot_keys, slot_own, slot_other, is_used, marked, starts, units, upto, stored,
    probes,
):  # fmt: skip
    """Find the unit that stores each tuple, and the other side's placement of its key."""
    for i in range(keys.size):
        bucket = bucket_in(keys[i], block)
        own, other = own_of[bucket], other_of[bucket]
        if marked[bucket]:
            at = slot_of(keys[i], slot_keys, is_used)
            if is_used[at]:
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
def count_probes(places, holder_starts, starts):  # type: ignore[no-untyped-def]
    """Compute where each tuple's probes begin, with one placement per tuple."""
    for i in range(places.size):
        starts[i + 1] = starts[i] + holder_starts[places[i] + 1] - holder_starts[places[i]]


@njit(cache=True, nogil=True)
def fill_probes(places, holder_starts, holders, starts, probed):  # type: ignore[no-untyped-def]
    """Write the tasks that each tuple probes, with one placement per tuple."""
    for i in range(places.size):
        first = holder_starts[places[i]]
        for j in range(starts[i + 1] - starts[i]):
            probed[starts[i] + j] = holders[first + j]


@njit(cache=True, nogil=True, inline="always")
def _saturating_add(key, by):  # type: ignore[no-untyped-def]
    if by >= 0:
        return key + by if key <= _GREATEST - by else _GREATEST
    return key + by if key >= _LEAST - by else _LEAST


@njit(cache=True, nogil=True)
def find_band_probes(  # type: ignore[no-untyped-def]
    keys, block, low, high, buckets, entry_keys, entries, holder_starts, holders, tasks, starts, probed, counting
):
    """Find the tasks that each tuple probes, over all keys that may match its own; first counted, then written."""
    last_tuple = np.full(tasks, -1, np.int64)
    for i in range(keys.size):
        key, count = keys[i], np.int64(0)
        if (low <= 0 or key <= _GREATEST - low) and (high >= 0 or key >= _LEAST - high):
            first, last = _saturating_add(key, low), _saturating_add(key, high)
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
                count += _add_holders(place, i, holder_starts, holders, last_tuple, starts[i] + count, probed, counting)
            while block > 0 and at < entry_keys.size and entry_keys[at] <= last:
                count += _add_holders(
                    entries[at], i, holder_starts, holders, last_tuple, starts[i] + count, probed, counting
                )
                at += 1
        if counting:
            starts[i + 1] = starts[i] + count


@njit(cache=True, nogil=True, inline="always")
def _add_holders(place, i, holder_starts, holders, last_tuple, offset, probed, counting):  # type: ignore[no-untyped-def]
    added = 0
    for j in range(holder_starts[place], holder_starts[place + 1]):
        if last_tuple[holders[j]] != i:
            last_tuple[holders[j]] = i
            if not counting:
                probed[offset + added] = holders[j]
            added += 1
    return added


@njit(cache=True, nogil=True)
def count_targets(stored, lists, starts, probed, task_of, bounds):  # type: ignore[no-untyped-def]
    """Compute where the rows of each target begin: of each task those that are stored (0), both (1) or probes (2).

    Tuple i probes the tasks of list lists[i], or of list i if there are no `lists`: `probed[starts[k]:starts[k + 1]]`.
    `task_of` is the task of each unit.
    """
    for i in range(stored.size):
        task = task_of[stored[i]]
        action = 0
        number = lists[i] if lists.size else i
        for j in range(starts[number], starts[number + 1]):
            if probed[j] == task:
                action = 1
            else:
                bounds[3 * probed[j] + 3] += 1
        bounds[3 * task + action + 1] += 1
    for target in range(bounds.size - 1):
        bounds[target + 1] += bounds[target]


@njit(cache=True, nogil=True)
def fill_targets(stored, lists, starts, probed, task_of, offsets, rows):  # type: ignore[no-untyped-def]
    """Write the rows of each target, in order; the arguments are those of `count_targets`."""
    for i in range(stored.size):
        task = task_of[stored[i]]
        action = 0
        number = lists[i] if lists.size else i
        for j in range(starts[number], starts[number + 1]):
            if probed[j] == task:
                action = 1
            else:
                target = 3 * probed[j] + 2
                rows[offsets[target]] = i
                offsets[target] += 1
        target = 3 * task + action
        rows[offsets[target]] = i
        offsets[target] += 1


@njit(cache=True, nogil=True)
def gather_targets(rows, bounds, keys, seqs, stored, numbers, taken_keys, taken_seqs, units, actions, taken_numbers):  # type: ignore[no-untyped-def]
    """Take the key, the seq, the storing unit, the action and the number of each row, in the order of the targets."""
    for target in range(bounds.size - 1):
        for at in range(bounds[target], bounds[target + 1]):
            row = rows[at]
            taken_keys[at] = keys[row]
            taken_seqs[at] = seqs[row]
            units[at] = stored[row]
            actions[at] = target % 3
            taken_numbers[at] = numbers[row]
