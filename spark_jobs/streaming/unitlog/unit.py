"""Runs rounds of a stage's units: loads the state, takes the messages, runs the step, sends, writes the new state.

The new state is written last, so where it is there, all that the round sent has arrived, and the round need not be run
again. Each attempt sends the same messages from the first one on, and units downstream take each once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from spark_jobs.streaming.unitlog.letters import dead_letters, letters_of, results_of
from spark_jobs.streaming.unitlog.log import Letter, Log
from spark_jobs.streaming.unitlog.report import Report
from spark_jobs.streaming.unitlog.rounds import Plan
from spark_jobs.streaming.unitlog.stage import Stage
from spark_jobs.streaming.unitlog.stamps import End, Stamp, Taken, accept
from spark_jobs.streaming.unitlog.step import Input, Message, Output, Round
from spark_jobs.streaming.unitlog.versions import Version, Versions

_KEPT_ROUNDS = 4  # newest versions that pruning leaves
_PRUNE_EVERY = 16


class Units:
    """The units of one stage, as far as this process runs them; their newest states are kept in memory."""

    def __init__(self, stage: Stage, log: Log) -> None:
        self.stage = stage
        self._step = stage.make_step()
        self._log = log
        self._kept: dict[int, Version] = {}

    def run(self, plan: Plan, contents: Mapping[str, Any], unit: int) -> None:
        """Run a round in a unit, and leave a report; `contents` is what the plan's versions stand for.

        Raises `MissingVersion` where the state of the round before is not there, and whatever the log or the step
        raises; then the round can be run again.
        """
        versions = Versions(self.stage.folder(unit))
        if versions.whole(*plan.order):
            return
        begun = time.monotonic()
        before = self._before(versions, plan, unit)
        reading = _Reading(self._log.fetch(self.stage.topic, unit, *plan.ranges[unit]))
        output, taken = self._stepped(before, plan, contents, unit, reading)
        stepped = time.monotonic()
        sent = self._send(plan, unit, output, before)
        arrived = time.monotonic()
        after = versions.save(
            before, output.state, plan.order, _notes(before, plan.ranges[unit][1], taken, sent, output)
        )
        self._kept[unit] = after
        if plan.number % _PRUNE_EVERY == 0:
            versions.prune((), before=(plan.incarnation, plan.number - _KEPT_ROUNDS))
        seconds = {"step": stepped - begun, "send": arrived - stepped, "save": time.monotonic() - arrived}
        Report(
            unit, plan.number, after.notes["counts"], after.bytes, plan.behind, reading.newest, seconds, time.time()
        ).write(versions.folder)  # fmt: skip

    def replay(self, plan: Plan, contents: Mapping[str, Any], unit: int) -> None:
        """Run a round for its state alone: what it sends has arrived long ago, and is discarded."""
        versions = Versions(self.stage.folder(unit))
        before = self._before(versions, plan, unit)
        reading = _Reading(self._log.fetch(self.stage.topic, unit, *plan.ranges[unit]))
        output, taken = self._stepped(before, plan, contents, unit, reading)
        sent = _added(before.notes.get("sent", {}), letters_of(self.stage, unit, plan.order, output))
        self._kept[unit] = versions.save(
            before, output.state, plan.order, _notes(before, plan.ranges[unit][1], taken, sent, output)
        )

    def _before(self, versions: Versions, plan: Plan, unit: int) -> Version:
        # Taken out: an attempt that fails must not leave a state behind that others go on from.
        kept = self._kept.pop(unit, None)
        return kept if kept is not None and kept.order == plan.before else versions.load(*plan.before)

    def _stepped(
        self, before: Version, plan: Plan, contents: Mapping[str, Any], unit: int, messages: Iterable[Message]
    ) -> tuple[Output, dict[str, Any]]:
        """What the step makes of the round, and how far the unit is with each unit upstream."""
        taken = {int(u): Taken.from_json(told) for u, told in before.notes.get("taken", {}).items()}
        watermarks: Mapping[int, float] = {}
        if self.stage.stamped:
            where = f"{self.stage.topic}[{unit}]"
            accepted = accept(messages, taken, plan.incarnation, log=where, cuts=contents.get("cuts", {}))
            messages, taken, watermarks = accepted.messages, dict(accepted.taken), accepted.watermarks
        now = Round(plan.incarnation, plan.number, plan.clock, contents)
        output = self._step(before.state, Input(self.stage.name, unit, now, messages, watermarks))
        return output, {str(u): taken[u].as_json() for u in sorted(taken)}

    def _send(self, plan: Plan, unit: int, output: Output, before: Version) -> dict[str, int]:
        """Send what the step made; returns the bytes sent so far to each unit downstream."""
        stage = self.stage
        letters = list(letters_of(stage, unit, plan.order, output))
        sent = _added(before.notes.get("sent", {}), letters)
        if stage.downstream:
            counts = Counter(letter.unit for letter in letters)
            with self._log.sending() as sending:
                for letter in (*letters, *_ends(stage, unit, plan, output.watermark, counts, sent)):
                    sending.send(letter)
        outside = [*results_of(stage, unit, plan.order, output), *dead_letters(stage, unit, plan.order, output)]
        if outside:
            places = [(topic, unit) for topic in (stage.results, stage.dead) if topic]
            self._log.publish(f"{stage.id}.{unit}", plan.order, outside, places)
        return sent


class _Reading:
    """Messages on their way to a step, and when the newest of them was appended."""

    def __init__(self, messages: Iterator[Message]) -> None:
        self._messages = messages
        self.newest = 0.0

    def __iter__(self) -> Iterator[Message]:
        for message in self._messages:
            self.newest = max(self.newest, message.timestamp)
            yield message


def _notes(
    before: Version, offset: int, taken: Mapping[str, Any], sent: Mapping[str, int], output: Output
) -> dict[str, Any]:
    """What is remembered beside the step's state: how far the unit is, and all that it has counted so far."""
    counts = Counter(before.notes.get("counts", {}))
    counts.update(output.counts)
    return {"offset": offset, "taken": taken, "sent": sent, "counts": dict(sorted(counts.items()))}


def _added(sent: Mapping[str, int], letters: Iterable[Letter]) -> dict[str, int]:
    """The bytes sent so far to each unit downstream, with more letters."""
    found = dict(sent)
    for letter in letters:
        found[str(letter.unit)] = found.get(str(letter.unit), 0) + len(letter.value)
    return found


def _ends(
    stage: Stage, unit: int, plan: Plan, watermark: float | None, counts: Mapping[int, int], sent: Mapping[str, int]
) -> Iterator[Letter]:
    """The end markers of a round, one for each unit downstream."""
    for to in range(stage.units):
        end = End(counts[to], watermark, sent.get(str(to), 0))
        stamp = Stamp(plan.incarnation, unit, plan.number, counts[to], end)
        yield Letter(stage.downstream, to, b"", stamp.header())
