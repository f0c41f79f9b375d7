"""Background services of a job, each in its own thread."""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from springline.persistence.errors import PersistenceError
from springline.spark_jobs.streaming.errors import StreamError

logger = logging.getLogger("springline.stream")


class BackgroundService(threading.Thread):
    """Runs while its context is open: `_work` loops until `_stopping` is set, with each iteration in `_trying`.

    `section` is the part of the job's heartbeat that `status` fills; empty: none. An iteration that fails is retried by
    the next one; an error that ends the loop ends the application, through `check`.

    Args:
        name: of the thread, for logs and errors.

    Example:
        >>> class Ticker(BackgroundService):
        ...     section, ticks = "ticker", 0
        ...
        ...     def _work(self) -> None:
        ...         while not self._stopping.wait(0.01):
        ...             with self._trying("a tick"):
        ...                 self.ticks += 1
        ...
        ...     def status(self) -> dict:
        ...         return {"ticks": self.ticks}
        >>> with Ticker("ticker") as ticker:
        ...     ticker.check()
        >>> ticker.last_error
        ''
    """

    section = ""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._stopping = threading.Event()
        self._last_errors: dict[str, str] = {}  # by the description of the attempt
        self._failure: Exception | None = None

    @property
    def last_error(self) -> str:
        """The current error, as text; empty if the last attempts succeeded."""
        return next((message for message in self._last_errors.values() if message), "")

    def status(self) -> dict[str, Any]:
        """Return the status for the heartbeat; plain values."""
        return {}

    def check(self) -> None:
        """Raise `StreamError` if the loop has ended with an error."""
        if (error := self._failure) is not None:
            raise StreamError(f"{self.name} has ended: {type(error).__name__}: {error}") from error

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        self._stopping.set()
        self.join()

    def run(self) -> None:
        """Run the loop; an error that ends it is logged, and stored for `check`."""
        try:
            self._work()
        except Exception as error:
            logger.exception("%s has ended", self.name)
            self._failure = error

    @abstractmethod
    def _work(self) -> None:
        """Loop until `_stopping` is set."""

    @contextmanager
    def _trying(self, what: str) -> Iterator[None]:
        """Run an iteration: an error in it is reported as `what`, logged if it is new, and does not end the loop.

        Unexpected errors are logged with their traceback.
        """
        message, unexpected = "", None
        try:
            yield
        except (OSError, ValueError, PersistenceError, StreamError) as error:  # transient, as a full disk
            message = f"{what}: {error}"
        except Exception as error:
            message, unexpected = f"{what}: {type(error).__name__}: {error}", error
        if message and message != self._last_errors.get(what):
            logger.log(logging.ERROR if unexpected else logging.WARNING, "%s", message, exc_info=unexpected)
        self._last_errors[what] = message
