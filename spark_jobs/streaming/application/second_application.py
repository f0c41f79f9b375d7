"""Runs stages of a job in a second Spark application, since a topology may span several.

The job's application starts and supervises the other one. If either ends, so does the other, and the supervisor of the
job restarts both.
"""

from __future__ import annotations

import subprocess
import sys
from types import TracebackType
from typing import Self

from springline.spark_jobs.streaming.errors import StreamError

_TIMEOUT_SECONDS = 60.0  # seconds to wait for its end before it is killed


class SecondApplication:
    """The second application of a job, in the same process group: killing one with its family kills both."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, *sys.orig_argv[1:], "--second-application"]  # with the command line of this one
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        return self

    def check(self) -> None:
        """Raise `StreamError` if it has failed; ending after the job was asked to stop is no failure."""
        assert self._process is not None
        if self._process.poll():
            raise StreamError(f"{self._job}: its second application has failed; the reason is in the log")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait until it has ended; if the job has failed, kill it."""
        assert self._process is not None
        if kind is not None:
            self._process.kill()
        try:
            self._process.wait(_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
