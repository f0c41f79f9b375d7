"""Which acker holds the record of a root: the paper's ring, and a table of arcs derived from it, which is used.

The paper's ring is balanced only on average. `AckerRing` cuts it into 4,096 arcs, assigns each to the first acker
clockwise with free capacity (consistent hashing with bounded loads: Mirrokni, Thorup, Zadimoghaddam, 2018), and places
the rows of a message on consecutive arcs, the next message a golden section further on. So 4,096 rows of a message, or
the first rows of 4,096 messages, are one on each arc, any range of roots is spread evenly, and an acker's part can be
counted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from springline.persistence.model.codec import from_json_value, to_json_value
from springline.spark_jobs.streaming.tracking.errors import InvalidRingError
from springline.spark_jobs.streaming.tracking.ids import mix

ARCS = 4096
REPLICAS = 160
ACKERS = 256  # most ackers: the most partitions of the topic of acks
RETAINED_EPOCHS = 16
STRIDE = 2531  # arcs from a message to the next: odd, and the golden section of the ring

_MASK = 0xFFFFFFFF
_LAST_ARC = np.uint64(ARCS - 1)
_52, _48, _16 = (np.uint64(bits) for bits in (52, 48, 16))
_OFFSET, _ROW = np.uint64((1 << 36) - 1), np.uint64((1 << 16) - 1)


def one_at_a_time(text: str) -> int:
    """Bob Jenkins' one-at-a-time hash of the characters from right to left, 32 bits.

    The formulas of the paper's two steps are lost; a step for each character from the right, a final step, 32 bits and
    an initial value of 0 are the form that it describes, and the form of this hash.
    """
    hashed = 0
    for character in reversed(text):
        hashed = (hashed + ord(character)) & _MASK
        hashed = (hashed + (hashed << 10)) & _MASK
        hashed ^= hashed >> 6
    hashed = (hashed + (hashed << 3)) & _MASK
    hashed ^= hashed >> 11
    return (hashed + (hashed << 15)) & _MASK


class PaperRing:
    """The paper's ring: every acker at the keys of "acker#1" to "acker#replicas", a root at the key of its id."""

    def __init__(self, ackers: Sequence[int], replicas: int = REPLICAS) -> None:
        places = ((one_at_a_time(f"{acker}#{n}"), acker) for acker in ackers for n in range(1, replicas + 1))
        self._keys, self._ackers = zip(*sorted(places), strict=True)

    def owner(self, root: int) -> int:
        """Return the first acker clockwise from the root's key."""
        return self.clockwise(one_at_a_time(str(root)))[0]

    def owners_of(self, ids: npt.ArrayLike) -> npt.NDArray[np.uint16]:
        """`owner` of each."""
        keys = _keys_of_numbers(np.asarray(ids, np.uint64))
        places = np.searchsorted(np.array(self._keys, np.uint32), keys) % len(self._keys)
        owners: npt.NDArray[np.uint16] = np.array(self._ackers, np.uint16)[places]
        return owners

    def clockwise(self, key: int) -> Sequence[int]:
        """Return the acker of every position, from the first clockwise from a key."""
        position = bisect_left(self._keys, key)
        return self._ackers[position:] + self._ackers[:position]


@njit(cache=True, nogil=True, inline="always")
def message_place(root):  # type: ignore[no-untyped-def]
    """Return the place of a root's message among 4,096 with one arc each; the next message has the next place."""
    return (mix((root >> _52) + np.uint64(1)) + ((root >> _16) & _OFFSET)) & _LAST_ARC


@njit(cache=True, nogil=True, inline="always")
def arc_of(root):  # type: ignore[no-untyped-def]
    """Return the arc of a root's id."""
    return (message_place(root) * np.uint64(STRIDE) + (root & _ROW)) & _LAST_ARC


@njit(cache=True, nogil=True)
def _find_owners(ids, owners, id_owners):  # type: ignore[no-untyped-def]
    for i in range(ids.size):
        id_owners[i] = owners[arc_of(ids[i])]


@njit(cache=True, nogil=True)
def _keys_of_numbers(numbers):  # type: ignore[no-untyped-def]
    """`one_at_a_time` of the decimal digits of each: a number's digits are computed from right to left."""
    keys = np.empty(numbers.size, np.uint32)
    mask, ten = np.uint64(_MASK), np.uint64(10)
    for i in range(numbers.size):
        rest, hashed = numbers[i], np.uint64(0)
        while True:
            hashed = (hashed + np.uint64(48) + rest % ten) & mask
            hashed = (hashed + (hashed << np.uint64(10))) & mask
            hashed ^= hashed >> np.uint64(6)
            rest //= ten
            if rest == np.uint64(0):
                break
        hashed = (hashed + (hashed << np.uint64(3))) & mask
        hashed ^= hashed >> np.uint64(11)
        keys[i] = (hashed + (hashed << np.uint64(15))) & mask
    return keys


@dataclass(frozen=True)
class AckerRing:
    """The arcs of some ackers: none has more than its share, rounded up."""

    ackers: tuple[int, ...]
    owners: npt.NDArray[np.uint16] = field(repr=False, compare=False)

    @classmethod
    def of(cls, ackers: Sequence[int]) -> AckerRing:
        """Return the ring of these ackers, in any order; raises `InvalidRingError`."""
        acker_ids = tuple(sorted(set(ackers)))
        if not acker_ids or acker_ids[0] < 0 or acker_ids[-1] >= ACKERS or len(acker_ids) != len(ackers):
            raise InvalidRingError(
                f"ackers {list(ackers)}: name one or more, each once, by numbers from 0 to {ACKERS - 1}"
            )
        return _build_ring(acker_ids)

    def owner(self, root: int) -> int:
        """Return the acker that holds a root's record."""
        return int(self.owners_of([root])[0])

    def owners_of(self, ids: npt.ArrayLike) -> npt.NDArray[np.uint16]:
        """`owner` of each."""
        roots = np.asarray(ids, np.uint64)
        owners = np.empty(roots.shape, np.uint16)
        _find_owners(roots, self.owners, owners)
        return owners

    def ranks(self, acker: int) -> npt.NDArray[np.int64]:
        """Return how many arcs of the acker precede each arc, and, last, how many it has: an array of 2 x 4,097.

        First in the order of arcs, which is that of a message's rows; then in that of messages' first rows.
        """
        if acker not in self._ranks:
            own = np.stack([self.owners, self.owners[np.arange(ARCS) * STRIDE % ARCS]]) == acker
            self._ranks[acker] = np.pad(np.cumsum(own, axis=1, dtype=np.int64), ((0, 0), (1, 0)))
        return self._ranks[acker]

    def inverse(self, acker: int) -> list[npt.NDArray[np.int64]]:
        """Return the positions of the acker's arcs, in both orders of `ranks`."""
        if acker not in self._inverses:
            self._inverses[acker] = [np.flatnonzero(np.diff(order)) for order in self.ranks(acker)]
        return self._inverses[acker]

    @cached_property
    def _ranks(self) -> dict[int, npt.NDArray[np.int64]]:
        return {}

    @cached_property
    def _inverses(self) -> dict[int, list[npt.NDArray[np.int64]]]:
        return {}

    def share_moved(self, other: AckerRing) -> float:
        """Return the share of roots that another ring assigns to another acker."""
        return float(np.mean(self.owners != other.owners))


@lru_cache(maxsize=1)
def _arc_keys() -> list[int]:
    return [one_at_a_time(f"arc{arc}") for arc in range(ARCS)]


@lru_cache(maxsize=64)
def _build_ring(ackers: tuple[int, ...]) -> AckerRing:
    paper_ring, free_arcs = PaperRing(ackers), dict.fromkeys(ackers, -(-ARCS // len(ackers)))
    owners = np.empty(ARCS, np.uint16)
    for arc, key in enumerate(_arc_keys()):
        acker = next(acker for acker in paper_ring.clockwise(key) if free_arcs[acker])
        free_arcs[acker] -= 1
        owners[arc] = acker
    owners.flags.writeable = False
    return AckerRing(ackers, owners)


@dataclass(frozen=True, slots=True)
class _StoredRingHistory:
    """Epochs as stored in files and rounds: the ackers of each, from which its ring follows."""

    max_ackers: int
    epochs: Mapping[int, tuple[int, ...]]


@dataclass(frozen=True)
class RingHistory:
    """The rings of the last 16 epochs, by epoch number, counted from 1."""

    rings: Mapping[int, AckerRing]
    max_ackers: int

    @classmethod
    def of(cls, ackers: Sequence[int], max_ackers: int) -> RingHistory:
        """Return the first epoch. `max_ackers` is the number of possible ackers: numbers 0 to max_ackers - 1."""
        return cls({1: _check_max_ackers(AckerRing.of(ackers), max_ackers)}, max_ackers)

    @property
    def epoch(self) -> int:
        """The epoch in force."""
        return max(self.rings)

    @property
    def ring(self) -> AckerRing:
        """The ring in force."""
        return self.rings[self.epoch]

    def ring_at_epoch(self, epoch: int) -> AckerRing:
        """Return the ring of an epoch; raises `InvalidRingError`."""
        if epoch not in self.rings:
            raise InvalidRingError(f"epoch {epoch} of the ring is unknown; known: {min(self.rings)} to {self.epoch}")
        return self.rings[epoch]

    def with_acker(self, acker: int) -> RingHistory:
        """Return the history with a next epoch that has this acker too; raises `InvalidRingError`."""
        if acker in self.ring.ackers:
            raise InvalidRingError(f"acker {acker} is already in the ring (epoch {self.epoch})")
        return self._with_next_ring(AckerRing.of([*self.ring.ackers, acker]))

    def without_acker(self, acker: int) -> RingHistory:
        """Return the history with a next epoch that lacks this acker; raises `InvalidRingError`."""
        if acker not in self.ring.ackers:
            raise InvalidRingError(
                f"acker {acker} is not in the ring (epoch {self.epoch}), which has {list(self.ring.ackers)}"
            )
        if len(self.ring.ackers) == 1:
            raise InvalidRingError(f"acker {acker} is the last of the ring (epoch {self.epoch}): add another first")
        return self._with_next_ring(AckerRing.of([one for one in self.ring.ackers if one != acker]))

    def _with_next_ring(self, ring: AckerRing) -> RingHistory:
        rings = {**self.rings, self.epoch + 1: _check_max_ackers(ring, self.max_ackers)}
        return replace(self, rings={number: rings[number] for number in sorted(rings)[-RETAINED_EPOCHS:]})

    def as_json(self) -> dict[str, Any]:
        """Return a form for files and rounds: rings are stored as their ackers, from which they follow."""
        stored = _StoredRingHistory(self.max_ackers, {number: ring.ackers for number, ring in self.rings.items()})
        payload: dict[str, Any] = to_json_value(stored)
        return payload

    @classmethod
    def from_json(cls, payload: Any, where: str) -> RingHistory:
        """The inverse of `as_json`; `where` names the source. Raises `DecodeError`, `InvalidRingError`."""
        stored = from_json_value(_StoredRingHistory, payload, where)
        return cls({number: AckerRing.of(ackers) for number, ackers in stored.epochs.items()}, stored.max_ackers)


def newest_epoch(ring: Mapping[str, Any]) -> tuple[int, tuple[int, ...]]:
    """Return the epoch in force and its ackers, from the output of `RingHistory.as_json`; no rings are built."""
    epochs = from_json_value(_StoredRingHistory, ring, "the ring of a job").epochs
    number = max(epochs)
    return number, epochs[number]


def _check_max_ackers(ring: AckerRing, max_ackers: int) -> AckerRing:
    if ring.ackers[-1] >= max_ackers:
        raise InvalidRingError(f"acker {ring.ackers[-1]}: expected 0 to {max_ackers - 1}; increase max_ackers")
    return ring
