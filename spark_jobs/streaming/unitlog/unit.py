"""Runs rounds of a stage's units: loads the state, takes the messages, runs the step, sends, writes the new state.

The new state is written last, so where it is there, all that the round sent has arrived, and the round need not be run
again. Each attempt sends the same messages from the first one on, and units downstream take each once.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from persistence.monitoring.logs import about
from spark_jobs.streaming.unitlog.letters import dead_letters, letters_of, results_of, tells_of
from spark_jobs.streaming.unitlog.log import Letter, Log
from spark_jobs.streaming.unitlog.report import Flow, Report
from spark_jobs.streaming.unitlog.rounds import Plan
from spark_jobs.streaming.unitlog.stage import Stage
from spark_jobs.streaming.unitlog.stamps import End, Stamp, Taken, accept
from spark_jobs.streaming.unitlog.step import Input, Message, Output, Round
from spark_jobs.streaming.unitlog.versions import Version, Versions

logger = logging.getLogger("springline.unit")

_KEPT_ROUNDS = 4  # newest versions that pruning leaves
_PRUNE_EVERY = 16


class Units:
    """The units of one stage, as far as this process runs them; their newest states are kept in memory."""

    def __init__(self, stage: Stage, log: Log) -> None:
        self.stage = stage
        self._step = stage.make_step()
        self._log = log
        self._kept: dict[int, Version] = {}

    def run(self, plan: Plan, contents: Mapping[str, Any], unit: int) -> bool:
        """Run a round in a unit, and leave a report; False if that was done before.

        `contents` is what the plan's versions stand for. Raises `MissingVersion` where the state of the round before is
        not there, and whatever the log or the step raises; then the round can be run again.
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
        self._save(self._stepped(plan, contents, unit))

    def _run(self, plan: Plan, contents: Mapping[str, Any], unit: int) -> None:
        begun, spent = time.monotonic(), time.process_time()
        done = self._stepped(plan, contents, unit)
        stepped = time.monotonic()
        self._send(done)
        arrived = time.monotonic()
        after = self._save(done)
        if plan.number % _PRUNE_EVERY == 0:
            done.versions.prune((), before=(plan.incarnation, plan.number - _KEPT_ROUNDS))
        ended = time.monotonic()
        seconds = {"step": stepped - begun, "send": arrived - stepped, "save": ended - arrived}
        folder = done.versions.folder
        earlier = Report.read(folder)
        cpu = (earlier.cpu if earlier else 0.0) + time.process_time() - spent
        start, to = plan.ranges[unit]
        before = Flow(_read(done.before), done.before.notes.get("sent", {}), earlier.flow.busy if earlier else 0.0)
        flow = Flow(after.notes["read"], done.sent, before.busy + (ended - begun if to > start else 0.0))
        Report(
            unit, plan.number, after.notes["counts"], after.bytes, plan.behind, done.newest, seconds, time.time(),
            done.output.gauges, cpu, to, flow, before,
        ).write(folder)  # fmt: skip
        logger.debug("%s[%s]: round %s took %.3f s", self.stage.id, unit, plan.number, ended - begun)

    def _stepped(self, plan: Plan, contents: Mapping[str, Any], unit: int) -> _Stepped:
        """What the step makes of the round."""
        versions = self.stage.versions(unit)
        # Taken out: an attempt that fails must not leave a state behind that others go on from.
        kept = self._kept.pop(unit, None)
        before = kept if kept is not None and kept.order == plan.before else versions.load(*plan.before)
        start, to = plan.ranges[unit]
        reading = _Reading(self.stage, self._log.fetch(self.stage.topic, unit, start, to))
        taken = {int(u): Taken.from_json(told) for u, told in before.notes.get("taken", {}).items()}
        this = Round(plan.incarnation, plan.number, plan.clock, contents)
        given = Input(
            self.stage.name, unit, this, reading, start=start, to=to, source=self._log.fetch, left=unit in plan.left
        )
        read = None
        if self.stage.stamped:
            accepted = accept(reading, taken, plan.incarnation, log=f"{self.stage.topic}[{unit}]")
            taken = dict(accepted.taken)
            read = sum(len(message.value) for message in accepted.messages)
            given = replace(
                given, messages=accepted.messages, watermarks=accepted.watermarks, idle=accepted.idle,
                clocks=accepted.clocks, ended=accepted.ended,
            )  # fmt: skip
        output = self._step(before.state, given)
        letters = tuple(letters_of(self.stage, unit, plan.order, output))
        read = reading.bytes if read is None else read
        return _Stepped(plan, unit, versions, before, output, letters, taken, reading.newest, read)

    def _send(self, done: _Stepped) -> None:
        """Send what the step made, and the ends of the round; returns when all has arrived."""
        stage, plan = self.stage, done.plan
        if stage.outlets:
            with self._log.sending() as sending:
                for letter in (*done.letters, *_ends(stage, done)):
                    sending.send(letter)
        made = (stage, done.unit, plan.order, done.output)
        if outside := [*results_of(*made), *dead_letters(*made), *tells_of(*made)]:
            places = [(stage.results, done.unit), (stage.dead, stage.sender(done.unit)), (stage.told, done.unit)]
            here = [(topic, done.unit, sender) for topic, sender in places if topic]
            self._log.publish(f"{stage.id}.{done.unit}", plan.order, outside, here)

    def _save(self, done: _Stepped) -> Version:
        """Write the new state, and what is remembered beside it: how far the unit is, all that it has counted."""
        counts = Counter(done.before.notes.get("counts", {}))
        counts.update(done.output.counts)
        notes = {
            "offset": done.plan.ranges[done.unit][1],
            "taken": {str(unit): done.taken[unit].as_json() for unit in sorted(done.taken)},
            "sent": done.sent,
            "read": _read(done.before) + done.read,
            "counts": dict(sorted(counts.items())),
        }
        if done.output.needs:
            notes["needs"] = {str(unit): done.output.needs[unit] for unit in sorted(done.output.needs)}
        after = done.versions.save(done.before, done.output.state, done.plan.order, notes)
        self._kept[done.unit] = after
        return after


@dataclass(frozen=True)
class _Stepped:
    """A round of a unit whose step has run: its state before, what came of it; `read` bytes of its messages."""

    plan: Plan
    unit: int
    versions: Versions
    before: Version
    output: Output
    letters: Sequence[Letter]  # to stages downstream
    taken: Mapping[int, Taken]
    newest: float
    read: int

    @cached_property
    def sent(self) -> dict[str, int]:
        """The bytes sent so far to each unit downstream, with this round's."""
        found = Counter(self.before.notes.get("sent", {}))
        for letter in self.letters:
            found[_receiver(letter.topic, letter.unit)] += len(letter.value)
        return dict(found)


class _Reading:
    """Messages on their way to a step, when the newest of them was appended, and their bytes."""

    def __init__(self, stage: Stage, messages: Iterator[Message]) -> None:
        self._stage = stage
        self._messages = messages
        self.newest = 0.0
        self.bytes = 0

    def __iter__(self) -> Iterator[Message]:
        with self._stage.telling_what_helps():
            for message in self._messages:
                self.newest = max(self.newest, message.timestamp)
                self.bytes += len(message.value)
                yield message


def _read(version: Version) -> int:
    """The bytes taken until then; a state that does not tell them has taken what its units upstream had sent."""
    if "read" in version.notes:
        return int(version.notes["read"])
    return sum(Taken.from_json(told).sent_bytes for told in version.notes.get("taken", {}).values())


def _receiver(topic: str, unit: int) -> str:
    return f"{topic}[{unit}]"


def _ends(stage: Stage, done: _Stepped) -> Iterator[Letter]:
    """The end markers of a round, one for each unit downstream."""
    counts = Counter((letter.topic, letter.unit) for letter in done.letters)
    start, to = done.plan.ranges[done.unit]
    for topic, units in stage.outlets.items():
        for unit in range(units):
            count, sent = counts[topic, unit], done.sent.get(_receiver(topic, unit), 0)
            end = End(count, done.output.watermark, sent, done.output.idle, start, to, done.plan.clock)
            stamp = Stamp(done.plan.incarnation, stage.sender(done.unit), done.plan.number, count, end)
            yield Letter(topic, unit, b"", stamp.header())
