"""Recovers lost states of units: from the newest version that exists or was persisted, by replay of later rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from springline.spark_jobs.streaming.errors import LogLostError, MissingStateError
from springline.spark_jobs.streaming.runtime.history import History, read_history
from springline.spark_jobs.streaming.runtime.message_log import MessageLog, RoundId
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan, check_topics
from springline.spark_jobs.streaming.runtime.stage import COMMAND, Stage
from springline.spark_jobs.streaming.runtime.worker.unit import StageWorker

FetchCheckpoint = Callable[[Stage, int, RoundId], RoundId | None]
NewestCheckpoint = Callable[[Stage, int], RoundId | None]

_NONE: RoundId = (0, 0)  # before every round


@dataclass(frozen=True)
class RecoveredState:
    """A recovered state of a unit: the round that it was recovered from, and the number of replayed rounds."""

    stage: str
    unit: int
    base: RoundId
    rounds: int


def check_states_planned(
    stage: Stage, units: int, log: MessageLog, newest_checkpoint: NewestCheckpoint = lambda stage, unit: None
) -> None:
    """Check that no state of a stage with `units` units is newer than its newest planned round.

    A round is planned before any part of it runs, so a newer state, in its folder or according to `newest_checkpoint`,
    belongs to another log: Kafka was emptied, or is another cluster. The rounds of that state would never run, or count
    as completed. Raises `LogLostError`.
    """
    round_ids = {
        unit: max(stage.state_store(unit).newest() or _NONE, newest_checkpoint(stage, unit) or _NONE)
        for unit in range(units)
    }
    newest = max(round_ids.values(), default=_NONE)
    if newest <= _newest_round_id(stage, log):
        return
    log.appender(stage.rounds, stage.rounds)  # after this, a commit of a previous driver is visible
    if newest > (last := _newest_round_id(stage, log)):
        unit = next(unit for unit, round_id in round_ids.items() if round_id == newest)
        ends = "is empty" if last == _NONE else f"ends with round {last[1]} of incarnation {last[0]}"
        raise LogLostError(
            f"{stage.rounds} {ends}, and there is a state after round {newest[1]} of incarnation {newest[0]}, of "
            f"{stage.topic}[{unit}]: Kafka was emptied, or is another cluster; "
            f"`{COMMAND} reset {stage.job}` resets the job"
        )


def _newest_round_id(stage: Stage, log: MessageLog) -> RoundId:
    """Return the id of the newest planned round; (0, 0) if there is none."""
    last = read_history(stage, log).last
    return _NONE if last is None else last.round_id


def recover(stage: Stage, log: MessageLog, fetch: FetchCheckpoint) -> list[RecoveredState]:
    """Ensure that the state after the newest planned round exists in every unit.

    Unless its state exists, that round itself is run normally, since it is unknown whether all of its output was
    delivered. `fetch` restores the newest persisted version not after a round to the unit's folder, and returns its
    round id, or None. Raises `MessagesLostError` if rounds must be replayed whose messages are no longer in the log,
    `TopicReplacedError` if the topic is another one now, `MissingStateError` if plans of these rounds are missing.
    """
    history = read_history(stage, log)
    last = history.last
    if last is None:
        return []
    with stage.with_remedy():
        check_topics(last, log.ids(*stage.consumed_topics))
    worker = StageWorker(stage, log)
    recovered = []
    for unit in sorted(last.ranges):
        store = stage.state_store(unit)
        if store.is_complete(*last.round_id):
            continue
        lost = unit not in last.new_units and not store.is_complete(*last.previous_round_id)
        persisted = fetch(stage, unit, last.round_id)
        if persisted == last.round_id:
            recovered.append(RecoveredState(stage.id, unit, persisted, 0))
            continue
        if last.starts_incarnation:
            raise _missing_version(stage, unit, last.round_id)
        if lost:
            recovered.append(_replay_rounds(worker, history, unit, last.previous_round_id, persisted))
        worker.run(last, history.broadcast_values_of(last), unit)
    return recovered


def _replay_rounds(
    worker: StageWorker, history: History, unit: int, target: RoundId, persisted: RoundId | None
) -> RecoveredState:
    """Recover the state after the round `target` by replay; the output of the replayed rounds was delivered already."""
    missing: list[RoundPlan] = []
    round_id = target
    store = worker.stage.state_store(unit)
    while round_id != persisted and not store.is_complete(*round_id):
        if round_id not in history.plans or history.plans[round_id].starts_incarnation:
            raise _missing_version(worker.stage, unit, round_id)
        missing.append(history.plans[round_id])
        round_id = missing[-1].previous_round_id
        if unit in missing[-1].new_units:
            break
    for plan in reversed(missing):
        if unit in plan.ranges:
            worker.replay(plan, history.broadcast_values_of(plan), unit)
    return RecoveredState(worker.stage.id, unit, round_id, len(missing))


def _missing_version(stage: Stage, unit: int, round_id: RoundId) -> MissingStateError:
    return MissingStateError(
        f"{stage.id}, unit {unit}: the state after round {round_id[1]} and the plan of that round are missing"
    )
