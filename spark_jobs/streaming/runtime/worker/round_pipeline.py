"""Overlaps rounds in a task: the step of a round runs while the round before is sent and its state is written.

    step     | round 1 | round 2 | round 3 |
    commit             | round 1 | round 2 | round 3 |

A thread commits rounds in the order in which their steps have run. Rounds of several units that wait for it are sent
together.
"""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType
from typing import Self

from springline.spark_jobs.streaming.runtime.worker.unit import RoundEntry, StageWorker


class RoundPipeline:
    """Commits the rounds of a worker in a thread while its context is open; the end waits until all are committed.

    An error ends the thread: `submit` and the end of the context raise it. Steps that begin after it may fail for want
    of the state that was not written, so it is raised instead of their errors.
    """

    def __init__(self, worker: StageWorker) -> None:
        self._worker = worker
        self._waiting: deque[RoundEntry] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._commit_rounds, name="commit", daemon=True)

    def submit(self, entry: RoundEntry) -> None:
        """Commit a round after all that were submitted before; raises the error of an earlier one."""
        with self._changed:
            self._raise_error()
            self._waiting.append(entry)
            self._changed.notify()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()
        if error is None or isinstance(error, Exception):
            self._raise_error()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _commit_rounds(self) -> None:
        while rounds := self._next_rounds():
            try:
                self._worker.commit(rounds)
            except BaseException as error:
                with self._changed:
                    self._error = error
                return

    def _next_rounds(self) -> list[RoundEntry]:
        """Wait for rounds, and return the next ones, of different units; empty at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            rounds: list[RoundEntry] = []
            while self._waiting and self._waiting[0].unit not in {each.unit for each in rounds}:
                rounds.append(self._waiting.popleft())
            return rounds
