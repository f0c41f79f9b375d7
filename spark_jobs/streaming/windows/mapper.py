"""The mapper: rows of the source topic to partials of slices, for the reducers that the groups belong to.

A row is late where an earlier row of its own unit has closed its slice: so which rows are late follows from the log of
the unit alone, and neither from rounds nor from how far other units are. Late rows go to the dead letters.

The watermark is the greatest time seen; a reducer takes each query's lateness off it. A unit that has had no rows for
the stream's `idle` seconds is idle: it holds nobody back. One that has rows which no round has admitted yet is not. Nor
is any unit for as long after the stream has been quiet: whose rows come first then must not close windows for others.

Of a range of the stream (`ranges`) only the rows of a span are added up; the others tell no more than the time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from springline.persistence.model.codec import from_plain
from springline.spark_jobs.streaming.kernels.hash_tables import EVERYWHERE, Flags
from springline.spark_jobs.streaming.kernels.hashing import late
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Input, Output, State
from springline.spark_jobs.streaming.sources.chunk import Chunk
from springline.spark_jobs.streaming.sources.decoder import Decoder
from springline.spark_jobs.streaming.sources.schema import MICROS, Stream
from springline.spark_jobs.streaming.tracking.replay.message_mode import Spring
from springline.spark_jobs.streaming.windows.aggregation.dictionary import Coder
from springline.spark_jobs.streaming.windows.aggregation.grouping import Grouping
from springline.spark_jobs.streaming.windows.aggregation.row_partials import RowPartials
from springline.spark_jobs.streaming.windows.coverage import Announcement, held_now
from springline.spark_jobs.streaming.windows.errors import computing
from springline.spark_jobs.streaming.windows.group_messages import Origin
from springline.spark_jobs.streaming.windows.multi_query import Cube, Slices, cubes_of, passes_of
from springline.spark_jobs.streaming.windows.registry import Registry

BATCH_ROWS = 20_000  # groups in a buffer
_BEFORE_ALL = -(2**62)
_NOWHERE: Flags = np.empty(0, np.bool_)


class Mapper:
    """The step of one unit of the source topic of `stream`; `units` is how many reducers there are.

    With `span`, [begin, end) in microseconds, only the rows of that time are added up.
    """

    def __init__(self, stream: str, units: int, span: Sequence[int] | None = None) -> None:
        self._stream = stream
        self._units = units
        self._span = span
        self._read: tuple[Any, tuple[Stream, tuple[Cube, ...]]] | None = None

    def __call__(self, state: State, given: Input) -> Output:
        """One round."""
        content = given.round.versions["queries"]
        stream, cubes = self._cubes(content)
        scalars = state.scalars
        high = scalars.get("high")
        held = held_now(scalars.get("held", {}), cubes, high)
        work = _Work(stream, cubes, scalars, given.unit, self._span)
        decoder = Decoder(stream, wanted_columns(cubes), given.round.clock)
        for chunk in decoder.chunks(given.messages):
            work.add(chunk)
        buffers: dict[int, list[pa.RecordBatch]] = {unit: [] for unit in range(self._units)}
        if scalars.get("version") != content["version"]:
            told = Announcement(given.unit, content["version"], high, held).buffer()
            for unit in buffers:
                buffers[unit].append(told)
        groups = 0
        origin = Origin(given.unit, given.start, given.to).encode()
        for name, unit, batch in work.partials(self._units):
            groups += batch.num_rows
            buffers[unit] += cut(batch.replace_schema_metadata({"cube": name, "from": origin}))
        clock = given.round.clock
        active = clock if work.rows else scalars.get("active", clock)
        resumed = scalars.get("resumed", 0.0)
        if stream.idle is not None and given.round.quiet >= stream.idle:
            resumed = clock
        now = {
            "high": work.high if work.high > _BEFORE_ALL else None,
            "version": content["version"],
            "held": held,
            "active": active,
            "resumed": resumed,
            "position": work.position,
            "values": work.coder.sizes() or scalars.get("values", {}),
        }
        idle = stream.idle is not None and clock - max(active, resumed) >= stream.idle and not given.left
        counts = Counter({"rows": work.rows, "groups": groups, "late": work.late_rows}) + work.late
        counts["dead"] = len(decoder.dead)
        return Output(
            state=State(now),
            buffers=buffers,
            watermark=None if now["high"] is None else work.high / MICROS,
            idle=idle,
            dead=(*decoder.dead, *work.dead),
            counts=dict(sorted(counts.items())),
        )

    def _cubes(self, content: Any) -> tuple[Stream, tuple[Cube, ...]]:
        """The cubes of a version of the registry; reading queries costs more than a round."""
        if self._read is None or self._read[0] != content:
            registry = from_plain(Registry, content, "the queries of a round")
            stream = registry.stream(self._stream)
            self._read = (content, (stream, cubes_of(registry.queries(self._stream), stream)))
        return self._read[1]


def tracked_mapper(stream: str, units: int) -> Spring:
    """The step of a mapper whose messages are tracked."""
    return Spring(Mapper(stream, units), units)


class _Work:
    """What one round adds up; `high` is the greatest time seen so far, in this round or before."""

    def __init__(
        self, stream: Stream, cubes: tuple[Cube, ...], scalars: Mapping[str, Any], unit: int, span: Sequence[int] | None
    ) -> None:
        self.coder = Coder(stream)
        self._span = span
        self.rows = 0
        self.position = int(scalars.get("position", 0))
        self.high = _BEFORE_ALL if scalars.get("high") is None else int(scalars["high"])
        self.late_rows = 0
        self.late: Counter[str] = Counter()
        self.dead: list[DeadLetter] = []
        passes = passes_of(cubes, scalars.get("values", {}))
        self._groupings = [Grouping(found, self.coder) for found in passes]
        of_rows = [cube for cube in cubes if not cube.width]
        self._row_partials = [RowPartials(cube, self.coder, unit) for cube in of_rows]
        self._queries: dict[Slices, list[str]] = {}
        for cube in cubes:
            self._queries.setdefault(cube.slices, []).extend(cube.queries)

    def add(self, chunk: Chunk) -> None:
        """Add the rows of a chunk, each to the cubes that it is not late for."""
        high = max(self.high, int(chunk.times.max()))
        inside = self._inside(chunk)
        if not inside.size or inside.any():
            self._add(chunk, high, inside)
        self.rows += chunk.rows
        self.position += chunk.rows
        self.high = high

    def _inside(self, chunk: Chunk) -> Flags:
        """Which rows are of the span; empty: all."""
        if self._span is None:
            return EVERYWHERE
        begin, end = self._span
        inside: Flags = (chunk.times >= begin) & (chunk.times < end)
        return EVERYWHERE if inside.all() else inside

    def _add(self, chunk: Chunk, high: int, inside: Flags) -> None:
        self.coder.begin(chunk)
        late = {slices: self._late(chunk, slices, high, inside) for slices in sorted(self._queries)}
        if missed := [flags for flags in late.values() if flags.size]:
            self.late_rows += int(np.count_nonzero(np.logical_or.reduce(missed)))
        wanted = {slices: _without(inside, flags) for slices, flags in late.items()}
        for grouping in self._groupings:
            with computing(grouping.queries):
                grouping.add(chunk, wanted)
        for partials in self._row_partials:
            with computing(partials.cube.queries):
                partials.add(chunk, self.position, wanted[partials.cube.slices])

    def partials(self, units: int) -> list[tuple[str, int, pa.RecordBatch]]:
        """The partials of all cubes that have any, and the unit downstream that they are for; sorted by both."""
        found: dict[tuple[str, int], pa.RecordBatch] = {}
        for grouping in self._groupings:
            with computing(grouping.queries):
                for name, batches in grouping.partials(units).items():
                    found |= {(name, unit): batch for unit, batch in enumerate(batches)}
        for partials in self._row_partials:
            name = partials.cube.id
            found |= {(name, int(name, 16) % units): batch for batch in partials.batches()}
        return [(*place, found[place]) for place in sorted(found) if found[place].num_rows]

    def _late(self, chunk: Chunk, slices: Slices, high: int, inside: Flags) -> Flags:
        """Which rows of the span are late for cubes of such slices; empty: none."""
        width, phase, lateness = max(slices[0], 1), slices[1], slices[2]
        first = (int(chunk.times.min()) - phase) // width * width + phase + width
        if first + lateness > high:
            return _NOWHERE
        found = np.empty(chunk.rows, np.bool_)
        late(chunk.times, width, phase, lateness, self.high, found)
        if inside.size:
            found &= inside
        if not found.any():
            return _NOWHERE
        queries = sorted(self._queries[slices])
        for query in queries:
            self.late[f"late.{query}"] += int(np.count_nonzero(found))
        reason = f"late: more than {lateness / MICROS:g} s after its slice had ended, for {', '.join(queries)}"
        self.dead.extend(chunk.source.letters(chunk.kept[found], lambda row, place: reason))
        return found


def _without(inside: Flags, late: Flags) -> Flags:
    """The rows that are to be added up; empty: all."""
    if not late.size:
        return inside
    return inside & ~late if inside.size else ~late


def wanted_columns(cubes: Iterable[Cube]) -> set[str]:
    """The columns that some cube needs."""
    found: set[str] = set()
    for cube in cubes:
        for expression in cube.wants:
            found |= set(expression.columns)
        for measure in cube.measures:
            found |= set(measure.argument.columns) if measure.argument is not None else set()
    return found


def cut(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Buffers of at most `BATCH_ROWS` groups."""
    return [batch.slice(at, BATCH_ROWS) for at in range(0, batch.num_rows, BATCH_ROWS)]
