"""Runs a step or a declared job in this process, on topics in memory: without Kafka and Spark, by its own clock."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from springline.spark_jobs.streaming.job import BaseJob, Job, topics_of_stages
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import job_of
from springline.spark_jobs.streaming.kafka.topic_union import topics_of, units_in
from springline.spark_jobs.streaming.runtime.atomic_files import read_json
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.driver.recovery import recover
from springline.spark_jobs.streaming.runtime.history import Content
from springline.spark_jobs.streaming.runtime.rounds import Plan
from springline.spark_jobs.streaming.runtime.stage import Stage, StageSpec, place_stages
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Message
from springline.spark_jobs.streaming.runtime.worker.unit import Units
from springline.testing.memory_log import KilledError, MemoryLog

BEGINNING = 4_102_444_800.0  # 2100-01-01, in seconds since 1970: no row that a test makes up is ahead of the clock
TURN_SECONDS = 0.1
DRAIN_SECONDS = 0.001  # a turn that drains: so short that a stage without messages has no round
MOST_TURNS = 10_000


class JobRun:
    """A stream job as one process without Kafka and Spark: its stages run their rounds in turn, when they are told to.

    Rounds, states, recovery and deduplication are those of a job on Kafka. Back-pressure, the oversight of tracking and
    the rebalancing of joins, which an application does beside the rounds, are left out.

    Args:
        job: the job; `JobRun.declared` reads it from a file.
        folder: a folder of the test's own, for states and the job's files.
        partitions: of each topic that the job reads.
        clock: when the run begins, in seconds since 1970; by default in 2100, so that no row is ahead of the time.
        tries: how often a round fails before the messages that it fails with are dead letters; 0: for ever.

    Attributes:
        log: the topics, a `MemoryLog`.
        clock: what time it is, in seconds since 1970; only turns and the test itself move it.

    Raises:
        InvalidJobError: from `declared`, where the declaration cannot be meant so.
        InvalidStreamError: the same, of its stream.
        UnknownJobError: from `declared`, where the file has no such job.

    Example:
        >>> _ = folder.joinpath("streams.toml").write_text('''
        ... [sales]
        ... topic = "sales"
        ... [sales.stream]
        ... time = "time"
        ... unit = "iso"
        ... fields = [["time", "text"], ["drink", "text"], ["price", "float"]]
        ... [sales.queries]
        ... takings = "SELECT drink, sum(price) AS taken FROM sales GROUP BY drink WINDOWING 1 h"
        ... ''')
        >>> run = JobRun.declared(folder / "streams.toml", "sales", folder)
        >>> run.feed("2026-03-02 08:05:00,tea,3.0", "2026-03-02 08:10:00,tea,2.5", "2026-03-02 09:30:00,tea,3.0")
        >>> run.drain()
        >>> [(row["drink"], row["taken"]) for row in run.results()]
        [('tea', 5.5)]
    """

    def __init__(
        self, job: Job, folder: Path, partitions: int = 1, *, clock: float = BEGINNING, tries: int = 3
    ) -> None:
        self.job = job
        self.partitions = partitions
        self.folder = JobFolder(folder / "job")
        self.folder.path.mkdir(parents=True, exist_ok=True)
        sources = topics_of(job.topic)
        units = units_in([partitions] * len(sources))
        self.stages = place_stages(job.name, job.stages(units), folder / "states", tries=tries)
        self.log = MemoryLog({**dict.fromkeys(sources, partitions), **topics_of_stages(job, units)})
        self.clock = clock
        self._fed: dict[str, int] = dict.fromkeys(sources, 0)
        job.prepare(self.folder)
        self._start()

    @staticmethod
    def declared(file: Path, name: str, folder: Path, partitions: int = 1) -> JobRun:
        """Run the job `name` as `file`, a `streams.toml`, declares it; raises `UnknownJobError`, `InvalidJobError`."""
        return JobRun(job_of(file, name), folder, partitions)

    def feed(self, *messages: bytes | str, topic: str = "") -> None:
        """Append messages to a topic, by default the first that the job reads, to its partitions in turn.

        A text is sent as UTF-8. Each message is appended at the run's clock.
        """
        topic = topic or next(iter(self._fed))
        for message in messages:
            value = message.encode() if isinstance(message, str) else message
            self.log.put(topic, self._fed[topic] % self.partitions, value, self.clock)
            self._fed[topic] += 1

    def turn(self, seconds: float = TURN_SECONDS) -> bool:
        """Let so many seconds pass, then run a round of each stage that has one; whether one had messages."""
        self.clock += seconds
        worked = False
        for name in self.planners:
            planner = self.planners[name]
            plan = planner.after(self.last.get(name) or planner.begin())
            if plan is None:
                continue
            for unit in sorted(plan.ranges):
                self.units[name].run(plan, planner.contents_of(plan), unit)
            self.last[name] = plan
            worked = worked or plan.messages > 0
        return worked

    def drain(self) -> None:
        """Turn until every stage has read everything; raises `AssertionError` after 10,000 turns."""
        for _ in range(MOST_TURNS):
            if not self.turn(DRAIN_SECONDS):
                return
        raise AssertionError(f"{self.job.name}: messages are left after {MOST_TURNS:,} turns")

    def advance(self, seconds: float) -> None:
        """Let time pass in turns of a second, so that idle partitions hold no window open; then drain."""
        until = self.clock + seconds
        while self.clock < until:
            self.turn(min(1.0, until - self.clock))
        self.drain()

    def results(self) -> list[dict[str, Any]]:
        """All rows of the topic of results, partition by partition, in the order in which they were written."""
        return [json.loads(line) for message in self._messages(self.job.results) for line in _lines(message)]

    def dead_letters(self) -> list[DeadLetter]:
        """What could not be used: where it was (topic, partition, offset), its bytes, and the reason in words."""
        return [
            DeadLetter(
                int(letter.headers["offset"]), bytes(letter.value), letter.headers["reason"].decode(),
                int(letter.headers["partition"]), letter.headers["topic"].decode(),
            )
            for letter in self._messages(self.job.dead)
        ]  # fmt: skip

    def restart(self, *, lose_states: bool = False) -> None:
        """Start the driver and the workers anew, without memory; with `lose_states`, their states are gone too.

        Lost states are made again from the topics, as after the loss of a machine.
        """
        if lose_states:
            shutil.rmtree(self.stages[0].state, ignore_errors=True)
        self._start()

    def crash(self, after: int | None, *, lose_states: bool = False) -> bool:
        """Make a turn in which the process dies after so many calls of the log, and restart; False if it survived.

        Count `after` up from 0 until this is False, and the process has died at every point where it can. `None`:
        it does not die.
        """
        self.log.dies_in = after
        try:
            self.turn()
        except KilledError:
            self.restart(lose_states=lose_states)
            return True
        finally:
            self.log.dies_in = None
        return False

    def _start(self) -> None:
        """Begin with a driver and workers that know nothing but the topics and the states."""
        self.log.dies_in = None
        for stage in self.stages:
            self._recover(stage)
        self.planners = {stage.name: self._planner(stage) for stage in self.stages}
        self.units = {stage.name: self._make_units(stage) for stage in self.stages}
        self.last: dict[str, Plan] = {}

    def _recover(self, stage: Stage) -> None:
        """Bring back the states of a stage that are lost."""
        recover(stage, self.log, lambda stage, unit, until: None)

    def _make_units(self, stage: Stage) -> Units:
        """The units of a stage, with the step that they run."""
        return Units(stage, self.log)

    def _planner(self, stage: Stage) -> Planner:
        def contents() -> dict[str, Content]:
            return {name: Content.of(read_json(self.folder.path / file)) for name, file in stage.contents.items()}

        return Planner(stage, self.log, lambda: self.clock, contents)

    def _messages(self, topic: str) -> list[Message]:
        return [message for unit in self.log.topics[topic] for message in unit]


class StageRun(JobRun):
    """One step as the only stage of a job that reads the topic `input`: what a step of your own is tested with.

    Args:
        step: what makes the step, by import path, as `package.module:factory`.
        folder: a folder of the test's own, for the states.
        arguments: what the factory is given, JSON values by name.
        partitions: of the topic, each read by a unit of the stage.
        admitted: offsets of a unit in a round, at most; with their gaps they are somewhat more than messages.
        tries: how often a round fails before the messages that it fails with are dead letters; 0: for ever.

    Raises:
        UnknownStepError: the import path leads nowhere.

    Example:
        >>> _ = folder.joinpath("counting.py").write_text('''
        ... import pyarrow as pa
        ... from springline.stream_kinds import Input, Output, State
        ...
        ... def count(state: State, given: Input) -> Output:
        ...     total = state.scalars.get("total", 0) + sum(1 for _ in given.messages)
        ...     return Output(State({"total": total}), results=[pa.RecordBatch.from_pylist([{"total": total}])])
        ...
        ... def make_count():
        ...     return count
        ... ''')
        >>> import sys
        >>> sys.path.insert(0, str(folder))
        >>> run = StageRun("counting:make_count", folder)
        >>> run.feed("a", "b")
        >>> run.turn(), run.turn()
        (True, False)
        >>> run.restart(lose_states=True)
        >>> run.feed("c")
        >>> run.drain()
        >>> run.results()
        [{'total': 2}, {'total': 3}]
    """

    def __init__(
        self, step: str, folder: Path, *, arguments: Mapping[str, Any] | None = None,
        partitions: int = 1, admitted: int = 1_000, tries: int = 3,
    ) -> None:  # fmt: skip
        spec = StageSpec(
            "stage", step, "input", partitions, dict(arguments or {}), results="job.results", dead="job.dead",
            admitted=admitted,
        )  # fmt: skip
        super().__init__(_StageJob(spec), folder, partitions, tries=tries)


@dataclass(frozen=True)
class _StageJob(BaseJob):
    """A job of one stage."""

    spec: StageSpec
    name: str = "job"
    topic: str = "input"

    def stages(self, units: int) -> tuple[StageSpec, ...]:
        """The one stage."""
        return (self.spec,)


def _lines(message: Message) -> list[bytes]:
    return bytes(message.value).splitlines()
