"""The ring of a job as a file in its folder: read, and changed under a lock, whether the job runs or not."""

from __future__ import annotations

from collections.abc import Callable

from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import read_json, write_json
from springline.spark_jobs.streaming.tracking.config import RING, TrackingConfig
from springline.spark_jobs.streaming.tracking.ring import RingHistory


def read_ring_history(folder: JobFolder, config: TrackingConfig) -> RingHistory:
    """Return the rings so far; before the job's first start, the one of its declaration."""
    path = folder.path / RING
    payload = read_json(path)
    if payload is None:
        return RingHistory.of(range(config.ackers), config.max_ackers)
    return RingHistory.from_json(payload, f"{path}: the ring of a job")


def change_ring(folder: JobFolder, config: TrackingConfig, change: Callable[[RingHistory], RingHistory]) -> RingHistory:
    """Change the ring from the next rounds on; if `change` raises, nothing is changed."""
    with folder.lock("ring.lock"):
        changed = change(read_ring_history(folder, config))
        write_json(folder.path / RING, changed.as_json())
        return changed
