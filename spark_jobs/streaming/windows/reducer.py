"""The reducer: partials of its groups from all mappers, added up to windows; each window is emitted once, when closed.

A window [begin, end) is closed when event time (`watermarks`) has passed its end by the query's lateness; a window of
rows, when so many rows are certain to be in their places. Windows without rows give no results. Of a landmark's window
a group is emitted at the ends of those intervals in which it had rows; what was emitted before still holds for the
others. What comes for a slice that is closed is late, and goes to the dead letters: that happens only with units that
were idle, or came later than the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from springline.persistence.model.codec import from_plain, plain
from springline.spark_jobs.streaming.runtime.step import Input, Message, Output, State
from springline.spark_jobs.streaming.sources.schema import Stream
from springline.spark_jobs.streaming.tracking.replay.message_mode import Sink
from springline.spark_jobs.streaming.windows.coverage import Announcement, Spans, told, whole
from springline.spark_jobs.streaming.windows.errors import InvalidPartialError
from springline.spark_jobs.streaming.windows.measures import measures_of
from springline.spark_jobs.streaming.windows.multi_query import Cube, cubes_of
from springline.spark_jobs.streaming.windows.query import Query
from springline.spark_jobs.streaming.windows.registry import Registry
from springline.spark_jobs.streaming.windows.state.reducer_state import Holding
from springline.spark_jobs.streaming.windows.state.watermarks import EventTime

_Read = tuple[Stream, dict[str, Query], tuple[Cube, ...]]


class Reducer:
    """The step of one unit of reducers of `stream`, whose rows the mappers read from the topic `source`."""

    def __init__(self, stream: str, source: str) -> None:
        self._stream = stream
        self._source = source
        self._known: tuple[Any, _Read] | None = None

    def __call__(self, state: State, given: Input) -> Output:
        """One round."""
        content = given.round.versions["queries"]
        stream, queries, cubes = self._read(content)
        ids = {cube.id for cube in cubes}
        measures = {query.name: measures_of(query.aggregates) for query in queries.values()}
        counts: Counter[str] = Counter()
        buffers = [_opened(given, message) for message in given.messages]
        newer = _newer(state.scalars.get("newer", {}), buffers, content["version"], ids)
        spans: Spans = state.scalars.get("spans", {})
        fresh: dict[str, list[pa.RecordBatch]] = {}
        for buffer in buffers:
            if (said := Announcement.read(buffer.schema.metadata)) is not None:
                spans = told(spans, said)
            elif (name := buffer.schema.metadata[b"cube"].decode()) in ids or name in newer:
                fresh.setdefault(name, []).append(buffer)
            else:
                counts["unwanted"] += buffer.num_rows
        before = from_plain(EventTime, state.scalars.get("time", {}), f"{given.stage}, unit {given.unit}: event time")
        now = before.after(given.watermarks, given.idle, given.upstream, given.clocks)
        holding = Holding.of(state, counts, self._source)
        for name in sorted(newer):
            holding.store(name, fresh.get(name, ()))
        results: list[pa.RecordBatch] = []
        for cube in cubes:
            holding.adopt(cube, before)
            holding.take(cube, fresh.get(cube.id, ()), before.closed)
            asked = {queries[name]: whole(spans, cube.id, measures[name], given.upstream) for name in cube.queries}
            results += holding.emit(cube, asked, now.closed, before.closed)
            holding.trim(cube, asked, now.closed, stream)
        holding.forget(queries, {*ids, *newer})
        scalars = {
            **holding.as_json(),
            "spans": {name: each for name, each in sorted(spans.items()) if name in ids or name in newer},
            "time": plain(now),
            "newer": newer,
        }
        counts["results"] = sum(batch.num_rows for batch in results)
        shown = [batch for batch in results if batch.num_rows]
        return Output(
            State(scalars, holding.runs), results=shown, dead=holding.dead, counts=dict(sorted(counts.items()))
        )

    def _read(self, content: Any) -> _Read:
        """A version of the registry; reading queries costs more than a round."""
        if self._known is None or self._known[0] != content:
            registry = from_plain(Registry, content, "the queries of a round")
            stream = registry.stream(self._stream)
            queries = {query.name: query for query in registry.queries(self._stream)}
            self._known = (content, (stream, queries, cubes_of(queries.values(), stream)))
        return self._known[1]


def tracked_reducer(stream: str, source: str) -> Sink:
    """The step of a reducer that ends what such mappers have sent."""
    return Sink(Reducer(stream, source))


def _opened(given: Input, message: Message) -> pa.RecordBatch:
    """The one batch of a buffer; raises `InvalidPartialError`."""
    where = f"{given.stage}, unit {given.unit}, offset {message.offset}"
    try:
        batch = pa.ipc.open_stream(pa.py_buffer(message.value)).read_next_batch()
    except (pa.ArrowInvalid, StopIteration) as error:
        raise InvalidPartialError(f"{where}: {len(message.value)} bytes that are no partials: {error}") from error
    if not {b"cube", b"holds"} & set(batch.schema.metadata or {}):
        raise InvalidPartialError(f"{where}: an Arrow batch, and not from a mapper")
    return batch


def _newer(
    known: Mapping[str, int], buffers: list[pa.RecordBatch], version: int, ids: Collection[str]
) -> dict[str, int]:
    """Cubes that mappers know of already and this stage does not yet, with the version that has them."""
    found = {name: since for name, since in known.items() if since > version}
    for buffer in buffers:
        if (said := Announcement.read(buffer.schema.metadata)) is not None and said.version > version:
            found |= dict.fromkeys(said.held, said.version)
    return {name: found[name] for name in sorted(found) if name not in ids}
