"""Stages of a job in a second Spark application: a topology may cross several.

The job's application starts the other one and looks after it. Where either ends, so does the other, and whoever keeps
the job running starts both again.
"""

from __future__ import annotations

import subprocess
import sys
from types import TracebackType
from typing import Self

from springline.spark_jobs.streaming.errors import StreamError

_PATIENCE = 60.0  # seconds until it has ended by itself


class Apart:
    """The other application of a job, in the same process group: whoever ends the one with all it started ends both."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, *sys.orig_argv[1:], "--apart"]  # as this one was started
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        return self

    def check(self) -> None:
        """Raises `StreamError` where it has failed; it ends without when the job is asked to stop."""
        assert self._process is not None
        if self._process.poll():
            raise StreamError(f"{self._job}: the application of its stages apart has failed; the log tells why")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait until it has ended; where the job has failed, it does not wait."""
        assert self._process is not None
        if kind is not None:
            self._process.kill()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
