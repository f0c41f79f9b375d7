"""The 64-bit ids of the edges of a tuple tree, made by a non-linear mix, so that they follow no pattern.

The root's edge is mixed from its id and the attempt; a child's from its parent's edge, the stage that consumes it and
its index in the parent's emission. So two parents never make the same child, a tuple with two consumers has two ids,
and no id of one attempt occurs in another. Each of these holds except with probability 2^-64. The mix is the finaliser
of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). No edge is 0.

The tuples that a spring makes of a message need no id of their own in what is sent: it is mixed from the message, the
receiver, and the tuple's number among those of the message for this receiver. A fold sums these ids; the edges of an
attempt of single roots are mixed from them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ids = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_ROOT = np.uint64(0xD6E8FEB86659FD93)
_INSTEAD = np.uint64(0xA0761D6478BD642F)  # replaces an edge that would be 0
_ROW = np.uint64((1 << 16) - 1)  # the bits of a root's id that number the rows of a message
_30, _27, _31, _48 = (np.uint64(bits) for bits in (30, 27, 31, 48))


@njit(cache=True, nogil=True, inline="always")
def mix(value):  # type: ignore[no-untyped-def]
    """Mix 64 bits bijectively."""
    value ^= value >> _30
    value *= _MIX_1
    value ^= value >> _27
    value *= _MIX_2
    value ^= value >> _31
    return value


@njit(cache=True, nogil=True, inline="always")
def root_edge_of(root, attempt):  # type: ignore[no-untyped-def]
    """`root_edge` for kernels: uint64 in and out."""
    edge = mix(mix(root + _ROOT) + attempt * _STEP)
    return edge if edge != np.uint64(0) else _INSTEAD


@njit(cache=True, nogil=True, inline="always")
def child_of(parent, consumer, index):  # type: ignore[no-untyped-def]
    """`child` for kernels: uint64 in and out; consumer below 2^16, index below 2^48."""
    edge = mix(mix(parent) + ((consumer << _48) + index + np.uint64(1)) * _STEP)
    return edge if edge != np.uint64(0) else _INSTEAD


@njit(cache=True, nogil=True)
def _root_edges(roots, attempts, edges):  # type: ignore[no-untyped-def]
    for i in range(roots.size):
        edges[i] = root_edge_of(roots[i], np.uint64(attempts[i % attempts.size]))


@njit(cache=True, nogil=True)
def _children(parents, consumer, indexes, edges):  # type: ignore[no-untyped-def]
    for i in range(parents.size):
        edges[i] = child_of(parents[i], consumer, indexes[i])


@njit(cache=True, nogil=True)
def _fold(messages, firsts, counts, receiver, applied):  # type: ignore[no-untyped-def]
    value, place = np.uint64(0), 0
    for row in range(messages.size):
        parent = mix(root_edge_of(messages[row], np.uint64(0))) + (receiver << _48) * _STEP
        index = np.uint64(firsts[row])
        for _ in range(counts[row]):
            index += np.uint64(1)
            if applied.size == 0 or applied[place]:
                edge = mix(parent + index * _STEP)
                value ^= edge if edge != np.uint64(0) else _INSTEAD
            place += 1
    return value


@njit(cache=True, nogil=True)
def _row_values(roots, firsts, counts, receiver, attempt, applied, values):  # type: ignore[no-untyped-def]
    place = 0
    for row in range(roots.size):
        message = root_edge_of(roots[row] & ~_ROW, np.uint64(0))
        value = np.uint64(0)
        for step in range(counts[row]):
            if applied.size == 0 or applied[place]:
                value ^= root_edge_of(child_of(message, receiver, np.uint64(firsts[row] + step)), attempt)
            place += 1
        values[row] = value


def fold_value(
    messages: Ids, firsts: npt.ArrayLike, counts: npt.ArrayLike, receiver: int, applied: Mask | None = None
) -> int:
    """Return the XOR of the ids of tuples, as a fold sums it.

    Args:
        messages: the ids of messages: of their first rows as roots.
        firsts: for each, the number of the first tuple, among those that the message sends to the receiver.
        counts: for each, the number of tuples.
        receiver: the unit that they are sent to, below 2^16.
        applied: which of all these tuples count; None: all.
    """
    return int(_fold(messages, _int64(firsts), _int64(counts), np.uint64(receiver), _mask(applied)))


def row_values(
    roots: Ids, firsts: npt.ArrayLike, counts: npt.ArrayLike, receiver: int, attempt: int, applied: Mask | None = None
) -> Ids:
    """Return for each root the XOR of the edges of its tuples in an attempt; arguments as those of `fold_value`."""
    values = np.empty_like(roots)
    _row_values(roots, _int64(firsts), _int64(counts), np.uint64(receiver), np.uint64(attempt), _mask(applied), values)
    return values


def _int64(numbers: npt.ArrayLike) -> npt.NDArray[np.int64]:
    return np.asarray(numbers, np.int64)


def _mask(applied: Mask | None) -> Mask:
    return np.empty(0, np.bool_) if applied is None else applied


def root_edge(root: int, attempt: int) -> int:
    """Return the id of a root as a tuple, in one attempt (from 1)."""
    return int(root_edges([root], attempt)[0])


def child(parent: int, consumer: int, index: int) -> int:
    """Return the id of the tuple with number `index` in the parent's emission, on its way to the stage `consumer`."""
    return int(children([parent], consumer, [index])[0])


def root_edges(roots: npt.ArrayLike, attempts: npt.ArrayLike) -> Ids:
    """`root_edge` of each; `attempts` is an array as long, or one number for all."""
    ids = np.asarray(roots, np.uint64)
    edges = np.empty_like(ids)
    _root_edges(ids, np.atleast_1d(np.asarray(attempts, np.uint64)), edges)
    return edges


def children(parents: npt.ArrayLike, consumer: int, indexes: npt.ArrayLike) -> Ids:
    """`child` of each, for one consumer."""
    ids = np.asarray(parents, np.uint64)
    edges = np.empty_like(ids)
    _children(ids, np.uint64(consumer), np.asarray(indexes, np.uint64), edges)
    return edges
