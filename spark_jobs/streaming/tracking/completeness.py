"""Whether all records of a range of a source are through: by the low-water marks, below which nothing is unfinished."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from springline.persistence.model.codec import from_plain
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import read_json
from springline.spark_jobs.streaming.tracking.config import LOW
from springline.spark_jobs.streaming.tracking.errors import TrackingError


class NotTrackedError(TrackingError):
    """A job that has not tracked anything yet."""


@dataclass(frozen=True)
class Completeness:
    """How far a range is through: by partition, the offset that is wanted and the mark."""

    wanted: Mapping[int, int]
    marks: Mapping[int, int]

    @property
    def through(self) -> bool:
        """Whether every record before the wanted offsets is finished: processed to the end, or given up."""
        return not self.missing

    @property
    def missing(self) -> dict[int, int]:
        """Messages that are not through, by partition; empty if all are."""
        left = {partition: offset - self.marks.get(partition, 0) for partition, offset in self.wanted.items()}
        return {partition: count for partition, count in sorted(left.items()) if count > 0}

    def say(self) -> str:
        """In words."""
        if self.through:
            return "all through"
        return ", ".join(f"{count:,} messages of partition {partition}" for partition, count in self.missing.items())


@dataclass(frozen=True, slots=True)
class _Marks:
    """The offsets below which all is through, by partition."""

    lows: Mapping[int, int]


def completeness_of(folder: JobFolder, wanted: Mapping[int, int]) -> Completeness:
    """How far the messages before these offsets are; raises `NotTrackedError`, `DecodeError`."""
    path = folder.path / LOW
    if (told := read_json(path)) is None:
        raise NotTrackedError(f"{folder.path.name}: it has tracked nothing yet; start it first")
    return Completeness(wanted, from_plain(_Marks, told, f"{path}: the marks of a job").lows)
