"""Windowed statistics as a job: mappers on the units of a topic, reducers behind them.

[flights]                              # a job's name
topic = "flights"                      # what it reads
reducers = 2                           # units of its second stage
admitted = 1000                        # messages of a unit in a round, at most
keep = "parquet"                       # its results in the catalog too; without it they are in Kafka alone
from = "earliest"                      # or "latest": where a job begins that never ran

[flights.stream]                       # the rows of the topic; see sources/schema.py
time = "time"
unit = "iso"
fields = [["time", "text"], ["origin", "text"], ["dep_delay", "float"]]

[flights.queries]                      # registered when the job first starts; changed while it runs
departures = "SELECT origin, count(*) AS flights FROM flights GROUP BY origin WINDOWING 1 h"

[flights.tracking]                     # if it is there, messages are tracked: tracking/config.py
timeout = 30.0
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from springline.persistence.model.codec import plain
from springline.spark_jobs.streaming.backpressure.config import USUAL, Choice
from springline.spark_jobs.streaming.config import Declared
from springline.spark_jobs.streaming.errors import InvalidJobError
from springline.spark_jobs.streaming.job import BaseJob, ServiceContext
from springline.spark_jobs.streaming.job_folder import HOLD, STOP, JobFolder
from springline.spark_jobs.streaming.kinds import Kind
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.stage import COMMAND, StageSpec, rounds_topic
from springline.spark_jobs.streaming.sources.schema import Stream
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.tracking.config import FIRST, FULL, RING, SPRING, Delivery, Tracked
from springline.spark_jobs.streaming.windows.registry import Registry
from springline.spark_jobs.streaming.windows.registry_file import QUERIES, REGISTRY, change_registry
from springline.spark_jobs.streaming.windows.sink.parquet import KEEPING, Keeper

logger = logging.getLogger("springline.stream")

_STEPS = "springline.spark_jobs.streaming.windows"


@dataclass(frozen=True)
class WindowsJob(BaseJob):
    """Windowed statistics over a topic: mappers, one a unit of the topic, and `reducers` reducers."""

    name: str
    topic: str
    stream: Stream
    queries: Mapping[str, str] = field(default_factory=dict)
    reducers: int = 2
    admitted: int = 1_000
    latest: bool = False
    keep: str = ""
    tracked: Tracked | None = None
    backpressure: Choice = USUAL

    @property
    def partials(self) -> str:
        """The topic between the stages."""
        return f"{self.name}.partials"

    @property
    def sized(self) -> Mapping[str, str]:
        """That between the stages, and that of acks."""
        return {self.partials: "reducers", **super().sized}

    def mapper(self, units: int) -> StageSpec:
        """The stage that adds up rows; it waits where the job is held."""
        return StageSpec(
            "map", f"{_STEPS}.mapper:Mapper", self.topic, units, {"stream": self.stream.name, "units": self.reducers},
            downstream=self.partials, dead=self.dead, admitted=self.admitted, contents={"queries": REGISTRY},
            holds=(STOP, HOLD),
        )  # fmt: skip

    def reducer(self) -> StageSpec:
        """The stage that adds up what mappers send."""
        return StageSpec(
            "reduce", f"{_STEPS}.reducer:Reducer", self.partials, self.reducers,
            {"stream": self.stream.name, "source": self.topic}, stamped=True, results=self.results, dead=self.dead,
            place=FIRST, admitted=10_000, contents={"queries": REGISTRY}, holds=(STOP,),
        )  # fmt: skip

    def stages(self, units: int) -> tuple[StageSpec, ...]:
        """Both; tracked, with messages as roots: what a round makes of them is through when all reducers have it."""
        mapper, reducer = self.mapper(units), self.reducer()
        if self.tracked is None:
            return mapper, reducer
        contents, acks = {**mapper.contents, "ring": RING}, self.tracked.acks
        spring = replace(
            mapper, step=f"{_STEPS}.mapper:tracked_mapper", place=SPRING, acks=acks, contents=contents,
            holds=(*mapper.holds, FULL),
        )  # fmt: skip
        sink = replace(reducer, step=f"{_STEPS}.reducer:tracked_reducer", acks=acks, contents=contents)
        return spring, self.tracked.lost(self.topic, self.dead), sink, self.tracked.acker

    @property
    def service_topics(self) -> Collection[str]:
        """The rounds in which results are kept."""
        return (rounds_topic(self.name, KEEPING),)

    @property
    def chosen_files(self) -> Collection[str]:
        """Those of the queries."""
        return QUERIES

    def services(self, context: ServiceContext) -> Sequence[BackgroundService]:
        """The one that keeps results, where they are kept, and those of tracking."""
        keepers = [Keeper(self, context.folder, context.settings)] if self.keep else []
        return [*keepers, *super().services(context)]

    def prepare(self, folder: JobFolder) -> None:
        """Register the queries that the job begins with, where none are, and its stream as it is declared now.

        Raises `InvalidQueryError`, `InvalidJobError` where a registered query does not fit the declared stream.
        """
        change_registry(folder, self._registered)
        super().prepare(folder)

    def _registered(self, known: Registry | None) -> Registry:
        if known is None:
            return self.registry()
        try:
            changed = known.declared(self.stream)
        except InvalidQueryError as error:
            raise InvalidJobError(
                f"job {self.name!r}: [{self.name}.stream] has changed, and a registered query does not fit it: "
                f"{error}; write what it was again, or change the query or cancel it: "
                f"`{COMMAND} cancel {self.name} {error.name}`"
            ) from error
        if changed is not known:
            before = plain(known.stream(self.stream.name))
            names = [name for name, value in plain(self.stream).items() if value != before[name]]
            logger.info(
                "%s: its stream has changed: %s; that holds from the next round on", self.name, ", ".join(names)
            )
        told = {query.name: query.sql for query in known.registered}
        if odd := sorted(name for name, sql in self.queries.items() if told.get(name) != sql):
            logger.info(
                "%s: %s: what is registered counts, and not what is declared, since the job ran before; "
                "`stream register` and `stream cancel` change it", self.name, ", ".join(odd),
            )  # fmt: skip
        return changed

    def registry(self) -> Registry:
        """The queries that the job begins with; raises `InvalidQueryError`."""
        found = Registry.of([self.stream])
        for name, sql in self.queries.items():
            found = found.register(name, sql)
        return found


def _tracked(told: Declared) -> Tracked | None:
    if "tracking" not in told.table:
        return None
    tracked = Tracked.declared(told, Delivery.AT_MOST_ONCE)
    if tracked.delivery is not Delivery.AT_MOST_ONCE:
        raise InvalidJobError(
            f"{told.where}, [{told.name}.tracking]: delivery = {tracked.delivery.value!r}; the messages of windows are "
            "tracked and told where they are lost, and not sent again: write at-most-once, or leave it out"
        )
    return tracked


def declared_windows(told: Declared) -> WindowsJob:
    """A job from its table; raises `InvalidJobError`, `InvalidStreamError`."""
    told.check({"stream", "queries", "reducers", "admitted", "from", "keep", "tracking"})
    stream: Any = told.table.get("stream")
    if not isinstance(stream, dict):
        raise InvalidJobError(f"{told.where}: it needs a table [{told.name}.stream]")
    if (keep := told.table.get("keep", "")) not in ("", "parquet"):
        raise InvalidJobError(f"{told.where}: keep = {keep!r}; write parquet, or leave it out")
    return WindowsJob(
        told.name, told.topic, Stream.from_table({"name": told.name, **stream}), told.table.get("queries", {}),
        reducers=told.number("reducers", 2), admitted=told.number("admitted", 1_000), latest=told.latest, keep=keep,
        tracked=_tracked(told), backpressure=Choice.declared(told),
    )  # fmt: skip


KIND = Kind("windows", declared_windows)
