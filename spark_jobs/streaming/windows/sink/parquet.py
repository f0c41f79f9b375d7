"""Keeps a job's results as parquet in the catalog: at intervals, each result in one dataset, whatever dies.

Which messages of `JOB.results` go into the next dataset is decided once, as a round of a stage of its own, and written
to its rounds log before anything else is done. So whoever does it, and does it again, writes the same results to the
same path: a second generation replaces the first. A process that was fenced off can still end its round, and no more.

A dataset is `streams/JOB/results/ROUND`; its report holds the round's offsets. No operation makes it, and nobody looks
for a hole behind the newest one: so under Async&Sync it is in the under-store before it counts.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from springline.persistence.engine.runner import NoRunner
from springline.persistence.model.codec import plain
from springline.persistence.model.dataset import Dataset, Origin, Phase, Strategy
from springline.persistence.monitoring.logs import about
from springline.persistence.platform import Platform, open_platform
from springline.persistence.settings import Settings
from springline.spark_jobs.streaming.errors import FencedError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.message_log import Log
from springline.spark_jobs.streaming.runtime.rounds import Plan
from springline.spark_jobs.streaming.runtime.stage import Stage, StageSpec, place_stages
from springline.spark_jobs.streaming.runtime.stamps import stamp_of
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.windows.queryable import Queryable
from springline.spark_jobs.streaming.windows.registry_file import read_registry
from springline.spark_jobs.streaming.windows.sink.files import ResultFiles, schema_of

KEEPING = "keep"  # the stage whose rounds say which results go into one dataset
_ADMITTED = 100_000  # messages of a unit in one dataset
_HEADERS = {"query", "incarnation"}
_LINES_BYTES = 16 << 20  # of lines that are read at once
_NEWEST = 20  # datasets among which the newest round is: a process that was fenced off writes one again at most
_PATIENCE = 30.0  # seconds that the end of a job waits for the under-store

Schemas = Callable[[], Mapping[str, pa.Schema]]


def folder_of(job: str) -> str:
    """The paths of a job's kept results begin so."""
    return f"streams/{job}/results/"


def keeping_stage(job: Queryable, state: Path) -> Stage:
    """The stage whose rounds say which results go into one dataset; it has no state."""
    (stage,) = place_stages(job.name, [StageSpec(KEEPING, "", job.results, admitted=_ADMITTED)], state)
    return stage


class KeptResults:
    """The kept results of a job; `schemas` gives the columns of the queries as they are now."""

    def __init__(self, stage: Stage, platform: Platform, log: Log, schemas: Schemas) -> None:
        self._stage = stage
        self._platform = platform
        self._log = log
        self._schemas = schemas
        self._at: tuple[Planner, Plan] | None = None

    def keep(self) -> list[Dataset]:
        """Keep all results that are there and not kept; raises `StreamError`, `PersistenceError`."""
        made: list[Dataset] = []
        planner, last = self._at or self._begin()
        self._at = None  # what fails is begun again from what the catalog and the rounds log hold
        while (plan := planner.after(last)) is not None:
            made += self._write(plan)
            last = plan
        self._at = planner, last
        return made

    def _begin(self) -> tuple[Planner, Plan]:
        """Where the newest dataset ends."""
        # Without a clock: while no results come there is no round.
        planner = Planner(self._stage, self._log, lambda: 0.0, dict)
        begun = planner.begin()  # fences off who did it before, so that no newer dataset than the next one comes
        prefix = folder_of(self._stage.job)
        found = self._platform.catalog.find(prefix=prefix, phase=Phase.COMMITTED, superseded=False, limit=_NEWEST)
        return planner, max((_plan_of(dataset) for dataset in found), key=lambda plan: plan.order, default=begun)

    def _write(self, plan: Plan) -> list[Dataset]:
        """The dataset of a round; none where its offsets hold no results."""
        results = self._results(plan)
        first = next(results, None)
        if first is None:
            return []
        began = time.monotonic()
        path = f"{folder_of(self._stage.job)}{plan.number:08}"
        origin = Origin(f"stream_{self._stage.job}", task_id=self._stage.name)
        with self._platform.store.write(path, strategy=Strategy.ASYNC_AND_SYNC, origin=origin) as writing:
            files = ResultFiles(self._platform, writing)
            files.add(*first)
            for query, table in results:
                files.add(query, table)
            report = {
                "incarnation": plan.incarnation, "round": plan.number, "topics": dict(plan.topics),
                "offsets": plain(plan.ranges),
            }  # fmt: skip
            writing.done(files.written(time.monotonic() - began, report))
        return [writing.dataset]

    def _results(self, plan: Plan) -> Iterator[tuple[str, pa.Table]]:
        """The results of a round by query, in the order of their units and offsets."""
        schemas = self._schemas()
        held: dict[tuple[str, int], bytearray] = {}
        for unit in sorted(plan.ranges):
            for message in self._log.fetch(self._stage.topic, unit, *plan.ranges[unit]):
                if stamp_of(message) is None or not message.headers.keys() >= _HEADERS:  # somebody else's
                    continue
                told = (message.headers["query"].decode(), int(message.headers["incarnation"]))
                held.setdefault(told, bytearray()).extend(message.value)
                if sum(map(len, held.values())) >= _LINES_BYTES:
                    yield from _tables(held, schemas)
                    held = {}
        yield from _tables(held, schemas)


def table_of(lines: bytes, schema: pa.Schema | None, incarnation: int = 1) -> pa.Table:
    """Lines of JSON as a table: times become times, and columns without a value get their type, as `schema` says.

    What the lines hold counts: a query that was changed has told results of other columns before. Unless the query has
    a column of that name, `incarnation` is a column too: what is told again after going back is of a later one.
    """
    frame = pl.read_ndjson(io.BytesIO(lines), infer_schema_length=None)
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    for index, field in enumerate(table.schema):
        kind = schema.field(field.name).type if schema is not None and field.name in schema.names else None
        if kind is None and field.name in ("window_start", "window_end"):
            kind = pa.timestamp("us", tz="UTC")  # of a query that is registered no more
        if kind is not None and (pa.types.is_null(field.type) or _is_text(field.type)):
            table = _with_type(table, index, kind)
    if "incarnation" not in table.schema.names:
        table = table.append_column("incarnation", pa.repeat(pa.scalar(incarnation, pa.int64()), table.num_rows))
    return table


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_string(kind))


def _with_type(table: pa.Table, index: int, kind: pa.DataType) -> pa.Table:
    """With a column in another type, where all its values can be; else as it is."""
    field = table.schema.field(index)
    if _is_text(field.type) and not (pa.types.is_timestamp(kind) or pa.types.is_string(kind)):
        return table
    try:
        return table.set_column(index, pa.field(field.name, kind), table.column(index).cast(kind))
    except pa.ArrowInvalid:
        return table


def _tables(
    held: Mapping[tuple[str, int], bytearray], schemas: Mapping[str, pa.Schema]
) -> Iterator[tuple[str, pa.Table]]:
    for query, incarnation in sorted(held):
        yield query, table_of(bytes(held[query, incarnation]), schemas.get(query), incarnation)


def _plan_of(dataset: Dataset) -> Plan:
    """The round that a dataset holds, from its report."""
    told: dict[str, Any] = dict(dataset.report or {})
    ranges = {int(unit): tuple(extent) for unit, extent in told["offsets"].items()}
    return Plan(told["incarnation"], told["round"], 0.0, ranges, topics=told["topics"])


class Keeper(BackgroundService):
    """Keeps the results of a job every so many seconds and at its end.

    A thread of its own, with a platform and a log of its own, so that an under-store that is away holds nobody up. A
    job that fails is not held up either: who starts it again goes on.
    """

    def __init__(self, job: Queryable, folder: JobFolder, settings: StreamSettings) -> None:
        super().__init__("keeper")
        self._job = job
        self._folder = folder
        self._settings = settings
        self._failed = False

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        self._failed = kind is not None
        super().__exit__(kind)

    def _work(self) -> None:
        stage = keeping_stage(self._job, self._settings.state_folder)
        patient = Settings(sync_patience=_PATIENCE)
        with (
            closing(open_platform(patient, runner=NoRunner(), who=f"results of {self._job.name}")) as platform,
            closing(Kafka(self._settings.cluster)) as log,
        ):
            kept = KeptResults(stage, platform, log, self._schemas)
            over = False
            while not over:
                over = self._over.wait(self._settings.stream_keep or None)
                if over and self._failed:
                    return
                with about(job=self._job.name), self._trying("the results could not be kept"):
                    try:
                        log.create({stage.rounds: 1})
                        kept.keep()
                    except FencedError:  # another application of the job keeps them now
                        over = True
                        raise

    def _schemas(self) -> dict[str, pa.Schema]:
        registry = read_registry(self._folder) or self._job.registry()
        return {query.name: schema_of(query) for query in registry.queries()}
