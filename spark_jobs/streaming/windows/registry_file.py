"""The queries of a job in its folder: changed by users, read by the planner."""

from __future__ import annotations

from collections.abc import Callable

from springline.persistence.model.codec import from_plain, plain
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import read_json, write_json
from springline.spark_jobs.streaming.windows.registry import Registry

REGISTRY, _LOCK = "registry.json", "registry.lock"
QUERIES = (REGISTRY, _LOCK)  # the files of the queries


def read_registry(folder: JobFolder) -> Registry | None:
    """The queries as they are now; None before the job first started. Raises `DecodeError`."""
    path = folder.path / REGISTRY
    value = read_json(path)
    return None if value is None else from_plain(Registry, value, f"{path}: the queries of a job")


def change_registry(folder: JobFolder, change: Callable[[Registry | None], Registry]) -> Registry:
    """Change the queries; one change at a time, whoever makes it. A change that raises changes nothing."""
    with folder.locked(_LOCK):
        changed = change(read_registry(folder))
        write_json(folder.path / REGISTRY, plain(changed))
        return changed
