"""A shift in a task: rounds that its units run one after another, as the rounds log tells them.

To start a task costs Spark more than most rounds take. So a task runs a first round, and then follows the rounds log
until that says that the shift ends.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from springline.spark_jobs.streaming.errors import MessagesLostError
from springline.spark_jobs.streaming.runtime.history import Content, History, ShiftEnd, read_line
from springline.spark_jobs.streaming.runtime.message_log import Log
from springline.spark_jobs.streaming.runtime.rounds import Plan
from springline.spark_jobs.streaming.runtime.worker.unit import Units

_ALONE_SECONDS = 15.0  # without a line, though a round is planned every second: whoever plans is not there any more


@dataclass(frozen=True)
class Shift:
    """Its first round, and the offset in the rounds log of what follows; None: that round is all.

    `contents` are those that the first round names, by their hash.
    """

    first: Plan
    contents: Mapping[str, Any]
    follows: int | None


def work(units: Units, log: Log, shift: Shift, chosen: Sequence[int]) -> int:
    """Run a shift in the chosen units; returns how many rounds. Raises what `Units.run` and the log raise.

    An attempt after another finds rounds that are done, and goes on after them. Who finds a round done after it has run
    one itself, has been given up by Spark (it was stopped for a while), and ends.
    """
    known = History(contents=dict(shift.contents))
    versions = {unit: units.stage.versions(unit) for unit in chosen}
    done = 0
    for plan in _plans(log, units.stage.rounds, shift, known.contents):
        named = known.contents_of(plan)
        reached = {unit: versions[unit].newest() or (0, 0) for unit in chosen if unit in plan.ranges}
        ran = [units.run(plan, named, unit) for unit, order in reached.items() if order <= plan.order]
        if done and not any(ran):
            break
        done += any(ran)
    return done


def _plans(log: Log, rounds: str, shift: Shift, contents: dict[str, Any]) -> Iterator[Plan]:
    """The rounds of a shift; what they name is added to `contents` before."""
    yield shift.first
    at = shift.follows
    heard = time.monotonic()
    while at is not None and time.monotonic() - heard < _ALONE_SECONDS:
        try:
            messages = log.follow(rounds, 0, at, _ALONE_SECONDS)
        except MessagesLostError:  # no unit needs them any more, nor this attempt
            at = max(at + 1, log.extents(rounds)[0].low)
            continue
        for message in messages:
            at = message.offset + 1
            line = read_line(message)
            if isinstance(line, ShiftEnd):
                return
            if isinstance(line, Content):
                contents[line.hash] = line.value
            elif isinstance(line, Plan):
                yield line
                heard = time.monotonic()
