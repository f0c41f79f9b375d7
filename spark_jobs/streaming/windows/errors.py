"""What can go wrong with windowed statistics: each error names the stream or the query, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from springline.spark_jobs.errors import JobUsageError
from springline.spark_jobs.streaming.errors import StreamError


class WindowsError(StreamError):
    """The root of this folder's errors."""


class QueryExistsError(JobUsageError, WindowsError):
    """A second query of the same name."""


class UnknownQueryError(JobUsageError, WindowsError):
    """No query of this name is registered."""


class QueryError(WindowsError):
    """Rows with which a query, or some that share the work, cannot be computed."""


class InvalidPartialError(WindowsError):
    """A buffer that no mapper sent."""


@contextmanager
def computing(queries: Iterable[str]) -> Iterator[None]:
    """While inside, an error is of these queries, and names them; raises `QueryError`."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        names = sorted(set(queries))
        which = f"query {names[0]}" if len(names) == 1 else f"one of the queries {', '.join(names)}"
        raise QueryError(f"{which}: {type(error).__name__}: {error}") from error
