"""Runs rounds of a stage's units: loads the state, takes the messages, runs the step, sends, writes the new state.

The new state is written last, so where it is there, all that the round sent has arrived, and the round need not be run
again. Each attempt sends the same messages from the first one on, and units downstream take each once. A round that
fails too often goes on without the messages that it fails with, which are dead letters (`attempts`).
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from springline.persistence.model.codec import plain
from springline.persistence.monitoring.logs import about
from springline.spark_jobs.streaming.runtime.encoding import dead_letters, tells_of
from springline.spark_jobs.streaming.runtime.message_log import Letter, Log
from springline.spark_jobs.streaming.runtime.report import Flow, Report
from springline.spark_jobs.streaming.runtime.rounds import Plan
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.stamps import End, Stamp, taken_in
from springline.spark_jobs.streaming.runtime.state_store import Version
from springline.spark_jobs.streaming.runtime.worker.attempts import attempt
from springline.spark_jobs.streaming.runtime.worker.round_step import RoundStep, Stepped, UnitRound, receiver

logger = logging.getLogger("springline.unit")

_KEPT_ROUNDS = 4  # newest versions that pruning leaves
_PRUNE_EVERY = 16


class Units:
    """The units of one stage, as far as this process runs them; their newest states are kept in memory."""

    def __init__(self, stage: Stage, log: Log) -> None:
        self.stage = stage
        self.step = RoundStep(stage, log)
        self._log = log
        self._kept: dict[int, Version] = {}

    def run(self, plan: Plan, contents: Mapping[str, Any], unit: int) -> bool:
        """Run a round in a unit, and leave a report; False if that was done before.

        `contents` is what the plan's versions stand for. Raises `MissingStateError` where the state of the round before
        is not there, and whatever the log or the step raises; then the round can be run again.
        """
        if self.stage.versions(unit).whole(*plan.order):
            return False
        with about(job=self.stage.job, stage=self.stage.name, unit=unit, round=plan.number):
            try:
                self._run(plan, contents, unit)
            except Exception as error:
                logger.error("%s[%s]: round %s failed: %s", self.stage.id, unit, plan.number, error)
                raise
        return True

    def replay(self, plan: Plan, contents: Mapping[str, Any], unit: int) -> None:
        """Run a round for its state alone: what it sends has arrived long ago, and is discarded."""
        self._save(self.step.run(self._of(plan, contents, unit), plan.aside.get(unit, {})))

    def _run(self, plan: Plan, contents: Mapping[str, Any], unit: int) -> None:
        begun, spent = time.monotonic(), time.process_time()
        done = attempt(self.stage, self._log, self.step, self._of(plan, contents, unit))
        stepped = time.monotonic()
        self._send(done)
        arrived = time.monotonic()
        after = self._save(done)
        versions = self.stage.versions(unit)
        if plan.number % _PRUNE_EVERY == 0:
            versions.prune((), before=(plan.incarnation, plan.number - _KEPT_ROUNDS))
        ended = time.monotonic()
        seconds = {"step": stepped - begun, "send": arrived - stepped, "save": ended - arrived}
        folder = versions.folder
        earlier = Report.read(folder)
        cpu = (earlier.cpu if earlier else 0.0) + time.process_time() - spent
        start, to = plan.ranges[unit]
        before = Flow(
            _read(done.of.before), done.of.before.notes.get("sent", {}), earlier.flow.busy if earlier else 0.0
        )
        flow = Flow(after.notes["read"], done.sent, before.busy + (ended - begun if to > start else 0.0))
        Report(
            unit, plan.number, after.notes["counts"], after.bytes, plan.behind, done.newest, seconds, time.time(),
            done.output.gauges, cpu, to, flow, before,
        ).write(folder)  # fmt: skip
        logger.debug("%s[%s]: round %s took %.3f s", self.stage.id, unit, plan.number, ended - begun)

    def _of(self, plan: Plan, contents: Mapping[str, Any], unit: int) -> UnitRound:
        """The round of a unit, with the state before it; raises `MissingStateError`."""
        # Taken out: an attempt that fails must not leave a state behind that others go on from.
        kept = self._kept.pop(unit, None)
        if unit in plan.new:
            before = Version(*plan.before)
        else:
            known = kept if kept is not None and kept.order == plan.before else None
            before = known or self.stage.versions(unit).load(*plan.before)
        return UnitRound(plan, contents, unit, before)

    def _send(self, done: Stepped) -> None:
        """Send what the step made, and the ends of the round; returns when all has arrived."""
        stage, unit, order = self.stage, done.of.unit, done.of.plan.order
        if stage.outlets:
            with self._log.sending() as sending:
                for letter in (*done.outcome.letters, *_ends(stage, done)):
                    sending.send(letter)
        made = (stage, unit, order, done.output)
        if outside := [*done.outcome.results, *dead_letters(*made), *tells_of(*made)]:
            places = [(stage.results, unit), (stage.dead, stage.sender(unit)), (stage.told, unit)]
            here = [(topic, unit, sender) for topic, sender in places if topic]
            self._log.publish(f"{stage.id}.{unit}", order, outside, here)

    def _save(self, done: Stepped) -> Version:
        """Write the new state, and what is remembered beside it: how far the unit is, all that it has counted."""
        of = done.of
        counts = Counter(of.before.notes.get("counts", {}))
        counts.update(done.output.counts)
        notes = {
            "offset": of.range[1],
            "topics": dict(sorted(of.plan.topics.items())),
            "taken": plain(dict(sorted(done.taken.items()))),
            "sent": done.sent,
            "read": _read(of.before) + done.read,
            "counts": dict(sorted(counts.items())),
        }
        if done.output.needs:
            notes["needs"] = {str(unit): done.output.needs[unit] for unit in sorted(done.output.needs)}
        after = self.stage.versions(of.unit).save(of.before, done.output.state, of.plan.order, notes)
        self._kept[of.unit] = after
        return after


def _read(version: Version) -> int:
    """The bytes taken until then; a state that does not tell them has taken what its units upstream had sent."""
    if "read" in version.notes:
        return int(version.notes["read"])
    taken = taken_in(version.notes, f"round {version.round}")
    return sum(each.sent_bytes for each in taken.values())


def _ends(stage: Stage, done: Stepped) -> Iterator[Letter]:
    """The end markers of a round, one for each unit downstream."""
    of, output = done.of, done.output
    counts = Counter((letter.topic, letter.unit) for letter in done.outcome.letters)
    for topic, units in stage.outlets.items():
        for unit in range(units):
            count, sent = counts[topic, unit], done.sent.get(receiver(topic, unit), 0)
            end = End(count, output.watermark, sent, output.idle, *of.range, of.plan.clock, len(of.plan.ranges))
            stamp = Stamp(of.plan.incarnation, stage.sender(of.unit), of.plan.number, count, end, of.begins)
            yield Letter(topic, unit, b"", stamp.header())
