"""A job as its application sees it: which stages run, and what they look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from springline.spark_jobs.streaming.backpressure.config import Choice
from springline.spark_jobs.streaming.errors import BadJob
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.message_log import Log
from springline.spark_jobs.streaming.runtime.stage import COMMAND, Part
from springline.spark_jobs.streaming.tracking.config import Tracked


class OwnTopics:
    """The topics of a job that are named after it; what it reads is made by others."""

    name: str

    @property
    def opens(self) -> Mapping[str, int]:
        """None."""
        return {}

    @property
    def sized(self) -> Mapping[str, str]:
        """None."""
        return {}

    @property
    def results(self) -> str:
        """The topic of results."""
        return f"{self.name}.results"

    @property
    def dead(self) -> str:
        """The topic of what could not be used."""
        return f"{self.name}.dead"


class Job(Protocol):
    """A declared job of any kind; it reads `topic`, and begins at its end where it is to read the `latest` alone."""

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

    def topics(self, units: int) -> Mapping[str, int]:
        """The topics that the job makes for itself, with their units, where its own has so many."""

    def parts(self, units: int, state: Path) -> Sequence[Part]:
        """Its stages, for a topic of so many units; states lie below `state`. The first one reads `topic`."""

    def prepare(self, folder: JobFolder) -> None:
        """Make the files that the parts look at, where they are not there."""


def check_sizes(job: Job, units: int, log: Log) -> None:
    """Make sure that a job, whose own topic has so many units, has as many units behind it as when it first ran.

    What a unit holds was sent there by their number: with another one, the rest of it would go elsewhere. Raises
    `BadJob`, which names the setting, and what `Log.extents` raises.
    """
    declared = job.topics(units)
    for topic, setting in job.sized.items():
        if (there := len(log.extents(topic))) != declared[topic]:
            raise BadJob(
                f"job {job.name!r}: {setting} was {there} when it first ran, and is {declared[topic]} now; write "
                f"{there} again, or let the job begin anew: `{COMMAND} reset {job.name}`"
            )
