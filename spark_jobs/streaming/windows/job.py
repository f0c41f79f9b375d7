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
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from springline.spark_jobs.streaming.backpressure.config import USUAL, Choice
from springline.spark_jobs.streaming.config import Declared
from springline.spark_jobs.streaming.errors import BadJob
from springline.spark_jobs.streaming.job import OwnTopics
from springline.spark_jobs.streaming.job_folder import HOLD, STOP, JobFolder
from springline.spark_jobs.streaming.runtime.stage import COMMAND, Part, Stage
from springline.spark_jobs.streaming.sources.schema import Stream
from springline.spark_jobs.streaming.sql.errors import BadQuery
from springline.spark_jobs.streaming.tracking.config import FIRST, FULL, RING, SPRING, Delivery, Tracked
from springline.spark_jobs.streaming.windows.registry import Registry
from springline.spark_jobs.streaming.windows.registry_file import REGISTRY, change_registry

logger = logging.getLogger("springline.stream")

_STEPS = ("springline.spark_jobs.streaming.windows.steps",)


@dataclass(frozen=True)
class WindowsJob(OwnTopics):
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
        return {self.partials: "reducers", **({} if self.tracked is None else self.tracked.sized)}

    def stages(self, state: Path) -> tuple[Stage, Stage]:
        """The stages; states lie below `state`."""
        folder = str(state / self.name)
        mapping = Stage(
            self.name, "map", "windows.map", self.topic, folder,
            arguments={"stream": self.stream.name, "units": self.reducers}, modules=_STEPS,
            downstream=self.partials, units=self.reducers, dead=self.dead, admitted=self.admitted,
        )  # fmt: skip
        reducing = Stage(
            self.name, "reduce", "windows.reduce", self.partials, folder,
            arguments={"stream": self.stream.name, "source": self.topic}, modules=_STEPS,
            stamped=True, results=self.results, dead=self.dead, place=FIRST, admitted=10_000,
        )  # fmt: skip
        return mapping, reducing

    def topics(self, mappers: int) -> dict[str, int]:
        """The topics that the job makes for itself, with their units."""
        own = {self.partials: self.reducers, self.results: self.reducers, self.dead: max(mappers, self.reducers)}
        if self.tracked is not None:
            own |= {self.dead: max(own[self.dead], self.tracked.room), **self.tracked.topics()}
        return {**own, **{part.stage.rounds: 1 for part in self.parts(mappers, Path())}}

    def parts(self, units: int, state: Path) -> tuple[Part, ...]:
        """The stages as they run: both look at the queries, and the first one waits where it is held."""
        mapping, reducing = self.stages(state)
        queries = {"queries": REGISTRY}
        parts = (Part(mapping, units, queries, (STOP, HOLD)), Part(reducing, self.reducers, queries, (STOP,)))
        return parts if self.tracked is None else self._tracked_parts(self.tracked, *parts)

    def _tracked_parts(self, tracked: Tracked, mapping: Part, reducing: Part) -> tuple[Part, ...]:
        """With messages as roots: what a round of a mapper makes of them is through when all reducers have it."""
        spring = replace(mapping.stage, step="windows.tracked_map", place=SPRING, **tracked.sends)
        sink = replace(reducing.stage, step="windows.tracked_reduce", **tracked.sends)
        contents = {**mapping.contents, "ring": RING}
        return (
            Part(spring, mapping.units, contents, (*mapping.holds, FULL)),
            tracked.lost(self.topic, self.dead, mapping.stage.state),
            Part(sink, reducing.units, contents, reducing.holds),
            tracked.acker(mapping.stage.state),
        )

    def prepare(self, folder: JobFolder) -> None:
        """Register the queries that the job begins with, where none are, and its stream as it is declared now.

        Raises `BadQuery`, `BadJob` where a registered query does not fit the declared stream.
        """
        change_registry(folder, self._registered)
        if self.tracked is not None:
            self.tracked.prepare(folder)

    def _registered(self, known: Registry | None) -> Registry:
        if known is None:
            return self.registry()
        try:
            changed = known.declared(self.stream)
        except BadQuery as error:
            raise BadJob(
                f"job {self.name!r}: [{self.name}.stream] has changed, and a registered query does not fit it: "
                f"{error}; write what it was again, or change the query or cancel it: "
                f"`{COMMAND} cancel {self.name} {error.name}`"
            ) from error
        if changed is not known:
            before = known.stream(self.stream.name).as_json()
            names = [name for name, value in self.stream.as_json().items() if value != before[name]]
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
        """The queries that the job begins with; raises `BadQuery`."""
        found = Registry.of([self.stream])
        for name, sql in self.queries.items():
            found = found.register(name, sql)
        return found


def _tracked(told: Declared) -> Tracked | None:
    if "tracking" not in told.table:
        return None
    tracked = Tracked.declared(told, Delivery.AT_MOST_ONCE)
    if tracked.delivery is not Delivery.AT_MOST_ONCE:
        raise BadJob(
            f"{told.where}, [{told.name}.tracking]: delivery = {tracked.delivery.value!r}; the messages of windows are "
            "tracked and told where they are lost, and not sent again: write at-most-once, or leave it out"
        )
    return tracked


def declared_windows(told: Declared) -> WindowsJob:
    """A job from its table; raises `BadJob`, `BadStream`."""
    told.check({"stream", "queries", "reducers", "admitted", "from", "keep", "tracking"})
    stream: Any = told.table.get("stream")
    if not isinstance(stream, dict):
        raise BadJob(f"{told.where}: it needs a table [{told.name}.stream]")
    if (keep := told.table.get("keep", "")) not in ("", "parquet"):
        raise BadJob(f"{told.where}: keep = {keep!r}; write parquet, or leave it out")
    return WindowsJob(
        told.name, told.topic, Stream.from_json({"name": told.name, **stream}), told.table.get("queries", {}),
        reducers=told.number("reducers", 2), admitted=told.number("admitted", 1_000), latest=told.latest, keep=keep,
        tracked=_tracked(told), backpressure=Choice.declared(told),
    )  # fmt: skip
