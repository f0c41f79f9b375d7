"""Retention of copies: which part of the topic of copies can be deleted, since no later cutover can refer to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from springline.spark_jobs.streaming.join.wire import EpochCommands


@dataclass
class CopyRetention:
    """For each of the `tasks` its migrations in the order of their copies, from the first one without a cutover on.

    `migrations` has pairs for the task of each giver (migration id, offset after its copy; None: no cutover yet),
    `deletable_before` the offset before which all copies of the task have been cut over. Every task receives all
    commands, and keeps this for all tasks; offsets that the states of all tasks have passed are not read again.
    """

    tasks: int
    migrations: dict[int, list[tuple[int, int | None]]] = field(default_factory=dict)
    deletable_before: dict[int, int] = field(default_factory=dict)

    def apply(self, commands: EpochCommands) -> None:
        """Apply the commands of an epoch."""
        copy_ends = {cutover.migration.id: cutover.end for cutover in commands.cutovers}
        for task, migrations in list(self.migrations.items()):
            remaining = [(migration, copy_ends.get(migration, end)) for migration, end in migrations]
            while remaining and (to := remaining[0][1]) is not None:
                self.deletable_before[task] = max(to, self.deletable_before.get(task, 0))
                del remaining[0]
            self.migrations[task] = remaining
            if not remaining:
                del self.migrations[task]
        for piece in commands.copies:
            self.migrations.setdefault(piece.giver % self.tasks, []).append((piece.id, None))
