"""Runs trials of a step in processes of their own, for messages that crash their process or keep it from ending.

Each trial is a fork of a process that was started for them. The worker itself cannot be forked: a fork has its clients
of Kafka without their threads, and dies when it collects them, or waits forever when it reads. What a trial reads of
other topics, the worker reads for it.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

import msgspec

from springline.spark_jobs.streaming.errors import MessageIndependentError
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.step import TopicReader
from springline.spark_jobs.streaming.runtime.worker.poison import Trial, TrialFailure

MakeTrial: TypeAlias = Callable[..., Callable[[Sequence[Message]], str | None]]
"""Makes, from a reader of other topics and further arguments, what is to be tried: it returns why it fails, or None."""

_START_SECONDS = 600.0  # until the process has started: it imports what the worker does, on a busy machine
_TRIAL_SECONDS = 20.0  # for a trial, without what the worker reads for it
_SUSPECT_SECONDS = 60.0  # for each further trial of a message that has ended its process
_SUSPECT_TRIALS = 2  # those
_ORPHAN_SECONDS = 600  # after which a trial ends whose worker is dead


@dataclass(frozen=True, slots=True)
class _Ready:
    """The process has started, or (`child`) a trial has."""

    child: int | None = None


@dataclass(frozen=True, slots=True)
class _Read:
    """What a trial reads of another topic: the arguments of a `TopicReader`."""

    topic: str
    unit: int
    start: int
    to: int


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of a trial that has ended by itself: `error` is why the step fails; or why it cannot be tried."""

    error: str | None
    is_untried: bool = False


@dataclass(frozen=True, slots=True)
class _Ended:
    """The process of a trial has ended with this status."""

    status: int


@contextmanager
def isolated_trials(
    make_trial: MakeTrial, arguments: Sequence[Any], messages: Sequence[Message], read_topic: TopicReader
) -> Iterator[Trial]:
    """Provide trials of some of these messages; `make_trial` and its arguments are pickled.

    Trials raise `MessageIndependentError` if it is not the messages that end their process, and what `read_topic`
    raises.
    """
    context = multiprocessing.get_context("spawn")
    connection, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, make_trial, arguments, _plain(messages)), daemon=True)
    process.start()
    theirs.close()
    try:
        trials = _Trials(connection, read_topic)
        trials.receive(_START_SECONDS)
        yield trials.run
    finally:
        connection.close()
        process.kill()
        process.join()


class _Trials:
    """The worker's side of the connection."""

    def __init__(self, connection: Connection, read_topic: TopicReader) -> None:
        self._connection = connection
        self._read_topic = read_topic

    def run(self, some: Sequence[Message]) -> TrialFailure | None:
        """Try some messages; see `Trial`.

        A message that ends its process alone is tried again, with more time. If it does so each time, no messages at
        all are tried.
        """
        failure = self._run_once(some, _TRIAL_SECONDS)
        if failure is None or not failure.ended_process or len(some) != 1:
            return failure
        for _ in range(_SUSPECT_TRIALS):
            if (repeated := self._run_once(some, _SUSPECT_SECONDS)) is None or not repeated.ended_process:
                return repeated
        if (control := self._run_once((), _SUSPECT_SECONDS)) is not None:
            raise MessageIndependentError(f"trials also fail without messages: {control.reason}")
        return failure

    def _run_once(self, some: Sequence[Message], seconds: float) -> TrialFailure | None:
        self._connection.send([(message.partition, message.offset) for message in some])
        child, outcome, is_late = None, None, False
        until = time.monotonic() + seconds
        while True:
            if not is_late and not self._connection.poll(max(until - time.monotonic(), 0.0)):
                is_late = True
                if child is not None:
                    with suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
            received = self.receive(None if not is_late else _START_SECONDS)
            if isinstance(received, _Read):
                self._connection.send(
                    _plain(self._read_topic(received.topic, received.unit, received.start, received.to))
                )
                until = time.monotonic() + seconds
            elif isinstance(received, _Ready):
                child = received.child
            elif isinstance(received, _Outcome):
                outcome = received
            else:
                break
        if outcome is not None:
            return None if outcome.error is None else TrialFailure(outcome.error)
        if is_late:
            return TrialFailure(f"it did not end within {seconds:g} s", ended_process=True)
        return TrialFailure(f"its process died: {_cause_of_death(received.status)}", ended_process=True)

    def receive(self, seconds: float | None) -> _Ready | _Read | _Outcome | _Ended:
        """Return what the process sends next; raises `MessageIndependentError` if it sends nothing, or an error."""
        try:
            if not self._connection.poll(seconds):
                raise MessageIndependentError(f"its messages could not be tried: no answer within {seconds} s")
            received: _Ready | _Read | _Outcome | _Ended = self._connection.recv()
        except (EOFError, ConnectionError):
            raise MessageIndependentError(
                "its messages could not be tried: the process that tries them has ended; the log of the worker says why"
            ) from None
        if isinstance(received, _Outcome) and received.is_untried:
            raise MessageIndependentError(f"its messages could not be tried: {received.error}")
        return received


def _cause_of_death(status: int) -> str:
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"status {os.WEXITSTATUS(status)}"


def _plain(messages: Iterable[Message]) -> list[Message]:
    """Return messages that can be pickled."""
    return [msgspec.structs.replace(message, value=bytes(message.value)) for message in messages]


# ---- in the process that was started


def _serve(
    connection: Connection, make_trial: MakeTrial, arguments: Sequence[Any], messages: Sequence[Message]
) -> None:
    """Fork a process for each list of partitions and offsets, and say how it has ended."""
    by_place = {(message.partition, message.offset): message for message in messages}

    def read_topic(topic: str, unit: int, start: int, to: int) -> list[Message]:
        connection.send(_Read(topic, unit, start, to))
        received: list[Message] = connection.recv()
        return received

    try:
        trial = make_trial(read_topic, *arguments)
    except BaseException as error:
        connection.send(_Outcome(f"{type(error).__name__}: {error}", is_untried=True))
        return
    connection.send(_Ready())
    gc.freeze()
    with suppress(EOFError):
        while True:
            places = connection.recv()
            child = os.fork()
            if child == 0:
                _run_trial(connection, trial, [by_place[place] for place in places])
            connection.send(_Ended(os.waitpid(child, 0)[1]))


def _run_trial(
    connection: Connection, trial: Callable[[Sequence[Message]], str | None], some: Sequence[Message]
) -> None:
    """Run a trial, send its outcome, and exit without any cleanup."""
    try:
        signal.alarm(_ORPHAN_SECONDS)
        connection.send(_Ready(os.getpid()))
        try:
            outcome = _Outcome(trial(some))
        except BaseException as error:
            outcome = _Outcome(f"{type(error).__name__}: {error}", is_untried=True)
        connection.send(outcome)
    finally:
        os._exit(0)
