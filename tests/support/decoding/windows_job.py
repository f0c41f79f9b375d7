"""A windows job in one process: mappers and reducers as plain steps, with logs that are lists."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from springline.persistence.model.codec import to_json_value
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Input, Output, Round, State, Step
from springline.spark_jobs.streaming.sources.schema import Field, Stream
from springline.spark_jobs.streaming.windows.mapper import Mapper
from springline.spark_jobs.streaming.windows.reducer import Reducer
from springline.spark_jobs.streaming.windows.registry import QueryRegistry

FIELDS = (
    *(Field("time", "timestamp(s)"), Field("sip", "text"), Field("kind", "text")),
    *(Field("bytes", "int"), Field("load", "float")),
)
SOON = 3_600.0  # no test's time reaches so far


def stream(**settings: Any) -> Stream:
    """A stream S of small flows; clocks begin with 0 here, so that all of its rows are ahead."""
    return Stream(**{"name": "S", "fields": FIELDS, "time": "time", "max_future_skew": None, **settings})


def registry(queries: Mapping[str, str], of: Stream | None = None) -> QueryRegistry:
    """A registry of those queries over S."""
    query_registry = QueryRegistry.of([of or stream()])
    for name, sql in queries.items():
        query_registry = query_registry.register(name, sql)
    return query_registry


def csv(*rows: Sequence[Any]) -> bytes:
    """Rows as lines."""
    return b"".join(",".join("" if v is None else str(v) for v in row).encode() + b"\n" for row in rows)


def ipc(batch: pa.RecordBatch | pa.Table) -> bytes:
    """A batch or a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write(batch)
    return bytes(sink.getvalue())


class Job:
    """Runs rounds, every step twice: what it makes must be the same to the byte.

    Mappers share the partitions, by default one for each. Where it is not `placed`, they do not know which offsets they
    read.
    """

    def __init__(
        self,
        registry: QueryRegistry,
        *,
        mappers: int = 1,
        reducers: int = 1,
        partitions: int | None = None,
        stream_name: str = "S",
        placed: bool = True,
    ) -> None:
        self.registry = registry
        self.reduced_by = registry  # the version that reducers know, which may differ for a while
        self.clock = 0.0
        self.counts: Counter[str] = Counter()
        self.dead: list[DeadLetter] = []
        self.results: list[pa.RecordBatch] = []
        self.buffers: list[list[pa.RecordBatch]] = [[] for _ in range(reducers)]
        self.states = {("map", u): State() for u in range(mappers)} | {("reduce", u): State() for u in range(reducers)}
        self._steps: dict[str, Step] = {"map": Mapper(stream_name, reducers), "reduce": Reducer(stream_name, "source")}
        self._watermarks: dict[int, float] = {}
        self._idle: set[int] = set()
        self._clocks: dict[int, float] = {}
        self._left: Collection[int] = ()
        self._busy = self._quiet = 0.0
        self._rounds: Counter[str] = Counter()
        self._offsets: Counter[int] = Counter()
        self._mappers = mappers
        self._partitions = mappers if partitions is None else partitions
        self._placed = placed

    def follow(self, registry: QueryRegistry) -> None:
        """Both stages know a registry from now on."""
        self.registry = self.reduced_by = registry

    def round(self, *values: Sequence[bytes], clock: float | None = None, timestamp: float = 0.0) -> list[Output]:
        """One round of mappers, `values[p]` being the messages of partition p, and one of reducers."""
        outputs = self.map(*values, clock=clock, timestamp=timestamp)
        self.reduce()
        return outputs

    def map(
        self, *values: Sequence[bytes], clock: float | None = None, timestamp: float = 0.0, left: Collection[int] = ()
    ) -> list[Output]:
        """One round of mappers; in the partitions `left` there is more than it admits."""
        self.clock = self.clock + 1 if clock is None else clock
        self._left = left
        comes = any(values)
        self._quiet = self.clock - self._busy if comes else 0.0
        self._busy = self.clock if comes else self._busy
        outputs = []
        for unit in range(self._mappers):
            messages: list[Message] = []
            ranges: dict[int, tuple[int, int]] = {}
            for partition in range(unit, self._partitions, self._mappers):
                own, start = values[partition] if partition < len(values) else (), self._offsets[partition]
                messages += [Message(start + i, value, timestamp, partition=partition) for i, value in enumerate(own)]
                self._offsets[partition] += len(own)
                ranges[partition] = (start, start + len(own)) if self._placed else (0, 0)
            output = self._run("map", unit, messages, self.registry, ranges)
            for reducer, batches in output.buffers.items():
                self.buffers[reducer] += batches
            if output.watermark is not None:
                self._watermarks[unit] = output.watermark
            (self._idle.add if output.idle else self._idle.discard)(unit)
            self._clocks[unit] = self.clock
            self.dead += output.dead_letters
            outputs.append(output)
        self._rounds["map"] += 1
        return outputs

    def reduce(self, clock: float | None = None) -> None:
        """One round of reducers, over all that mappers have sent."""
        self.clock = self.clock if clock is None else clock
        for unit, batches in enumerate(self.buffers):
            messages = [Message(index, ipc(batch)) for index, batch in enumerate(batches)]
            self.buffers[unit] = []
            output = self._run("reduce", unit, messages, self.reduced_by)
            self.results += output.results
            self.dead += output.dead_letters
        self._rounds["reduce"] += 1

    def finish(self) -> None:
        """Let all units be idle for so long that every window closes."""
        self.round(clock=self.clock + 100)
        self.round(clock=self.clock + 100)
        self.round(clock=self.clock + SOON * 100)

    def rows(self, query: str) -> list[dict[str, Any]]:
        """The results of a query so far, without its name."""
        batches = (batch for batch in self.results if batch.schema.metadata[b"query"].decode() == query)
        return [{k: v for k, v in row.items() if k != "query"} for batch in batches for row in batch.to_pylist()]

    def _run(
        self,
        stage: str,
        unit: int,
        messages: Sequence[Message],
        registry: QueryRegistry,
        ranges: Mapping[int, tuple[int, int]] = MappingProxyType({}),
    ) -> Output:
        versions = json.loads(json.dumps({"queries": to_json_value(registry)}))
        now = Round(1, self._rounds[stage] + 1, self.clock, versions, self._quiet if stage == "map" else 0.0)
        step_input = Input(stage, unit, now, messages, ranges, lagging=frozenset(self._left) & ranges.keys())
        if stage == "reduce":
            step_input = replace(
                step_input, watermarks=self._watermarks, idle_units=frozenset(self._idle), clocks=self._clocks,
                upstream_units=frozenset(range(self._mappers)),
            )  # fmt: skip
        state = self.states[stage, unit]
        output, repeated_output = self._steps[stage](state, step_input), self._steps[stage](state, step_input)
        assert in_bytes(output) == in_bytes(repeated_output)
        self.states[stage, unit] = State(json.loads(json.dumps(output.state.scalars)), output.state.runs)
        self.counts.update(output.counts)
        return output


def in_bytes(output: Output) -> list[Any]:
    """All of an output as plain values."""

    def all_of(batches: Iterable[pa.RecordBatch]) -> list[bytes]:
        return [ipc(batch) for batch in batches]

    runs = {name: all_of(batches) for name, batches in output.state.runs.items()}
    buffers = {unit: all_of(batches) for unit, batches in output.buffers.items()}
    scalars, event_time = json.dumps(output.state.scalars), (output.watermark, output.idle)
    sent = [buffers, all_of(output.results)]
    return [scalars, runs, *sent, event_time, list(output.dead_letters), dict(output.counts)]
