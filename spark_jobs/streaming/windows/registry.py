"""The registry of queries: an immutable value with a version; every change returns the next version.

A change is checked before it is made, so every registry that exists can be run. `multi_query` determines what happens
to slices when a query changes: a query with unchanged filter, keys, slices and lateness continues with the existing
slices; a new aggregate, or any other change, starts with the first window that begins after the change. Windows that
were emitted under a name are not emitted again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from springline.persistence.model.invisible_characters import find_invisible
from springline.persistence.text.formatting import format_alternatives
from springline.spark_jobs.streaming.sources.errors import InvalidStreamError
from springline.spark_jobs.streaming.sources.schema import Stream
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.windows.errors import QueryExistsError, UnknownQueryError
from springline.spark_jobs.streaming.windows.query import Query, read_query


@dataclass(frozen=True, slots=True)
class RegisteredQuery:
    """A registered query; `since` is the registry version that gave it this text."""

    name: str
    sql: str
    since: int


@dataclass(frozen=True)
class QueryRegistry:
    """Streams and the queries over them, both sorted by name."""

    version: int = 0
    streams: tuple[Stream, ...] = ()
    registered: tuple[RegisteredQuery, ...] = ()

    @staticmethod
    def of(streams: Iterable[Stream]) -> QueryRegistry:
        """Return a registry without queries; raises `InvalidStreamError` if two streams have the same name."""
        sorted_streams = tuple(sorted(streams, key=lambda stream: stream.name))
        names = [stream.name for stream in sorted_streams]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidStreamError(f"two streams are named {', '.join(twice)}")
        return QueryRegistry(0, sorted_streams)

    def with_stream(self, stream: Stream) -> QueryRegistry:
        """Return a registry with `stream` in place of the stream of that name; the same registry if nothing changes.

        Raises `InvalidQueryError` if a query does not fit the stream.
        """
        if self.stream(stream.name) == stream:
            return self
        streams = tuple(stream if each.name == stream.name else each for each in self.streams)
        changed = replace(self, version=self.version + 1, streams=streams)
        changed.queries()
        return changed

    def register(self, name: str, sql: str) -> QueryRegistry:
        """Return a registry with one more query; raises `QueryExistsError` or `InvalidQueryError`."""
        if any(query.name == name for query in self.registered):
            raise QueryExistsError(f"query {name!r} is already registered: choose another name, or alter that one")
        if not re.fullmatch(r"[\w.-]{1,100}", name) or find_invisible(name):
            raise InvalidQueryError(name, "a name is of letters, digits, dots, dashes and underscores, at most 100")
        return self._with_query(RegisteredQuery(name, sql, self.version + 1))

    def change(self, name: str, sql: str) -> QueryRegistry:
        """Return a registry with another text for a query; the same registry if the text is unchanged.

        Raises `UnknownQueryError` or `InvalidQueryError`.
        """
        if self.text(name) == sql:
            return self
        return self.cancel(name, keep_version=True)._with_query(RegisteredQuery(name, sql, self.version + 1))

    def put(self, name: str, sql: str) -> QueryRegistry:
        """Register a query, or change its text if it is registered; raises `InvalidQueryError`."""
        is_registered = any(query.name == name for query in self.registered)
        return self.change(name, sql) if is_registered else self.register(name, sql)

    def cancel(self, name: str, *, keep_version: bool = False) -> QueryRegistry:
        """Return a registry without the query; raises `UnknownQueryError`."""
        self.text(name)
        remaining = tuple(query for query in self.registered if query.name != name)
        return replace(self, version=self.version + (not keep_version), registered=remaining)

    def text(self, name: str) -> str:
        """Return the SQL of a query; raises `UnknownQueryError`."""
        for query in self.registered:
            if query.name == name:
                return query.sql
        suggestion = format_alternatives(name, [query.name for query in self.registered])
        raise UnknownQueryError(f"no query is registered as {name!r}; registered: {suggestion}")

    def queries(self, stream: str | None = None) -> tuple[Query, ...]:
        """Read and return all queries, or those over one stream."""
        by_name = {each.name: each for each in self.streams}
        queries = (read_query(query.name, query.sql, by_name) for query in self.registered)
        return tuple(query for query in queries if stream is None or query.stream == stream)

    def stream(self, name: str) -> Stream:
        """Return a declared stream; raises `InvalidStreamError`."""
        for stream in self.streams:
            if stream.name == name:
                return stream
        raise InvalidStreamError(
            f"no stream {name!r} is declared; declared: {', '.join(s.name for s in self.streams) or 'none'}"
        )

    def _with_query(self, query: RegisteredQuery) -> QueryRegistry:
        read_query(query.name, query.sql, {stream.name: stream for stream in self.streams})
        registered = tuple(sorted((*self.registered, query), key=lambda each: each.name))
        return replace(self, version=self.version + 1, registered=registered)
