"""Completeness of a range of a source: whether the low watermarks have passed all of its records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from springline.persistence.model.codec import from_json_value
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import read_json
from springline.spark_jobs.streaming.tracking.config import LOW_WATERMARKS
from springline.spark_jobs.streaming.tracking.errors import TrackingError


class NotTrackedError(TrackingError):
    """The job has not tracked anything yet."""


@dataclass(frozen=True)
class Completeness:
    """Progress of a range: by partition, the target offset and the low watermark."""

    target_offsets: Mapping[int, int]
    low_watermarks: Mapping[int, int]

    @property
    def is_complete(self) -> bool:
        """Whether every record before the target offsets is finished: fully processed, or failed for good."""
        return not self.missing

    @property
    def missing(self) -> dict[int, int]:
        """Messages that are not completed, by partition; empty if all are."""
        left = {
            partition: offset - self.low_watermarks.get(partition, 0)
            for partition, offset in self.target_offsets.items()
        }
        return {partition: count for partition, count in sorted(left.items()) if count > 0}

    def describe(self) -> str:
        """Return the progress in words."""
        if self.is_complete:
            return "all completed"
        return ", ".join(f"{count:,} messages of partition {partition}" for partition, count in self.missing.items())


@dataclass(frozen=True, slots=True)
class _StoredLowWatermarks:
    """The offsets below which everything is completed, by partition."""

    low_watermarks: Mapping[int, int]


def completeness_of(folder: JobFolder, target_offsets: Mapping[int, int]) -> Completeness:
    """Return the progress of the messages before these offsets; raises `NotTrackedError`, `DecodeError`."""
    path = folder.path / LOW_WATERMARKS
    if (payload := read_json(path)) is None:
        raise NotTrackedError(f"{folder.path.name}: no records have been tracked yet; start it first")
    return Completeness(
        target_offsets,
        from_json_value(_StoredLowWatermarks, payload, f"{path}: the low watermarks of a job").low_watermarks,
    )
