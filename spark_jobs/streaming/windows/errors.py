"""What can go wrong with windowed statistics: each error names the stream or the query, and what to do next."""

from __future__ import annotations

from spark_jobs.streaming.errors import StreamError


class WindowsError(StreamError):
    """The root of this folder's errors."""


class BadStream(WindowsError):
    """A stream whose declaration contradicts itself."""


class BadQuery(WindowsError):
    """A query that cannot be answered: `line` and `column` (from 1) say where in its text, if that can be told."""

    def __init__(self, name: str, message: str, *, line: int | None = None, column: int | None = None) -> None:
        where = f", line {line}, column {column}" if line is not None else ""
        super().__init__(f"query {name!r}{where}: {message}")
        self.name = name
        self.line = line
        self.column = column


class QueryExists(WindowsError):
    """A second query of the same name."""


class UnknownQuery(WindowsError):
    """No query of this name is registered."""


class BadPartial(WindowsError):
    """A buffer that no mapper sent."""
