"""A task loop in a task: its units run consecutive rounds, as they appear in the rounds log.

Starting a task in Spark takes longer than most rounds. So a task runs the first rounds, and then follows the rounds log
until the end of the task loop. The steps of a round run while the round before is committed (`round_pipeline`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from springline.spark_jobs.streaming.errors import MessagesLostError
from springline.spark_jobs.streaming.runtime.history import BroadcastValue, History, TaskLoopEnd, read_line
from springline.spark_jobs.streaming.runtime.message_log import NO_ROUND, MessageLog, RoundId
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from springline.spark_jobs.streaming.runtime.worker.checkpoints import CheckpointWriter, NoCheckpoints
from springline.spark_jobs.streaming.runtime.worker.recovery import StateRecovery
from springline.spark_jobs.streaming.runtime.worker.round_pipeline import RoundPipeline
from springline.spark_jobs.streaming.runtime.worker.unit import StageWorker, SteppedRound

_ALONE_SECONDS = 30.0  # without a line, though a round is planned every 10 s at least: the driver is dead


@dataclass(frozen=True)
class TaskLoop:
    """The rounds that are planned when a task loop begins, and the offset in the rounds log of the next line.

    These are at least one, and two if the previous loop has ended with two open rounds. Without a `next_offset`, this
    one ends with them. `broadcast_values` are those that they name, by their hash. With `save`, the states after that
    round are saved first; the loop may begin with it, though it is complete.
    """

    rounds: tuple[RoundPlan, ...]
    broadcast_values: Mapping[str, Any]
    next_offset: int | None
    save: RoundId | None = None

    @property
    def units(self) -> range:
        """The units that have a round in this task loop."""
        return range(self.rounds[-1].units)


def run_task(
    worker: StageWorker, log: MessageLog, task_loop: TaskLoop, unit_numbers: Sequence[int],
    recovery: StateRecovery | None = None, checkpoints: CheckpointWriter | None = None,
) -> int:  # fmt: skip
    """Run a task loop in these units; returns the number of rounds. Raises what `StageWorker.run` and the log raise.

    States that are lost are recovered first, and saved while rounds go on; by default there are no checkpoints. A retry
    finds completed rounds, reports them again, and continues after them. An attempt that finds a round completed after
    it has run one itself was replaced by Spark (it was suspended for a while), and ends.
    """
    history = History(broadcast_values=dict(task_loop.broadcast_values))
    stores = {unit: worker.states.store(unit) for unit in unit_numbers}
    finished_rounds = 0
    recovery = recovery or StateRecovery(worker, log)
    checkpoints = checkpoints or CheckpointWriter(worker, NoCheckpoints())
    recovery.restore(unit_numbers, task_loop.rounds)
    if task_loop.save is not None:
        checkpoints.save(unit_numbers, task_loop.save)
    with RoundPipeline(worker) as pipeline:
        for plan in _plans(log, worker.stage.rounds, task_loop, history.broadcast_values):
            named, has_run = history.broadcast_values_of(plan), False
            for unit in unit_numbers:
                if (stores[unit].newest() or NO_ROUND) <= plan.round_id:
                    entry = worker.begin(plan, named, unit)
                    pipeline.submit(entry)
                    has_run = has_run or isinstance(entry, SteppedRound)
            if finished_rounds and not has_run:
                break
            finished_rounds += has_run
            checkpoints.save_if_due(unit_numbers)
    return finished_rounds


def _plans(log: MessageLog, rounds: str, task_loop: TaskLoop, broadcast_values: dict[str, Any]) -> Iterator[RoundPlan]:
    """Yield the rounds of a task loop; the values that a round names are added to `broadcast_values` before."""
    yield from task_loop.rounds
    offset = task_loop.next_offset
    heard_at = time.monotonic()
    while offset is not None and time.monotonic() - heard_at < _ALONE_SECONDS:
        try:
            messages = log.follow(rounds, 0, offset, _ALONE_SECONDS)
        except MessagesLostError:  # no unit needs these lines any more, nor does this attempt
            offset = max(offset + 1, log.offset_bounds(rounds)[0].low)
            continue
        for message in messages:
            offset = message.offset + 1
            line = read_line(message)
            if isinstance(line, TaskLoopEnd):
                return
            if isinstance(line, BroadcastValue):
                broadcast_values[line.hash] = line.value
            elif isinstance(line, RoundPlan):
                yield line
                heard_at = time.monotonic()
