"""Moves cut into pieces of a bounded number of tuples, in the order in which they are to be copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from springline.spark_jobs.streaming.join.routing.loads import Move
from springline.spark_jobs.streaming.join.wire import GREATEST, LEAST, PARTS, Piece, Side


@dataclass(frozen=True)
class Pending:
    """A piece that waits or is copied: about `tuples`; `whole`: with others of its group, all that the giver has."""

    piece: Piece
    tuples: int
    whole: bool
    kind: str
    cost: float
    words: str

    @property
    def subjects(self) -> frozenset[tuple[str, int, int]]:
        """The key or the buckets that it is of: no two pieces of one may be under way."""
        return frozenset(("bucket" if bucket else "key", int(side), subject) for side, subject, bucket in self.places())

    @property
    def group(self) -> tuple[int, int]:
        """Pieces of one key with the same group are parts of one whole, and may be under way together."""
        return self.piece.giver, self.piece.salt or -self.piece.id

    def places(self) -> Iterator[tuple[Side, int, bool]]:
        """The side, and the bucket (then True) or the key, whose place it changes."""
        if self.piece.buckets:
            yield from ((self.piece.side, bucket, True) for bucket in self.piece.buckets)
        else:
            yield self.piece.side, self.piece.keys[0], False


def cut(moves: Sequence[Move], first_id: int, most: int) -> list[Pending]:
    """The pieces of some moves, numbered from `first_id` on."""
    found: list[Pending] = []
    salts: dict[tuple[Side, int, int], int] = {}
    for move in moves:
        id_ = first_id + len(found)
        if move.key is None:
            made = _of_buckets(move, id_, most)
        else:
            same = (move.side, move.key, move.giver)
            salts[same] = salts[same] if move.start else id_
            made = _of_key(move, id_, most, salts[same])
        found.extend(Pending(piece, tuples, move.whole, move.kind, move.cost, move.words()) for piece, tuples in made)
    return found


def _of_buckets(move: Move, first_id: int, most: int) -> list[tuple[Piece, int]]:
    """Whole buckets, as even as they come."""
    count = min(max(-(-move.tuples // most), 1), len(move.buckets))
    groups = [move.buckets[at::count] for at in range(count)]
    return [
        (
            Piece(first_id + at, move.side, move.giver, move.receiver, (LEAST, GREATEST), buckets=some),
            move.tuples * len(some) // len(move.buckets),
        )
        for at, some in enumerate(groups)
    ]


def _of_key(move: Move, first_id: int, most: int, salt: int) -> list[tuple[Piece, int]]:
    """Parts of a key's tuples; those of one salt do not overlap."""
    assert move.key is not None
    count = max(-(-move.tuples // most), 1)
    ends = [round(PARTS * (move.start + move.share * at / count)) for at in range(count + 1)]
    keys = (move.key, move.key)
    return [
        (
            Piece(first_id + at, move.side, move.giver, move.receiver, keys, part=(ends[at], ends[at + 1]), salt=salt),
            move.tuples // count,
        )
        for at in range(count)
    ]
