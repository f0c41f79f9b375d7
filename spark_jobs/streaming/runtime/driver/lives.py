"""Checks that a stage and its rounds log are those in which its rounds were planned before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from springline.spark_jobs.streaming.errors import InvalidJobError, LogLostError
from springline.spark_jobs.streaming.runtime.history import read_history
from springline.spark_jobs.streaming.runtime.message_log import NO_ROUND, MessageLog, RoundId
from springline.spark_jobs.streaming.runtime.stage import COMMAND, Stage

NewestCheckpoint = Callable[[Stage, int], RoundId | None]


def assign_lives(stages: Sequence[Stage], log: MessageLog, earlier: Mapping[str, str]) -> tuple[Stage, ...]:
    """Return the stages with the ids of the topics of their rounds.

    Raises `LogLostError` if one differs from the `earlier` id of its stage: Kafka was emptied, or is another cluster.
    """
    ids = log.ids(*(stage.rounds for stage in stages))
    for stage in stages:
        if earlier.get(stage.name, ids[stage.rounds]) != ids[stage.rounds]:
            raise _log_lost(stage, f"{stage.rounds} is another topic than before")
    return tuple(replace(stage, life=ids[stage.rounds]) for stage in stages)


def check_parallelism(stage: Stage, log: MessageLog) -> None:
    """Check that a stage has as many units as in its newest planned round, and as the topic that other stages write for
    it has partitions.

    Each unit has the state of the partitions that it reads, and rows were sent to units by their number. Raises
    `InvalidJobError`, which names the key, and what the log raises.
    """
    last = read_history(stage, log).last
    units = last.units if last is not None else stage.units
    if last is None and stage.reads_own_job:
        units = len(log.offset_bounds(stage.topic))
    if units != stage.units:
        raise InvalidJobError(
            f"job {stage.job!r}: {stage.parallelism_key} was {units} when it first ran, and is {stage.units} now; "
            f"write {units}, or reset the job: `{COMMAND} reset {stage.job}`"
        )


def check_checkpoints_planned(stage: Stage, log: MessageLog, newest_checkpoint: NewestCheckpoint) -> None:
    """Check that no saved state of a stage is newer than its newest planned round.

    A round is planned before any part of it runs, so a newer state belongs to another log. The rounds of that state
    would never run, or count as completed. Raises `LogLostError`.
    """
    round_ids = {unit: newest_checkpoint(stage, unit) or NO_ROUND for unit in range(stage.units)}
    newest = max(round_ids.values(), default=NO_ROUND)
    if newest <= _newest_round_id(stage, log):
        return
    log.appender(stage.rounds, stage.rounds)  # after this, a commit of a previous driver is visible
    if newest > (last := _newest_round_id(stage, log)):
        unit = next(unit for unit, round_id in round_ids.items() if round_id == newest)
        ends = "is empty" if last == NO_ROUND else f"ends with round {last[1]} of incarnation {last[0]}"
        raise _log_lost(
            stage,
            f"{stage.rounds} {ends}, and there is a state after round {newest[1]} of incarnation {newest[0]}, of "
            f"{stage.id}[{unit}]",
        )


def _log_lost(stage: Stage, reason: str) -> LogLostError:
    return LogLostError(
        f"{reason}: Kafka was emptied, or is another cluster; `{COMMAND} reset {stage.job}` resets the job"
    )


def _newest_round_id(stage: Stage, log: MessageLog) -> RoundId:
    """Return the id of the newest planned round; `NO_ROUND` if there is none."""
    last = read_history(stage, log).last
    return NO_ROUND if last is None else last.round_id
