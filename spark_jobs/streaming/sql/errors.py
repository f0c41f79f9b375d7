"""Errors of the SQL of streams."""

from __future__ import annotations

from springline.spark_jobs.errors import JobUsageError
from springline.spark_jobs.streaming.errors import StreamError


class InvalidQueryError(JobUsageError, StreamError):
    """Raised for an invalid query; `line` and `column` (from 1) are its position in the text, if known."""

    def __init__(self, name: str, message: str, *, line: int | None = None, column: int | None = None) -> None:
        where = f", line {line}, column {column}" if line is not None else ""
        super().__init__(f"query {name!r}{where}: {message}")
        self.name = name
        self.line = line
        self.column = column
