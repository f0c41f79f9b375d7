"""Stream jobs as they are declared in a file: windowed statistics over a topic.

[flights]                              # a job's name
topic = "flights"                      # what it reads
reducers = 2                           # units of its second stage
admitted = 1000                        # messages of a unit in a round, at most
keep = "parquet"                       # its results in the catalog too; without it they are in Kafka alone
from = "earliest"                      # or "latest": where a job begins that never ran

[flights.stream]                       # the rows of the topic; see windows/stream.py
time = "time"
unit = "iso"
fields = [["time", "text"], ["origin", "text"], ["dep_delay", "float"]]

[flights.queries]                      # registered when the job first starts; changed while it runs
departures = "SELECT origin, count(*) AS flights FROM flights GROUP BY origin WINDOWING 1 h"
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_jobs.streaming.errors import BadJob, UnknownJob
from spark_jobs.streaming.unitlog.stage import Stage
from spark_jobs.streaming.windows.registry import Registry
from spark_jobs.streaming.windows.stream import Stream

_STEPS = ("spark_jobs.streaming.windows.steps",)
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")


@dataclass(frozen=True)
class Job:
    """Windowed statistics over a topic: mappers, one a unit of the topic, and `reducers` reducers."""

    name: str
    topic: str
    stream: Stream
    queries: Mapping[str, str] = field(default_factory=dict)
    reducers: int = 2
    admitted: int = 1_000
    latest: bool = False
    keep: str = ""

    @property
    def partials(self) -> str:
        """The topic between the stages."""
        return f"{self.name}.partials"

    @property
    def results(self) -> str:
        """The topic of results."""
        return f"{self.name}.results"

    @property
    def dead(self) -> str:
        """The topic of rows that could not be used."""
        return f"{self.name}.dead"

    def stages(self, mappers: int, state: Path) -> tuple[Stage, Stage]:
        """The stages, for a topic of so many units; states lie below `state`."""
        folder = str(state / self.name)
        mapping = Stage(
            self.name, "map", "windows.map", self.topic, folder,
            arguments={"stream": self.stream.name, "units": self.reducers}, modules=_STEPS,
            downstream=self.partials, units=self.reducers, dead=self.dead, admitted=self.admitted,
        )  # fmt: skip
        reducing = Stage(
            self.name, "reduce", "windows.reduce", self.partials, folder,
            arguments={"stream": self.stream.name, "units": mappers}, modules=_STEPS,
            stamped=True, results=self.results, admitted=10_000,
        )  # fmt: skip
        return mapping, reducing

    def topics(self, mappers: int) -> dict[str, int]:
        """The topics that the job makes for itself, with their units."""
        stages = self.stages(mappers, Path())
        own = {self.partials: self.reducers, self.results: self.reducers, self.dead: mappers}
        return {**own, **{stage.rounds: 1 for stage in stages}}

    def registry(self) -> Registry:
        """The queries that the job begins with; raises `BadQuery`."""
        found = Registry.of([self.stream])
        for name, sql in self.queries.items():
            found = found.register(name, sql)
        return found


def read_jobs(file: Path) -> dict[str, Job]:
    """The jobs that a file declares, by name; none if there is no file. Raises `BadJob`, `BadStream`."""
    if not file.exists():
        return {}
    try:
        told = tomllib.loads(file.read_text())
    except tomllib.TOMLDecodeError as error:
        raise BadJob(f"{file}: not TOML: {error}") from error
    return {name: _job(file, name, declared) for name, declared in told.items()}


def job_of(file: Path, name: str) -> Job:
    """A declared job; raises `UnknownJob`."""
    jobs = read_jobs(file)
    if name not in jobs:
        raise UnknownJob(f"no job {name!r} is declared in {file}; declared: {', '.join(jobs) or 'none'}")
    return jobs[name]


def _job(file: Path, name: str, told: Any) -> Job:
    where = f"{file}, job {name!r}"
    if not _NAME.fullmatch(name):
        raise BadJob(f"{where}: a name is of small letters, digits, dashes and underscores, at most 41")
    if not isinstance(told, dict) or not isinstance(told.get("stream"), dict) or not told.get("topic"):
        raise BadJob(f"{where}: it needs a topic and a table [{name}.stream]")
    known = {"topic", "stream", "queries", "reducers", "admitted", "from", "keep"}
    if odd := sorted(set(told) - known):
        raise BadJob(f"{where}: {', '.join(odd)} means nothing here; known: {', '.join(sorted(known))}")
    if (begin := told.get("from", "earliest")) not in ("earliest", "latest"):
        raise BadJob(f"{where}: from = {begin!r}; write earliest or latest")
    if (keep := told.get("keep", "")) not in ("", "parquet"):
        raise BadJob(f"{where}: keep = {keep!r}; write parquet, or leave it out")
    numbers = {key: told.get(key, default) for key, default in (("reducers", 2), ("admitted", 1_000))}
    if bad := [key for key, value in numbers.items() if not isinstance(value, int) or value < 1]:
        raise BadJob(f"{where}: {', '.join(bad)} must be a whole number above 0")
    stream = Stream.from_json({"name": name, **told["stream"]})
    return Job(name, told["topic"], stream, told.get("queries", {}), **numbers, latest=begin == "latest", keep=keep)
