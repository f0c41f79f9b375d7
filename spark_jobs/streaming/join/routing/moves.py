"""Moves, cut into migrations of a bounded number of tuples, in the order in which they are copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from springline.spark_jobs.streaming.join.routing.loads import Move
from springline.spark_jobs.streaming.join.wire import GREATEST, LEAST, SEQ_HASHES, JoinSide, StateMigration


@dataclass(frozen=True)
class PendingMigration:
    """A migration that is pending or being copied, of about `tuples` tuples.

    `is_complete`: with the others of its group, it moves everything that the giver holds.
    """

    migration: StateMigration
    tuples: int
    is_complete: bool
    kind: str
    cost: float
    summary: str

    @property
    def subjects(self) -> frozenset[tuple[str, int, int]]:
        """The key or the buckets that it moves: two migrations of the same subject may not be in progress at a time."""
        return frozenset(("bucket" if bucket else "key", int(side), subject) for side, subject, bucket in self.places())

    @property
    def group(self) -> tuple[int, int]:
        """Migrations of one key with the same group are parts of one move, and may be in progress at the same time."""
        return self.migration.giver, self.migration.salt or -self.migration.id

    def places(self) -> Iterator[tuple[JoinSide, int, bool]]:
        """Yield the side and the bucket (then True) or the key whose placement it changes."""
        if self.migration.buckets:
            yield from ((self.migration.side, bucket, True) for bucket in self.migration.buckets)
        else:
            yield self.migration.side, self.migration.keys[0], False


def cut_moves(moves: Sequence[Move], first_id: int, most: int) -> list[PendingMigration]:
    """Cut moves into migrations of about `most` tuples, numbered from `first_id` on."""
    pending: list[PendingMigration] = []
    salts: dict[tuple[JoinSide, int, int], int] = {}
    for move in moves:
        id_ = first_id + len(pending)
        if move.key is None:
            migrations = _bucket_migrations(move, id_, most)
        else:
            salt_key = (move.side, move.key, move.giver)
            salts[salt_key] = salts[salt_key] if move.start else id_
            migrations = _key_migrations(move, id_, most, salts[salt_key])
        pending.extend(
            PendingMigration(migration, tuples, move.is_complete, move.kind, move.cost, move.describe())
            for migration, tuples in migrations
        )
    return pending


def _bucket_migrations(move: Move, first_id: int, most: int) -> list[tuple[StateMigration, int]]:
    """Cut a move into groups of whole buckets, with equal numbers of buckets."""
    count = min(max(-(-move.tuples // most), 1), len(move.buckets))
    groups = [move.buckets[index::count] for index in range(count)]
    return [
        (
            StateMigration(first_id + at, move.side, move.giver, move.receiver, (LEAST, GREATEST), buckets=buckets),
            move.tuples * len(buckets) // len(move.buckets),
        )
        for at, buckets in enumerate(groups)
    ]


def _key_migrations(move: Move, first_id: int, most: int, salt: int) -> list[tuple[StateMigration, int]]:
    """Cut a move into parts of a key's tuples; parts with the same salt do not overlap."""
    assert move.key is not None
    count = max(-(-move.tuples // most), 1)
    ends = [round(SEQ_HASHES * (move.start + move.share * index / count)) for index in range(count + 1)]
    keys = (move.key, move.key)
    return [
        (
            StateMigration(
                first_id + at, move.side, move.giver, move.receiver, keys, part=(ends[at], ends[at + 1]), salt=salt
            ),
            move.tuples // count,
        )
        for at in range(count)
    ]
