"""Attempts of a round in a unit: after repeated failures, the messages that make it fail become dead letters.

Which messages those are is decided once, by trials (`poison`), and written to the rounds log before the round continues
without them: so every attempt, and every replay after states were lost, skips the same messages. An attempt reads the
decision only if there were attempts before it. Only the step counts, since what fails afterwards, such as sending, is
not the fault of a message.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from springline.spark_jobs.streaming.errors import LogUnavailableError, RoundError
from springline.spark_jobs.streaming.runtime.encoding import shorten
from springline.spark_jobs.streaming.runtime.history import read_line, write_line
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.message_log import MessageLog, OutgoingRecord, RoundId
from springline.spark_jobs.streaming.runtime.rounds import Poison, PoisonMessages, RoundPlan
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.stamps import Stamp
from springline.spark_jobs.streaming.runtime.step import Input, TopicReader, no_topic_reader
from springline.spark_jobs.streaming.runtime.worker.attempt_counts import running
from springline.spark_jobs.streaming.runtime.worker.poison import TrialFailure, find_poison
from springline.spark_jobs.streaming.runtime.worker.round_step import PreparedRound, RoundStep, StepResult, UnitRound
from springline.spark_jobs.streaming.runtime.worker.trial_process import isolated_trials

logger = logging.getLogger("springline.unit")

_REASONS = 2 << 20  # characters of all reasons for the poison messages of a round: its line must fit into a record
_STEP = 64  # lines of the rounds log in the first read
_TIMEOUT_SECONDS = 30.0  # seconds until a written line must be readable


def run_attempt(stage: Stage, folder: Path, log: MessageLog, step: RoundStep, unit_round: UnitRound) -> StepResult:
    """Run the step of a round, as one attempt; attempts are counted in the unit's `folder`.

    Raises `RoundError`, after repeated failures `MessageIndependentError`, and what the log raises.
    """
    poison: Poison | None = unit_round.plan.poison_of(unit_round.unit)
    has_messages = any(to > start for start, to in unit_round.ranges.values())
    if poison or not has_messages or not stage.dead_letters or stage.reads_feedback or not stage.max_attempts:
        return step.run(unit_round, poison or {})
    with running(folder, unit_round.plan.round_id) as earlier:
        try:
            if earlier.has_failed:  # another attempt may have decided already
                poison = read_poison(stage, log, unit_round.plan.round_id, unit_round.unit)
                if poison is None and max(earlier.same_cause, earlier.crashes) >= stage.max_attempts:
                    is_isolated = earlier.crashes >= stage.max_attempts
                    poison = _find_poison(stage, log, step, unit_round, is_isolated)
            return step.run(unit_round, poison or {})
        except RoundError as error:
            earlier.with_failure(error.cause).write(folder)
            raise


def _find_poison(stage: Stage, log: MessageLog, step: RoundStep, unit_round: UnitRound, is_isolated: bool) -> Poison:
    """Find the messages that the unit skips, by trials with subsets, and record them.

    Each trial runs in a process of its own if `is_isolated`, else in this process.
    """
    prepared = step.prepare(unit_round)
    messages = prepared.messages
    if is_isolated:
        arguments = (stage, unit_round, replace(prepared.step_input, messages=(), read_topic=no_topic_reader))
        with isolated_trials(_make_trial, arguments, messages, prepared.reader.read_topic) as trial:
            errors = find_poison(messages, trial)
    else:
        errors = find_poison(messages, lambda some: _in_this_process(_cause_of_failure(step, prepared, some)))
    if not errors:
        return {}
    number, most = unit_round.plan.number, _REASONS // len(errors)
    reasons: dict[int, dict[int, str]] = {}
    for (partition, offset), error in errors.items():
        reasons.setdefault(partition, {})[offset] = shorten(f"round {number} fails on it: {error}")[:most]
    (partition, offset), error = next(iter(errors.items()))
    logger.error(
        "%s[%s]: round %s skips %d messages, which are sent to %s; offset %d of partition %d: %s",
        stage.id, unit_round.unit, number, len(errors), stage.dead_letters, offset, partition, error,
    )  # fmt: skip
    return record_poison(stage, log, unit_round.plan.round_id, unit_round.unit, reasons)


def _make_trial(
    read_topic: TopicReader, stage: Stage, unit_round: UnitRound, step_input: Input
) -> Callable[[Sequence[Message]], str | None]:
    """Return the trials of a round in another process than the worker's."""
    step = RoundStep(stage, read_topic)
    reader = step.reader(unit_round)
    prepared = PreparedRound(unit_round, replace(step_input, read_topic=reader.read_topic), reader, {})
    return lambda some: _cause_of_failure(step, prepared, some)


def _cause_of_failure(step: RoundStep, prepared: PreparedRound, some: Sequence[Message]) -> str | None:
    try:
        step.run_step(prepared, some)
    except RoundError as failure:
        return failure.cause
    return None


def _in_this_process(cause: str | None) -> TrialFailure | None:
    return None if cause is None else TrialFailure(cause)


def read_poison(stage: Stage, log: MessageLog, round_id: RoundId, unit: int) -> Poison | None:
    """Return what a unit skips in a round; None if that is not decided. Raises what the log raises."""
    bounds = log.offset_bounds(stage.rounds)[0]
    start, step = bounds.high, _STEP
    while start > bounds.low:
        start, end = max(bounds.low, start - step), start
        lines = [read_line(message) for message in log.fetch(stage.rounds, 0, start, end)]
        for line in lines:
            if isinstance(line, PoisonMessages) and (line.round_id, line.unit) == (round_id, unit):
                return line.messages
        if any(isinstance(line, RoundPlan) and line.round_id <= round_id for line in lines):
            break
        step *= 8
    return None


def record_poison(stage: Stage, log: MessageLog, round_id: RoundId, unit: int, messages: Poison) -> Poison:
    """Record what a unit skips in a round; returns the decision, this one or an earlier one of another attempt.

    Raises what the log raises.
    """
    line = write_line(PoisonMessages(round_id, unit, messages))
    record = OutgoingRecord(stage.rounds, 0, line, Stamp(round_id[0], unit, round_id[1], 0).header())
    log.publish(f"{stage.id}.{unit}.poison", round_id, [record], [(stage.rounds, 0, unit)])
    until = time.monotonic() + _TIMEOUT_SECONDS
    while (poison := read_poison(stage, log, round_id, unit)) is None:
        if time.monotonic() > until:
            raise LogUnavailableError(
                f"{stage.rounds}: the skipped messages of unit {unit} in round {round_id[1]} are not logged yet"
            )
        time.sleep(0.05)
    return poison
