"""Messages from routers to tasks of the join: names, epoch commands and batches that both share.

Tuples are routed to units; unit u belongs to task u % tasks. The position of a tuple in the order of all tuples is its
`seq`: router round, router unit and row, packed into 63 bits. A stored tuple answers a probe only if its seq is
smaller. A task processes a router round as a whole, stores before probes. So each pair is found exactly once: where the
earlier tuple is stored, by the later one's probe.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import msgspec
import pyarrow as pa

from springline.persistence.model.codec import Codec

UNIT_BITS, TUPLE_BITS = 9, 22  # bits for the router unit, and for the tuple within its round
ROWS = 1 << TUPLE_BITS - 1  # maximum rows of each side that a router unit takes in a round
KEY, SEQ, UNIT, ACTION = "key", "seq", "unit", "action"
MAX_UNITS = 256  # units are numbered by one byte
LEAST, GREATEST = -(1 << 63), (1 << 63) - 1
SEQ_HASHES = 1 << 32  # number of seq hashes; a share of tuples is a range of them

_HEADER_KEY = b"join"


class JoinSide(IntEnum):
    """The stream that a tuple belongs to."""

    LEFT = 0
    RIGHT = 1

    @property
    def other(self) -> JoinSide:
        """The stream that it is joined with."""
        return JoinSide(1 - self)


class Action(IntEnum):
    """What a task does with a tuple."""

    STORE = 0
    BOTH = 1
    PROBE = 2


def first_seq(router_round: int, unit: int = 0) -> int:
    """Return the seq of the first tuple of a router unit in a round; without `unit`, of the first one of the round."""
    return ((router_round << UNIT_BITS) | unit) << TUPLE_BITS


@dataclass(frozen=True, slots=True)
class KeyBand:
    """Which right keys may match a left key: those with `low <= right - left <= high`; None means no bound.

    Equality is (0, 0), a band of width e is (-e, e), left < right is (1, None).
    """

    low: int | None
    high: int | None

    @property
    def is_equality(self) -> bool:
        """Whether only equal keys match."""
        return self.low == self.high == 0

    @property
    def is_bounded(self) -> bool:
        """Whether a key matches only keys in a bounded range."""
        return self.low is not None and self.high is not None

    def from_side(self, side: JoinSide) -> KeyBand:
        """Return which keys of the other side may match a key of this side, as bounds of `other - this`."""
        if side is JoinSide.LEFT:
            return self
        return KeyBand(None if self.high is None else -self.high, None if self.low is None else -self.low)


@dataclass(frozen=True, slots=True)
class StateMigration:
    """Stored tuples of a side to move from one unit to another, selected by keys [low, high] and seqs [first, last].

    It covers the tuples that `giver` stores at the cut at which it copies them. If `buckets` is not empty, only keys of
    these buckets (of blocks of 2^block keys) are selected, except `excluded_keys`, which have their own entries in the
    table. `part` is a range of the 2^32 hashes of seqs under `salt`, which splits a heavy key evenly.
    `migration_select` finds the selected tuples.
    """

    id: int
    side: JoinSide
    giver: int
    receiver: int
    keys: tuple[int, int]
    seqs: tuple[int, int] = (0, GREATEST)
    buckets: tuple[int, ...] = ()
    block: int = 0
    excluded_keys: tuple[int, ...] = ()
    part: tuple[int, int] = (0, SEQ_HASHES)
    salt: int = 0


@dataclass(frozen=True, slots=True)
class Cutover:
    """A migration whose copy is at offsets [start, end) of the topic of copies, in the partition of the giver's task.

    At one cut the receiver loads the copy and the giver drops exactly the tuples that it copied.
    """

    migration: StateMigration
    start: int
    end: int


@dataclass(frozen=True)
class EpochCommands:
    """Commands of an epoch to tasks at the cut before its first router round: migrations to copy, and cutovers.

    From there on, tuples of router rounds before `retained_since` answer no probes.
    """

    epoch: int
    copies: tuple[StateMigration, ...] = ()
    cutovers: tuple[Cutover, ...] = ()
    retained_since: int = 0


class _BatchHeader(msgspec.Struct, omit_defaults=True):
    """The header of a `RoutedBatch`, stored in its schema's metadata."""

    round: int
    side: JoinSide
    commands: EpochCommands | None = None


_HEADERS: Codec[_BatchHeader] = Codec(_BatchHeader, 1, "a router's batch", "reset the job")


@dataclass(frozen=True)
class RoutedBatch:
    """A batch that a router sends to a task: tuples of a side; or commands, with or without tuples.

    `tuples` has `key` and `seq` (int64), the `unit` that stores the tuple (uint8; any if none does), and the `action`
    (uint8), then the columns that the side carries. A tuple that is stored and probed with in a task, or probed with in
    several of its units, is one row. In the first round of an epoch, every router unit sends the same commands of the
    epoch to every task.
    """

    round: int
    tuples: pa.RecordBatch
    side: JoinSide = JoinSide.LEFT
    commands: EpochCommands | None = None

    def to_batch(self) -> pa.RecordBatch:
        """Encode the batch with its header, to be sent."""
        header = _HEADERS.encode(_BatchHeader(self.round, self.side, self.commands))
        return self.tuples.replace_schema_metadata({_HEADER_KEY: header})

    @staticmethod
    def read(value: bytes | memoryview) -> RoutedBatch:
        """Decode the bytes of a message; the result may reference them. Raises `DecodeError`."""
        batch = pa.ipc.open_stream(value).read_next_batch()
        header = _HEADERS.decode(batch.schema.metadata[_HEADER_KEY], "a message to a task of a join")
        return RoutedBatch(header.round, batch, header.side, header.commands)
