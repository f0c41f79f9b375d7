"""What the tasks of the next task loop do, after whatever has happened to the states of their units."""

from __future__ import annotations

from dataclasses import replace

from springline.spark_jobs.streaming.runtime.history import read_history
from springline.spark_jobs.streaming.runtime.message_log import MessageLog
from springline.spark_jobs.streaming.runtime.report_log import StageReports
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.state_folders import StateFolders
from springline.spark_jobs.streaming.runtime.worker.checkpoints import CheckpointStorage
from springline.spark_jobs.streaming.runtime.worker.recovery import RecoveredState, StateRecovery
from springline.spark_jobs.streaming.runtime.worker.unit import StageWorker


def begin_next_task_loop(
    stage: Stage, states: StateFolders, log: MessageLog, storage: CheckpointStorage | None = None
) -> list[RecoveredState]:
    """Recover the states of all units that are lost, and run the rounds that are open."""
    history, reports = read_history(stage, log), StageReports(stage, log)
    if history.last is None:
        return []
    reports.catch_up()
    complete = reports.newest_complete(history) or history.plans[min(history.plans)]
    _, *open_rounds = history.open_rounds(complete)
    worker = StageWorker(stage, states, log)
    recovery = StateRecovery(worker, log, storage)
    rounds = open_rounds or [replace(complete, number=complete.number + 1, starts_incarnation=False)]
    recovered = recovery.restore(range(stage.units), rounds)
    for plan in open_rounds:
        for unit in range(plan.units):
            worker.run(plan, history.broadcast_values_of(plan), unit)
    return recovered
