"""The fault of the demo: kills a stream's application, and deletes its states and every copy in the cache."""

from __future__ import annotations

import os
import shutil
import uuid
from contextlib import suppress
from pathlib import Path

import psutil

from springline.persistence.backends.spec import Backend
from springline.persistence.errors import StorageUnavailableError
from springline.services.errors import ServiceError
from springline.spark_jobs.streaming.application.status import JobStatus


def group_of(stream_status: JobStatus) -> int:
    """Return the process group of a job's application, to be killed; raises `ServiceError` if it is not certain."""
    remedy = "run `make demo` first to start it"
    if stream_status.pid is None or not stream_status.is_ready:
        raise ServiceError(f"the stream {stream_status.job} is {stream_status.state}, not running: {remedy}")
    try:
        command, group = psutil.Process(stream_status.pid).cmdline(), os.getpgid(stream_status.pid)
    except (psutil.Error, ProcessLookupError) as error:
        raise ServiceError(
            f"the application of the stream {stream_status.job}, process {stream_status.pid}, has ended: {remedy}"
        ) from error
    if command[-3:] != ["stream", "run", stream_status.job]:
        raise ServiceError(
            f"process {stream_status.pid} is not the application of {stream_status.job}, but {' '.join(command)[:200]}"
        )
    if group != stream_status.pid:
        raise ServiceError(
            f"the application of {stream_status.job} shares the process group {group} with others: {remedy}"
        )
    return group


def delete_folder(folder: Path) -> None:
    """Delete a folder atomically, by renaming it first: concurrent writers write to a new one."""
    trash = folder.with_name(f"gone-{uuid.uuid4().hex}")
    with suppress(FileNotFoundError):  # it does not exist
        folder.rename(trash)
        shutil.rmtree(trash)


def wipe_cache(cache: Backend) -> int:
    """Delete every copy of a dataset in the cache, bypassing the catalog; returns their number.

    Raises `ServiceError`.
    """
    try:
        copies = list(cache.copies())
        for location in copies:
            cache.delete(location)
    except StorageUnavailableError as error:
        raise ServiceError(f"the cache cannot be wiped: {error}") from error
    return len(copies)
