"""Savepoints: the states of all stages at a moment at which they are level, and going back to it.

A savepoint is made when the stages are level (`levelness`). Going back makes a new incarnation,
which begins with the savepoint's states and drops whatever earlier ones have sent: what lies between the stages then
need not be kept for it, only the messages of the source from the savepoint on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from springline.spark_jobs.streaming.errors import MessagesLostError, NeverRanError, TopicReplacedError
from springline.spark_jobs.streaming.runtime.driver.drain import level
from springline.spark_jobs.streaming.runtime.history import History, read_history, write_line
from springline.spark_jobs.streaming.runtime.message_log import Appender, Log, Order
from springline.spark_jobs.streaming.runtime.rounds import beginning, starts_of
from springline.spark_jobs.streaming.runtime.stage import COMMAND, Stage
from springline.spark_jobs.streaming.runtime.state_store import Packed


@dataclass(frozen=True)
class Part:
    """A stage's part of a savepoint: its round, and the states of its units after that."""

    order: Order
    units: Mapping[int, Packed]


Savepoint = Mapping[str, Part]  # by the names of stages
BEGINNING: Savepoint = {}  # before the first round; the source from its first message on


def pack(stages: Sequence[Stage], log: Log) -> Savepoint | None:
    """The states of all stages as they are now; None while they are not level, or nothing has run.

    Raises `MissingStateError` or FileNotFoundError where they have gone on meanwhile.
    """
    plans = level(stages, log)
    if plans is None:
        return None
    found = {}
    for stage in stages:
        plan = plans[stage.name]
        units = {unit: stage.versions(unit).packed(*plan.order) for unit in sorted(plan.ranges)}
        found[stage.name] = Part(plan.order, units)
    return found


def rewind(stages: Sequence[Stage], log: Log, to: Savepoint, now: float) -> int:
    """Go back to a savepoint; returns the new incarnation. No application of the job may run.

    Raises `NeverRanError`, and `MessagesLostError` where the source does not hold the messages after the savepoint any
    more, or is another topic by now; then nothing has changed. Dying on the way leaves stages apart, which stops the
    next application with `StampGapError` or `LogLostError`: going back once more mends it.
    """
    opened = [_opened(stage, log) for stage in stages]
    newest = [history.last for _, history in opened if history.last is not None]
    if not newest:
        job = stages[0].job
        raise NeverRanError(
            f"{job}: its rounds logs hold no round, so there is nothing to go back from; if it did run, and Kafka was "
            f"emptied since, `{COMMAND} reset {job}` lets it begin anew"
        )
    incarnation = 1 + max(plan.incarnation for plan in newest)
    clock = max(now, *(plan.clock for plan in newest))
    starts = [_starts(stage, log, to.get(stage.name)) for stage in stages]
    for stage, (appender, _), start in zip(stages, opened, starts, strict=True):
        part = to.get(stage.name) or Part((0, 0), {})
        number = part.order[1]
        for unit, packed in part.units.items():
            stage.versions(unit).unpack(incarnation, number, packed)
        topics = log.ids(*stage.offsets_of)
        appender.append([write_line(beginning(start, (incarnation, number), clock, topics))])
    return incarnation


def _opened(stage: Stage, log: Log) -> tuple[Appender, History]:
    """The rounds log of a stage, closed for whoever had it open."""
    return log.appender(stage.rounds, stage.rounds), read_history(stage, log)


def _starts(stage: Stage, log: Log, part: Part | None) -> dict[int, int]:
    """The offsets at which a stage goes on; units that came after the savepoint begin with the round after it."""
    extents = log.extents(stage.topic)
    starts = starts_of(extents, latest=stage.inside)
    if part is None or part.order[1] == 0:
        return starts
    starts = {unit: at for unit, at in starts.items() if unit in part.units}
    if stage.inside:
        return starts
    ids = log.ids(*stage.offsets_of)
    for unit, packed in part.units.items():
        if packed.notes["topics"] != ids:
            raise TopicReplacedError(
                f"{stage.topic} was deleted and made anew since: the savepoint's offsets are not offsets of this topic"
            )
        at, extent = packed.notes["offset"], extents.get(unit)
        if extent is None or not extent.low <= at <= extent.high:
            there = f"{extent.low} to {extent.high}" if extent else "nothing"
            raise MessagesLostError(
                f"{stage.topic}[{unit}]: the savepoint goes on at offset {at}, and the log holds {there}"
            )
        starts[unit] = at
    return starts
