"""Answers questions to the states of a worker's units, in a thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from springline.persistence.monitoring.logs import log_context
from springline.spark_jobs.streaming.errors import MissingStateError, StreamError
from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes, split_batches
from springline.spark_jobs.streaming.runtime.message_log import MessageLog
from springline.spark_jobs.streaming.runtime.queryable_state import Question, Reply
from springline.spark_jobs.streaming.runtime.stage import StateQuery
from springline.spark_jobs.streaming.runtime.worker.unit import StageWorker

logger = logging.getLogger("springline.unit")

_LOOK_BACK_SECONDS = 10.0  # for questions from before a worker has started
_WAIT_SECONDS = 5.0  # for the next question, at once
_RETRY_SECONDS = 1.0  # after the log has failed
_TRIES = 5  # a version may be pruned before it is read


class StateServer:
    """Answers questions for the units that a worker ran last, as long as its process lives.

    Args:
        worker: the worker of the stage.
        state_query: computes the answer from a state.
        open_log: opens a log for its thread.
    """

    def __init__(self, worker: StageWorker, state_query: StateQuery, open_log: Callable[[], MessageLog]) -> None:
        self._worker = worker
        self._state_query = state_query
        self._open_log = open_log
        self._units: Sequence[int] = ()
        self._thread: threading.Thread | None = None

    def serve(self, units: Sequence[int]) -> None:
        """Answer for these units from now on."""
        self._units = tuple(units)
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="state-server", daemon=True)
            self._thread.start()

    def replies(self, question: Question) -> Iterator[Reply]:
        """Yield the replies of the units; none of a unit that has not completed a round here, or cannot answer."""
        for unit in self._units:
            stage = self._worker.stage
            with log_context(job=stage.job, stage=stage.name, unit=unit):
                try:
                    yield from self._replies_of(unit, question)
                except Exception as error:  # of the question: its sender waits, and others are to be answered
                    logger.error("%s[%s]: a question to its state failed: %s", stage.id, unit, error)

    def _replies_of(self, unit: int, question: Question) -> Iterator[Reply]:
        for _ in range(_TRIES):
            if (round_id := self._worker.reported_round(unit)) is None:
                return
            with suppress(MissingStateError):
                state = self._worker.states.store(unit).load(*round_id).state
                batches = self._state_query(state, question.content)
                parts = [arrow_bytes(part) for part in split_batches(batches)] or [b""]
                for number, part in enumerate(parts):
                    yield Reply(question.id, unit, round_id, number, len(parts), part)
                return

    def _serve(self) -> None:
        topic = self._worker.stage.state_requests
        log, offset = self._open_log(), None
        while True:
            try:
                if offset is None:
                    offset = log.offsets_for_time(topic, time.time() - _LOOK_BACK_SECONDS)[0]
                for message in log.follow(topic, 0, offset, _WAIT_SECONDS):
                    offset = message.offset + 1
                    question = Question.of(message)
                    if question is not None and time.time() < question.until:
                        with log.record_sender() as record_sender:
                            for reply in self.replies(question):
                                record_sender.send(reply.as_record(self._worker.stage))
            except StreamError as error:  # questions were deleted, or Kafka does not answer
                logger.warning("%s: %s", topic, error)
                offset = None
                time.sleep(_RETRY_SECONDS)
