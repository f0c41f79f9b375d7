"""The 64-bit ids of the edges of a tuple tree, made by a non-linear mix, so that they follow no pattern.

The root's edge is mixed from its id and the attempt; a child's from its parent's edge, the stage that consumes it and
its index in the parent's emission. So two parents never make the same child, a tuple with two consumers has two ids,
and no id of one attempt occurs in another. Each of these holds except with probability 2^-64. The mix is the finaliser
of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). No edge is 0.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ids = npt.NDArray[np.uint64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_ROOT = np.uint64(0xD6E8FEB86659FD93)
_INSTEAD = np.uint64(0xA0761D6478BD642F)  # replaces an edge that would be 0
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
