"""The interface of a stream job of any kind, as its application, commands, routes and DAGs use it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from springline.spark_jobs.streaming.backpressure.config import DEFAULT_CONFIG, BackpressureConfig
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.message_log import TopicSpec
from springline.spark_jobs.streaming.runtime.report_log import ReportSource
from springline.spark_jobs.streaming.runtime.stage import Stage, StageSpec, place_stages
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.tracking.config import TrackingConfig
from springline.spark_jobs.streaming.tracking.monitor import TrackingMonitor


@dataclass(frozen=True)
class ServiceContext:
    """Context that a job's background services are created with.

    Args:
        folder: the job's folder.
        stages: all stages of the job, including those in a second application.
        settings: the settings of streams.
        reports: the newest reports of the stages' units.

    Example:
        A kind's job creates its services:

        ```python
        def services(self, context: ServiceContext) -> Sequence[BackgroundService]:
            return [Ticker(context.folder)]
        ```
    """

    folder: JobFolder
    stages: Sequence[Stage]
    settings: StreamSettings
    reports: ReportSource


class Job(Protocol):
    """A declared job of any kind; it reads `topic`, from the newest messages on if `latest` is true.

    `BaseJob` implements everything except `name`, `topic` and `stages`.

    Example:
        ```python
        def largest(jobs: Sequence[Job]) -> Job:
            return max(jobs, key=lambda job: sum(stage.units for stage in job.stages()))
        ```
    """

    @property
    def name(self) -> str: ...

    @property
    def topic(self) -> str: ...

    @property
    def latest(self) -> bool: ...

    @property
    def tracking(self) -> TrackingConfig | None:
        """How records are tracked; None if they are not."""

    @property
    def backpressure(self) -> BackpressureConfig:
        """The declared back-pressure configuration; the user can override it."""

    @property
    def client_topics(self) -> Mapping[str, int]:
        """Topics that clients of the job write to, with their number of units; created first; may include `topic`."""

    @property
    def results(self) -> str:
        """The topic of results."""

    @property
    def dead_letters(self) -> str:
        """The topic of dead letters."""

    @property
    def service_topics(self) -> Collection[str]:
        """Topics that the job's services create for themselves, in addition to those of its stages."""

    @property
    def user_files(self) -> Collection[str]:
        """Files in the job's folder with choices of users; a reset keeps them unless it is asked to delete them."""

    @property
    def no_savepoint_reason(self) -> str:
        """Why the job cannot be rewound to a savepoint, only to its beginning; empty if it can."""

    def stages(self) -> Sequence[StageSpec]:
        """Return the stages; the first one reads `topic`."""

    def prepare(self, folder: JobFolder) -> None:
        """Create the files that the stages read if they do not exist; raises `InvalidJobError`."""

    def services(self, context: ServiceContext) -> Sequence[BackgroundService]:
        """Return the background services that run for the lifetime of the application, not yet started."""

    def on_rewind(self, folder: JobFolder) -> None:
        """Reset the progress recorded in the folder when the stopped job is rewound."""


class BaseJob:
    """Defaults for a job: topics named after it, the input written by others, no tracking.

    A kind's class derives from it and adds `name`, `topic` and `stages`; most are frozen dataclasses.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class HeightsJob(BaseJob):
        ...     name: str
        ...     topic: str
        ...
        ...     def stages(self) -> tuple[StageSpec, ...]:
        ...         return (StageSpec("watch", "heights.step:Records", self.topic, results=self.results),)
    """

    name: str
    latest: bool = False
    tracking: TrackingConfig | None = None
    backpressure: BackpressureConfig = DEFAULT_CONFIG
    no_savepoint_reason: str = ""

    @property
    def client_topics(self) -> Mapping[str, int]:
        """Return no topics."""
        return {}

    @property
    def results(self) -> str:
        """The topic of results."""
        return f"{self.name}.results"

    @property
    def dead_letters(self) -> str:
        """The topic of dead letters."""
        return f"{self.name}.dead-letters"

    @property
    def service_topics(self) -> Collection[str]:
        """Return no topics."""
        return ()

    @property
    def user_files(self) -> Collection[str]:
        """Return no files."""
        return ()

    def prepare(self, folder: JobFolder) -> None:
        """Create the files of tracking."""
        if self.tracking is not None:
            self.tracking.prepare(folder)

    def services(self, context: ServiceContext) -> Sequence[BackgroundService]:
        """Return the tracking monitor, if records are tracked."""
        return (
            []
            if self.tracking is None
            else [TrackingMonitor(self.tracking, context.folder, context.stages, context.reports)]
        )

    def on_rewind(self, folder: JobFolder) -> None:
        """Reset the low watermarks of tracking."""
        if self.tracking is not None:
            self.tracking.reset_low_watermarks(folder)


def make_stages(job: Job, settings: StreamSettings) -> tuple[Stage, ...]:
    """Return the stages of a job, with limits from the settings."""
    return place_stages(
        job.name, job.stages(), min_round_interval=settings.stream_trigger_interval,
        max_attempts=settings.stream_max_attempts, checkpoint_interval=settings.stream_checkpoint_interval,
    )  # fmt: skip


def topic_specs(job: str, stages: Iterable[StageSpec]) -> list[TopicSpec]:
    """Return the topics that a job creates for its stages; one that several of them use has the most partitions of all.

    Example:
        >>> [topic.name for topic in topic_specs("words", [StageSpec("count", "package.module:Count", "lines")])]
        ['words.count.rounds', 'words.count.reports']
    """
    specs: dict[str, TopicSpec] = {}
    for spec in (spec for stage in stages for spec in stage.topics(job)):
        if spec.name not in specs or spec.partitions > specs[spec.name].partitions:
            specs[spec.name] = spec
    return list(specs.values())


def topics_of_stages(job: Job) -> dict[str, int]:
    """Return the topics that a job creates for its stages, with their number of partitions."""
    return {spec.name: spec.partitions for spec in topic_specs(job.name, job.stages())}
