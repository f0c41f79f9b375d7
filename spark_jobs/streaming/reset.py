"""Forgets a stopped job: finds all that it keeps, tells it, and deletes it, so that the job begins anew.

What it reads stays, and so does what people have chosen: its queries, and its back-pressure. Answers over ranges stay
too, since they were made from what it reads alone.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from springline.persistence.model.dataset import Dataset, Phase
from springline.persistence.platform import Platform
from springline.persistence.text.formatting import counted, say_bytes
from springline.spark_jobs.streaming.backpressure import config
from springline.spark_jobs.streaming.backpressure.control_topic import control_topic
from springline.spark_jobs.streaming.job import Job, topics_of_stages
from springline.spark_jobs.streaming.job_folder import LOCK, LOG, JobFolder
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.kafka.topic_union import topics_of
from springline.spark_jobs.streaming.settings import StreamSettings

_MOST = 1_000_000  # datasets of a job
_STAY = (LOCK, LOG, *config.FILES)  # in its folder
_WORDS = {"savepoints": "savepoint", "results": "result dataset"}  # what lies below `streams/JOB`; else states


@dataclass(frozen=True)
class Kept:
    """What a job keeps: its own topics, folders of states, datasets, and files and folders in its own folder."""

    job: str
    topics: tuple[str, ...] = ()
    states: tuple[Path, ...] = ()
    datasets: tuple[Dataset, ...] = ()
    files: tuple[Path, ...] = ()

    def say(self) -> list[str]:
        """A line for each kind of thing that is there."""
        lines = []
        if self.topics:
            lines.append(f"{counted(len(self.topics), 'topic')}: {', '.join(self.topics)}")
        lines += [f"states in {folder}: {say_bytes(_bytes_in(folder))}" for folder in self.states]
        if self.datasets:
            kinds = Counter(self._kind(dataset) for dataset in self.datasets)
            told = ", ".join(counted(number, kind) for kind, number in sorted(kinds.items()))
            size = say_bytes(sum(dataset.bytes for dataset in self.datasets))
            lines.append(f"in the catalog, below streams/{self.job}: {told}; {size}")
        if self.files:
            lines.append(f"in {self.files[0].parent}: {', '.join(path.name for path in self.files)}")
        return lines

    def _kind(self, dataset: Dataset) -> str:
        return _WORDS.get(dataset.ref.path.split("/")[2], "saved state")


def kept_by(
    job: Job, folder: JobFolder, settings: StreamSettings, platform: Platform, log: Kafka, *, chosen: bool = False
) -> Kept:
    """What a job keeps at this moment, with what people have `chosen`, such as queries, where that goes too."""
    prefix = f"streams/{job.name}/"
    datasets = platform.catalog.find(prefix=prefix, phase=Phase.COMMITTED, limit=_MOST)
    stay = {*_STAY, *(() if chosen else job.chosen_files)}
    return Kept(
        job.name,
        tuple(sorted(own_topics(job) & log.all_topics())),
        tuple(path for path in _state_folders(job, settings) if path.is_dir()),
        tuple(dataset for dataset in datasets if not dataset.ref.path.startswith(f"{prefix}ranges/")),
        tuple(path for path in sorted(folder.path.glob("*")) if path.name not in stay),
    )


def own_topics(job: Job) -> frozenset[str]:
    """The topics that a job makes for itself; whoever reads its results reads one of them."""
    own = {*topics_of_stages(job, 1), *job.service_topics}
    own.add(control_topic(job.name))  # which is there where stages of the job have ever been apart
    return frozenset(own - {*topics_of(job.topic), *job.opens})


def readers_of(topics: Collection[str], jobs: Iterator[Job]) -> list[str]:
    """The names of those jobs that read one of some topics."""
    return [job.name for job in jobs if not set(topics_of(job.topic)).isdisjoint(topics)]


def forget(kept: Kept, platform: Platform, log: Kafka) -> None:
    """Delete all of it; no application of the job may run.

    Raises `LogUnavailableError`, and `TransitionError` where a dataset is needed. What is left then can be forgotten
    anew; the rounds log goes last, so that the job does not take itself for one that never ran until all is gone.
    """
    for dataset in kept.datasets:
        platform.maintenance.discard(dataset.ref, f"the stream {kept.job} was forgotten")
    for folder in kept.states:
        shutil.rmtree(folder)
    for path in kept.files:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    log.remove(kept.topics)


def _state_folders(job: Job, settings: StreamSettings) -> tuple[Path, Path]:
    return settings.state_folder / job.name, settings.spill_folder / job.name


def _bytes_in(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
