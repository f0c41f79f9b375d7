"""Runs a step or a declared job in this process, on topics in memory: without Kafka and Spark, with a test clock."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from springline.spark_jobs.streaming.job import BaseJob, Job, topics_of_stages
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import read_job
from springline.spark_jobs.streaming.runtime.atomic_files import read_json
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.history import BroadcastValue
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.message_log import MessageLog as AnyLog
from springline.spark_jobs.streaming.runtime.report_log import ReportReader
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from springline.spark_jobs.streaming.runtime.stage import Stage, StageSpec, place_stages
from springline.spark_jobs.streaming.runtime.state_folders import StateFolders
from springline.spark_jobs.streaming.runtime.step import DeadLetter
from springline.spark_jobs.streaming.runtime.topic_union import topics_of
from springline.spark_jobs.streaming.runtime.worker.checkpoints import CheckpointStorage
from springline.spark_jobs.streaming.runtime.worker.recovery import StateRecovery
from springline.spark_jobs.streaming.runtime.worker.unit import RoundEntry, StageWorker
from springline.testing.memory_log import KilledError, MemoryLog

BEGINNING = 4_102_444_800.0  # 2100-01-01, in seconds since 1970: no row of a test is ahead of the clock
TURN_SECONDS = 0.1
DRAIN_SECONDS = 0.001  # of a turn in `drain`: so short that a stage without messages has no round
MAX_TURNS = 10_000


class RestoringWorker(StageWorker):
    """A worker that recovers the state of each unit before the first round that it runs, as a task does.

    Args:
        stage: the stage.
        states: the folders of its states.
        log: its log.
        storage: where checkpoints are; by default there are none.

    Example:
        ```python
        RestoringWorker(stage, StateFolders(folder), log).run(plan, planner.broadcast_values_of(plan), unit=0)
        ```
    """

    def __init__(
        self, stage: Stage, states: StateFolders, log: AnyLog, storage: CheckpointStorage | None = None
    ) -> None:
        super().__init__(stage, states, log)
        self._recovery = StateRecovery(self, log, storage)
        self._restored: set[int] = set()

    def begin(self, plan: RoundPlan, broadcast_values: Mapping[str, Any], unit: int) -> RoundEntry:
        """Run the step of a round in a unit, whose state is recovered before its first round here."""
        if unit not in self._restored:
            self._recovery.restore([unit], [plan])
            self._restored.add(unit)
        return super().begin(plan, broadcast_values, unit)


class JobRun:
    """Runs a stream job in one process without Kafka and Spark: each call of `turn` runs one round of each stage.

    Rounds, states, recovery and deduplication are those of a job on Kafka. Back-pressure, the supervision of tracking
    and the rebalancing of joins, which an application runs beside the rounds, are left out.

    Args:
        job: the job; `JobRun.from_declaration` reads it from a file.
        folder: a folder that only this test uses, for states and the job's files.
        partitions: number of partitions of each topic that the job reads.
        clock: start time in seconds since 1970; by default in 2100, so that no row is ahead of the clock.
        tries: number of failures of a round before the messages that cause them become dead letters; 0: no limit.

    Attributes:
        log: the topics, a `MemoryLog`.
        clock: the current time in seconds since 1970; only turns and the test itself advance it.

    Raises:
        InvalidJobError: from `from_declaration`, if the declaration is invalid.
        InvalidStreamError: from `from_declaration`, if the declaration of its stream is invalid.
        UnknownJobError: from `from_declaration`, if the file has no such job.

    Example:
        >>> _ = folder.joinpath("streams.toml").write_text('''
        ... [sales]
        ... topic = "sales"
        ... [sales.stream]
        ... time = "time"
        ... fields = [["time", "timestamp"], ["drink", "text"], ["price", "float"]]
        ... [sales.queries]
        ... takings = "SELECT drink, sum(price) AS taken FROM sales GROUP BY drink WINDOWING 1 h"
        ... ''')
        >>> run = JobRun.from_declaration(folder / "streams.toml", "sales", folder)
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
        self.stages = place_stages(job.name, job.stages(), max_attempts=tries)
        self._states = folder / "states"
        self.log = MemoryLog({**dict.fromkeys(sources, partitions), **topics_of_stages(job)})
        self.clock = clock
        self._appended_counts: dict[str, int] = dict.fromkeys(sources, 0)
        job.prepare(self.folder)
        self._start()

    @staticmethod
    def from_declaration(file: Path, name: str, folder: Path, partitions: int = 1) -> JobRun:
        """Create a run of the job `name` that `file`, a `streams.toml`, declares.

        Raises `UnknownJobError`, `InvalidJobError`.
        """
        return JobRun(read_job(file, name), folder, partitions)

    def feed(self, *messages: bytes | str, topic: str = "") -> None:
        """Append messages to a topic, by default the first that the job reads, to its partitions in turn.

        A `str` is encoded as UTF-8. The timestamp of each message is the run's clock.
        """
        topic = topic or next(iter(self._appended_counts))
        for message in messages:
            value = message.encode() if isinstance(message, str) else message
            self.log.put(topic, self._appended_counts[topic] % self.partitions, value, self.clock)
            self._appended_counts[topic] += 1

    def turn(self, seconds: float = TURN_SECONDS) -> bool:
        """Advance the clock, then run a round of each stage that has one; returns whether any round had messages."""
        self.clock += seconds
        had_messages = False
        for name in self.planners:
            planner = self.planners[name]
            plan = planner.after(self.last_plans.get(name) or planner.begin())
            if plan is None:
                continue
            for unit in range(plan.units):
                self.units[name].run(plan, planner.broadcast_values_of(plan), unit)
            self.last_plans[name] = plan
            had_messages = had_messages or plan.messages > 0
        return had_messages

    def drain(self) -> None:
        """Run turns until every stage has read everything; raises `AssertionError` after 10,000 turns."""
        for _ in range(MAX_TURNS):
            if not self.turn(DRAIN_SECONDS):
                return
        raise AssertionError(f"{self.job.name}: messages are left after {MAX_TURNS:,} turns")

    def advance(self, seconds: float) -> None:
        """Advance the clock in turns of one second, so that idle partitions do not hold windows open; then drain."""
        until = self.clock + seconds
        while self.clock < until:
            self.turn(min(1.0, until - self.clock))
        self.drain()

    def results(self) -> list[dict[str, Any]]:
        """Return all rows of the topic of results, partition by partition, in the order in which they were written."""
        return [json.loads(line) for message in self._messages(self.job.results) for line in _lines(message)]

    def dead_letters(self) -> list[DeadLetter]:
        """Return the dead letters: position (topic, partition, offset), bytes, and the reason in words."""
        return [
            DeadLetter(
                int(record.headers["offset"]), bytes(record.value), record.headers["reason"].decode(),
                int(record.headers["partition"]), record.headers["topic"].decode(),
            )
            for record in self._messages(self.job.dead_letters)
        ]  # fmt: skip

    def restart(self, *, lose_states: bool = False) -> None:
        """Restart the driver and the workers, without memory; with `lose_states`, their states are deleted as well.

        Lost states are rebuilt from the topics, as after the loss of a machine.
        """
        if lose_states:
            shutil.rmtree(self._states, ignore_errors=True)
        self._start()

    def crash(self, after: int | None, *, lose_states: bool = False) -> bool:
        """Run a turn in which the process crashes after `after` calls of the log, and restart; False if it did not.

        Increment `after` from 0 until this returns False, to crash the process at every possible point. `None`: no
        crash.
        """
        self.log.calls_until_death = after
        try:
            self.turn()
        except KilledError:
            self.restart(lose_states=lose_states)
            return True
        finally:
            self.log.calls_until_death = None
        return False

    def _start(self) -> None:
        """Start a driver and workers from the topics and the states alone."""
        self.log.calls_until_death = None
        self.planners = {stage.name: self._planner(stage) for stage in self.stages}
        self.units = {stage.name: self._make_units(stage) for stage in self.stages}
        self.last_plans: dict[str, RoundPlan] = {}
        self.reports = ReportReader(self.stages, self.log)

    def _make_units(self, stage: Stage) -> StageWorker:
        """Create the units of a stage, with the step that they run."""
        return RestoringWorker(stage, StateFolders(self._states / stage.name), self.log)

    def _planner(self, stage: Stage) -> Planner:
        def contents() -> dict[str, BroadcastValue]:
            return {
                name: BroadcastValue.of(read_json(self.folder.path / file))
                for name, file in stage.broadcast_files.items()
            }

        return Planner(stage, self.log, lambda: self.clock, contents)

    def _messages(self, topic: str) -> list[Message]:
        return [message for unit in self.log.topics[topic] for message in unit]


class StageRun(JobRun):
    """Runs one step as the only stage of a job that reads the topic `input`, to test a step of your own.

    Args:
        step: the factory of the step, by import path, such as `package.module:factory`.
        folder: a folder that only this test uses, for the states.
        arguments: arguments of the factory, JSON values by name.
        partitions: number of partitions of the topic.
        units: number of units of the stage, which share the partitions.
        admitted: maximum number of offsets per unit and round; because of gaps, slightly more than messages.
        tries: number of failures of a round before the messages that cause them become dead letters; 0: no limit.

    Raises:
        UnknownStepError: nothing can be imported from the import path.

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
        partitions: int = 1, units: int = 1, admitted: int = 1_000, tries: int = 3,
    ) -> None:  # fmt: skip
        spec = StageSpec(
            "stage", step, "input", units, dict(arguments or {}), results="job.results",
            dead_letters="job.dead-letters",
            max_messages_per_round=admitted,
        )  # fmt: skip
        super().__init__(_StageJob(spec), folder, partitions, tries=tries)


@dataclass(frozen=True)
class _StageJob(BaseJob):
    """A job of one stage."""

    spec: StageSpec
    name: str = "job"
    topic: str = "input"

    def stages(self) -> tuple[StageSpec, ...]:
        """Return the only stage."""
        return (self.spec,)


def _lines(message: Message) -> list[bytes]:
    return bytes(message.value).splitlines()
