"""Resets a stopped job: finds everything that it keeps, lists it, and deletes it, so that the job starts from scratch.

The topic that it reads stays, and so do the choices of users: its queries and its back-pressure mode. Results of range
queries stay too, since they depend only on the topic that it reads.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from springline.persistence.model.dataset import Dataset, Phase
from springline.persistence.platform import Platform
from springline.persistence.text.formatting import format_bytes, format_count
from springline.spark_jobs.streaming.backpressure import config
from springline.spark_jobs.streaming.backpressure.control_topic import control_topic
from springline.spark_jobs.streaming.job import Job, topics_of_stages
from springline.spark_jobs.streaming.job_folder import LOCK, LOG, JobFolder
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.topic_union import topics_of
from springline.spark_jobs.streaming.settings import StreamSettings

_MAX_DATASETS = 1_000_000  # datasets of a job, at most
_RETAINED_FILES = (LOCK, LOG, *config.FILES)  # files in its folder that a reset keeps
_DATASET_KINDS = {"savepoints": "savepoint", "results": "result dataset"}  # by folder below `streams/JOB`; else states


@dataclass(frozen=True)
class JobFootprint:
    """Everything that a job keeps: its own topics, state folders, datasets, and files and folders in its own folder."""

    job: str
    topics: tuple[str, ...] = ()
    states: tuple[Path, ...] = ()
    datasets: tuple[Dataset, ...] = ()
    files: tuple[Path, ...] = ()

    def describe(self) -> list[str]:
        """Return a line for each kind of thing that exists."""
        lines = []
        if self.topics:
            lines.append(f"{format_count(len(self.topics), 'topic')}: {', '.join(self.topics)}")
        lines += [f"states in {folder}: {format_bytes(_bytes_in(folder))}" for folder in self.states]
        if self.datasets:
            kinds = Counter(self._kind(dataset) for dataset in self.datasets)
            counts = ", ".join(format_count(number, kind) for kind, number in sorted(kinds.items()))
            size = format_bytes(sum(dataset.bytes for dataset in self.datasets))
            lines.append(f"in the catalog, below streams/{self.job}: {counts}; {size}")
        if self.files:
            lines.append(f"in {self.files[0].parent}: {', '.join(path.name for path in self.files)}")
        return lines

    def _kind(self, dataset: Dataset) -> str:
        return _DATASET_KINDS.get(dataset.ref.path.split("/")[2], "saved state")


def find_footprint(
    job: Job,
    folder: JobFolder,
    settings: StreamSettings,
    platform: Platform,
    log: Kafka,
    *,
    include_user_files: bool = False,
) -> JobFootprint:
    """Return what a job keeps now; `include_user_files` adds files that users have chosen, such as queries."""
    prefix = f"streams/{job.name}/"
    datasets = platform.catalog.find(prefix=prefix, phase=Phase.COMMITTED, limit=_MAX_DATASETS)
    retained_files = {*_RETAINED_FILES, *(() if include_user_files else job.user_files)}
    return JobFootprint(
        job.name,
        tuple(sorted(job_topics(job) & log.all_topics())),
        tuple(path for path in _state_folders(job, settings) if path.is_dir()),
        tuple(dataset for dataset in datasets if not dataset.ref.path.startswith(f"{prefix}ranges/")),
        tuple(path for path in sorted(folder.path.glob("*")) if path.name not in retained_files),
    )


def job_topics(job: Job) -> frozenset[str]:
    """Return the topics that a job creates for itself, including its topic of results."""
    topics = {*topics_of_stages(job), *job.service_topics}
    topics.add(control_topic(job.name))  # which exists if stages of the job ever ran in a second application
    return frozenset(topics - {*topics_of(job.topic), *job.client_topics})


def readers_of(topics: Collection[str], jobs: Iterator[Job]) -> list[str]:
    """Return the names of those jobs that read one of `topics`."""
    return [job.name for job in jobs if not set(topics_of(job.topic)).isdisjoint(topics)]


def reset_job(footprint: JobFootprint, platform: Platform, log: Kafka) -> None:
    """Delete everything in the footprint; no application of the job may run.

    Raises `LogUnavailableError`, and `TransitionError` if a dataset is in use. The reset can be repeated for what is
    left then; the rounds log is deleted last, so that the job counts as having run until everything is deleted.
    """
    for dataset in footprint.datasets:
        platform.maintenance.discard(dataset.ref, f"the stream {footprint.job} was reset")
    for folder in footprint.states:
        shutil.rmtree(folder)
    for path in footprint.files:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    log.remove(footprint.topics)


def _state_folders(job: Job, settings: StreamSettings) -> tuple[Path, Path]:
    return settings.state_folder / job.name, settings.spill_folder / job.name


def _bytes_in(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
