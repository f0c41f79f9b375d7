"""The windows job: windowed statistics with mappers on the partitions of a topic, and reducers downstream.

[flights]                              # the job's name
topic = "flights"                      # the topic that it reads
parallelism = 2                        # units of the second stage
max_messages_per_round = 1000          # at most so many messages per unit and round
sink = "parquet"                       # also write the results to the catalog; default: only to Kafka
start_from = "earliest"                # or "latest": where a job starts that has never run

[flights.stream]                       # the rows of the topic; see sources/schema.py
time = "time"
time_format = "iso"
fields = [["time", "text"], ["origin", "text"], ["dep_delay", "float"]]

[flights.queries]                      # registered at the job's first start; can be changed while it runs
departures = "SELECT origin, count(*) AS flights FROM flights GROUP BY origin WINDOWING 1 h"

[flights.tracking]                     # optional: track the messages; see tracking/config.py
timeout = 30.0
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from springline.persistence.model.codec import to_json_value
from springline.spark_jobs.streaming.backpressure.config import DEFAULT_CONFIG, BackpressureConfig
from springline.spark_jobs.streaming.config import JobTable
from springline.spark_jobs.streaming.errors import InvalidJobError
from springline.spark_jobs.streaming.job import BaseJob, ServiceContext
from springline.spark_jobs.streaming.job_folder import HOLD, STOP, JobFolder
from springline.spark_jobs.streaming.kinds import Kind
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.stage import COMMAND, StageSpec, rounds_topic
from springline.spark_jobs.streaming.sources.schema import Stream
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.tracking.config import (
    FIRST_PROCESSOR,
    FULL,
    RING,
    SPRING,
    Delivery,
    TrackingConfig,
)
from springline.spark_jobs.streaming.windows.registry import QueryRegistry
from springline.spark_jobs.streaming.windows.registry_file import QUERIES, REGISTRY, change_registry
from springline.spark_jobs.streaming.windows.sink.parquet import SINK_STAGE, ParquetSink

logger = logging.getLogger("springline.stream")

_STEPS = "springline.spark_jobs.streaming.windows"


@dataclass(frozen=True)
class WindowsJob(BaseJob):
    """Windowed statistics over a topic: one mapper per partition of the topic, and `parallelism` reducers."""

    name: str
    topic: str
    stream: Stream
    queries: Mapping[str, str] = field(default_factory=dict)
    parallelism: int = 2
    max_messages_per_round: int = 1_000
    latest: bool = False
    sink: str = ""
    tracking: TrackingConfig | None = None
    backpressure: BackpressureConfig = DEFAULT_CONFIG

    @property
    def partials_topic(self) -> str:
        """The topic between the mappers and the reducers."""
        return f"{self.name}.partials"

    @property
    def parallelism_settings(self) -> Mapping[str, str]:
        """The setting that determines the partitions of the partials topic, and that of the acks topic."""
        return {self.partials_topic: "parallelism", **super().parallelism_settings}

    def mapper(self, units: int) -> StageSpec:
        """The stage that computes partial aggregates of rows; it pauses while the job is on hold."""
        return StageSpec(
            "map", f"{_STEPS}.mapper:Mapper", self.topic, units,
            {"stream": self.stream.name, "units": self.parallelism},
            downstream=self.partials_topic, dead_letters=self.dead_letters,
            max_messages_per_round=self.max_messages_per_round, broadcast_files={"queries": REGISTRY},
            hold_files=(STOP, HOLD),
        )  # fmt: skip

    def reducer(self) -> StageSpec:
        """The stage that merges the mappers' partial aggregates."""
        return StageSpec(
            "reduce", f"{_STEPS}.reducer:Reducer", self.partials_topic, self.parallelism,
            {"stream": self.stream.name, "source": self.topic}, stamped=True, results=self.results,
            dead_letters=self.dead_letters,
            sender_index=FIRST_PROCESSOR, max_messages_per_round=10_000, broadcast_files={"queries": REGISTRY},
            hold_files=(STOP,),
        )  # fmt: skip

    def stages(self, units: int) -> tuple[StageSpec, ...]:
        """Both stages. With tracking, messages are roots: completed when all reducers have their partials."""
        mapper, reducer = self.mapper(units), self.reducer()
        if self.tracking is None:
            return mapper, reducer
        contents, acks = {**mapper.broadcast_files, "ring": RING}, self.tracking.acks
        spring = replace(
            mapper, step=f"{_STEPS}.mapper:tracked_mapper", sender_index=SPRING, acks=acks, broadcast_files=contents,
            hold_files=(*mapper.hold_files, FULL),
        )  # fmt: skip
        sink = replace(reducer, step=f"{_STEPS}.reducer:tracked_reducer", acks=acks, broadcast_files=contents)
        return spring, self.tracking.lost_stage(self.topic, self.dead_letters), sink, self.tracking.acker_stage

    @property
    def service_topics(self) -> Collection[str]:
        """The rounds log of the stage that writes results to the catalog."""
        return (rounds_topic(self.name, SINK_STAGE),)

    @property
    def user_files(self) -> Collection[str]:
        """The files of the registered queries."""
        return QUERIES

    def services(self, context: ServiceContext) -> Sequence[BackgroundService]:
        """The service that writes results to the catalog, if the job has a sink, and those of tracking."""
        sinks = [ParquetSink(self, context.folder, context.settings)] if self.sink else []
        return [*sinks, *super().services(context)]

    def prepare(self, folder: JobFolder) -> None:
        """Register the declared queries if none are registered, and update the stream to its current declaration.

        Raises `InvalidQueryError`, and `InvalidJobError` if a registered query does not fit the declared stream.
        """
        change_registry(folder, self._updated_registry)
        super().prepare(folder)

    def _updated_registry(self, registry: QueryRegistry | None) -> QueryRegistry:
        if registry is None:
            return self.registry()
        try:
            changed = registry.with_stream(self.stream)
        except InvalidQueryError as error:
            raise InvalidJobError(
                f"job {self.name!r}: [{self.name}.stream] has changed, and a registered query does not fit it: "
                f"{error}; write what it was again, or change the query or cancel it: "
                f"`{COMMAND} cancel {self.name} {error.name}`"
            ) from error
        if changed is not registry:
            before = to_json_value(registry.stream(self.stream.name))
            names = [name for name, value in to_json_value(self.stream).items() if value != before[name]]
            logger.info(
                "%s: its stream has changed: %s; that holds from the next round on", self.name, ", ".join(names)
            )
        registered_sql = {query.name: query.sql for query in registry.registered}
        if odd := sorted(name for name, sql in self.queries.items() if registered_sql.get(name) != sql):
            logger.info(
                "%s: %s: what is registered counts, and not what is declared, since the job ran before; "
                "`stream register` and `stream cancel` change it", self.name, ", ".join(odd),
            )  # fmt: skip
        return changed

    def registry(self) -> QueryRegistry:
        """Return a registry of the declared queries; raises `InvalidQueryError`."""
        registry = QueryRegistry.of([self.stream])
        for name, sql in self.queries.items():
            registry = registry.register(name, sql)
        return registry


def _tracking_config(config: JobTable) -> TrackingConfig | None:
    if "tracking" not in config.table:
        return None
    tracked = TrackingConfig.from_table(config, Delivery.AT_MOST_ONCE)
    if tracked.delivery is not Delivery.AT_MOST_ONCE:
        raise InvalidJobError(
            f"{config.where}, [{config.name}.tracking]: delivery = "
            f"{tracked.delivery.value!r}; the messages of windows are "
            "tracked and told where they are lost, and not sent again: write at-most-once, or leave it out"
        )
    return tracked


def declared_windows(config: JobTable) -> WindowsJob:
    """Read a job from its table; raises `InvalidJobError`, `InvalidStreamError`."""
    config.check({"stream", "queries", "parallelism", "max_messages_per_round", "start_from", "sink", "tracking"})
    stream: Any = config.table.get("stream")
    if not isinstance(stream, dict):
        raise InvalidJobError(f"{config.where}: it needs a table [{config.name}.stream]")
    if (sink := config.table.get("sink", "")) not in ("", "parquet"):
        raise InvalidJobError(f"{config.where}: sink = {sink!r}; write parquet, or leave it out")
    return WindowsJob(
        config.name, config.topic, Stream.from_table({"name": config.name, **stream}), config.table.get("queries", {}),
        parallelism=config.number("parallelism", 2),
        max_messages_per_round=config.number("max_messages_per_round", 1_000), latest=config.latest, sink=sink,
        tracking=_tracking_config(config), backpressure=BackpressureConfig.from_table(config),
    )  # fmt: skip


KIND = Kind("windows", declared_windows)
