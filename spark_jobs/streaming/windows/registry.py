"""The registry of queries: a value with a version; every change makes the next one.

A change is checked before it is made, so a registry that exists can be run. What happens to slices when a query
changes follows from what they depend on (`sharing`): a query whose filter, keys, slices and lateness stay as they were
goes on with the slices that are there; an aggregate that nobody asked for before, or anything else, starts anew with
the first window that begins after the change. Windows that were emitted under a name are not emitted again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from springline.persistence.model.names import unseen_in
from springline.persistence.text.formatting import say_known
from springline.spark_jobs.streaming.sources.errors import InvalidStreamError
from springline.spark_jobs.streaming.sources.schema import Stream
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.windows.errors import QueryExistsError, UnknownQueryError
from springline.spark_jobs.streaming.windows.query import Query, read


@dataclass(frozen=True, slots=True)
class Registered:
    """A query as it was registered; `since` is the version of the registry that gave it this text."""

    name: str
    sql: str
    since: int


@dataclass(frozen=True)
class Registry:
    """Streams and the queries over them, both sorted by name."""

    version: int = 0
    streams: tuple[Stream, ...] = ()
    registered: tuple[Registered, ...] = ()

    @staticmethod
    def of(streams: Iterable[Stream]) -> Registry:
        """A registry without queries; raises `InvalidStreamError` for two streams of one name."""
        found = tuple(sorted(streams, key=lambda stream: stream.name))
        names = [stream.name for stream in found]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidStreamError(f"two streams are named {', '.join(twice)}")
        return Registry(0, found)

    def declared(self, stream: Stream) -> Registry:
        """With a stream as it is declared now, in place of the one of its name; without a change, the same registry.

        Raises `InvalidQueryError` where a query does not fit it.
        """
        if self.stream(stream.name) == stream:
            return self
        streams = tuple(stream if each.name == stream.name else each for each in self.streams)
        found = replace(self, version=self.version + 1, streams=streams)
        found.queries()
        return found

    def register(self, name: str, sql: str) -> Registry:
        """With one more query; raises `QueryExistsError` or `InvalidQueryError`."""
        if any(query.name == name for query in self.registered):
            raise QueryExistsError(f"query {name!r} is registered already: choose another name, or change that one")
        if not re.fullmatch(r"[\w.-]{1,100}", name) or unseen_in(name):
            raise InvalidQueryError(name, "a name is of letters, digits, dots, dashes and underscores, at most 100")
        return self._with(Registered(name, sql, self.version + 1))

    def change(self, name: str, sql: str) -> Registry:
        """With another text for a query.

        Raises `UnknownQueryError` or `InvalidQueryError`. The same text changes nothing.
        """
        if self.text(name) == sql:
            return self
        return self.cancel(name, keep_version=True)._with(Registered(name, sql, self.version + 1))

    def put(self, name: str, sql: str) -> Registry:
        """With this text for a query, which is registered, or changed if it is there; raises `InvalidQueryError`."""
        known = any(query.name == name for query in self.registered)
        return self.change(name, sql) if known else self.register(name, sql)

    def cancel(self, name: str, *, keep_version: bool = False) -> Registry:
        """Without a query; raises `UnknownQueryError`."""
        self.text(name)
        left = tuple(query for query in self.registered if query.name != name)
        return replace(self, version=self.version + (not keep_version), registered=left)

    def text(self, name: str) -> str:
        """The SQL of a query; raises `UnknownQueryError`."""
        for query in self.registered:
            if query.name == name:
                return query.sql
        known = say_known(name, [query.name for query in self.registered])
        raise UnknownQueryError(f"no query is registered as {name!r}; registered: {known}")

    def queries(self, stream: str | None = None) -> tuple[Query, ...]:
        """All queries, or those over one stream, read."""
        by_name = {each.name: each for each in self.streams}
        found = (read(query.name, query.sql, by_name) for query in self.registered)
        return tuple(query for query in found if stream is None or query.stream == stream)

    def stream(self, name: str) -> Stream:
        """A declared stream; raises `InvalidStreamError`."""
        for stream in self.streams:
            if stream.name == name:
                return stream
        raise InvalidStreamError(
            f"no stream {name!r} is declared; declared: {', '.join(s.name for s in self.streams) or 'none'}"
        )

    def _with(self, query: Registered) -> Registry:
        read(query.name, query.sql, {stream.name: stream for stream in self.streams})
        registered = tuple(sorted((*self.registered, query), key=lambda each: each.name))
        return replace(self, version=self.version + 1, registered=registered)
