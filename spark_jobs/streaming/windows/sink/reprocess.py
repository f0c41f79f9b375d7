"""A range of a stream, answered anew from its topic by the steps of the stream itself, in one process.

Every message that the topic holds at the start is read once, a bounded number of each unit at a time. Rows of the range
are added up; those after it only make rows late that come behind them, as in the stream. No unit is idle here, and one
that has come to its end holds nobody back. Windows are told that begin and end inside the range, so they are those that
the stream itself tells; windows of rows count from the range's first row.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from springline.persistence.model.codec import plain
from springline.persistence.model.dataset import Dataset, Origin, Strategy
from springline.persistence.platform import Platform
from springline.spark_jobs.streaming.errors import InvalidRangeError
from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes
from springline.spark_jobs.streaming.runtime.message_log import Log
from springline.spark_jobs.streaming.runtime.stage import place_stages
from springline.spark_jobs.streaming.runtime.step import Input, Message, Output, Round, State, Step
from springline.spark_jobs.streaming.sql.windowing import instant
from springline.spark_jobs.streaming.windows.queryable import Queryable
from springline.spark_jobs.streaming.windows.registry import Registry
from springline.spark_jobs.streaming.windows.sink.files import ResultFiles, schema_of

_FOREVER = 1e12  # seconds since 1970: a watermark that every window has ended before
_SHOWN = 10  # dead letters that are told in full

Give = Callable[[str, pa.RecordBatch], None]


@dataclass(frozen=True, slots=True)
class Span:
    """Event times [begin, end), in microseconds since 1970."""

    begin: int
    end: int

    @staticmethod
    def of(begin: str, end: str) -> Span:
        """Between two moments in ISO's form, UTC unless they say otherwise; raises `InvalidRangeError`."""
        try:
            first, last = instant(begin), instant(end)
        except ValueError as error:
            raise InvalidRangeError(
                f"from {begin!r} to {end!r}: give dates and times such as 2013-01-31 12:00"
            ) from error
        if last <= first:
            raise InvalidRangeError(f"from {begin} to {end} there is no time: give an end after the beginning")
        return Span(first, last)

    def __str__(self) -> str:
        return f"{_said(self.begin)}--{_said(self.end)}"


@dataclass
class Told:
    """What was read for a range: offsets of each unit, counts, and the first letters that could not be used."""

    offsets: dict[int, tuple[int, int]]
    counts: Counter[str] = field(default_factory=lambda: Counter(rows=0, late=0, dead=0))
    dead: list[dict[str, Any]] = field(default_factory=list)

    def add(self, unit: int, output: Output) -> None:
        """Add what the mapper of a unit made of a round."""
        self.counts.update(output.counts)
        for letter in output.dead[: _SHOWN - len(self.dead)]:
            self.dead.append({"unit": unit, "offset": letter.offset, "reason": letter.reason})

    def as_json(self) -> dict[str, Any]:
        """For a dataset's report."""
        offsets = {str(unit): list(extent) for unit, extent in sorted(self.offsets.items())}
        return {"offsets": offsets, "counts": dict(sorted(self.counts.items())), "dead": self.dead}


def asked_of(job: Queryable, known: Registry | None, queries: Mapping[str, str]) -> Registry:
    """The queries that a range is to answer: those given, else all that the job has now; raises `InvalidQueryError`."""
    registry = job.registry() if known is None else known
    if queries:
        registry = Registry.of(registry.streams)
        for name, sql in queries.items():
            registry = registry.register(name, sql)
    if not registry.registered:
        raise InvalidRangeError(f"{job.name} has no queries, and none are given")
    return registry


def write_range(
    platform: Platform,
    job: Queryable,
    registry: Registry,
    log: Log,
    span: Span,
    *,
    origin: Origin = Origin(),
    strategy: Strategy = Strategy.ASYNC_AND_SYNC,
) -> Dataset:
    """Answer the queries of `registry` over a range, and commit the results as a generation of `streams/JOB/ranges/…`.

    What an earlier try of the same task committed is taken as it is. Raises what the log and the steps raise.
    """
    path = f"streams/{job.name}/ranges/{span}"
    store = platform.store
    if origin.run_id:
        store.begin_run(origin)
    if adopted := store.adoptable(path, call=None, sources=(), origin=origin):
        return adopted
    began = time.monotonic()
    with store.write(path, strategy=strategy, origin=origin) as writing:
        files = ResultFiles(platform, writing)
        schemas = {query.name: schema_of(query) for query in registry.queries()}
        for query, schema in schemas.items():
            files.add(query, schema.empty_table())  # a query without results has a file too

        def give(query: str, results: pa.RecordBatch) -> None:
            files.add(query, pa.Table.from_batches([results]).cast(schemas[query]))

        told = answer(job, registry, log, span, give, time.time())
        report = {"from": _said(span.begin), "to": _said(span.end), **told.as_json()}
        writing.done(files.written(time.monotonic() - began, report))
    return writing.dataset


def answer(job: Queryable, registry: Registry, log: Log, span: Span, give: Give, now: float) -> Told:
    """Give the results of all windows that begin and end inside a range, as they are told; `now` since 1970."""
    extents = log.extents(job.topic)
    mapping, reducing = place_stages(job.name, [job.mapper(len(extents)), job.reducer()], Path())
    mapping = replace(mapping, arguments={**mapping.arguments, "span": [span.begin, span.end]})
    # Nobody is idle, and nobody will ask for slices later.
    streams = tuple(replace(stream, idle=None, retain=0.0) for stream in registry.streams)
    versions = {"queries": plain(replace(registry, streams=streams))}
    mappers = {unit: _Unit(mapping.name, unit, mapping.make_step(), versions, now) for unit in sorted(extents)}
    reducers = [_Unit(reducing.name, unit, reducing.make_step(), versions, now) for unit in range(reducing.units)]
    told = Told({unit: (extent.low, extent.high) for unit, extent in extents.items()})
    watermarks: dict[int, float] = {}
    at = {unit: extent.low for unit, extent in extents.items()}
    while any(watermarks.get(unit) != _FOREVER for unit in mappers):
        sent: list[list[bytes]] = [[] for _ in reducers]
        for unit, mapper in mappers.items():
            to = min(at[unit] + job.admitted, extents[unit].high)
            output = mapper.run(log.fetch(job.topic, unit, at[unit], to))
            at[unit] = to
            told.add(unit, output)
            for reducer, batches in output.buffers.items():
                sent[reducer] += [arrow_bytes(batch) for batch in batches]
            if to == extents[unit].high:
                watermarks[unit] = _FOREVER
            elif output.watermark is not None:
                watermarks[unit] = output.watermark
        for adding, values in zip(reducers, sent, strict=True):
            output = adding.run([Message(index, value) for index, value in enumerate(values)], watermarks, mappers)
            for results in output.results:
                if (inside := _inside(results, span)).num_rows:
                    give(results.schema.metadata[b"query"].decode(), inside)
    return told


def _inside(results: pa.RecordBatch, span: Span) -> pa.RecordBatch:
    """The results of windows of time that begin and end inside; those of windows of rows are numbered by rows."""
    begins, ends = results.column("window_start"), results.column("window_end")
    if not pa.types.is_timestamp(begins.type):
        return results
    whole = pc.and_(
        pc.greater_equal(begins.cast(pa.int64()), span.begin), pc.less_equal(ends.cast(pa.int64()), span.end)
    )
    return results.filter(whole)


class _Unit:
    """A unit of a stage whose rounds follow one another in this process."""

    def __init__(self, stage: str, unit: int, step: Step, versions: Mapping[str, Any], clock: float) -> None:
        self._place = (stage, unit)
        self._step = step
        self._versions = versions
        self._clock = clock
        self._state = State()
        self._round = 0

    def run(
        self, messages: Iterable[Message], watermarks: Mapping[int, float] | None = None, upstream: Iterable[int] = ()
    ) -> Output:
        """One round; the clock stands still."""
        self._round += 1
        given = Input(
            *self._place, Round(1, self._round, self._clock, self._versions), messages, dict(watermarks or {}),
            upstream=frozenset(upstream),
        )  # fmt: skip
        output = self._step(self._state, given)
        scalars = json.loads(json.dumps(output.state.scalars))  # as a version of a state holds them
        self._state = State(scalars, output.state.runs)
        return output


def _said(micros: int) -> str:
    """A moment as it can stand in a dataset's path."""
    moment = datetime.fromtimestamp(micros // 1_000_000, UTC).replace(microsecond=micros % 1_000_000, tzinfo=None)
    return moment.isoformat().replace(":", "")
