"""The reducer: merges the partials of its groups from all mappers into windows; emits each window once, when closed.

Rows that mappers have forwarded are stored as they are until one of their slices is closed, and then aggregated.
Partials of a base cube are stored until their slice is closed, and then rolled up to its members.

A window [begin, end) is closed when the watermark (`watermarks`) has passed its end by the query's lateness; a window
of rows is closed when the positions of all its rows are certain. Windows without rows give no results. For a landmark
window the reducer emits a group at the end of each interval in which the group had rows; for the other groups the
result emitted earlier still holds. Partials for a closed slice are late and go to the dead-letter queue; this happens
only with units that were idle or that started later than the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from springline.persistence.model.codec import from_json_value, to_json_value
from springline.spark_jobs.streaming.runtime.step import Input, Message, Output, State
from springline.spark_jobs.streaming.sources.schema import MICROS, Stream
from springline.spark_jobs.streaming.tracking.replay.message_mode import Sink
from springline.spark_jobs.streaming.windows.coverage import CoverageChange, Spans, apply_change, covered_span
from springline.spark_jobs.streaming.windows.errors import InvalidPartialError
from springline.spark_jobs.streaming.windows.measures import measures_of
from springline.spark_jobs.streaming.windows.multi_query import Cube, cubes_of
from springline.spark_jobs.streaming.windows.query import Query
from springline.spark_jobs.streaming.windows.registry import QueryRegistry
from springline.spark_jobs.streaming.windows.state.reducer_state import ReducerState
from springline.spark_jobs.streaming.windows.state.watermarks import EventTime

_RegistryContent = tuple[Stream, dict[str, Query], tuple[Cube, ...]]


class Reducer:
    """The step of one reducer unit of `stream`; the mappers read its rows from the topic `source`."""

    def __init__(self, stream: str, source: str) -> None:
        self._stream = stream
        self._source = source
        self._cached_registry: tuple[Any, _RegistryContent] | None = None

    def __call__(self, state: State, step_input: Input) -> Output:
        """Process one round."""
        registry_json = step_input.round.broadcast_values["queries"]
        stream, queries, cubes = self._read_registry(registry_json)
        ids = {cube.id for cube in cubes}
        measures = {query.name: measures_of(query.aggregates) for query in queries.values()}
        counts: Counter[str] = Counter()
        buffers = [_read_buffer(step_input, message) for message in step_input.messages]
        newer = _newer_cubes(state.scalars.get("newer", {}), buffers, registry_json["version"], ids)
        spans: Spans = state.scalars.get("spans", {})
        fresh: dict[str, list[pa.RecordBatch]] = {}
        bases: list[pa.RecordBatch] = []
        for buffer in buffers:
            if (change := CoverageChange.read(buffer.schema.metadata)) is not None:
                spans = apply_change(spans, change)
            elif b"base" in buffer.schema.metadata:
                bases.append(buffer)
            elif (name := buffer.schema.metadata[b"cube"].decode()) in ids or name in newer:
                fresh.setdefault(name, []).append(buffer)
            else:
                counts["unregistered"] += buffer.num_rows
        before = from_json_value(
            EventTime, state.scalars.get("time", {}), f"{step_input.stage}, unit {step_input.unit}: event time"
        )
        now = before.advance(step_input.watermarks, step_input.idle_units, step_input.upstream_units, step_input.clocks)
        unit_state = ReducerState.of(state, counts, self._source)
        for name, rolled_up in unit_state.receive_bases(bases, before.closed).items():
            if name in ids or name in newer:
                fresh.setdefault(name, []).extend(rolled_up)
        for name in sorted(newer):
            unit_state.store(name, fresh.get(name, ()))
        results: list[pa.RecordBatch] = []
        for cube in cubes:
            unit_state.adopt(cube, before)
            unit_state.add_partials(cube, fresh.get(cube.id, ()), before.closed)
            unit_state.aggregate(cube, now.closed)
        unit_state.roll_up(now.closed, ids, newer)
        for cube in cubes:
            covered_spans = {
                queries[name]: covered_span(spans, cube.id, measures[name], step_input.upstream_units)
                for name in cube.queries
            }
            results += unit_state.emit(cube, covered_spans, now.closed, before.closed)
            unit_state.trim(cube, covered_spans, now.closed, stream)
        unit_state.forget(queries, {*ids, *newer})
        scalars = {
            **unit_state.as_json(),
            "spans": {name: each for name, each in sorted(spans.items()) if name in ids or name in newer},
            "time": to_json_value(now),
            "newer": newer,
        }
        counts["results"] = sum(batch.num_rows for batch in results)
        non_empty_results = [batch for batch in results if batch.num_rows]
        return Output(
            State(scalars, unit_state.runs),
            results=non_empty_results,
            dead_letters=unit_state.dead,
            counts=dict(sorted(counts.items())),
            gauges={"watermark": None if now.closed is None else now.closed / MICROS},
            timer=None,
        )

    def _read_registry(self, registry_json: Any) -> _RegistryContent:
        """Return a version of the registry; cached, because reading the queries takes longer than a round."""
        if self._cached_registry is None or self._cached_registry[0] != registry_json:
            registry = from_json_value(QueryRegistry, registry_json, "the queries of a round")
            stream = registry.stream(self._stream)
            queries = {query.name: query for query in registry.queries(self._stream)}
            self._cached_registry = (registry_json, (stream, queries, cubes_of(queries.values(), stream)))
        return self._cached_registry[1]


def tracked_reducer(stream: str, source: str) -> Sink:
    """Return the step of a reducer that completes the messages that tracked mappers have sent."""
    return Sink(Reducer(stream, source))


def _read_buffer(step_input: Input, message: Message) -> pa.RecordBatch:
    """Read the one batch of a buffer; raises `InvalidPartialError`."""
    where = f"{step_input.stage}, unit {step_input.unit}, offset {message.offset}"
    try:
        batch = pa.ipc.open_stream(pa.py_buffer(message.value)).read_next_batch()
    except (pa.ArrowInvalid, StopIteration) as error:
        raise InvalidPartialError(f"{where}: {len(message.value)} bytes that are not partials: {error}") from error
    if not {b"cube", b"coverage"} & set(batch.schema.metadata or {}):
        raise InvalidPartialError(f"{where}: an Arrow batch that is not from a mapper")
    return batch


def _newer_cubes(
    previous: Mapping[str, int], buffers: list[pa.RecordBatch], version: int, ids: Collection[str]
) -> dict[str, int]:
    """Return the cubes that mappers use already and this stage not yet, with the registry version that has them."""
    versions = {name: since for name, since in previous.items() if since > version}
    for buffer in buffers:
        if (change := CoverageChange.read(buffer.schema.metadata)) is not None and change.version > version:
            versions |= dict.fromkeys(change.measure_starts, change.version)
    return {name: versions[name] for name in sorted(versions) if name not in ids}
