"""Finds the messages of a round that make its step fail, by trials with subsets.

Bisection tries halves separately, so a round of a thousand messages with one failing message takes twenty trials.
Messages that fail only in combination are found afterwards: the last message of the shortest failing prefix. Those that
together end the process of a trial may just lack memory or time, so none of them is found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from springline.spark_jobs.streaming.errors import MessageIndependentError
from springline.spark_jobs.streaming.runtime.message import Message

_MIN_POISON = 10  # failing messages that are accepted in any case


@dataclass(frozen=True)
class TrialFailure:
    """Why a step fails with some messages; `ended_process`: it died or was ended, instead of raising an error."""

    reason: str
    ended_process: bool = False


Trial: TypeAlias = Callable[[Sequence[Message]], TrialFailure | None]
"""Tries a step with some messages of its round; returns None if it does not fail."""


def find_poison(messages: Sequence[Message], trial: Trial) -> dict[tuple[int, int], str]:
    """Return partition and offset of the messages that make a step fail, with the error of each; without them it does
    not fail.

    Raises `MessageIndependentError` if it fails without any messages, or with more than half of them (and more than
    `_MIN_POISON`), or if only several of them together end its process: then the messages are not the cause.
    """
    if (failure := trial(())) is not None:
        raise MessageIndependentError(f"it also fails without messages: {failure.reason}")
    errors: dict[tuple[int, int], str] = {}

    def mark_poison(message: Message, error: str) -> None:
        errors[message.partition, message.offset] = error
        if len(errors) > max(_MIN_POISON, len(messages) // 2):
            (partition, offset), first = min(errors.items())
            raise MessageIndependentError(
                f"it fails on more than half of its {len(messages)} messages; at offset {offset} of partition "
                f"{partition}: {first}"
            )

    def halve(some: Sequence[Message]) -> None:
        if not some or (failure := trial(some)) is None:
            return
        if len(some) == 1:
            mark_poison(some[0], failure.reason)
        else:
            half = len(some) // 2
            halve(some[:half])
            halve(some[half:])

    halve(messages)
    remaining = [message for message in messages if (message.partition, message.offset) not in errors]
    while (failure := trial(remaining)) is not None:
        good, bad = 0, len(remaining)
        while bad - good > 1 and not failure.ended_process:
            middle = (good + bad) // 2
            if (other := trial(remaining[:middle])) is None:
                good = middle
            else:
                bad, failure = middle, other
        if failure.ended_process:
            raise MessageIndependentError(
                f"each of its messages can be processed alone, but not {bad} together: {failure.reason}; give the "
                "workers more memory or time, or reset the job with a smaller `max_messages_per_round`"
            )
        mark_poison(remaining.pop(bad - 1), failure.reason)
    return dict(sorted(errors.items()))
