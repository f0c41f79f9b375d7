"""The step of a stage on the messages of a round in a unit: what it is given, what comes of it, or that it fails."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from springline.spark_jobs.streaming.errors import RoundError
from springline.spark_jobs.streaming.runtime.encoding import letters_of, results_of
from springline.spark_jobs.streaming.runtime.message_log import Letter, Log
from springline.spark_jobs.streaming.runtime.rounds import Plan
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.stamps import Taken, accept, taken_in
from springline.spark_jobs.streaming.runtime.state_store import Version
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Input, Message, Output, Round

logger = logging.getLogger("springline.unit")

_ENDING = (KeyboardInterrupt, SystemExit, GeneratorExit)  # which end the process, and say nothing of a message


@dataclass(frozen=True)
class UnitRound:
    """A round of a unit, the contents that its plan names, and the state before it."""

    plan: Plan
    contents: Mapping[str, Any]
    unit: int
    before: Version

    @property
    def range(self) -> tuple[int, int]:
        """The offsets [from, to) that it reads."""
        return self.plan.ranges[self.unit]

    @property
    def begins(self) -> bool:
        """Whether it is the first one of a unit that came later than the others."""
        return self.unit in self.plan.new


@dataclass(frozen=True)
class Outcome:
    """What a step made of messages: for stages downstream, for ackers, and as lines of results."""

    output: Output
    letters: Sequence[Letter]
    results: Sequence[Letter]


@dataclass(frozen=True)
class Stepped:
    """A round of a unit whose step has run, and what came of it; `read` bytes of its messages."""

    of: UnitRound
    outcome: Outcome
    taken: Mapping[int, Taken]
    newest: float
    read: int

    @property
    def output(self) -> Output:
        """What the step made."""
        return self.outcome.output

    @cached_property
    def sent(self) -> dict[str, int]:
        """The bytes sent so far to each unit downstream, with this round's."""
        found = Counter(self.of.before.notes.get("sent", {}))
        for letter in self.outcome.letters:
            found[receiver(letter.topic, letter.unit)] += len(letter.value)
        return dict(found)


def receiver(topic: str, unit: int) -> str:
    """The name of a unit downstream where bytes are counted."""
    return f"{topic}[{unit}]"


class RoundStep:
    """The step of a stage, for rounds of any of its units."""

    def __init__(self, stage: Stage, log: Log) -> None:
        self.step = stage.make_step()
        self._stage = stage
        self._log = log

    def run(self, of: UnitRound, aside: Mapping[int, str]) -> Stepped:
        """Run it without the messages that are put aside, which are dead letters; raises `RoundError`."""
        prepared = self.prepared(of)
        if not aside:
            return prepared.stepped(self.outcome(prepared, prepared.given.messages))
        kept = [message for message in prepared.messages if message.offset not in aside]
        outcome = self.outcome(prepared, kept)
        dead = [
            DeadLetter(message.offset, bytes(message.value), aside[message.offset])
            for message in prepared.messages
            if message.offset in aside
        ]
        counts = Counter(outcome.output.counts) + Counter(aside=len(dead), dead=len(dead))
        output = replace(outcome.output, dead=(*dead, *outcome.output.dead), counts=dict(sorted(counts.items())))
        return prepared.stepped(replace(outcome, output=output))

    def prepared(self, of: UnitRound) -> Prepared:
        """All that the step is given."""
        stage, plan = self._stage, of.plan
        start, to = of.range
        reading = Reading(stage, self._log, of.unit, start, to)
        taken = taken_in(of.before.notes, f"{stage.id}, unit {of.unit}")
        this = Round(plan.incarnation, plan.number, plan.clock, of.contents, plan.quiet)
        given = Input(
            stage.name, of.unit, this, reading, start=start, to=to, source=reading.source, left=of.unit in plan.left
        )
        if not stage.stamped:
            return Prepared(of, given, reading, taken)
        accepted = accept(reading, taken, plan.incarnation, log=f"{stage.topic}[{of.unit}]")
        if accepted.foreign:
            logger.warning(
                "%s[%s]: %d messages that no stage of this job has sent are left out, the first at offset %d",
                stage.topic, of.unit, len(accepted.foreign), accepted.foreign[0],
            )  # fmt: skip
        given = replace(
            given, messages=accepted.messages, watermarks=accepted.watermarks, idle=accepted.idle,
            clocks=accepted.clocks, ended=accepted.ended, upstream=accepted.upstream,
        )  # fmt: skip
        read = sum(len(message.value) for message in accepted.messages)
        return Prepared(of, given, reading, accepted.taken, read)

    def outcome(self, prepared: Prepared, messages: Iterable[Message], *, results: bool = True) -> Outcome:
        """What the step makes of some messages, with the lines of its results or without; raises `RoundError`."""
        of, stage = prepared.of, self._stage
        try:
            output = self.step(of.before.state, replace(prepared.given, messages=messages))
            made = (stage, of.unit, of.plan.order, output)
            letters = tuple(letters_of(*made, begins=of.begins))
            return Outcome(output, letters, tuple(results_of(*made)) if results else ())
        except BaseException as error:
            if prepared.reading.failed or isinstance(error, _ENDING):
                raise
            start, to = of.range
            offsets = f"offsets {start} to {to - 1}" if start < to else f"no messages at offset {start}"
            raise RoundError(f"{stage.topic}[{of.unit}], {offsets}", f"{type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class Prepared:
    """What the step of a round is given; `read` bytes of messages, where that is known before it has read them."""

    of: UnitRound
    given: Input
    reading: Reading
    taken: Mapping[int, Taken]
    read: int | None = None

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """All of them: those of the source are read once."""
        return tuple(self.given.messages)

    def stepped(self, outcome: Outcome) -> Stepped:
        """With what came of them."""
        read = self.reading.bytes if self.read is None else self.read
        return Stepped(self.of, outcome, self.taken, self.reading.newest, read)


class Reading:
    """Messages on their way to a step, when the newest of them was appended, and their bytes.

    `failed` says that the log could not give what the step has asked for.
    """

    def __init__(self, stage: Stage, log: Log, unit: int, start: int, to: int) -> None:
        self._stage = stage
        self._log = log
        self._place = (stage.topic, unit, start, to)
        self.newest = 0.0
        self.bytes = 0
        self.failed = False

    def __iter__(self) -> Iterator[Message]:
        with self._noting():
            for message in self._log.fetch(*self._place):
                self.newest = max(self.newest, message.timestamp)
                self.bytes += len(message.value)
                yield message

    def source(self, topic: str, unit: int, start: int, to: int) -> Iterator[Message]:
        """Messages of another topic."""
        with self._noting():
            yield from self._log.fetch(topic, unit, start, to)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            with self._stage.telling_what_helps():
                yield
        except Exception:
            self.failed = True
            raise
