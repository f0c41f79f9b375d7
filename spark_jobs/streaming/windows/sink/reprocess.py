"""Backfill: recomputes a range of event time from the topic, with the steps of the stream, in one process.

It reads every message that the topic holds at the start once, a bounded number per unit at a time. Rows of the range
are added; rows after the range only make rows that follow them late, as in the stream. No unit is idle here, and a unit
that has reached its end does not hold back the watermark. It emits the windows that begin and end within the range, so
they equal those of the stream; windows of rows count from the first row of the range.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from springline.persistence.model.codec import to_json_value
from springline.persistence.model.dataset import Dataset, Origin, Strategy
from springline.persistence.platform import Platform
from springline.spark_jobs.streaming.errors import InvalidRangeError
from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.message_log import MessageLog
from springline.spark_jobs.streaming.runtime.stage import place_stages
from springline.spark_jobs.streaming.runtime.step import Input, Output, Round, State, Step
from springline.spark_jobs.streaming.sql.windowing import instant
from springline.spark_jobs.streaming.windows.queryable import Queryable
from springline.spark_jobs.streaming.windows.registry import QueryRegistry
from springline.spark_jobs.streaming.windows.sink.files import ResultFiles, result_schema

_FOREVER = 1e12  # seconds since 1970: a watermark after the end of every window
_MAX_DEAD_LETTERS = 10  # dead letters that the report lists in full

EmitResults = Callable[[str, pa.RecordBatch], None]


@dataclass(frozen=True, slots=True)
class EventTimeRange:
    """Event times [begin, end), in microseconds since 1970."""

    begin: int
    end: int

    @staticmethod
    def of(begin: str, end: str) -> EventTimeRange:
        """Create from two ISO times, UTC unless they have an offset; raises `InvalidRangeError`."""
        try:
            first, last = instant(begin), instant(end)
        except ValueError as error:
            raise InvalidRangeError(
                f"from {begin!r} to {end!r}: write dates and times such as 2013-01-31 12:00"
            ) from error
        if last <= first:
            raise InvalidRangeError(f"from {begin} to {end}: the end must be after the beginning")
        return EventTimeRange(first, last)

    def __str__(self) -> str:
        return f"{_path_instant(self.begin)}--{_path_instant(self.end)}"


@dataclass
class RangeSummary:
    """What was read for a range: the offsets of each unit, counters, and the first dead letters."""

    offsets: dict[int, tuple[int, int]]
    counts: Counter[str] = field(default_factory=lambda: Counter(rows=0, late=0, dead_letters=0))
    dead: list[dict[str, Any]] = field(default_factory=list)

    def add(self, unit: int, output: Output) -> None:
        """Add the mapper's output for one round of a unit."""
        self.counts.update(output.counts)
        for letter in output.dead_letters[: _MAX_DEAD_LETTERS - len(self.dead)]:
            self.dead.append({"unit": unit, "offset": letter.offset, "reason": letter.reason})

    def as_json(self) -> dict[str, Any]:
        """Return the summary for a dataset's report."""
        offsets = {str(unit): list(extent) for unit, extent in sorted(self.offsets.items())}
        return {"offsets": offsets, "counts": dict(sorted(self.counts.items())), "dead_letters": self.dead}


def registry_for_range(
    job: Queryable, current_registry: QueryRegistry | None, queries: Mapping[str, str]
) -> QueryRegistry:
    """Return a registry of the given queries, or else of the job's current ones; raises `InvalidQueryError`."""
    registry = job.registry() if current_registry is None else current_registry
    if queries:
        registry = QueryRegistry.of(registry.streams)
        for name, sql in queries.items():
            registry = registry.register(name, sql)
    if not registry.registered:
        raise InvalidRangeError(f"{job.name} has no queries; name some")
    return registry


def write_range(
    platform: Platform,
    job: Queryable,
    registry: QueryRegistry,
    log: MessageLog,
    span: EventTimeRange,
    *,
    origin: Origin = Origin(),
    strategy: Strategy = Strategy.ASYNC_AND_SYNC,
) -> Dataset:
    """Compute the queries of `registry` over a range, and commit the results as a generation of `streams/JOB/ranges/…`.

    A generation that an earlier try of the same task committed is returned as it is. Raises the errors of the log and
    the steps.
    """
    path = f"streams/{job.name}/ranges/{span}"
    store = platform.store
    if origin.run_id:
        store.begin_run(origin)
    if adopted := store.committed_by_earlier_try(path, call=None, sources=(), origin=origin):
        return adopted
    began = time.monotonic()
    with store.write(path, strategy=strategy, origin=origin) as writing:
        files = ResultFiles(platform, writing)
        schemas = {query.name: result_schema(query) for query in registry.queries()}
        for query, schema in schemas.items():
            files.add(query, schema.empty_table())  # so that a query without results has a file too

        def emit_results(query: str, results: pa.RecordBatch) -> None:
            files.add(query, pa.Table.from_batches([results]).cast(schemas[query]))

        summary = reprocess_range(job, registry, log, span, emit_results, time.time())
        report = {"from": _path_instant(span.begin), "to": _path_instant(span.end), **summary.as_json()}
        writing.mark_complete(files.finish(time.monotonic() - began, report))
    return writing.dataset


def reprocess_range(
    job: Queryable,
    registry: QueryRegistry,
    log: MessageLog,
    span: EventTimeRange,
    emit_results: EmitResults,
    now: float,
) -> RangeSummary:
    """Emit the results of all windows that begin and end within a range; `now` is in seconds since 1970."""
    extents = log.offset_bounds(job.topic)
    map_stage, reduce_stage = place_stages(job.name, [job.mapper(), job.reducer()])
    map_stage = replace(map_stage, arguments={**map_stage.arguments, "span": [span.begin, span.end]})
    # No unit becomes idle, and no ad hoc query will need slices later.
    streams = tuple(replace(stream, idle_timeout=None, adhoc_retention=0.0) for stream in registry.streams)
    broadcast_values = {"queries": to_json_value(replace(registry, streams=streams))}
    mappers = {
        unit: _RangeUnit(map_stage.name, unit, map_stage.make_step(), broadcast_values, now) for unit in sorted(extents)
    }
    reducers = [
        _RangeUnit(reduce_stage.name, unit, reduce_stage.make_step(), broadcast_values, now)
        for unit in range(reduce_stage.units)
    ]
    summary = RangeSummary({unit: (extent.low, extent.high) for unit, extent in extents.items()})
    watermarks: dict[int, float] = {}
    offsets = {unit: extent.low for unit, extent in extents.items()}
    while any(watermarks.get(unit) != _FOREVER for unit in mappers):
        partials_by_reducer: list[list[bytes]] = [[] for _ in reducers]
        for unit, mapper in mappers.items():
            to = min(offsets[unit] + job.max_messages_per_round, extents[unit].high)
            output = mapper.run(log.fetch(job.topic, unit, offsets[unit], to), {unit: (offsets[unit], to)})
            offsets[unit] = to
            summary.add(unit, output)
            for reducer, batches in output.buffers.items():
                partials_by_reducer[reducer] += [arrow_bytes(batch) for batch in batches]
            if to == extents[unit].high:
                watermarks[unit] = _FOREVER
            elif output.watermark is not None:
                watermarks[unit] = output.watermark
        for reducer_unit, values in zip(reducers, partials_by_reducer, strict=True):
            output = reducer_unit.run(
                [Message(index, value) for index, value in enumerate(values)], {}, watermarks, mappers
            )
            for results in output.results:
                if (inside := _inside(results, span)).num_rows:
                    emit_results(results.schema.metadata[b"query"].decode(), inside)
    return summary


def _inside(results: pa.RecordBatch, span: EventTimeRange) -> pa.RecordBatch:
    """Return the results of time windows within the range; those of windows of rows are all returned."""
    begins, ends = results.column("window_start"), results.column("window_end")
    if not pa.types.is_timestamp(begins.type):
        return results
    is_inside = pc.and_(
        pc.greater_equal(begins.cast(pa.int64()), span.begin), pc.less_equal(ends.cast(pa.int64()), span.end)
    )
    return results.filter(is_inside)


class _RangeUnit:
    """A unit of a stage that runs its rounds one after another in this process."""

    def __init__(self, stage: str, unit: int, step: Step, broadcast_values: Mapping[str, Any], clock: float) -> None:
        self._place = (stage, unit)
        self._step = step
        self._broadcast_values = broadcast_values
        self._clock = clock
        self._state = State()
        self._round = 0

    def run(
        self,
        messages: Iterable[Message],
        ranges: Mapping[int, tuple[int, int]],
        watermarks: Mapping[int, float] = MappingProxyType({}),
        upstream: Iterable[int] = (),
    ) -> Output:
        """Process one round; the clock is constant."""
        self._round += 1
        step_input = Input(
            *self._place, Round(1, self._round, self._clock, self._broadcast_values), messages, ranges,
            dict(watermarks), upstream_units=frozenset(upstream),
        )  # fmt: skip
        output = self._step(self._state, step_input)
        scalars = json.loads(json.dumps(output.state.scalars))  # as in a stored version of the state
        self._state = State(scalars, output.state.runs)
        return output


def _path_instant(micros: int) -> str:
    """Format a time for a dataset's path."""
    moment = datetime.fromtimestamp(micros // 1_000_000, UTC).replace(microsecond=micros % 1_000_000, tzinfo=None)
    return moment.isoformat().replace(":", "")
