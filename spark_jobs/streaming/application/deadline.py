"""A bound on how long an application takes to end: what it closes may wait for servers that are gone."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from springline.spark_jobs.streaming.runtime.thread_dump import ask_for_stacks

logger = logging.getLogger("springline.stream")


class Deadline:
    """Kills this process, and all that it has started, where its context is still open so many seconds later."""

    def __init__(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, _kill, (seconds,))
        self._timer.daemon = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    @contextmanager
    def after(self) -> Iterator[None]:
        """The seconds count from the end of this context, however it ends."""
        try:
            yield
        finally:
            self._timer.start()


def _kill(seconds: float) -> None:
    logger.error("it has not ended within %g s, and is killed; where each thread is:", seconds)
    ask_for_stacks(os.getpid())
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
