"""Rebuilds the lost state of a unit where it runs: from its newest checkpoint, and the rounds after it.

Units of other tasks go on meanwhile. Rounds whose output was delivered are replayed: their output is discarded.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from springline.persistence.monitoring.logs import log_context
from springline.spark_jobs.streaming.errors import MissingStateError
from springline.spark_jobs.streaming.runtime.history import History, read_history
from springline.spark_jobs.streaming.runtime.message_log import NO_ROUND, MessageLog, RoundId
from springline.spark_jobs.streaming.runtime.report_log import StageReports
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan, check_topics
from springline.spark_jobs.streaming.runtime.state_store import StateStore
from springline.spark_jobs.streaming.runtime.worker.checkpoints import CheckpointStorage, NoCheckpoints
from springline.spark_jobs.streaming.runtime.worker.unit import StageWorker

logger = logging.getLogger("springline.unit")


@dataclass(frozen=True)
class RecoveredState:
    """A recovered state of a unit: the round that it was recovered from, and the number of replayed rounds."""

    stage: str
    unit: int
    base: RoundId
    rounds: int

    def __str__(self) -> str:
        return f"{self.rounds} rounds after {self.base[1]}"


class StateRecovery:
    """Recovers the states that a worker needs for the rounds of a task loop; it can be used for all of them.

    Args:
        worker: the worker of the stage.
        log: the log that the stage reads.
        storage: where checkpoints are; by default there are none.
    """

    def __init__(self, worker: StageWorker, log: MessageLog, storage: CheckpointStorage | None = None) -> None:
        self._worker = worker
        self._log = log
        self._storage = storage or NoCheckpoints()
        self._reports = StageReports(worker.stage, log)
        self._vacuumed_units: set[int] = set()

    def restore(self, units: Sequence[int], rounds: Sequence[RoundPlan]) -> list[RecoveredState]:
        """Recover the states of units before `rounds`, the first of a task loop, where they are lost; returns those.

        If a unit has reported later rounds, the state after these is recovered. Raises `MessagesLostError` if rounds
        must be replayed whose messages are no longer in the log, `TopicReplacedError` if the topic is another one now,
        `MissingStateError` if plans of these rounds are missing.
        """
        self._reports.catch_up()
        restored = (self._restore(unit, rounds) for unit in units)
        return [each for each in restored if each is not None]

    def _restore(self, unit: int, rounds: Sequence[RoundPlan]) -> RecoveredState | None:
        reported = self._reports.newest.get(unit)
        self._worker.resume(unit, reported)
        store, stage = self._worker.states.store(unit), self._worker.stage
        if unit not in self._vacuumed_units:
            store.vacuum()
            self._vacuumed_units.add(unit)
        delivered = max(rounds[0].previous_round_id, reported.round_id if reported else NO_ROUND)
        newest = store.drop_incomplete() or NO_ROUND
        if newest >= delivered:
            return None
        history = read_history(stage, self._log)
        if history.last is None or (delivered[1] == 0 and newest == NO_ROUND and reported is None):
            return None
        with stage.with_remedy():
            check_topics(history.last, self._log.ids(*stage.consumed_topics))
        persisted = self._storage.fetch(stage, unit, store, history.last.round_id)
        base, missing = _missing_rounds(store, history, unit, max(delivered, persisted or NO_ROUND))
        for plan in missing:
            self._worker.replay(plan, history.broadcast_values_of(plan), unit)
        if not missing and base != persisted:
            return None
        recovered = RecoveredState(stage.id, unit, base, len(missing))
        self._worker.resume(unit, reported, str(recovered))
        with log_context(job=stage.job, stage=stage.name, unit=unit, round=base[1] + len(missing)):
            logger.info("state rebuilt: %s[%s]: %s", stage.id, unit, recovered)
        return recovered


def _missing_rounds(store: StateStore, history: History, unit: int, target: RoundId) -> tuple[RoundId, list[RoundPlan]]:
    """Return the newest round up to `target` after which the state exists, and the rounds of a unit after it.

    Raises `MissingStateError` if a round before has neither a state nor a plan.
    """
    missing: list[RoundPlan] = []
    round_id = target
    while not store.is_complete(*round_id):
        plan = history.plans.get(round_id)
        if plan is None or plan.starts_incarnation:
            raise MissingStateError(
                f"{store.folder}, unit {unit}: the state after round {round_id[1]} and the plan of that round are "
                "missing"
            )
        missing.insert(0, plan)
        round_id = plan.previous_round_id
    return round_id, missing
