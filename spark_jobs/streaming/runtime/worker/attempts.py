"""What becomes of a round that fails again and again in a unit: the messages that it fails with are put aside.

Which those are is decided by trials (`poison`), once, and written to the rounds log before the round goes on without
them: so every attempt, and every replay after states were lost, leaves out the same. An attempt looks there only where
another one was made before it (`tries`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from springline.spark_jobs.streaming.errors import LogUnavailableError, RoundError
from springline.spark_jobs.streaming.runtime.history import read_line, write_line
from springline.spark_jobs.streaming.runtime.message_log import Letter, Log, Order
from springline.spark_jobs.streaming.runtime.rounds import Aside, Plan
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.stamps import Stamp
from springline.spark_jobs.streaming.runtime.step import Message
from springline.spark_jobs.streaming.runtime.worker.poison import apart, poison_in
from springline.spark_jobs.streaming.runtime.worker.round_step import RoundStep, Stepped, UnitRound
from springline.spark_jobs.streaming.runtime.worker.tries import Tries

logger = logging.getLogger("springline.unit")

_REASON = 1_000  # characters of why a message is put aside
_STEP = 64  # lines of the rounds log that are read first
_PATIENCE = 30.0  # seconds until what was written can be read


def attempt(stage: Stage, log: Log, step: RoundStep, of: UnitRound) -> Stepped:
    """What the step makes of a round, at this attempt of some.

    Raises `RoundError`, from some attempt on `MessageIndependentError`, and what the log raises.
    """
    start, to = of.range
    aside = of.plan.aside.get(of.unit)
    if aside is not None or start == to or not stage.dead or stage.own or not stage.tries:
        return step.run(of, aside or {})
    folder = stage.folder(of.unit)
    before = Tries.read(folder, of.plan.order)
    if before.begun:  # somebody may have decided already
        aside = decided(stage, log, of.plan.order, of.unit)
        if aside is None and max(before.alike, before.died) >= stage.tries:
            aside = _tried(stage, log, step, of, by_itself=before.alike < stage.tries)
        if aside is not None:
            return step.run(of, aside)
    now = before.begin()
    now.write(folder)
    try:
        return step.run(of, {})
    except RoundError as failed:
        now.fail(failed.cause).write(folder)
        raise
    except BaseException:  # of the log, or of whoever ends this process: that is no try
        before.write(folder)
        raise


def _tried(stage: Stage, log: Log, step: RoundStep, of: UnitRound, *, by_itself: bool) -> Mapping[int, str]:
    """What the unit leaves out, after trials with some of its messages: each in a process `by_itself`, or here."""
    prepared = step.prepared(of)

    def trial(some: Sequence[Message]) -> str | None:
        try:
            step.outcome(prepared, some, results=not by_itself)  # what writes lines has threads, and does not fork
        except RoundError as failed:
            return failed.cause
        return None

    found = poison_in(prepared.messages, apart(trial) if by_itself else trial)
    if not found:
        return {}
    number = of.plan.number
    reasons = {offset: f"round {number} fails with it: {error}"[:_REASON] for offset, error in found.items()}
    logger.error(
        "%s[%s]: round %s goes on without %d of its messages, which are in %s; offset %d: %s",
        stage.id, of.unit, number, len(found), stage.dead, *next(iter(reasons.items())),
    )  # fmt: skip
    return decide(stage, log, of.plan.order, of.unit, reasons)


def decided(stage: Stage, log: Log, order: Order, unit: int) -> Mapping[int, str] | None:
    """What a unit leaves out in a round; None where that is not decided. Raises what the log raises."""
    extent = log.extents(stage.rounds)[0]
    at, step = extent.high, _STEP
    while at > extent.low:
        at, to = max(extent.low, at - step), at
        lines = [read_line(message) for message in log.fetch(stage.rounds, 0, at, to)]
        for line in lines:
            if isinstance(line, Aside) and (line.order, line.unit) == (order, unit):
                return line.messages
        if any(isinstance(line, Plan) and line.order <= order for line in lines):
            break
        step *= 8
    return None


def decide(stage: Stage, log: Log, order: Order, unit: int, messages: Mapping[int, str]) -> Mapping[int, str]:
    """Decide what a unit leaves out in a round; returns what was decided, here or before by somebody else.

    Raises what the log raises.
    """
    line = write_line(Aside(order, unit, messages))
    letter = Letter(stage.rounds, 0, line, Stamp(order[0], unit, order[1], 0).header())
    log.publish(f"{stage.id}.{unit}.aside", order, [letter], [(stage.rounds, 0, unit)])
    until = time.monotonic() + _PATIENCE
    while (found := decided(stage, log, order, unit)) is None:
        if time.monotonic() > until:
            raise LogUnavailableError(
                f"{stage.rounds}: what unit {unit} leaves out of round {order[1]} is not there yet"
            )
        time.sleep(0.05)
    return found
