"""Which acker holds the record of a root: the paper's ring, and a table of arcs made from it, which is what is used.

The paper's ring is balanced only on average. `Circle` cuts it into 4,096 arcs, gives each to the first acker clockwise
that has room (consistent hashing with bounded loads: Mirrokni, Thorup, Zadimoghaddam, 2018), and lays the rows of a
message on consecutive arcs, the next message a golden section further on. So 4,096 rows of a message, and the first
rows of 4,096 messages, are one on each arc, any run of roots is spread evenly, and an acker's part can be counted.
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

from springline.persistence.model.codec import from_plain, plain
from springline.spark_jobs.streaming.tracking.errors import InvalidRingError
from springline.spark_jobs.streaming.tracking.ids import mix

ARCS = 4096
REPLICAS = 160
ACKERS = 256  # ids that an acker may have: what partitions of the acks topic there may be
KEPT = 16
STRIDE = 2531  # arcs from a message to the next: odd, and the golden section of the circle

_MASK = 0xFFFFFFFF
_LAST_ARC = np.uint64(ARCS - 1)
_52, _48, _16 = (np.uint64(bits) for bits in (52, 48, 16))
_OFFSET, _ROW = np.uint64((1 << 36) - 1), np.uint64((1 << 16) - 1)


def one_at_a_time(text: str) -> int:
    """Bob Jenkins' one-at-a-time hash of the characters from right to left, 32 bits.

    The formulas of the paper's two steps are lost; a step for each character from the right, a final step, 32 bits and
    a beginning at 0 are the shape that it describes, and the shape of this hash.
    """
    found = 0
    for character in reversed(text):
        found = (found + ord(character)) & _MASK
        found = (found + (found << 10)) & _MASK
        found ^= found >> 6
    found = (found + (found << 3)) & _MASK
    found ^= found >> 11
    return (found + (found << 15)) & _MASK


class PaperRing:
    """The paper's ring: every acker at the keys of "acker#1" to "acker#replicas", a root at that of its id."""

    def __init__(self, ackers: Sequence[int], replicas: int = REPLICAS) -> None:
        places = ((one_at_a_time(f"{acker}#{n}"), acker) for acker in ackers for n in range(1, replicas + 1))
        self._keys, self._ackers = zip(*sorted(places), strict=True)

    def owner(self, root: int) -> int:
        """The first acker clockwise from the root's key."""
        return self.clockwise(one_at_a_time(str(root)))[0]

    def owners_of(self, ids: npt.ArrayLike) -> npt.NDArray[np.uint16]:
        """`owner` of each."""
        keys = _keys_of_numbers(np.asarray(ids, np.uint64))
        places = np.searchsorted(np.array(self._keys, np.uint32), keys) % len(self._keys)
        found: npt.NDArray[np.uint16] = np.array(self._ackers, np.uint16)[places]
        return found

    def clockwise(self, key: int) -> Sequence[int]:
        """The acker of every position, from the first clockwise from a key."""
        at = bisect_left(self._keys, key)
        return self._ackers[at:] + self._ackers[:at]


@njit(cache=True, nogil=True, inline="always")
def message_place(name):  # type: ignore[no-untyped-def]
    """The place of a root's message among the 4,096 that begin on an arc each: the next message's is the next."""
    return (mix((name >> _52) + np.uint64(1)) + ((name >> _16) & _OFFSET)) & _LAST_ARC


@njit(cache=True, nogil=True, inline="always")
def arc_of(name):  # type: ignore[no-untyped-def]
    """The arc of a root's id."""
    return (message_place(name) * np.uint64(STRIDE) + (name & _ROW)) & _LAST_ARC


@njit(cache=True, nogil=True)
def _owners(ids, owners, found):  # type: ignore[no-untyped-def]
    for i in range(ids.size):
        found[i] = owners[arc_of(ids[i])]


@njit(cache=True, nogil=True)
def _keys_of_numbers(numbers):  # type: ignore[no-untyped-def]
    """`one_at_a_time` of the decimal digits of each: from right to left is how digits come out of a number."""
    keys = np.empty(numbers.size, np.uint32)
    mask, ten = np.uint64(_MASK), np.uint64(10)
    for i in range(numbers.size):
        rest, found = numbers[i], np.uint64(0)
        while True:
            found = (found + np.uint64(48) + rest % ten) & mask
            found = (found + (found << np.uint64(10))) & mask
            found ^= found >> np.uint64(6)
            rest //= ten
            if rest == np.uint64(0):
                break
        found = (found + (found << np.uint64(3))) & mask
        found ^= found >> np.uint64(11)
        keys[i] = (found + (found << np.uint64(15))) & mask
    return keys


@dataclass(frozen=True)
class Circle:
    """The arcs of some ackers: none has more than its share rounded up, whatever the ring says."""

    ackers: tuple[int, ...]
    owners: npt.NDArray[np.uint16] = field(repr=False, compare=False)

    @classmethod
    def of(cls, ackers: Sequence[int]) -> Circle:
        """The circle of these ackers; raises `InvalidRingError`. Their order says nothing."""
        chosen = tuple(sorted(set(ackers)))
        if not chosen or chosen[0] < 0 or chosen[-1] >= ACKERS or len(chosen) != len(ackers):
            raise InvalidRingError(
                f"ackers {list(ackers)}: name one or more, each once, by numbers from 0 to {ACKERS - 1}"
            )
        return _circle(chosen)

    def owner(self, root: int) -> int:
        """The acker that holds a root's record."""
        return int(self.owners_of([root])[0])

    def owners_of(self, ids: npt.ArrayLike) -> npt.NDArray[np.uint16]:
        """`owner` of each."""
        roots = np.asarray(ids, np.uint64)
        found = np.empty(roots.shape, np.uint16)
        _owners(roots, self.owners, found)
        return found

    def ranks(self, acker: int) -> npt.NDArray[np.int64]:
        """How many arcs of the acker lie before each arc, and, last, how many it has: twice 4,097 numbers.

        First in the order of arcs, which is that of a message's rows; then in that of messages' first rows.
        """
        if acker not in self._ranks:
            own = np.stack([self.owners, self.owners[np.arange(ARCS) * STRIDE % ARCS]]) == acker
            self._ranks[acker] = np.pad(np.cumsum(own, axis=1, dtype=np.int64), ((0, 0), (1, 0)))
        return self._ranks[acker]

    def inverse(self, acker: int) -> list[npt.NDArray[np.int64]]:
        """Where the acker's arcs lie, in both orders of `ranks`."""
        if acker not in self._inverses:
            self._inverses[acker] = [np.flatnonzero(np.diff(order)) for order in self.ranks(acker)]
        return self._inverses[acker]

    @cached_property
    def _ranks(self) -> dict[int, npt.NDArray[np.int64]]:
        return {}

    @cached_property
    def _inverses(self) -> dict[int, list[npt.NDArray[np.int64]]]:
        return {}

    def share_moved(self, other: Circle) -> float:
        """The share of roots that another circle gives to another acker."""
        return float(np.mean(self.owners != other.owners))


@lru_cache(maxsize=1)
def _arc_keys() -> list[int]:
    return [one_at_a_time(f"arc{arc}") for arc in range(ARCS)]


@lru_cache(maxsize=64)
def _circle(ackers: tuple[int, ...]) -> Circle:
    ring, room = PaperRing(ackers), dict.fromkeys(ackers, -(-ARCS // len(ackers)))
    owners = np.empty(ARCS, np.uint16)
    for arc, key in enumerate(_arc_keys()):
        acker = next(acker for acker in ring.clockwise(key) if room[acker])
        room[acker] -= 1
        owners[arc] = acker
    owners.flags.writeable = False
    return Circle(ackers, owners)


@dataclass(frozen=True, slots=True)
class _Ring:
    """Epochs as files and rounds have them: the ackers of each, from which its circle follows."""

    room: int
    epochs: Mapping[int, tuple[int, ...]]


@dataclass(frozen=True)
class Epochs:
    """The circles that were in force one after the other, numbered from 1: the last 16, by number."""

    circles: Mapping[int, Circle]
    room: int

    @classmethod
    def of(cls, ackers: Sequence[int], room: int) -> Epochs:
        """The first epoch. `room` is how many ackers there can be: numbers 0 to room - 1."""
        return cls({1: _within(Circle.of(ackers), room)}, room)

    @property
    def number(self) -> int:
        """The epoch in force."""
        return max(self.circles)

    @property
    def circle(self) -> Circle:
        """The circle in force."""
        return self.circles[self.number]

    def at(self, number: int) -> Circle:
        """The circle of an epoch; raises `InvalidRingError`."""
        if number not in self.circles:
            raise InvalidRingError(f"epoch {number} of the ring is not known: {min(self.circles)} to {self.number} are")
        return self.circles[number]

    def with_acker(self, acker: int) -> Epochs:
        """The same with a next epoch that has one acker more; raises `InvalidRingError`."""
        if acker in self.circle.ackers:
            raise InvalidRingError(f"acker {acker} is in the ring already (epoch {self.number}): nothing to add")
        return self._next(Circle.of([*self.circle.ackers, acker]))

    def without_acker(self, acker: int) -> Epochs:
        """The same with a next epoch that has one acker less; raises `InvalidRingError`."""
        if acker not in self.circle.ackers:
            raise InvalidRingError(
                f"acker {acker} is not in the ring (epoch {self.number}): {list(self.circle.ackers)} are"
            )
        if len(self.circle.ackers) == 1:
            raise InvalidRingError(f"acker {acker} is the last of the ring (epoch {self.number}): add another first")
        return self._next(Circle.of([one for one in self.circle.ackers if one != acker]))

    def _next(self, circle: Circle) -> Epochs:
        circles = {**self.circles, self.number + 1: _within(circle, self.room)}
        return replace(self, circles={number: circles[number] for number in sorted(circles)[-KEPT:]})

    def as_json(self) -> dict[str, Any]:
        """A form for files and rounds: circles are told by their ackers, from which they follow."""
        ring = _Ring(self.room, {number: circle.ackers for number, circle in self.circles.items()})
        told: dict[str, Any] = plain(ring)
        return told

    @classmethod
    def from_json(cls, given: Any, where: str) -> Epochs:
        """The inverse of `as_json`; `where` says what holds it. Raises `DecodeError`, `InvalidRingError`."""
        ring = from_plain(_Ring, given, where)
        return cls({number: Circle.of(ackers) for number, ackers in ring.epochs.items()}, ring.room)


def newest(ring: Mapping[str, Any]) -> tuple[int, tuple[int, ...]]:
    """The epoch in force in what `Epochs.as_json` gave, with its ackers; of the others no circle is made."""
    epochs = from_plain(_Ring, ring, "the ring of a job").epochs
    number = max(epochs)
    return number, epochs[number]


def _within(circle: Circle, room: int) -> Circle:
    if circle.ackers[-1] >= room:
        raise InvalidRingError(
            f"acker {circle.ackers[-1]}: the acks topic has room for ackers 0 to {room - 1}; give it more partitions"
        )
    return circle
