"""Errors of windowed statistics; each message names the stream or the query, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from springline.spark_jobs.errors import JobUsageError
from springline.spark_jobs.streaming.errors import StreamError


class WindowsError(StreamError):
    """Base class of this package's errors."""


class QueryExistsError(JobUsageError, WindowsError):
    """Raised if a query of this name is already registered."""


class UnknownQueryError(JobUsageError, WindowsError):
    """Raised if no query of this name is registered."""


class QueryError(WindowsError):
    """Raised if a query, or one of several that share a computation, cannot be computed for some rows."""


class InvalidPartialError(WindowsError):
    """Raised for a buffer that was not sent by a mapper."""


@contextmanager
def computing(queries: Iterable[str]) -> Iterator[None]:
    """Attribute errors inside the block to these queries: raises `QueryError`, which names them."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        names = sorted(set(queries))
        which = f"query {names[0]}" if len(names) == 1 else f"one of the queries {', '.join(names)}"
        raise QueryError(f"{which}: {type(error).__name__}: {error}") from error
