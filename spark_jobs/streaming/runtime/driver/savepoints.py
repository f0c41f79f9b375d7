"""Savepoints: the states of all stages at a moment when the stages are drained, and rewinding to them.

A savepoint is made when the stages are drained (`drain`); tasks save the states. A rewind starts a new incarnation,
which begins with the savepoint's states and drops everything that earlier incarnations have sent: so messages between
stages need not be retained for it, only the messages of the source from the savepoint on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from springline.spark_jobs.streaming.errors import MessagesLostError, NeverRanError, TopicReplacedError
from springline.spark_jobs.streaming.runtime.history import History, read_history, write_line
from springline.spark_jobs.streaming.runtime.message_log import NO_ROUND, Appender, MessageLog, RoundId
from springline.spark_jobs.streaming.runtime.rounds import initial_plan, start_offsets
from springline.spark_jobs.streaming.runtime.stage import COMMAND, Stage
from springline.spark_jobs.streaming.runtime.state_store import PackedSnapshot, next_offsets


@dataclass(frozen=True)
class StageSavepoint:
    """A stage's part of a savepoint: its round, and the states of its units after that round."""

    round_id: RoundId
    units: Mapping[int, PackedSnapshot]


Savepoint = Mapping[str, StageSavepoint]  # by the names of stages
SaveState = Callable[[Stage, int, RoundId, PackedSnapshot], object]  # as the state of a unit after a round
BEGINNING: Savepoint = {}  # before the first round, with the source from its first message on


def rewind(stages: Sequence[Stage], log: MessageLog, savepoint: Savepoint, now: float, save: SaveState) -> int:
    """Rewind to a savepoint; returns the new incarnation. No application of the job may run.

    Its states are saved by `save` as checkpoints, from which tasks restore them.

    Raises `NeverRanError`, and `MessagesLostError` if the source no longer holds the messages after the savepoint, or
    `TopicReplacedError` if it is another topic now; then nothing has changed. A crash midway leaves stages in different
    incarnations, which stops the next application with `StampGapError` or `LogLostError`: repeating the rewind repairs
    it.
    """
    opened = [_take_over(stage, log) for stage in stages]
    newest = [history.last for _, history in opened if history.last is not None]
    if not newest:
        job = stages[0].job
        raise NeverRanError(
            f"{job}: its rounds logs are empty, so it cannot be rewound; if it ran before and Kafka was "
            f"emptied since, reset it: `{COMMAND} reset {job}`"
        )
    incarnation = 1 + max(plan.incarnation for plan in newest)
    clock = max(now, *(plan.clock for plan in newest))
    starts = [_start_offsets(stage, log, savepoint.get(stage.name)) for stage in stages]
    for stage, (appender, _), start in zip(stages, opened, starts, strict=True):
        stage_savepoint = savepoint.get(stage.name) or StageSavepoint(NO_ROUND, {})
        number = stage_savepoint.round_id[1]
        for unit, packed in stage_savepoint.units.items():
            save(stage, unit, (incarnation, number), packed)
        topics = log.ids(*stage.consumed_topics)
        plan = initial_plan(start, (incarnation, number), clock, topics, units=stage.units)
        appender.append([write_line(plan)])
    return incarnation


def _take_over(stage: Stage, log: MessageLog) -> tuple[Appender, History]:
    """Open the rounds log of a stage, which fences its previous writer, and read it."""
    return log.appender(stage.rounds, stage.rounds), read_history(stage, log)


def _start_offsets(stage: Stage, log: MessageLog, stage_savepoint: StageSavepoint | None) -> dict[int, int]:
    """Return the start offsets of a stage; partitions newer than the savepoint begin with the round after it."""
    offset_bounds = log.offset_bounds(stage.topic)
    starts = start_offsets(offset_bounds, latest=stage.reads_own_job)
    if stage_savepoint is None or stage_savepoint.round_id[1] == 0:
        return starts
    if stage.reads_own_job:
        return starts
    ids = log.ids(*stage.consumed_topics)
    starts = {}
    for packed in stage_savepoint.units.values():
        if packed.notes["topics"] != ids:
            raise TopicReplacedError(
                f"{stage.topic} was deleted and recreated since: the savepoint's offsets are not offsets of this topic"
            )
        for partition, at in next_offsets(packed.notes).items():
            bounds = offset_bounds.get(partition)
            if bounds is None or not bounds.low <= at <= bounds.high:
                there = f"{bounds.low} to {bounds.high}" if bounds else "none"
                raise MessagesLostError(
                    f"{stage.topic}[{partition}]: the savepoint resumes at offset {at}, but available are {there}"
                )
            starts[partition] = at
    return starts
