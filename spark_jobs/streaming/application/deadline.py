"""A time limit for the end of an application, since closing its resources may block on servers that do not answer."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from springline.spark_jobs.streaming.runtime.thread_dump import request_thread_dump

logger = logging.getLogger("springline.stream")


class Deadline:
    """Kills this process, and all that it has started, if its context is still open after `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, _kill, (seconds,))
        self._timer.daemon = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    @contextmanager
    def after(self) -> Iterator[None]:
        """Start the timer at the end of this context, however it ends."""
        try:
            yield
        finally:
            self._timer.start()


def _kill(seconds: float) -> None:
    logger.error("it has not ended within %g s and is killed; stacks of its threads:", seconds)
    request_thread_dump(os.getpid())
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
