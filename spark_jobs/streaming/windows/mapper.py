"""The mapper: turns rows of the source topic into partials of slices, and sends them to the reducers of their groups.

A row is late if an earlier row of the same partition has closed its slice. Which rows are late therefore depends only
on the partition, neither on rounds nor on the progress of others. Late rows go to the dead-letter queue.

The watermark is the least of the greatest times seen in the unit's partitions (`state.watermarks.SourceTime`); a
reducer subtracts each query's lateness from it.

For a range of the stream (`span`), only the rows of the range are added; the other rows only advance the time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from springline.persistence.model.codec import from_json_value, to_json_value
from springline.spark_jobs.streaming.kernels.hash_tables import EVERYWHERE, Flags, Ints
from springline.spark_jobs.streaming.kernels.hashing import mark_late_rows
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Input, Output, State
from springline.spark_jobs.streaming.sources.chunk import Chunk, Parts
from springline.spark_jobs.streaming.sources.decoder import Decoder
from springline.spark_jobs.streaming.sources.format import Format, open_format
from springline.spark_jobs.streaming.sources.schema import MICROS, Stream
from springline.spark_jobs.streaming.tracking.replay.message_mode import Spring
from springline.spark_jobs.streaming.windows.aggregation.dictionary import DictionaryEncoder
from springline.spark_jobs.streaming.windows.aggregation.grouping import Buffer, Grouping, split_batch
from springline.spark_jobs.streaming.windows.aggregation.row_partials import RowPartials
from springline.spark_jobs.streaming.windows.coverage import CoverageChange, current_coverage
from springline.spark_jobs.streaming.windows.errors import computing
from springline.spark_jobs.streaming.windows.multi_query import Cube, Slices, cubes_of, passes_of
from springline.spark_jobs.streaming.windows.payload import Origin, Partials, encode_payload
from springline.spark_jobs.streaming.windows.registry import QueryRegistry
from springline.spark_jobs.streaming.windows.state.triggers import WindowClosing, closing_of, next_closing
from springline.spark_jobs.streaming.windows.state.watermarks import PartitionTime, SourceTime

_SLACK = 2 * MICROS  # by which reducers may have counted less of the time for which units are idle
_NOWHERE: Flags = np.empty(0, np.bool_)


class Mapper:
    """The step of one unit of the source topic of `stream`; `units` is the number of reducers.

    With `span`, [begin, end) in microseconds, only the rows of that time range are added.
    """

    def __init__(self, stream: str, units: int, span: Sequence[int] | None = None) -> None:
        self._stream = stream
        self._units = units
        self._span = span
        self._cached_queries: tuple[Any, _Queries] | None = None

    def __call__(self, state: State, step_input: Input) -> Output:
        """Process one round."""
        registry_json = step_input.round.broadcast_values["queries"]
        queries = self._queries(registry_json)
        stream, cubes = queries.stream, queries.cubes
        scalars, clock = state.scalars, step_input.round.clock
        where = f"{step_input.stage}, unit {step_input.unit}: times of partitions"
        before = from_json_value(SourceTime, scalars.get("time", {}), where).with_partitions(step_input.ranges, clock)
        coverage = current_coverage(scalars.get("coverage", {}), cubes, before.high)
        mapper_round = _MapperRound(queries, scalars, before, self._span)
        decoder = Decoder(stream, queries.row_format, clock)
        for chunk in decoder.chunks(step_input.batches):
            mapper_round.add(chunk)
        buffers: dict[int, list[pa.RecordBatch]] = {unit: [] for unit in range(self._units)}
        if scalars.get("version") != registry_json["version"]:
            change = CoverageChange(step_input.unit, registry_json["version"], before.high, coverage)
            for unit in buffers:
                buffers[unit].append(encode_payload(change))
        groups = 0
        origin = Origin.of_round(step_input.ranges)
        for name, unit, batch in mapper_round.buffers(self._units):
            groups += batch.num_rows
            buffers[unit].append(encode_payload(Partials(name, batch, origin)))
        timeout, quiet_seconds = stream.idle_timeout, step_input.round.quiet_seconds
        resumes = timeout is not None and quiet_seconds >= timeout
        time = before.after_round(mapper_round.partitions, clock, resumes=resumes)
        idle_from = time.idle_from(timeout)
        idle = {each for each, since in idle_from.items() if clock >= since} - step_input.lagging
        is_idle, watermark = len(idle) == len(idle_from), time.watermark(idle)
        next_scalars = {
            "time": to_json_value(time),
            "version": registry_json["version"],
            "coverage": coverage,
            "values": mapper_round.encoder.sizes() or scalars.get("values", {}),
        }
        counts = (
            Counter({"rows": mapper_round.rows, "groups": groups, "late": mapper_round.late_rows})
            + mapper_round.late_by_query
        )
        counts["dead_letters"] = len(decoder.dead)
        return Output(
            state=State(next_scalars),
            buffers=buffers,
            watermark=watermark,
            idle=is_idle,
            dead_letters=(*decoder.dead, *mapper_round.dead),
            counts=dict(sorted(counts.items())),
            gauges={"watermark": None if is_idle else watermark},
            timer=queries.closing_timer(time.high, clock, max(idle_from.values(), default=clock))
            if is_idle
            else min((since for since in idle_from.values() if clock < since < math.inf), default=None),
        )

    def _queries(self, registry_json: Any) -> _Queries:
        """Return the queries of a registry version; cached, since reading them takes longer than a round."""
        if self._cached_queries is None or self._cached_queries[0] != registry_json:
            registry = from_json_value(QueryRegistry, registry_json, "the queries of a round")
            stream = registry.stream(self._stream)
            queries = {query.name: query for query in registry.queries(self._stream)}
            cubes = cubes_of(queries.values(), stream)
            closings = frozenset(closing_of(cube, queries[name].window) for cube in cubes for name in cube.queries)
            row_format = open_format(stream.layout, {*projected_columns(cubes), stream.time})
            self._cached_queries = (registry_json, _Queries(stream, row_format, cubes, closings))
        return self._cached_queries[1]


def tracked_mapper(stream: str, units: int) -> Spring:
    """Return the step of a mapper whose messages are tracked."""
    return Spring(Mapper(stream, units), units)


@dataclass(frozen=True)
class _Queries:
    """The cubes of all queries over a stream, the format that reads their columns, and when windows close."""

    stream: Stream
    row_format: Format
    cubes: tuple[Cube, ...]
    closings: frozenset[WindowClosing]

    def closing_timer(self, high: int | None, clock: float, idle_since: float) -> float | None:
        """Return the clock at which a next window may close while all is idle.

        Since `idle_since`, event time advances by the clock after the newest row, of the time `high`.
        """
        if high is None:
            return None
        reached = high + round((clock - idle_since) * MICROS)
        closing = next_closing(self.closings, high, reached - _SLACK)
        return None if closing is None else clock + max(closing - reached, 0) / MICROS


class _MapperRound:
    """The partials of one round; `partitions` has what was read of each partition so far, in this round or before."""

    def __init__(
        self, queries: _Queries, scalars: Mapping[str, Any], before: SourceTime, span: Sequence[int] | None
    ) -> None:
        self.encoder = DictionaryEncoder(queries.stream)
        self._span = span
        self.rows = 0
        self.partitions = dict(before.partitions)
        self.late_rows = 0
        self.late_by_query: Counter[str] = Counter()
        self.dead: list[DeadLetter] = []
        passes = passes_of(queries.cubes, scalars.get("values", {}))
        self._groupings = [Grouping(scan_pass, self.encoder) for scan_pass in passes]
        row_cubes = [cube for cube in queries.cubes if not cube.width]
        self._row_partials = [RowPartials(cube, self.encoder) for cube in row_cubes]
        self._queries: dict[Slices, list[str]] = {}
        for cube in queries.cubes:
            self._queries.setdefault(cube.slices, []).extend(cube.queries)

    def add(self, chunk: Chunk) -> None:
        """Add the rows of a chunk, each to the cubes for which it is not late."""
        parts = chunk.partitions()
        after = {
            partition: self.partitions[partition].with_rows(rows.stop - rows.start, int(chunk.times[rows].max()))
            for partition, rows in parts
        }
        inside = self._inside(chunk)
        if not inside.size or inside.any():
            self._add(chunk, parts, after, inside)
        self.rows += chunk.rows
        self.partitions |= after

    def _inside(self, chunk: Chunk) -> Flags:
        """Return which rows lie in the span; empty means all."""
        if self._span is None:
            return EVERYWHERE
        begin, end = self._span
        inside: Flags = (chunk.times >= begin) & (chunk.times < end)
        return EVERYWHERE if inside.all() else inside

    def _add(self, chunk: Chunk, parts: Parts, after: Mapping[int, PartitionTime], inside: Flags) -> None:
        self.encoder.begin(chunk)
        late = {slices: self._late_flags(chunk, slices, parts, after, inside) for slices in sorted(self._queries)}
        if missed := [flags for flags in late.values() if flags.size]:
            self.late_rows += int(np.count_nonzero(np.logical_or.reduce(missed)))
        on_time = {slices: _on_time_flags(inside, flags) for slices, flags in late.items()}
        for grouping in self._groupings:
            with computing(grouping.queries):
                grouping.add(chunk, on_time)
        places = self._places(parts) if self._row_partials else ()
        for partials in self._row_partials:
            with computing(partials.cube.queries):
                partials.add(chunk, places, on_time[partials.cube.slices])

    def _places(self, parts: Parts) -> Sequence[Ints]:
        """Return the partition of each row, and its position there."""
        sizes = [rows.stop - rows.start for _, rows in parts]
        positions = [
            self.partitions[partition].rows + np.arange(size) for (partition, _), size in zip(parts, sizes, strict=True)
        ]
        return np.repeat([partition for partition, _ in parts], sizes), np.concatenate(positions)

    def buffers(self, units: int) -> Iterator[Buffer]:
        """Yield (cube, downstream unit, partials), sorted by cube and unit."""
        buffers: list[Buffer] = []
        for grouping in self._groupings:
            with computing(grouping.queries):
                buffers += grouping.buffers(units)
        for partials in self._row_partials:
            name = partials.cube.id
            buffers += [
                (name, int(name, 16) % units, part) for batch in partials.batches() for part in split_batch(batch)
            ]
        buffers.sort(key=lambda buffer: buffer[:2])
        yield from (buffer for buffer in buffers if buffer[2].num_rows)

    def _late_flags(
        self, chunk: Chunk, slices: Slices, parts: Parts, after: Mapping[int, PartitionTime], inside: Flags
    ) -> Flags:
        """Return which rows of the span are late for cubes with such slices; empty means none."""
        width, phase, lateness = max(slices[0], 1), slices[1], slices[2]
        is_late = _NOWHERE
        for partition, rows in parts:
            times, high = chunk.times[rows], self.partitions[partition].high
            first = (int(times.min()) - phase) // width * width + phase + width
            if first + lateness <= after[partition].high:
                is_late = is_late if is_late.size else np.zeros(chunk.rows, np.bool_)
                mark_late_rows(times, width, phase, lateness, high, is_late[rows])
        if not is_late.size:
            return _NOWHERE
        if inside.size:
            is_late &= inside
        if not is_late.any():
            return _NOWHERE
        queries = sorted(self._queries[slices])
        for query in queries:
            self.late_by_query[f"late.{query}"] += int(np.count_nonzero(is_late))
        reason = f"late: more than {lateness / MICROS:g} s after the end of its slice, for {', '.join(queries)}"
        self.dead.extend(chunk.source.dead_letters(chunk.source_rows[is_late], lambda row, place: reason))
        return is_late


def _on_time_flags(inside: Flags, late: Flags) -> Flags:
    """Return the rows to add; empty means all."""
    if not late.size:
        return inside
    return inside & ~late if inside.size else ~late


def projected_columns(cubes: Iterable[Cube]) -> set[str]:
    """Return the columns that at least one cube needs."""
    columns: set[str] = set()
    for cube in cubes:
        for expression in cube.grouping_columns:
            columns |= set(expression.columns)
        for measure in cube.measures:
            columns |= set(measure.argument.columns) if measure.argument is not None else set()
    return columns
