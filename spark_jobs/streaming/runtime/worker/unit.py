"""Runs rounds of a stage's units: loads the state, reads the messages, runs the step, sends, writes the new state.

The new state is written last: if it exists, all output of the round was delivered, and the round need not run again.
Each attempt sends the same messages from the first one on, and units downstream accept each once. A round that fails
too often continues without the messages that make it fail, which become dead letters (`attempts`).
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from springline.persistence.model.codec import to_json_value
from springline.persistence.monitoring.logs import log_context
from springline.spark_jobs.streaming.runtime.encoding import encode_dead_letters, encode_feedback
from springline.spark_jobs.streaming.runtime.message_log import MessageLog, OutgoingRecord
from springline.spark_jobs.streaming.runtime.report import Flow, UnitReport
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.stamps import EndMarker, Stamp, upstream_positions
from springline.spark_jobs.streaming.runtime.state_store import StateSnapshot
from springline.spark_jobs.streaming.runtime.worker.attempts import run_attempt
from springline.spark_jobs.streaming.runtime.worker.round_step import RoundStep, StepResult, UnitRound, receiver_name

logger = logging.getLogger("springline.unit")

_RETAINED_ROUNDS = 4  # newest versions that pruning retains
_PRUNE_EVERY = 16


class StageWorker:
    """The units of one stage that this process runs; their newest states are cached in memory."""

    def __init__(self, stage: Stage, log: MessageLog) -> None:
        self.stage = stage
        self.step = RoundStep(stage, log)
        self._log = log
        self._snapshots: dict[int, StateSnapshot] = {}

    def run(self, plan: RoundPlan, broadcast_values: Mapping[str, Any], unit: int) -> bool:
        """Run a round in a unit, and write a report; returns False if the round was completed before.

        `broadcast_values` are the values of the plan's versions, by name. Raises `MissingStateError` if the state after
        the previous round does not exist, and whatever the log or the step raises; then the round can be retried.
        """
        if self.stage.state_store(unit).is_complete(*plan.round_id):
            return False
        with log_context(job=self.stage.job, stage=self.stage.name, unit=unit, round=plan.number):
            try:
                self._run(plan, broadcast_values, unit)
            except Exception as error:
                logger.error("%s[%s]: round %s failed: %s", self.stage.id, unit, plan.number, error)
                raise
        return True

    def replay(self, plan: RoundPlan, broadcast_values: Mapping[str, Any], unit: int) -> None:
        """Run a round only for its state: its output was delivered before, and is discarded."""
        self._save(self.step.run(self._unit_round(plan, broadcast_values, unit), plan.poison.get(unit, {})))

    def _run(self, plan: RoundPlan, broadcast_values: Mapping[str, Any], unit: int) -> None:
        started_at, cpu_started = time.monotonic(), time.process_time()
        result = run_attempt(self.stage, self._log, self.step, self._unit_round(plan, broadcast_values, unit))
        stepped_at = time.monotonic()
        self._send(result)
        sent_at = time.monotonic()
        after = self._save(result)
        store = self.stage.state_store(unit)
        if plan.number % _PRUNE_EVERY == 0:
            store.prune((), before=(plan.incarnation, plan.number - _RETAINED_ROUNDS))
        saved_at = time.monotonic()
        seconds = {"step": stepped_at - started_at, "send": sent_at - stepped_at, "save": saved_at - sent_at}
        folder = store.folder
        earlier = UnitReport.read(folder)
        cpu = (earlier.cpu if earlier else 0.0) + time.process_time() - cpu_started
        start, to = plan.ranges[unit]
        previous_flow = Flow(
            _read_bytes(result.unit_round.previous),
            result.unit_round.previous.notes.get("sent", {}),
            earlier.flow.busy_seconds if earlier else 0.0,
        )
        flow = Flow(
            after.notes["read"],
            result.sent_bytes,
            previous_flow.busy_seconds + (saved_at - started_at if to > start else 0.0),
        )
        UnitReport(
            unit, plan.number, after.notes["counts"], after.bytes, plan.lag, result.newest_timestamp, seconds,
            time.time(),
            result.output.gauges, cpu, to, flow, previous_flow,
        ).write(folder)  # fmt: skip
        logger.debug("%s[%s]: round %s took %.3f s", self.stage.id, unit, plan.number, saved_at - started_at)

    def _unit_round(self, plan: RoundPlan, broadcast_values: Mapping[str, Any], unit: int) -> UnitRound:
        """Return the round of a unit, with the state before it; raises `MissingStateError`."""
        # Removed from the cache, so that a failed attempt does not leave a state for later rounds.
        cached = self._snapshots.pop(unit, None)
        if unit in plan.new_units:
            before = StateSnapshot(*plan.previous_round_id)
        else:
            matching = cached if cached is not None and cached.round_id == plan.previous_round_id else None
            before = matching or self.stage.state_store(unit).load(*plan.previous_round_id)
        return UnitRound(plan, broadcast_values, unit, before)

    def _send(self, result: StepResult) -> None:
        """Send the output of the step and the end markers of the round; returns when all are delivered."""
        stage, unit, round_id = self.stage, result.unit_round.unit, result.unit_round.plan.round_id
        if stage.outlets:
            with self._log.record_sender() as record_sender:
                for record in (*result.outcome.records, *_end_markers(stage, result)):
                    record_sender.send(record)
        encoder_args = (stage, unit, round_id, result.output)
        if published := [*result.outcome.results, *encode_dead_letters(*encoder_args), *encode_feedback(*encoder_args)]:
            outputs = [(stage.results, unit), (stage.dead_letters, stage.sender(unit)), (stage.feedback, unit)]
            positions = [(topic, unit, sender) for topic, sender in outputs if topic]
            self._log.publish(f"{stage.id}.{unit}", round_id, published, positions)

    def _save(self, result: StepResult) -> StateSnapshot:
        """Write the new state with its notes: the next offset, the upstream positions, and the unit's counts."""
        unit_round = result.unit_round
        counts = Counter(unit_round.previous.notes.get("counts", {}))
        counts.update(result.output.counts)
        notes = {
            "offset": unit_round.range[1],
            "topics": dict(sorted(unit_round.plan.topics.items())),
            "positions": to_json_value(dict(sorted(result.positions.items()))),
            "sent": result.sent_bytes,
            "read": _read_bytes(unit_round.previous) + result.read_bytes,
            "counts": dict(sorted(counts.items())),
        }
        if result.output.feedback_needed_from:
            notes["needs"] = {
                str(unit): result.output.feedback_needed_from[unit]
                for unit in sorted(result.output.feedback_needed_from)
            }
        after = self.stage.state_store(unit_round.unit).save(
            unit_round.previous, result.output.state, unit_round.plan.round_id, notes
        )
        self._snapshots[unit_round.unit] = after
        return after


def _read_bytes(version: StateSnapshot) -> int:
    """Return the total bytes accepted; if the notes lack it, what the upstream units had sent."""
    if "read" in version.notes:
        return int(version.notes["read"])
    positions = upstream_positions(version.notes, f"round {version.round}")
    return sum(each.sent_bytes for each in positions.values())


def _end_markers(stage: Stage, result: StepResult) -> Iterator[OutgoingRecord]:
    """Yield the end markers of a round, one for each unit downstream."""
    unit_round, output = result.unit_round, result.output
    counts = Counter((record.topic, record.unit) for record in result.outcome.records)
    for topic, units in stage.outlets.items():
        for unit in range(units):
            count, sent = counts[topic, unit], result.sent_bytes.get(receiver_name(topic, unit), 0)
            end = EndMarker(
                count,
                output.watermark,
                sent,
                output.idle,
                *unit_round.range,
                unit_round.plan.clock,
                len(unit_round.plan.ranges),
            )
            stamp = Stamp(
                unit_round.plan.incarnation,
                stage.sender(unit_round.unit),
                unit_round.plan.number,
                count,
                end,
                unit_round.is_first_round,
            )
            yield OutgoingRecord(topic, unit, b"", stamp.header())
