"""The file with the queries of a job, in the job's folder: users change it, the planner reads it."""

from __future__ import annotations

from collections.abc import Callable

from springline.persistence.model.codec import from_json_value, to_json_value
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import read_json, write_json
from springline.spark_jobs.streaming.windows.registry import QueryRegistry

REGISTRY, _LOCK = "registry.json", "registry.lock"
QUERIES = (REGISTRY, _LOCK)  # the files of the queries


def read_registry(folder: JobFolder) -> QueryRegistry | None:
    """Read the current queries; None before the job's first start. Raises `DecodeError`."""
    path = folder.path / REGISTRY
    value = read_json(path)
    return None if value is None else from_json_value(QueryRegistry, value, f"{path}: the queries of a job")


def change_registry(folder: JobFolder, change: Callable[[QueryRegistry | None], QueryRegistry]) -> QueryRegistry:
    """Change the queries under a lock, one change at a time; if `change` raises, nothing is changed."""
    with folder.lock(_LOCK):
        changed = change(read_registry(folder))
        write_json(folder.path / REGISTRY, to_json_value(changed))
        return changed
