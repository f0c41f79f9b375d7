"""What works beside the stages of a job, each in a thread of its own."""

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
    """Works while its context is open: `_work` goes on until `_over` is set, and does each turn in `_trying`.

    `section` is the part of the job's heartbeat that `status` fills; empty: it has none. A turn that fails with an
    error that may pass is tried again; what ends the work ends the application, by `check`.

    Args:
        name: of the thread, for logs and errors.

    Example:
        >>> class Ticker(BackgroundService):
        ...     section, ticks = "ticker", 0
        ...
        ...     def _work(self) -> None:
        ...         while not self._over.wait(0.01):
        ...             with self._trying("a tick"):
        ...                 self.ticks += 1
        ...
        ...     def status(self) -> dict:
        ...         return {"ticks": self.ticks}
        >>> with Ticker("ticker") as ticker:
        ...     ticker.check()
        >>> ticker.trouble
        ''
    """

    section = ""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._over = threading.Event()
        self._troubles: dict[str, str] = {}  # by what was tried
        self._ended: Exception | None = None

    @property
    def trouble(self) -> str:
        """What went wrong last, in words; empty where nothing is wrong."""
        return next((words for words in self._troubles.values() if words), "")

    def status(self) -> dict[str, Any]:
        """How what it looks after is, for the heartbeat; plain values."""
        return {}

    def check(self) -> None:
        """Raise `StreamError` if the work has ended of an error."""
        if (error := self._ended) is not None:
            raise StreamError(f"{self.name} has ended: {type(error).__name__}: {error}") from error

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        """Work; what ends it is logged, and kept for `check`."""
        try:
            self._work()
        except Exception as error:
            logger.exception("%s has ended", self.name)
            self._ended = error

    @abstractmethod
    def _work(self) -> None:
        """What is done."""

    @contextmanager
    def _trying(self, what: str) -> Iterator[None]:
        """A turn: what goes wrong in it is told as `what`, logged where it is new, and the next turn comes.

        The log says of what nobody foresaw where it was, too.
        """
        words, unforeseen = "", None
        try:
            yield
        except (OSError, ValueError, PersistenceError, StreamError) as error:  # a full disk, a broker: they come back
            words = f"{what}: {error}"
        except Exception as error:
            words, unforeseen = f"{what}: {type(error).__name__}: {error}", error
        if words and words != self._troubles.get(what):
            logger.log(logging.ERROR if unforeseen else logging.WARNING, "%s", words, exc_info=unforeseen)
        self._troubles[what] = words
