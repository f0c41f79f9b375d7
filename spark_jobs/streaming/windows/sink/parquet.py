"""Writes a job's results to the catalog as Parquet: at intervals, each result into exactly one dataset despite crashes.

Which messages of `JOB.results` go into the next dataset is decided once, as a round of a separate stage, and written to
its rounds log first. A repeated attempt therefore writes the same results to the same path: a second generation
replaces the first. A fenced process can still finish its round, but not start another.

A dataset is `streams/JOB/results/ROUND`; its report contains the round's offsets. No operation produces it, and a
resume looks only at the newest datasets, so a gap before them would not be found: under `async_and_sync` a dataset is
therefore persisted before it is committed.

The type of each column is that of the query when it emitted the line: each message has its types. A message that they
do not fit is refused alone: the dataset's report and the job's status name it, and it stays in the topic.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec
import pyarrow as pa

from springline.persistence.engine.runner import NoRunner
from springline.persistence.model.codec import to_json_value
from springline.persistence.model.dataset import Dataset, Origin, Phase, Strategy
from springline.persistence.monitoring.logs import log_context
from springline.persistence.platform import Platform, open_platform
from springline.persistence.settings import Settings
from springline.spark_jobs.streaming.errors import FencedError
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.message_log import MessageLog
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from springline.spark_jobs.streaming.runtime.stage import Stage, StageSpec, log_topics, place_stages
from springline.spark_jobs.streaming.runtime.stamps import stamp_of
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.sources.field_types import MAX_DIGITS, arrow_type, decimal_type
from springline.spark_jobs.streaming.windows.queryable import Queryable
from springline.spark_jobs.streaming.windows.sink.files import ResultFiles

SINK_STAGE = "sink"  # the stage whose rounds determine which results go into one dataset
_MAX_MESSAGES = 100_000  # messages per unit in one dataset
_HEADERS = ("query", "incarnation", "types")
_LINES_BYTES = 1 << 20  # of lines that are decoded at once, which other threads wait for
_MAX_REFUSED = 10  # refused messages that a report lists in full
_JSON_TYPES: Mapping[pa.DataType, Any] = {
    arrow_type("int"): int | None, arrow_type("float"): float | Literal["Infinity", "-Infinity", "NaN"] | None,
    arrow_type("text"): str | None, arrow_type("timestamp"): str | None, arrow_type("date"): date | None,
    arrow_type("boolean"): bool | None, arrow_type("null"): None, arrow_type("bytes"): bytes | None,
    **{arrow_type(decimal_type(scale)): Decimal | None for scale in range(MAX_DIGITS + 1)},
}  # fmt: skip
_TYPES = {str(kind): kind for kind in _JSON_TYPES}
_NEWEST = 20  # datasets among which the newest round is: a fenced process rewrites at most one
_SYNC_TIMEOUT = 30.0  # seconds that the end of a job waits for the under-store

_log = logging.getLogger("springline.stream")


class _ResultMessage(NamedTuple):
    """A message of the topic of results, with its unit."""

    unit: int
    message: Message


class RefusedResults(NamedTuple):
    """A message whose lines are not results of the types that it states."""

    query: str
    unit: int
    offset: int
    reason: str


def results_prefix(job: str) -> str:
    """Return the prefix of the paths of a job's result datasets."""
    return f"streams/{job}/results/"


def sink_stage(job: Queryable) -> Stage:
    """Return the stage whose rounds determine which results go into one dataset; it has no state."""
    (stage,) = place_stages(job.name, [StageSpec(SINK_STAGE, "", job.results, max_messages_per_round=_MAX_MESSAGES)])
    return stage


class ResultWriter:
    """Writes the results of a job to the catalog; `refused` has what was last refused of each query."""

    def __init__(self, stage: Stage, platform: Platform, log: MessageLog) -> None:
        self._stage = stage
        self._platform = platform
        self._log = log
        self.refused: dict[str, RefusedResults] = {}
        self._position: tuple[Planner, RoundPlan] | None = None

    def write_new_results(self) -> list[Dataset]:
        """Write all results that are not in the catalog yet; raises `StreamError`, `PersistenceError`."""
        datasets: list[Dataset] = []
        planner, last = self._position or self._resume()
        self._position = None  # after a failure, resume from the catalog and the rounds log
        while (plan := planner.after(last)) is not None:
            datasets += self._write(plan)
            last = plan
        self._position = planner, last
        return datasets

    def _resume(self) -> tuple[Planner, RoundPlan]:
        """Return the planner, and the round of the newest dataset."""
        # A constant clock: without new results there is no round.
        planner = Planner(self._stage, self._log, lambda: 0.0, dict)
        initial_plan = planner.begin()  # fences the previous writer, so that at most the next dataset can still appear
        prefix = results_prefix(self._stage.job)
        datasets = self._platform.catalog.find(prefix=prefix, phase=Phase.COMMITTED, superseded=False, limit=_NEWEST)
        return planner, max(
            (_plan_of(dataset) for dataset in datasets), key=lambda plan: plan.round_id, default=initial_plan
        )

    def _write(self, plan: RoundPlan) -> list[Dataset]:
        """Write the dataset of a round; none if its offsets hold no results."""
        refused: list[RefusedResults] = []
        results = self._results(plan, refused)
        first = next(results, None)
        if first is None:
            self._note(refused)
            return []
        began = time.monotonic()
        path = f"{results_prefix(self._stage.job)}{plan.number:08}"
        origin = Origin(f"stream_{self._stage.job}", task_id=self._stage.name)
        with self._platform.store.write(path, strategy=Strategy.ASYNC_AND_SYNC, origin=origin) as writing:
            files = ResultFiles(self._platform, writing)
            files.add(*first)
            for query, table in results:
                files.add(query, table)
            report = {
                "incarnation": plan.incarnation, "round": plan.number, "topics": dict(plan.topics),
                "offsets": to_json_value(plan.ranges), "refused_messages": len(refused),
                "refused": [each._asdict() for each in refused[:_MAX_REFUSED]],
            }  # fmt: skip
            writing.mark_complete(files.finish(time.monotonic() - began, report))
        self._note(refused)
        return [writing.dataset]

    def _note(self, refused: Sequence[RefusedResults]) -> None:
        """Log what was refused, one line for each query, and keep it for the status."""
        newest = {each.query: each for each in refused}
        self.refused |= newest
        for each in newest.values():
            _log.warning("%s", self.describe(each))

    def describe(self, refused: RefusedResults) -> str:
        """Return what was refused, for the log and the status."""
        place = f"{self._stage.topic}[{refused.unit}], offset {refused.offset}"
        return f"results of the query {refused.query!r} are not in the catalog: {place}: {refused.reason}"

    def _results(self, plan: RoundPlan, refused: list[RefusedResults]) -> Iterator[tuple[str, pa.Table]]:
        """Yield the results of a round by query, in the order of units and offsets; add to `refused` what is none."""
        by_headers: dict[tuple[bytes, ...], list[_ResultMessage]] = {}
        size = 0
        for unit in sorted(plan.ranges):
            for message in self._log.fetch(self._stage.topic, unit, *plan.ranges[unit]):
                if stamp_of(message) is None or not message.headers.keys() >= set(_HEADERS):  # of another producer
                    continue
                headers = tuple(message.headers[name] for name in _HEADERS)
                by_headers.setdefault(headers, []).append(_ResultMessage(unit, message))
                size += len(message.value)
                if size >= _LINES_BYTES:
                    yield from _tables(by_headers, refused)
                    by_headers, size = {}, 0
        yield from _tables(by_headers, refused)


def _tables(
    by_headers: Mapping[tuple[bytes, ...], Sequence[_ResultMessage]], refused: list[RefusedResults]
) -> Iterator[tuple[str, pa.Table]]:
    """Yield the tables of messages by their headers; messages of the same query follow each other."""
    for headers in sorted(by_headers, key=lambda headers: headers[0]):
        yield from _decode(headers, by_headers[headers], refused)


def _decode(
    headers: tuple[bytes, ...], messages: Sequence[_ResultMessage], refused: list[RefusedResults]
) -> list[tuple[str, pa.Table]]:
    """Return the query and the table of messages with the same headers; if one does not fit, each is decoded alone."""
    try:
        return [_table_of(headers, messages)]
    except Exception as error:  # whatever the bytes are: they stop no other message
        if len(messages) > 1:
            return [table for message in messages for table in _decode(headers, [message], refused)]
        ((unit, message),) = messages
        query, reason = headers[0].decode(errors="backslashreplace"), f"{type(error).__name__}: {error}"
        refused.append(RefusedResults(query, unit, message.offset, reason))
        return []


def _table_of(headers: tuple[bytes, ...], messages: Sequence[_ResultMessage]) -> tuple[str, pa.Table]:
    """Convert lines of JSON to a table of the types that their headers state; return also the query.

    Unless the query has a column of that name, in any case, the incarnation is added as a column: results emitted again
    after a rewind have a later one.
    """
    query, incarnation, types = headers
    decoder, schema = _decoder_of(types)
    rows = decoder.decode_lines(b"".join(bytes(message.value) for _, message in messages))
    columns = zip(*map(msgspec.structs.astuple, rows), strict=True) if rows else [()] * len(schema)
    table = pa.table([_column(values, field.type) for values, field in zip(columns, schema, strict=True)], schema)
    if "incarnation" not in map(str.casefold, schema.names):
        table = table.append_column("incarnation", pa.repeat(pa.scalar(int(incarnation), pa.int64()), len(rows)))
    return query.decode(), table


@lru_cache(maxsize=1_000)
def _decoder_of(types: bytes) -> tuple[msgspec.json.Decoder[Any], pa.Schema]:
    """Return the decoder of lines whose columns have these types, and no others, and their schema."""
    kinds = [(name, _TYPES[kind]) for name, kind in json.loads(types).items()]
    row = msgspec.defstruct(
        "Row",
        [(f"f{index}", _JSON_TYPES[kind]) for index, (_, kind) in enumerate(kinds)],
        rename={f"f{index}": name for index, (name, _) in enumerate(kinds)},
        forbid_unknown_fields=True,
    )
    return msgspec.json.Decoder(row), pa.schema(kinds)


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.string()).cast(kind)
    if pa.types.is_floating(kind):
        values = [float(value) if isinstance(value, str) else value for value in values]
    return pa.array(values, kind)


def _plan_of(dataset: Dataset) -> RoundPlan:
    """Return the round of a dataset, from its report."""
    report: dict[str, Any] = dict(dataset.report or {})
    ranges = {int(unit): tuple(extent) for unit, extent in report["offsets"].items()}
    return RoundPlan(report["incarnation"], report["round"], 0.0, ranges, topics=report["topics"])


class ParquetSink(BackgroundService):
    """Writes the results of a job to the catalog at intervals and at the job's end.

    It runs in a separate thread with a separate platform and log, so that an unavailable under-store blocks nothing
    else. A job that fails is not delayed either: the next start resumes.
    """

    def __init__(self, job: Queryable, settings: StreamSettings) -> None:
        super().__init__("sink")
        self._job = job
        self._settings = settings
        self._failed = False
        self._writer: ResultWriter | None = None

    @property
    def last_error(self) -> str:
        """The current error, or what was refused since the start."""
        if error := super().last_error:
            return error
        writer = self._writer
        return "; ".join(map(writer.describe, writer.refused.values())) if writer is not None else ""

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        self._failed = kind is not None
        super().__exit__(kind)

    def _work(self) -> None:
        stage = sink_stage(self._job)
        sink_settings = Settings(sync_timeout=_SYNC_TIMEOUT)
        with (
            closing(open_platform(sink_settings, runner=NoRunner(), actor=f"results of {self._job.name}")) as platform,
            closing(Kafka(self._settings.cluster)) as log,
        ):
            self._writer = writer = ResultWriter(stage, platform, log)
            over = False
            while not over:
                over = self._stopping.wait(self._settings.stream_sink_interval or None)
                if over and self._failed:
                    return
                with log_context(job=self._job.name), self._trying("writing results to datasets failed"):
                    try:
                        log.create(log_topics(stage.job, stage.name))
                        writer.write_new_results()
                    except FencedError:  # another application of the job is the writer now
                        over = True
                        raise
