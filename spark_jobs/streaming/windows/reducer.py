"""The reducer: merges the partials of its groups from all mappers into windows; emits each window once, when closed.

A window [begin, end) is closed when the watermark (`watermarks`) has passed its end by the query's lateness; a window
of rows is closed when the positions of all its rows are certain. Windows without rows give no results. For a landmark
window the reducer emits a group at the end of each interval in which the group had rows; for the other groups the
result emitted earlier still holds. Partials for a closed slice are late and go to the dead-letter queue; this happens
only with units that were idle or that started later than the others.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from springline.persistence.model.codec import from_json_value
from springline.spark_jobs.streaming.runtime.step import Input, Output, State
from springline.spark_jobs.streaming.sources.schema import MICROS, Stream
from springline.spark_jobs.streaming.tracking.replay.message_mode import Sink
from springline.spark_jobs.streaming.windows.coverage import CoverageChange, apply_change, covered_span
from springline.spark_jobs.streaming.windows.measures import measures_of
from springline.spark_jobs.streaming.windows.multi_query import Cube, cubes_of
from springline.spark_jobs.streaming.windows.payload import Partials, decode_payload
from springline.spark_jobs.streaming.windows.query import Query
from springline.spark_jobs.streaming.windows.registry import QueryRegistry
from springline.spark_jobs.streaming.windows.state.cube_state import ReducerRound
from springline.spark_jobs.streaming.windows.state.reducer_state import ReducerState

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
        where = f"{step_input.stage}, unit {step_input.unit}"
        unit = ReducerState.of(state, where)
        fresh: dict[str, list[Partials]] = {}
        announced: dict[str, int] = {}
        for message in step_input.messages:
            payload = decode_payload(message.value, f"{where}, offset {message.offset}")
            if isinstance(payload, CoverageChange):
                unit.spans = apply_change(unit.spans, payload)
                announced |= {name: max(payload.version, announced.get(name, 0)) for name in payload.measure_starts}
            else:
                fresh.setdefault(payload.cube, []).append(payload)
        unit.learn_newer(announced, registry_json["version"], ids)
        before = unit.time
        now = before.advance(step_input.watermarks, step_input.idle_units, step_input.upstream_units, step_input.clocks)
        reducer_round = ReducerRound(stream, self._source, before.closed, now.closed, dict(state.runs), unit.marks)
        for name in unit.newer:
            unit.store(name, fresh.get(name, ()), reducer_round)
        results: list[pa.RecordBatch] = []
        for cube in cubes:
            spans = {
                queries[name]: covered_span(unit.spans, cube.id, measures[name], step_input.upstream_units)
                for name in cube.queries
            }
            results += unit.cube_state(cube, reducer_round).advance(fresh.get(cube.id, ()), spans)
        counts = reducer_round.counts
        for name in fresh.keys() - ids - unit.newer.keys():
            counts["unregistered"] += sum(partials.batch.num_rows for partials in fresh[name])
        unit.time = now
        unit.forget(queries, ids, reducer_round)
        counts["results"] = sum(batch.num_rows for batch in results)
        return Output(
            unit.after_round(reducer_round.runs),
            results=[batch for batch in results if batch.num_rows],
            dead_letters=reducer_round.dead,
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
