"""Finds the messages of a round that make its step fail, by trials with subsets.

Bisection tries halves separately, so a round of a thousand messages with one failing message takes twenty trials.
Messages that fail only in combination are found afterwards: the last message of the shortest failing prefix.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Sequence

from springline.spark_jobs.streaming.errors import MessageIndependentError
from springline.spark_jobs.streaming.runtime.step import Message

Trial = Callable[[Sequence[Message]], str | None]  # returns why a step fails with these messages; None if it does not

_MIN_POISON = 10  # failing messages that are accepted in any case
_TIMEOUT_SECONDS = 20.0  # seconds, for a trial in a subprocess
_WORKS, _FAILS, _CANNOT = b"0", b"1", b"2"  # the first byte of its report


def find_poison(messages: Sequence[Message], trial: Trial) -> dict[int, str]:
    """Return the offsets of the messages that make a step fail, with the error of each; without them it does not fail.

    Raises `MessageIndependentError` if it fails without any messages, or with more than half of them (and more than
    `_MIN_POISON`): then the messages are not the cause.
    """
    if (error := trial(())) is not None:
        raise MessageIndependentError(f"it also fails without messages: {error}")
    errors: dict[int, str] = {}

    def mark_poison(message: Message, error: str) -> None:
        errors[message.offset] = error
        if len(errors) > max(_MIN_POISON, len(messages) // 2):
            first = min(errors)
            raise MessageIndependentError(
                f"it fails on more than half of its {len(messages)} messages; at offset {first}: {errors[first]}"
            )

    def halve(some: Sequence[Message]) -> None:
        if not some or (error := trial(some)) is None:
            return
        if len(some) == 1:
            mark_poison(some[0], error)
        else:
            half = len(some) // 2
            halve(some[:half])
            halve(some[half:])

    halve(messages)
    remaining = [message for message in messages if message.offset not in errors]
    while (error := trial(remaining)) is not None:
        good, bad = 0, len(remaining)
        while bad - good > 1:
            middle = (good + bad) // 2
            if (other := trial(remaining[:middle])) is None:
                good = middle
            else:
                bad, error = middle, other
        mark_poison(remaining.pop(bad - 1), error)
    return dict(sorted(errors.items()))


def in_subprocess(trial: Trial) -> Trial:
    """Run each trial in a subprocess, for steps that crash their process or do not terminate."""

    def run(some: Sequence[Message]) -> str | None:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _report_trial(trial, some, writing)
        os.close(writing)
        try:
            return _read_trial(child, reading)
        finally:
            os.close(reading)

    return run


def _report_trial(trial: Trial, some: Sequence[Message], writing: int) -> None:
    """Run a trial in the child, write its result, and exit without cleanup of resources of the parent."""
    try:
        error = trial(some)
        report = _WORKS if error is None else _FAILS + error.encode(errors="replace")
    except BaseException as error:
        report = _CANNOT + f"{type(error).__name__}: {error}".encode(errors="replace")
    os.write(writing, report[: select.PIPE_BUF])
    os._exit(0)


def _read_trial(child: int, reading: int) -> str | None:
    """Read the result of a child; raises `MessageIndependentError` if it could not run the trial at all."""
    ready, _, _ = select.select([reading], [], [], _TIMEOUT_SECONDS)
    if not ready:
        os.kill(child, signal.SIGKILL)
    report = os.read(reading, select.PIPE_BUF)
    _, status = os.waitpid(child, 0)
    if not ready:
        return f"it did not end within {_TIMEOUT_SECONDS:g} s"
    if not report:
        return f"its process died: {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else "it died"
    kind, message = report[:1], report[1:].decode(errors="replace")
    if kind == _CANNOT:
        raise MessageIndependentError(message)
    return message if kind == _FAILS else None
