"""A shift in a task: its units run consecutive rounds, as they appear in the rounds log.

Starting a task in Spark takes longer than most rounds. So a task runs a first round, and then follows the rounds log
until the end of the shift.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from springline.spark_jobs.streaming.errors import MessagesLostError
from springline.spark_jobs.streaming.runtime.history import BroadcastValue, History, TaskLoopEnd, read_line
from springline.spark_jobs.streaming.runtime.message_log import MessageLog
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from springline.spark_jobs.streaming.runtime.worker.unit import StageWorker

_ALONE_SECONDS = 15.0  # without a line, though a round is planned every second: the driver is dead


@dataclass(frozen=True)
class TaskLoop:
    """The first round of a shift, and the offset in the rounds log of the next line; None: it is the only round.

    `broadcast_values` are those that the first round names, by their hash.
    """

    first: RoundPlan
    broadcast_values: Mapping[str, Any]
    next_offset: int | None


def run_task(worker: StageWorker, log: MessageLog, task_loop: TaskLoop, unit_numbers: Sequence[int]) -> int:
    """Run a shift in these units; returns the number of rounds. Raises what `StageWorker.run` and the log raise.

    A retry finds completed rounds and continues after them. An attempt that finds a round completed after it has run
    one itself was replaced by Spark (it was suspended for a while), and ends.
    """
    history = History(broadcast_values=dict(task_loop.broadcast_values))
    stores = {unit: worker.stage.state_store(unit) for unit in unit_numbers}
    finished_rounds = 0
    for plan in _plans(log, worker.stage.rounds, task_loop, history.broadcast_values):
        named = history.broadcast_values_of(plan)
        reached = {unit: stores[unit].newest() or (0, 0) for unit in unit_numbers if unit in plan.ranges}
        ran = [worker.run(plan, named, unit) for unit, round_id in reached.items() if round_id <= plan.round_id]
        if finished_rounds and not any(ran):
            break
        finished_rounds += any(ran)
    return finished_rounds


def _plans(log: MessageLog, rounds: str, task_loop: TaskLoop, broadcast_values: dict[str, Any]) -> Iterator[RoundPlan]:
    """Yield the rounds of a shift; the values that a round names are added to `broadcast_values` before."""
    yield task_loop.first
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
