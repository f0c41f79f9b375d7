"""The fault of the demo: the application of a stream is killed with its states, and every copy in the cache deleted."""

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
from springline.spark_jobs.streaming.application.status import Seen


def group_of(seen: Seen) -> int:
    """The process group of a job's application, which is killed; raises `ServiceError` if it is not known for sure."""
    again = "run `make demo` first, which starts it"
    if seen.pid is None or not seen.works:
        raise ServiceError(f"the stream {seen.job} is {seen.state}, not at work: {again}")
    try:
        command, group = psutil.Process(seen.pid).cmdline(), os.getpgid(seen.pid)
    except (psutil.Error, ProcessLookupError) as error:
        raise ServiceError(
            f"the application of the stream {seen.job}, process {seen.pid}, has ended: {again}"
        ) from error
    if command[-3:] != ["stream", "run", seen.job]:
        raise ServiceError(f"process {seen.pid} is not the application of {seen.job} but {' '.join(command)[:200]}")
    if group != seen.pid:
        raise ServiceError(f"the application of {seen.job} shares the process group {group} with others: {again}")
    return group


def lose(folder: Path) -> None:
    """Delete a folder at once: whoever writes meanwhile writes to a new one."""
    gone = folder.with_name(f"gone-{uuid.uuid4().hex}")
    with suppress(FileNotFoundError):  # lost already, and not there again
        folder.rename(gone)
        shutil.rmtree(gone)


def wipe(cache: Backend) -> int:
    """Delete every copy of a dataset in the cache, past the catalog; how many there were. Raises `ServiceError`."""
    try:
        copies = list(cache.copies())
        for location in copies:
            cache.delete(location)
    except StorageUnavailableError as error:
        raise ServiceError(f"the cache cannot be wiped: {error}") from error
    return len(copies)
