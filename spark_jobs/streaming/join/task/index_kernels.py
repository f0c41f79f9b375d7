"""Loops of the hash index, compiled by numba.

A slot is 64 bits: the upper half is a tag, the upper 31 bits of the key's hash and a 1, so that no used slot is 0; the
lower half is the place of the newest row with this tag, counted from 1, or 0. Tables use linear probing, and a tag says
where its slot is, so that a table grows without the keys. `links` leads from each place to that of the row before it
with the same tag, in a ring. Places ascend, so a chain ends at the first place that is not above `floor`.

Rows of other keys may share a tag: candidates are compared by their keys afterwards.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from springline.spark_jobs.streaming.kernels.addresses import prefetch
from springline.spark_jobs.streaming.kernels.hashing import mix

_1, _32 = np.uint64(1), np.uint64(32)
_PLACE = np.uint64(0xFFFFFFFF)
_AHEAD = 32  # keys between the one whose slot is prefetched and the one whose slot is read; a power of two
_LAST = _AHEAD - 1
_MORE = np.uint64(4)  # slots after the first that are prefetched too


@njit(cache=True, nogil=True, inline="always")
def _tag_of(key):  # type: ignore[no-untyped-def]
    return (mix(np.uint64(key)) >> _32) | _1


@njit(cache=True, nogil=True, inline="always")
def _slot_of(tag, slots, shift):  # type: ignore[no-untyped-def]
    """Return the slot of a tag, or the free one where it would be."""
    last = np.uint64(slots.size - 1)
    at = tag >> shift
    while slots[at] != 0 and slots[at] >> _32 != tag:
        at = (at + _1) & last
    return at


@njit(cache=True, nogil=True, inline="always")
def _prefetch_slots(slots, at):  # type: ignore[no-untyped-def]
    """Prefetch the slot of a tag and those after it, which may be in another cache line."""
    prefetch(slots, np.int64(at))
    prefetch(slots, np.int64((at + _MORE) & np.uint64(slots.size - 1)))


@njit(cache=True, nogil=True)
def insert_rows(keys, first, place, slots, shift, links, used, limit):  # type: ignore[no-untyped-def]
    """Insert the rows from `first` on, the first of them at `place`, until `limit` slots are used.

    Returns the row where it stopped, and how many slots are used.
    """
    last_link = links.size - 1
    tags = np.empty(_AHEAD, np.uint64)
    for i in range(first, min(first + _AHEAD, keys.size)):
        tags[i & _LAST] = _tag_of(keys[i])
        _prefetch_slots(slots, tags[i & _LAST] >> shift)
    for i in range(first, keys.size):
        if used >= limit:
            return i, used
        tag = tags[i & _LAST]
        if i + _AHEAD < keys.size:
            tags[i & _LAST] = _tag_of(keys[i + _AHEAD])
            _prefetch_slots(slots, tags[i & _LAST] >> shift)
        at = _slot_of(tag, slots, shift)
        used += slots[at] == 0
        links[place & last_link] = np.uint32(slots[at] & _PLACE)
        slots[at] = (tag << _32) | np.uint64(place)
        place += 1
    return keys.size, used


@njit(cache=True, nogil=True)
def copy_slots(slots, floor, new_slots, shift):  # type: ignore[no-untyped-def]
    """Insert the slots with places above `floor` into an empty table; returns how many."""
    used = 0
    last = np.uint64(new_slots.size - 1)
    for i in range(slots.size):
        slot = slots[i]
        if np.int64(slot & _PLACE) > floor:
            at = (slot >> _32) >> shift
            while new_slots[at] != 0:
                at = (at + _1) & last
            new_slots[at] = slot
            used += 1
    return used


@njit(cache=True, nogil=True)
def count_slots(slots, floor):  # type: ignore[no-untyped-def]
    """Return how many slots have places above `floor`."""
    used = 0
    for i in range(slots.size):
        used += np.int64(slots[i] & _PLACE) > floor
    return used


@njit(cache=True, nogil=True)
def find_heads(keys, slots, shift, floor, heads):  # type: ignore[no-untyped-def]
    """Find for each key the place of the newest row with its tag; 0 if there is none above `floor`."""
    tags = np.empty(_AHEAD, np.uint64)
    for i in range(min(_AHEAD, keys.size)):
        tags[i] = _tag_of(keys[i])
        _prefetch_slots(slots, tags[i] >> shift)
    for i in range(keys.size):
        tag = tags[i & _LAST]
        if i + _AHEAD < keys.size:
            tags[i & _LAST] = _tag_of(keys[i + _AHEAD])
            _prefetch_slots(slots, tags[i & _LAST] >> shift)
        place = np.int64(slots[_slot_of(tag, slots, shift)] & _PLACE)
        heads[i] = place if place > floor else 0


@njit(cache=True, nogil=True)
def follow_chains(heads, links, floor, probe, skip, probes, places):  # type: ignore[no-untyped-def]
    """Write candidates from the `skip`-th one of `probe` on, until the output is full.

    Returns (probe, skip, candidates): the position to continue from, and the number of candidates written.
    """
    last_link = links.size - 1
    count, capacity = 0, probes.size
    while probe < heads.size:
        if probe + _AHEAD < heads.size:
            prefetch(links, np.int64(heads[probe + _AHEAD]) & last_link)
        place = np.int64(heads[probe])
        for _ in range(skip):
            place = np.int64(links[place & last_link])
        while place > floor:
            if count == capacity:
                return probe, skip, count
            probes[count] = probe
            places[count] = place
            count += 1
            skip += 1
            place = np.int64(links[place & last_link])
        probe += 1
        skip = 0
    return probe, 0, count


@njit(cache=True, nogil=True)
def unlink_rows(keys, places, is_leaving, slots, shift, floor, links):  # type: ignore[no-untyped-def]
    """Take rows out of their chains; `is_leaving` says so of a place in the ring, and is false for all afterwards.

    A chain is followed once, however many of its rows leave.
    """
    last_link = links.size - 1
    for i in range(keys.size):
        if not is_leaving[places[i] & last_link]:
            continue
        at = _slot_of(_tag_of(keys[i]), slots, shift)
        before = np.int64(0)
        place = np.int64(slots[at] & _PLACE)
        while place > floor:
            after = np.int64(links[place & last_link])
            if is_leaving[place & last_link]:
                is_leaving[place & last_link] = False
                if before:
                    links[before & last_link] = np.uint32(after)
                else:
                    slots[at] = ((slots[at] >> _32) << _32) | np.uint64(after)
            else:
                before = place
            place = after


@njit(cache=True, nogil=True)
def copy_links(links, first, end, new_links):  # type: ignore[no-untyped-def]
    """Copy the links of places [first, end) into a larger ring."""
    last_link, new_last = links.size - 1, new_links.size - 1
    for place in range(first, end):
        new_links[place & new_last] = links[place & last_link]
