"""A job as its application, commands, routes and DAGs see it, of whatever kind it is: which stages run, what else."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from springline.spark_jobs.streaming.backpressure.config import USUAL, Choice
from springline.spark_jobs.streaming.errors import InvalidJobError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.message_log import Log
from springline.spark_jobs.streaming.runtime.stage import COMMAND, Stage, StageSpec, place_stages, rounds_topic
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.tracking.config import Tracked
from springline.spark_jobs.streaming.tracking.monitor import Oversight


@dataclass(frozen=True)
class ServiceContext:
    """What services beside the stages of a job work on.

    Args:
        folder: the job's.
        stages: as they run in its application, those that are apart too.
        settings: of streams.

    Example:
        A kind's job makes its services of it:

        ```python
        def services(self, context: ServiceContext) -> Sequence[BackgroundService]:
            return [Ticker(context.folder)]
        ```
    """

    folder: JobFolder
    stages: Sequence[Stage]
    settings: StreamSettings


class Job(Protocol):
    """A declared job of any kind; it reads `topic`, and begins at its end where it is to read the `latest` alone.

    `BaseJob` has all of it but `name`, `topic` and `stages`.

    Example:
        ```python
        def largest(jobs: Sequence[Job]) -> Job:
            return max(jobs, key=lambda job: sum(stage.units for stage in job.stages(1)))
        ```
    """

    @property
    def name(self) -> str: ...

    @property
    def topic(self) -> str: ...

    @property
    def latest(self) -> bool: ...

    @property
    def tracked(self) -> Tracked | None:
        """How its records are tracked; None where they are not."""

    @property
    def backpressure(self) -> Choice:
        """How its back-pressure is, unless something else is chosen."""

    @property
    def opens(self) -> Mapping[str, int]:
        """The topics that clients of the job write to, with their units: made before all else; `topic` may be one."""

    @property
    def results(self) -> str:
        """The topic of results."""

    @property
    def dead(self) -> str:
        """The topic of what could not be used."""

    @property
    def sized(self) -> Mapping[str, str]:
        """The settings that tell how many units topics between stages have, by topic: states depend on them."""

    @property
    def service_topics(self) -> Collection[str]:
        """The topics that its services make for themselves, beside those of its stages."""

    @property
    def chosen_files(self) -> Collection[str]:
        """The files in its folder that hold what people have chosen: a reset keeps them unless it is told otherwise."""

    @property
    def only_from_the_beginning(self) -> str:
        """Why it cannot go back to a savepoint, but to its beginning alone; empty: it can."""

    def stages(self, units: int) -> Sequence[StageSpec]:
        """Its stages, for a topic of so many units. The first one reads `topic`."""

    def prepare(self, folder: JobFolder) -> None:
        """Make the files that the stages look at, where they are not there; raises `InvalidJobError`."""

    def services(self, context: ServiceContext) -> Sequence[BackgroundService]:
        """What works beside its stages as long as its application runs; none of it has been started."""

    def on_rewind(self, folder: JobFolder) -> None:
        """Forget what its folder tells of how far it was: it goes back in time, and is not running."""


class BaseJob:
    """What a job is unless its kind says otherwise: its topics are named after it, what it reads is made by others.

    A kind's class begins with this one, and adds `name`, `topic` and `stages`; most are frozen dataclasses.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class HeightsJob(BaseJob):
        ...     name: str
        ...     topic: str
        ...
        ...     def stages(self, units: int) -> tuple[StageSpec, ...]:
        ...         return (StageSpec("watch", "heights.step:Records", self.topic, units, results=self.results),)
    """

    name: str
    latest: bool = False
    tracked: Tracked | None = None
    backpressure: Choice = USUAL
    only_from_the_beginning: str = ""

    @property
    def opens(self) -> Mapping[str, int]:
        """None."""
        return {}

    @property
    def sized(self) -> Mapping[str, str]:
        """That of acks, where records are tracked."""
        return {} if self.tracked is None else self.tracked.sized

    @property
    def results(self) -> str:
        """The topic of results."""
        return f"{self.name}.results"

    @property
    def dead(self) -> str:
        """The topic of what could not be used."""
        return f"{self.name}.dead"

    @property
    def service_topics(self) -> Collection[str]:
        """None."""
        return ()

    @property
    def chosen_files(self) -> Collection[str]:
        """None."""
        return ()

    def prepare(self, folder: JobFolder) -> None:
        """Make the files of tracking."""
        if self.tracked is not None:
            self.tracked.prepare(folder)

    def services(self, context: ServiceContext) -> Sequence[BackgroundService]:
        """The one that looks after tracking."""
        return [] if self.tracked is None else [Oversight(self.tracked, context.folder, context.stages)]

    def on_rewind(self, folder: JobFolder) -> None:
        """Forget which records are through."""
        if self.tracked is not None:
            self.tracked.begin_anew(folder)


def running_stages(job: Job, units: int, settings: StreamSettings) -> tuple[Stage, ...]:
    """The stages of a job whose topic has so many units, with states and limits as the settings want them."""
    return place_stages(
        job.name, job.stages(units), settings.state_folder, pace=settings.stream_pace,
        spill=str(settings.spill_folder), spill_bytes=settings.stream_spill_bytes, tries=settings.stream_tries,
    )  # fmt: skip


def topics_of_stages(job: Job, units: int) -> dict[str, int]:
    """The topics that a job makes for its stages, with their units, where its own topic has so many.

    What is between stages has the units of the stage that reads it; what others read, those of the one that writes it.
    """
    found: dict[str, int] = {}
    for stage in job.stages(units):
        found[rounds_topic(job.name, stage.name)] = 1
        if stage.inside:
            found[stage.topic] = stage.units
        for topic in (stage.told, stage.results, stage.dead):
            if topic:
                found[topic] = max(stage.units, found.get(topic, 0))
    return found


def check_sizes(job: Job, units: int, log: Log) -> None:
    """Make sure that a job, whose own topic has so many units, has as many units behind it as when it first ran.

    What a unit holds was sent there by their number: with another one, the rest of it would go elsewhere. Raises
    `InvalidJobError`, which names the setting, and what `Log.extents` raises.
    """
    declared = topics_of_stages(job, units)
    for topic, setting in job.sized.items():
        if (there := len(log.extents(topic))) != declared[topic]:
            raise InvalidJobError(
                f"job {job.name!r}: {setting} was {there} when it first ran, and is {declared[topic]} now; write "
                f"{there} again, or let the job begin anew: `{COMMAND} reset {job.name}`"
            )
