"""Runs rounds of a stage's units, in two parts: the step, and the commit of what it returned.

The step reads the state after the previous round and the messages, and returns the output and the next state. The
commit sends the output, writes the state and reports the round: if a state is written, all output of its round was
delivered, and the round need not run again. The step of a round may begin before the round before it is committed
(`round_pipeline`): commits are in order, so what is not written was not sent either, except for one round.

Each attempt sends the same messages from the first one on, and units downstream accept each once. A round that fails
too often continues without the messages that make it fail, which become dead letters (`attempts`).
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import psutil

from springline.persistence.model.codec import to_json_value
from springline.persistence.monitoring.logs import log_context
from springline.spark_jobs.streaming.runtime.encoding import encode_dead_letters
from springline.spark_jobs.streaming.runtime.message_log import MessageLog, OutgoingRecord, RoundId
from springline.spark_jobs.streaming.runtime.report import (
    Flow,
    RoundStatus,
    StateStatus,
    UnitReport,
    UnitTotals,
)
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.stamps import EndMarker, Stamp, upstream_positions
from springline.spark_jobs.streaming.runtime.state_folders import StateFolders
from springline.spark_jobs.streaming.runtime.state_store import StateSnapshot, as_loaded
from springline.spark_jobs.streaming.runtime.worker.attempts import run_attempt
from springline.spark_jobs.streaming.runtime.worker.round_step import RoundStep, StepResult, UnitRound, receiver_name

logger = logging.getLogger("springline.unit")

_RETAINED_ROUNDS = 4  # newest versions that pruning retains: units of a stage are at most two rounds apart
_PRUNE_EVERY = 16


@dataclass(frozen=True)
class SteppedRound:
    """A round of a unit whose step has run: its result, the state after it, the seconds and CPU seconds of the step."""

    result: StepResult
    after: StateSnapshot
    seconds: float
    cpu: float

    @property
    def unit(self) -> int:
        """The unit."""
        return self.result.unit_round.unit

    @property
    def plan(self) -> RoundPlan:
        """The plan of the round."""
        return self.result.unit_round.plan


@dataclass(frozen=True)
class CompletedRound:
    """A round of a unit whose state was written before, but perhaps not reported."""

    plan: RoundPlan
    unit: int


RoundEntry: TypeAlias = SteppedRound | CompletedRound


class StageWorker:
    """The units of one stage that this process runs; their newest states are cached in memory.

    `states` are the folders of their states. `commit_log` is used by `commit`, which may run in another thread than the
    steps; by default it is `log`.
    """

    def __init__(
        self, stage: Stage, states: StateFolders, log: MessageLog, commit_log: MessageLog | None = None
    ) -> None:
        self.stage = stage
        self.states = states
        self.step = RoundStep(stage, log.fetch)
        self._log = log
        self._commit_log = commit_log or log
        self._stepped: dict[int, StateSnapshot] = {}  # by unit, the newest state of all, which may not be written yet
        self._saved: dict[int, StateSnapshot] = {}  # by unit, the newest state that is written
        self._recoveries: dict[int, str] = {}  # by unit, what was recovered last
        self.reports: dict[int, UnitReport] = {}  # by unit, the newest that was delivered, of any worker
        self.retained: dict[int, RoundId] = {}  # by unit, a round of which the state is being saved elsewhere
        self.checkpoint_errors: dict[int, str] = {}  # by unit, why its state could not be saved elsewhere

    def run(self, plan: RoundPlan, broadcast_values: Mapping[str, Any], unit: int) -> bool:
        """Run a round in a unit and commit it; returns False if the round was completed before.

        `broadcast_values` are those of the plan, by name. Raises what `begin` and `commit` raise.
        """
        entry = self.begin(plan, broadcast_values, unit)
        self.commit([entry])
        return isinstance(entry, SteppedRound)

    def begin(self, plan: RoundPlan, broadcast_values: Mapping[str, Any], unit: int) -> RoundEntry:
        """Run the step of a round in a unit, unless the round was completed before.

        The rounds of a unit must begin in order, and be committed in order. Raises `MissingStateError` if the state
        after the previous round does not exist, and whatever the log or the step raises; then the round can be retried.
        """
        if self.states.store(unit).is_complete(*plan.round_id):
            return CompletedRound(plan, unit)
        with self._logging_failure(plan, unit):
            started_at, cpu_started = time.monotonic(), time.thread_time()
            result = run_attempt(
                self.stage, self.states.folder(unit), self._log, self.step,
                self._unit_round(plan, broadcast_values, unit),
            )  # fmt: skip
            after = self._stepped[unit] = _state_after(result)
            return SteppedRound(result, after, time.monotonic() - started_at, time.thread_time() - cpu_started)

    def commit(self, rounds: Sequence[RoundEntry]) -> None:
        """Send the output of rounds of different units, write their states, and report them.

        Raises whatever the log or the state store raises; then these rounds, and later ones, must begin again.
        """
        try:
            started_at, cpu_started = time.monotonic(), time.thread_time()
            with self._logging_failure(rounds[0].plan, rounds[0].unit):
                self._send([each for each in rounds if isinstance(each, SteppedRound)])
            send_seconds, send_cpu = time.monotonic() - started_at, time.thread_time() - cpu_started
            reports = []
            for entry in rounds:
                with self._logging_failure(entry.plan, entry.unit):
                    if isinstance(entry, SteppedRound):
                        report = self._complete(entry, send_seconds / len(rounds), send_cpu / len(rounds))
                    else:
                        report = self._report(entry.plan, entry.unit, self._load(entry))
                    reports.append(report)
            self._send_reports(reports)
        except BaseException:
            self._stepped.clear()
            raise

    def replay(self, plan: RoundPlan, broadcast_values: Mapping[str, Any], unit: int) -> None:
        """Run a round only for its state: its output was delivered before, and is discarded."""
        result = self.step.run(self._unit_round(plan, broadcast_values, unit), plan.poison_of(unit))
        self._save(result, _state_after(result))

    def reported_round(self, unit: int) -> RoundId | None:
        """Return the newest round of a unit of which the report was delivered, by any worker; None before the first."""
        report = self.reports.get(unit)
        return None if report is None else report.round_id

    def resume(self, unit: int, report: UnitReport | None, recovered: str = "") -> None:
        """Continue the counts of a unit after its last report, of any worker; `recovered` is mentioned in the next."""
        if report is not None:
            self.reports[unit] = report
        if recovered:
            self._recoveries[unit] = recovered

    def _complete(self, stepped: SteppedRound, send_seconds: float, send_cpu: float) -> UnitReport:
        """Publish the results of a round and write its state; returns its report.

        `send_seconds` and `send_cpu` are its share of the sending.
        """
        result, plan, unit = stepped.result, stepped.plan, stepped.unit
        started_at, cpu_started = time.monotonic(), time.thread_time()
        self._publish(result)
        published_at = time.monotonic()
        after = self._save(result, stepped.after)
        store = self.states.store(unit)
        if plan.number % _PRUNE_EVERY == 0:
            retained = [self.retained[unit]] if unit in self.retained else []
            store.prune(retained, before=(plan.incarnation, plan.number - _RETAINED_ROUNDS))
        saved_at = time.monotonic()
        send_seconds += published_at - started_at
        seconds = {"step": stepped.seconds, "send": send_seconds, "save": saved_at - published_at}
        logger.debug("%s[%s]: round %s took %.3f s", self.stage.id, unit, plan.number, sum(seconds.values()))
        cpu = stepped.cpu + send_cpu + time.thread_time() - cpu_started
        return self._report(plan, unit, after, seconds, cpu, result)

    def _report(
        self, plan: RoundPlan, unit: int, after: StateSnapshot,
        seconds: Mapping[str, float] | None = None, cpu: float = 0.0, result: StepResult | None = None,
    ) -> UnitReport:  # fmt: skip
        """Return the report of a completed round, from the state after it and, if it ran here, what it took and its
        result.
        """
        earlier = self.reports[unit].totals if unit in self.reports else UnitTotals()
        seconds, notes = seconds or {}, after.notes
        ranges = plan.ranges_of(unit)
        busy = earlier.flow.busy_seconds
        if seconds and any(to > start for start, to in ranges.values()):
            # Steps and commits overlap, so that the longer of both is what a round takes.
            busy += max(seconds["step"], seconds["send"] + seconds["save"])
        round_status = RoundStatus(
            plan.incarnation,
            plan.number,
            offsets={partition: to for partition, (_, to) in ranges.items()},
            positions=upstream_positions(notes, f"{self.stage.id}, unit {unit}"),
            lag=plan.lag,
            newest_timestamp=0.0 if result is None else result.newest_timestamp,
            ended_at=time.time(),
            seconds=seconds,
            gauges=notes["gauges"],
            timer=0.0 if result is None else result.output.timer,
            slow_reading=self._log.slow_reading(self.stage.topic),
            memory=psutil.Process().memory_info().rss,
        )
        flow = Flow(notes["read"], notes["sent"], busy)
        totals = UnitTotals(notes["counts"], earlier.cpu + cpu, flow, (earlier.flow, *earlier.earlier_flows[:1]))
        state = StateStatus(after.bytes, self._recoveries.get(unit, ""), self.checkpoint_errors.get(unit, ""))
        return UnitReport(unit, round_status, totals, state)

    def _send_reports(self, reports: Sequence[UnitReport]) -> None:
        with self._commit_log.record_sender() as record_sender:
            for report in reports:
                record_sender.send(OutgoingRecord(self.stage.reports, 0, report.encode(), key=report.key))
        self.reports |= {report.unit: report for report in reports}

    def _load(self, completed: CompletedRound) -> StateSnapshot:
        """Return the state after a completed round."""
        return self.states.store(completed.unit).load(*completed.plan.round_id)

    def _unit_round(self, plan: RoundPlan, broadcast_values: Mapping[str, Any], unit: int) -> UnitRound:
        """Return the round of a unit, with the state before it; raises `MissingStateError`."""
        # Removed, so that a failed attempt does not leave a state for later rounds.
        stepped, saved = self._stepped.pop(unit, None), self._saved.get(unit)
        if stepped is not None and stepped.round_id == plan.previous_round_id:
            before = stepped if saved is None else replace(stepped, state=saved.stored(stepped.state))
        elif saved is not None and saved.round_id == plan.previous_round_id:
            before = saved
        else:
            before = self._saved[unit] = self.states.store(unit).load(*plan.previous_round_id)
        return UnitRound(plan, broadcast_values, unit, before)

    def _send(self, rounds: Sequence[SteppedRound]) -> None:
        """Send the output of steps and the end markers of their rounds; returns when all are delivered."""
        if self.stage.outlets and rounds:
            with self._commit_log.record_sender() as record_sender:
                for stepped in rounds:
                    for record in (*stepped.result.outcome.records, *_end_markers(self.stage, stepped.result)):
                        record_sender.send(record)

    def _publish(self, result: StepResult) -> None:
        """Write results, dead letters and feedback in one transaction."""
        stage, unit, round_id = self.stage, result.unit_round.unit, result.unit_round.plan.round_id
        dead_letters = encode_dead_letters(stage, unit, round_id, result.output)
        if published := [*result.outcome.published, *dead_letters]:
            outputs = [(stage.results, unit), (stage.dead_letters, stage.sender(unit)), (stage.feedback, unit)]
            positions = [(topic, unit, sender) for topic, sender in outputs if topic]
            self._commit_log.publish(f"{stage.id}.{unit}", round_id, published, positions)

    def _save(self, result: StepResult, after: StateSnapshot) -> StateSnapshot:
        """Write the state after a round; returns it as it is stored."""
        unit = result.unit_round.unit
        saved = self._saved.get(unit) or result.unit_round.previous
        store = self.states.store(unit)
        self._saved[unit] = saved = store.save(saved, after.state, after.round_id, after.notes)
        return saved

    @contextmanager
    def _logging_failure(self, plan: RoundPlan, unit: int) -> Iterator[None]:
        """Log an error with the round and the unit, and raise it."""
        with log_context(job=self.stage.job, stage=self.stage.name, unit=unit, round=plan.number):
            try:
                yield
            except Exception as error:
                logger.error("%s[%s]: round %s failed: %s", self.stage.id, unit, plan.number, error)
                raise


def _state_after(result: StepResult) -> StateSnapshot:
    """Return the state after a round, with its notes: the next offsets, the upstream positions, and the unit's counts.

    Its scalars and notes are those that would be read from its manifest.
    """
    unit_round, output = result.unit_round, result.output
    counts = Counter(unit_round.previous.notes.get("counts", {}))
    counts.update(output.counts)
    notes = {
        "offsets": {str(partition): to for partition, (_, to) in unit_round.ranges.items()},
        "topics": dict(sorted(unit_round.plan.topics.items())),
        "positions": to_json_value(dict(sorted(result.positions.items()))),
        "sent": result.sent_bytes,
        "read": _read_bytes(unit_round.previous) + result.read_bytes,
        "counts": dict(sorted(counts.items())),
        "gauges": to_json_value(dict(output.gauges)),
    }
    if output.feedback_needed_from:
        notes["needs"] = {str(unit): offset for unit, offset in sorted(output.feedback_needed_from.items())}
    return as_loaded(unit_round.plan.round_id, output.state, notes)


def _read_bytes(version: StateSnapshot) -> int:
    """Return the total bytes accepted; if the notes lack it, what the upstream units had sent."""
    if "read" in version.notes:
        return int(version.notes["read"])
    positions = upstream_positions(version.notes, f"round {version.round}")
    return sum(each.sent_bytes for each in positions.values())


def _end_markers(stage: Stage, result: StepResult) -> Iterator[OutgoingRecord]:
    """Yield the end markers of a round, one for each unit downstream."""
    unit_round, output = result.unit_round, result.output
    counts = Counter((record.topic, record.partition) for record in result.outcome.records)
    starts = {partition: start for partition, (start, to) in unit_round.ranges.items() if to > start}
    for topic, units in stage.outlets.items():
        for unit in range(units):
            count, sent = counts[topic, unit], result.sent_bytes.get(receiver_name(topic, unit), 0)
            end = EndMarker(count, output.watermark, sent, output.idle, unit_round.plan.clock, starts)
            plan = unit_round.plan
            stamp = Stamp(plan.incarnation, stage.sender(unit_round.unit), plan.number, count, end)
            yield OutgoingRecord(topic, unit, b"", stamp.header())
