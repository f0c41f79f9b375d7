"""The windows job: windowed statistics with mappers that share the partitions of a topic, and reducers downstream.

[flights]
topic = "flights"

[flights.stream]
time = "time"
fields = [["time", "timestamp"], ["origin", "text"], ["dep_delay", "float"]]

[flights.queries]
departures = "SELECT origin, count(*) AS flights FROM flights GROUP BY origin WINDOWING 1 h"

`WindowsJobKeys` lists the keys.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from springline.persistence.model.codec import to_json_value
from springline.persistence.model.toml_table import Count
from springline.spark_jobs.streaming.backpressure.config import DEFAULT_CONFIG, BackpressureConfig
from springline.spark_jobs.streaming.errors import InvalidJobError
from springline.spark_jobs.streaming.job import BaseJob, ServiceContext
from springline.spark_jobs.streaming.job_folder import HOLD, STOP, JobFolder
from springline.spark_jobs.streaming.job_keys import SourceKeys
from springline.spark_jobs.streaming.kinds import Kind
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.stage import COMMAND, StageSpec, reports_topic, rounds_topic
from springline.spark_jobs.streaming.sources.schema import Stream, StreamKeys
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.tracking.config import (
    FIRST_PROCESSOR,
    FULL,
    RING,
    SPRING,
    Delivery,
    SourceTrackingKeys,
    TrackingConfig,
)
from springline.spark_jobs.streaming.windows.registry import QueryRegistry
from springline.spark_jobs.streaming.windows.registry_file import QUERIES, REGISTRY, change_registry
from springline.spark_jobs.streaming.windows.sink.parquet import SINK_STAGE, ParquetSink

logger = logging.getLogger("springline.stream")

_STEPS = "springline.spark_jobs.streaming.windows"


@dataclass(frozen=True)
class WindowsJob(BaseJob):
    """Windowed statistics over a topic, in `parallelism` mappers and as many reducers."""

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

    def mapper(self) -> StageSpec:
        """The stage that computes partial aggregates of rows; it pauses while the job is on hold."""
        return StageSpec(
            "map", f"{_STEPS}.mapper:Mapper", self.topic, self.parallelism,
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
            hold_files=(STOP,), state_query=f"{_STEPS}.retained_slices:answer",
        )  # fmt: skip

    def stages(self) -> tuple[StageSpec, ...]:
        """Both stages. With tracking, messages are roots: completed when all reducers have their partials."""
        mapper, reducer = self.mapper(), self.reducer()
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
        """The rounds log of the stage that writes results to the catalog, and the topic of its reports."""
        return rounds_topic(self.name, SINK_STAGE), reports_topic(self.name, SINK_STAGE)

    @property
    def user_files(self) -> Collection[str]:
        """The files of the registered queries."""
        return QUERIES

    def services(self, context: ServiceContext) -> Sequence[BackgroundService]:
        """The service that writes results to the catalog, if the job has a sink, and those of tracking."""
        sinks = [ParquetSink(self, context.settings)] if self.sink else []
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
                f"{error}; restore the previous declaration, or alter or cancel the query: "
                f"`{COMMAND} cancel {self.name} {error.name}`"
            ) from error
        if changed is not registry:
            before = to_json_value(registry.stream(self.stream.name))
            names = [name for name, value in to_json_value(self.stream).items() if value != before[name]]
            logger.info(
                "%s: its stream declaration has changed: %s; effective from the next round", self.name, ", ".join(names)
            )
        registered_sql = {query.name: query.sql for query in registry.registered}
        if odd := sorted(name for name, sql in self.queries.items() if registered_sql.get(name) != sql):
            logger.info(
                "%s: %s: the registered queries apply, not the declared ones, because the job ran before; "
                "change them with `stream register` and `stream cancel`", self.name, ", ".join(odd),
            )  # fmt: skip
        return changed

    def registry(self) -> QueryRegistry:
        """Return a registry of the declared queries; raises `InvalidQueryError`."""
        registry = QueryRegistry.of([self.stream])
        for name, sql in self.queries.items():
            registry = registry.register(name, sql)
        return registry


class WindowsTrackingKeys(SourceTrackingKeys, frozen=True, kw_only=True):
    """Keys of `tracking` in a job of windows."""

    delivery: Annotated[
        Literal["at-most-once"], Meta(description="lost messages of the stages are reported, and not sent again")
    ] = "at-most-once"


class WindowsJobKeys(SourceKeys, frozen=True, kw_only=True):
    """Keys of a job of windowed statistics."""

    stream: Annotated[StreamKeys, Meta(description="the rows of the topic")]
    queries: Annotated[
        dict[str, str], Meta(description="queries by name, in the SQL of streams; registered at the first start")
    ] = msgspec.field(default_factory=dict)
    parallelism: Annotated[
        Count, Meta(description="units of each stage: those of the first one share the partitions of the topic")
    ] = 2
    max_messages_per_round: Annotated[Count, Meta(description="messages that a unit reads at most in a round")] = 1_000
    sink: Annotated[
        Literal["", "parquet"], Meta(description='"parquet": results are also written to files, registered as datasets')
    ] = ""
    tracking: Annotated[
        bool | WindowsTrackingKeys, Meta(description="true or a table: the stages' messages are tracked")
    ] = False


def declare_windows(name: str, keys: WindowsJobKeys) -> WindowsJob:
    """Create a job from its keys; raises `InvalidJobError`, `InvalidStreamError`."""
    tracked = keys.tracking is not False
    return WindowsJob(
        name, keys.topic, Stream.from_keys(name, keys.stream), keys.queries, parallelism=keys.parallelism,
        max_messages_per_round=keys.max_messages_per_round, latest=keys.latest, sink=keys.sink,
        tracking=TrackingConfig.from_keys(name, keys.tracking, delivery=Delivery.AT_MOST_ONCE) if tracked else None,
        backpressure=keys.backpressure_config(),
    )  # fmt: skip


KIND = Kind("windows", WindowsJobKeys, declare_windows)
