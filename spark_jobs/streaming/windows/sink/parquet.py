"""Writes a job's results to the catalog as Parquet: at intervals, each result into exactly one dataset despite crashes.

Which messages of `JOB.results` go into the next dataset is decided once, as a round of a separate stage, and written to
its rounds log first. A repeated attempt therefore writes the same results to the same path: a second generation
replaces the first. A fenced process can still finish its round, but not start another.

A dataset is `streams/JOB/results/ROUND`; its report contains the round's offsets. No operation produces it, and a
resume looks only at the newest datasets, so a gap before them would not be found: under `async_and_sync` a dataset is
therefore persisted before it is committed.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import polars as pl
import pyarrow as pa

from springline.persistence.engine.runner import NoRunner
from springline.persistence.model.codec import to_json_value
from springline.persistence.model.dataset import Dataset, Origin, Phase, Strategy
from springline.persistence.monitoring.logs import log_context
from springline.persistence.platform import Platform, open_platform
from springline.persistence.settings import Settings
from springline.spark_jobs.streaming.errors import FencedError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.message_log import MessageLog
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from springline.spark_jobs.streaming.runtime.stage import Stage, StageSpec, place_stages
from springline.spark_jobs.streaming.runtime.stamps import stamp_of
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.windows.queryable import Queryable
from springline.spark_jobs.streaming.windows.registry_file import read_registry
from springline.spark_jobs.streaming.windows.sink.files import ResultFiles, result_schema

SINK_STAGE = "sink"  # the stage whose rounds determine which results go into one dataset
_MAX_MESSAGES = 100_000  # messages per unit in one dataset
_HEADERS = {"query", "incarnation"}
_LINES_BYTES = 16 << 20  # of lines that are parsed at once
_NEWEST = 20  # datasets among which the newest round is: a fenced process rewrites at most one
_SYNC_TIMEOUT = 30.0  # seconds that the end of a job waits for the under-store

Schemas = Callable[[], Mapping[str, pa.Schema]]


def results_prefix(job: str) -> str:
    """Return the prefix of the paths of a job's result datasets."""
    return f"streams/{job}/results/"


def sink_stage(job: Queryable) -> Stage:
    """Return the stage whose rounds determine which results go into one dataset; it has no state."""
    (stage,) = place_stages(job.name, [StageSpec(SINK_STAGE, "", job.results, max_messages_per_round=_MAX_MESSAGES)])
    return stage


class ResultWriter:
    """Writes the results of a job to the catalog; `schemas` returns the current columns of the queries."""

    def __init__(self, stage: Stage, platform: Platform, log: MessageLog, schemas: Schemas) -> None:
        self._stage = stage
        self._platform = platform
        self._log = log
        self._schemas = schemas
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
        results = self._results(plan)
        first = next(results, None)
        if first is None:
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
                "offsets": to_json_value(plan.ranges),
            }  # fmt: skip
            writing.mark_complete(files.finish(time.monotonic() - began, report))
        return [writing.dataset]

    def _results(self, plan: RoundPlan) -> Iterator[tuple[str, pa.Table]]:
        """Yield the results of a round by query, in the order of units and offsets."""
        schemas = self._schemas()
        lines_by_query: dict[tuple[str, int], bytearray] = {}
        for unit in sorted(plan.ranges):
            for message in self._log.fetch(self._stage.topic, unit, *plan.ranges[unit]):
                if stamp_of(message) is None or not message.headers.keys() >= _HEADERS:  # written by another producer
                    continue
                line_key = (message.headers["query"].decode(), int(message.headers["incarnation"]))
                lines_by_query.setdefault(line_key, bytearray()).extend(message.value)
                if sum(map(len, lines_by_query.values())) >= _LINES_BYTES:
                    yield from _tables(lines_by_query, schemas)
                    lines_by_query = {}
        yield from _tables(lines_by_query, schemas)


def table_of(lines: bytes, schema: pa.Schema | None, incarnation: int = 1) -> pa.Table:
    """Convert JSON lines to a table: columns of times, and columns without a value, get their type from `schema`.

    The columns of the lines take precedence: before a query was changed, it emitted results with other columns. Unless
    the query has a column of that name, `incarnation` is added as a column: results emitted again after a rewind have a
    later incarnation.
    """
    frame = pl.read_ndjson(io.BytesIO(lines), infer_schema_length=None)
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    for index, field in enumerate(table.schema):
        kind = schema.field(field.name).type if schema is not None and field.name in schema.names else None
        if kind is None and field.name in ("window_start", "window_end"):
            kind = pa.timestamp("us", tz="UTC")  # of a query that is no longer registered
        if kind is not None and (pa.types.is_null(field.type) or _is_text(field.type)):
            table = _with_type(table, index, kind)
    if "incarnation" not in table.schema.names:
        table = table.append_column("incarnation", pa.repeat(pa.scalar(incarnation, pa.int64()), table.num_rows))
    return table


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_string(kind))


def _with_type(table: pa.Table, index: int, kind: pa.DataType) -> pa.Table:
    """Cast a column to another type if all its values can be cast; otherwise return the table unchanged."""
    field = table.schema.field(index)
    if _is_text(field.type) and not (pa.types.is_timestamp(kind) or pa.types.is_string(kind)):
        return table
    try:
        return table.set_column(index, pa.field(field.name, kind), table.column(index).cast(kind))
    except pa.ArrowInvalid:
        return table


def _tables(
    lines_by_query: Mapping[tuple[str, int], bytearray], schemas: Mapping[str, pa.Schema]
) -> Iterator[tuple[str, pa.Table]]:
    for query, incarnation in sorted(lines_by_query):
        yield query, table_of(bytes(lines_by_query[query, incarnation]), schemas.get(query), incarnation)


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

    def __init__(self, job: Queryable, folder: JobFolder, settings: StreamSettings) -> None:
        super().__init__("sink")
        self._job = job
        self._folder = folder
        self._settings = settings
        self._failed = False

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
            writer = ResultWriter(stage, platform, log, self._schemas)
            over = False
            while not over:
                over = self._stopping.wait(self._settings.stream_sink_interval or None)
                if over and self._failed:
                    return
                with log_context(job=self._job.name), self._trying("writing results to datasets failed"):
                    try:
                        log.create({stage.rounds: 1})
                        log.create({stage.reports: 1}, compacted=True)
                        writer.write_new_results()
                    except FencedError:  # another application of the job is the writer now
                        over = True
                        raise

    def _schemas(self) -> dict[str, pa.Schema]:
        registry = read_registry(self._folder) or self._job.registry()
        return {query.name: result_schema(query) for query in registry.queries()}
