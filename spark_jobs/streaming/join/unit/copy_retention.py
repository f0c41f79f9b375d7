"""Retention of copies: which part of the topic of copies can be deleted, since no later cutover can refer to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from springline.spark_jobs.streaming.join.wire import EpochCommands


@dataclass
class CopyRetention:
    """For each giver its migrations in the order of their copies, from the first one without a cutover on.

    `migrations` has pairs for each giver (migration id, offset after its copy; None: no cutover yet),
    `deletable_before` the offset before which all copies of the giver have been cut over. Every unit receives all
    commands, and keeps this for all givers; offsets that the states of all units have passed are not read again.
    """

    migrations: dict[int, list[tuple[int, int | None]]] = field(default_factory=dict)
    deletable_before: dict[int, int] = field(default_factory=dict)

    def apply(self, commands: EpochCommands) -> None:
        """Apply the commands of an epoch."""
        copy_ends = {cutover.migration.id: cutover.end for cutover in commands.cutovers}
        for giver, migrations in list(self.migrations.items()):
            remaining = [(migration, copy_ends.get(migration, end)) for migration, end in migrations]
            while remaining and (to := remaining[0][1]) is not None:
                self.deletable_before[giver] = max(to, self.deletable_before.get(giver, 0))
                del remaining[0]
            self.migrations[giver] = remaining
            if not remaining:
                del self.migrations[giver]
        for piece in commands.copies:
            self.migrations.setdefault(piece.giver, []).append((piece.id, None))
