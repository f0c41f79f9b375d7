"""What can go wrong with joins: each error names the predicate, the column, the unit or the piece, and what to do."""

from __future__ import annotations

from springline.spark_jobs.errors import JobUsageError
from springline.spark_jobs.streaming.errors import StreamError


class JoinError(StreamError):
    """The root of this folder's errors."""


class InvalidRelationError(JobUsageError, JoinError):
    """A side of a join whose declaration contradicts itself."""


class InvalidConditionError(JobUsageError, JoinError):
    """A predicate, or what is selected, that cannot be answered: `line` and `column` (from 1) where that is known."""

    def __init__(self, text: str, message: str, *, line: int | None = None, column: int | None = None) -> None:
        where = f", line {line}, column {column}" if line is not None else ""
        super().__init__(f"{text!r}{where}: {message}")
        self.line = line
        self.column = column


class InvalidBatchError(JoinError):
    """A message that no router sent, or one of a round that is over."""


class InvalidCommandsError(JoinError):
    """Orders of an epoch that contradict each other, or what a unit holds."""


class NeverBalancedError(JoinError):
    """A join whose loads nobody has looked at yet."""


class MigrationCopyError(JoinError):
    """A copy of a piece that is not whole where its switch says that it lies."""


class ValueTooLongError(JoinError):
    """More text in a round of a router unit than a column can hold."""


class InvalidRoutingError(JoinError):
    """A routing table, a strategy or a number of units that cannot be."""
