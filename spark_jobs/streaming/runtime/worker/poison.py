"""Finds the messages of a round with which its step fails, by trying the round with some of them.

Halves are tried apart from each other, so a round of a thousand messages with one that fails takes twenty tries. What
fails only together with others is found afterwards: the last message of the shortest beginning that fails.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Sequence

from springline.spark_jobs.streaming.errors import MessageIndependentError
from springline.spark_jobs.streaming.runtime.step import Message

Trial = Callable[[Sequence[Message]], str | None]  # why a step fails with these messages; None: it does not

_SOME = 10  # messages that may fail, however few there are
_PATIENCE = 20.0  # seconds, for a trial in a process of its own
_WORKS, _FAILS, _CANNOT = b"0", b"1", b"2"  # what such a process says first


def poison_in(messages: Sequence[Message], trial: Trial) -> dict[int, str]:
    """The offsets of the messages with which a step fails, with the error of each; without them it does not.

    Raises `MessageIndependentError` where it fails without any of them, or with more than half of them (and more than a
    few): then it is not the messages that are wrong.
    """
    if (error := trial(())) is not None:
        raise MessageIndependentError(f"it fails without any of its messages too: {error}")
    found: dict[int, str] = {}

    def put_aside(message: Message, error: str) -> None:
        found[message.offset] = error
        if len(found) > max(_SOME, len(messages) // 2):
            first = min(found)
            raise MessageIndependentError(
                f"it fails with more than half of its {len(messages)} messages; at offset {first}: {found[first]}"
            )

    def halve(some: Sequence[Message]) -> None:
        if not some or (error := trial(some)) is None:
            return
        if len(some) == 1:
            put_aside(some[0], error)
        else:
            half = len(some) // 2
            halve(some[:half])
            halve(some[half:])

    halve(messages)
    kept = [message for message in messages if message.offset not in found]
    while (error := trial(kept)) is not None:
        good, bad = 0, len(kept)
        while bad - good > 1:
            middle = (good + bad) // 2
            if (other := trial(kept[:middle])) is None:
                good = middle
            else:
                bad, error = middle, other
        put_aside(kept.pop(bad - 1), error)
    return dict(sorted(found.items()))


def apart(trial: Trial) -> Trial:
    """The same in a process of its own, for steps that take their process with them, or never end."""

    def run(some: Sequence[Message]) -> str | None:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _tell(trial, some, writing)
        os.close(writing)
        try:
            return _told(child, reading)
        finally:
            os.close(reading)

    return run


def _tell(trial: Trial, some: Sequence[Message], writing: int) -> None:
    """In the child: try, say what came of it, and end without anything that belongs to the parent."""
    try:
        error = trial(some)
        told = _WORKS if error is None else _FAILS + error.encode(errors="replace")
    except BaseException as error:
        told = _CANNOT + f"{type(error).__name__}: {error}".encode(errors="replace")
    os.write(writing, told[: select.PIPE_BUF])
    os._exit(0)


def _told(child: int, reading: int) -> str | None:
    """What a child says; raises `MessageIndependentError` where it could not try at all."""
    ready, _, _ = select.select([reading], [], [], _PATIENCE)
    if not ready:
        os.kill(child, signal.SIGKILL)
    told = os.read(reading, select.PIPE_BUF)
    _, status = os.waitpid(child, 0)
    if not ready:
        return f"it did not end within {_PATIENCE:g} s"
    if not told:
        return f"its process died: {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else "it died"
    kind, words = told[:1], told[1:].decode(errors="replace")
    if kind == _CANNOT:
        raise MessageIndependentError(words)
    return words if kind == _FAILS else None
