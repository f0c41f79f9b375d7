"""What routers send units, and what a routing epoch asks of units: names, orders and batches that both sides know.

A tuple's place in the order of all tuples is its `seq`: router round, router unit, row, packed into 63 bits. A stored
tuple answers a probe only if its seq is smaller, and a unit takes a router round as a whole, stores before probes, so
that each pair is found once: where the earlier tuple is stored, by the later one's probe.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

import msgspec
import pyarrow as pa

from springline.persistence.model.codec import Codec

UNIT_BITS, ROW_BITS = 10, 21  # for the router units, and the rows of one in a round
ROWS = 1 << ROW_BITS  # rows of a router unit in a round, at most
KEY, SEQ = "key", "seq"
LEAST, GREATEST = -(1 << 63), (1 << 63) - 1
PARTS = 1 << 32  # hashes of seqs: a share of tuples is a range of these

_HEAD = b"join"


class Side(IntEnum):
    """The stream that a tuple is of."""

    LEFT = 0
    RIGHT = 1

    @property
    def other(self) -> Side:
        """The stream that it is joined with."""
        return Side(1 - self)


class Act(StrEnum):
    """What a unit is to do with tuples."""

    STORE = "store"
    PROBE = "probe"
    BOTH = "both"


def first_seq(router_round: int, unit: int = 0) -> int:
    """The seq of the first row of a router unit in a round; that of the round's first row at all, without a unit."""
    return ((router_round << UNIT_BITS) | unit) << ROW_BITS


@dataclass(frozen=True, slots=True)
class Reach:
    """Which right keys may match a left key: those with `low <= right - left <= high`; None: no bound.

    Equality is (0, 0), a band of e (-e, e), left < right (1, None).
    """

    low: int | None
    high: int | None

    @property
    def is_equality(self) -> bool:
        """Whether only equal keys match."""
        return self.low == self.high == 0

    @property
    def is_bounded(self) -> bool:
        """Whether a key can match a bounded range of keys alone."""
        return self.low is not None and self.high is not None

    def seen_from(self, side: Side) -> Reach:
        """Which keys of the other side may match a key of this one, by `other - this`."""
        if side is Side.LEFT:
            return self
        return Reach(None if self.high is None else -self.high, None if self.low is None else -self.low)


@dataclass(frozen=True, slots=True)
class Piece:
    """Stored tuples that are to go from one unit to another: of a side, by keys [low, high] and seqs [first, last].

    Of what the giver holds at the cut at which it copies. Where `buckets` names some, only keys of these buckets (of
    blocks of 2^block keys), but not the keys `without`, which have entries of their own; `part` is a range of 2^32
    hashes of seqs under a `salt`, which parts a heavy key evenly. `selecting` finds the tuples that are meant.
    """

    id: int
    side: Side
    giver: int
    receiver: int
    keys: tuple[int, int]
    seqs: tuple[int, int] = (0, GREATEST)
    buckets: tuple[int, ...] = ()
    block: int = 0
    without: tuple[int, ...] = ()
    part: tuple[int, int] = (0, PARTS)
    salt: int = 0


@dataclass(frozen=True, slots=True)
class Switch:
    """A piece whose copy lies at offsets [start, to) of the giver's partition of the topic of copies.

    At one cut the receiver takes the copy in and the giver drops exactly what it copied.
    """

    piece: Piece
    start: int
    to: int


@dataclass(frozen=True)
class Orders:
    """What an epoch asks of units at the cut before its first router round: pieces to copy, copies to switch to.

    Tuples of router rounds before `since` answer nothing from there on.
    """

    epoch: int
    copies: tuple[Piece, ...] = ()
    switches: tuple[Switch, ...] = ()
    since: int = 0


class _Head(msgspec.Struct, omit_defaults=True):
    """What a batch of `Sent` says of itself in its schema."""

    round: int
    side: Side
    act: Act
    orders: Orders | None = None


_HEADS: Codec[_Head] = Codec(_Head, 1, "a router's batch", "reset the job, which then begins anew")


@dataclass(frozen=True)
class Sent:
    """A batch that a router sends a unit: tuples of a side with what is to be done; or, without tuples, orders.

    `tuples` has `key` and `seq` (int64), then the columns that the side carries. Every router unit sends an epoch's
    orders to every unit in the first round of that epoch, the same ones.
    """

    round: int
    tuples: pa.RecordBatch
    side: Side = Side.LEFT
    act: Act = Act.STORE
    orders: Orders | None = None

    def batch(self) -> pa.RecordBatch:
        """For the wire."""
        head = _HEADS.encode(_Head(self.round, self.side, self.act, self.orders))
        return self.tuples.replace_schema_metadata({_HEAD: head})

    @staticmethod
    def read(value: bytes | memoryview) -> Sent:
        """From the bytes of a message, which it may lie in; raises `DecodeError`."""
        batch = pa.ipc.open_stream(value).read_next_batch()
        head = _HEADS.decode(batch.schema.metadata[_HEAD], "a message to a unit of a join")
        return Sent(head.round, batch, head.side, head.act, head.orders)
