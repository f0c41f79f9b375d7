"""The ring of a job as a file in its folder: looked at, and changed by one at a time, while the job runs or not."""

from __future__ import annotations

from collections.abc import Callable

from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import read_json, write_json
from springline.spark_jobs.streaming.tracking.config import RING, Tracked
from springline.spark_jobs.streaming.tracking.ring import Epochs


def ring_of(folder: JobFolder, tracked: Tracked) -> Epochs:
    """The rings so far; before the job's first start, the one that it is declared with."""
    path = folder.path / RING
    told = read_json(path)
    if told is None:
        return Epochs.of(range(tracked.ackers), tracked.room)
    return Epochs.from_json(told, f"{path}: the ring of a job")


def change_ring(folder: JobFolder, tracked: Tracked, change: Callable[[Epochs], Epochs]) -> Epochs:
    """Go on with another ring from the next rounds on; a change that raises changes nothing."""
    with folder.locked("ring.lock"):
        changed = change(ring_of(folder, tracked))
        write_json(folder.path / RING, changed.as_json())
        return changed
