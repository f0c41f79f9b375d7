"""Errors of joins: each names the predicate, the column, the unit or the migration, and what to do."""

from __future__ import annotations

from springline.spark_jobs.errors import JobUsageError
from springline.spark_jobs.streaming.errors import StreamError


class JoinError(StreamError):
    """The root of this folder's errors."""


class InvalidRelationError(JobUsageError, JoinError):
    """The declaration of a side of a join contradicts itself."""


class InvalidConditionError(JobUsageError, JoinError):
    """A predicate or a select list is not supported; `line` and `column` (from 1) where they are known."""

    def __init__(self, text: str, message: str, *, line: int | None = None, column: int | None = None) -> None:
        where = f", line {line}, column {column}" if line is not None else ""
        super().__init__(f"{text!r}{where}: {message}")
        self.line = line
        self.column = column


class InvalidBatchError(JoinError):
    """A message was not sent by a router, or belongs to a round that is already complete."""


class InvalidCommandsError(JoinError):
    """Commands of an epoch contradict each other or the tuples that a unit stores."""


class NeverBalancedError(JoinError):
    """The loads of a join were never observed."""


class MigrationCopyError(JoinError):
    """A migration's copy is incomplete at the offsets that its cutover names."""


class ValueTooLongError(JoinError):
    """A router unit's round has more text than a column can hold."""


class InvalidRoutingError(JoinError):
    """A routing table, a strategy or a number of units is invalid."""


class InvalidKeyError(JoinError):
    """A text is not a key of the join: it does not fit the types or the number of its key columns."""
