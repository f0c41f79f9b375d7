"""Moves cut into pieces of a bounded number of tuples, in the order in which they are to be copied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.streaming.join.forms import GREATEST, LEAST, PARTS, Piece, Side
from spark_jobs.streaming.join.routing.loads import Move


@dataclass(frozen=True)
class Pending:
    """A piece that waits or is being copied: about `tuples`; with the `last` one, the giver has nothing left of it."""

    piece: Piece
    tuples: int
    last: bool
    kind: str
    cost: float
    words: str

    @property
    def subjects(self) -> frozenset[tuple[str, int, int]]:
        """The key or the buckets that it is of: no two pieces of one may be under way."""
        return frozenset(("bucket" if bucket else "key", int(side), subject) for side, subject, bucket in self.places())

    def places(self) -> Iterator[tuple[Side, int, bool]]:
        """The side, and the bucket (then True) or the key, whose place it changes."""
        if self.piece.buckets:
            yield from ((self.piece.side, bucket, True) for bucket in self.piece.buckets)
        else:
            yield self.piece.side, self.piece.keys[0], False

    def as_json(self) -> dict[str, Any]:
        """A form for files."""
        told = {name: getattr(self, name) for name in ("tuples", "last", "kind", "cost", "words")}
        return {"piece": self.piece.as_json(), **told}

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> Pending:
        """What `as_json` gave."""
        return Pending(**{**told, "piece": Piece.from_json(told["piece"])})


def cut(moves: Sequence[Move], first_id: int, most: int) -> list[Pending]:
    """The pieces of some moves, numbered from `first_id` on."""
    found: list[Pending] = []
    for move in moves:
        for piece, tuples, last in _pieces(move, first_id + len(found), most):
            found.append(Pending(piece, tuples, last, move.kind, move.cost, move.words()))
    return found


def _pieces(move: Move, first_id: int, most: int) -> list[tuple[Piece, int, bool]]:
    count = max(-(-move.tuples // most), 1)
    if move.key is None:  # whole buckets, as even as they come
        count = min(count, len(move.buckets))
        groups = [move.buckets[at::count] for at in range(count)]
        every = (LEAST, GREATEST)
        return [
            (Piece(first_id + at, move.side, move.giver, move.receiver, every, buckets=some),
             move.tuples * len(some) // len(move.buckets), True)
            for at, some in enumerate(groups)
        ]  # fmt: skip
    ends = [round(PARTS * move.share * at / count) for at in range(count + 1)]
    keys = (move.key, move.key)
    return [
        (Piece(first_id + at, move.side, move.giver, move.receiver, keys, part=(ends[at], ends[at + 1]), salt=first_id),
         move.tuples // count, move.share == 1.0 and at == count - 1)
        for at in range(count)
    ]  # fmt: skip
