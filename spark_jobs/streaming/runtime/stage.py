"""A stage: the step that it runs, the topic that it reads, the topics that it writes, and the folder of its state.

A job declares a `StageSpec`. `place_stages` turns it into a `Stage`, which the planner and workers run: it adds the
job's name, the state folders and the units of downstream topics, from the job and the settings.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.errors import InvalidJobError, MessagesLostError, UnknownStepError
from springline.spark_jobs.streaming.runtime.report import UnitReport
from springline.spark_jobs.streaming.runtime.segment_files import SpillFolder
from springline.spark_jobs.streaming.runtime.stamps import MAX_STAGE_UNITS
from springline.spark_jobs.streaming.runtime.state_store import StateStore
from springline.spark_jobs.streaming.runtime.step import Step

COMMAND = "springline stream"


@dataclass(frozen=True)
class StageSpec:
    """A stage as a job declares it.

    Args:
        name: Name within its job, such as `map`.
        step: Import path of the step's factory, `package.module:factory`; it is called with `arguments`. Spark's
            executors import it, so it must be installed there.
        topic: The topic that it reads.
        units: Number of units of that topic; each has its own state.
        arguments: Arguments of the step's factory; JSON values.
        stamped: The topic is written by upstream stages of the same job.
        reads_feedback: The topic is the feedback of a stage of the same job.
        written_by_clients: The topic is written by clients, for this job alone.
        downstream: The topic of the next stage, which reads it `stamped`; empty: none.
        acks: The topic of the ackers, which read it `stamped`; empty: none.
        feedback: The topic of its feedback within the job; empty: none.
        results: The topic of results, for external readers; empty: none.
        dead_letters: The dead-letter topic; empty: none.
        max_messages_per_round: Maximum number of messages of a unit in a round.
        sender_index: A number that differs among the stages that write to the same topic.
        min_round_interval: Minimum seconds between the starts of two rounds.
        broadcast_files: Files in the job's folder whose contents are broadcast with rounds, by the name that the step
            uses for them.
        hold_files: Files in the job's folder; while one of them exists, no round is planned.
        in_second_application: Whether it runs in a second Spark application.

    Example:
        >>> StageSpec("count", "package.module:Count", "words", units=2, stamped=True, results="counts").reads_own_job
        True
    """

    name: str
    step: str
    topic: str
    units: int = 1
    arguments: Mapping[str, Any] = field(default_factory=dict)
    stamped: bool = False
    reads_feedback: bool = False
    written_by_clients: bool = False
    downstream: str = ""
    acks: str = ""
    feedback: str = ""
    results: str = ""
    dead_letters: str = ""
    max_messages_per_round: int = 1_000
    sender_index: int = 0
    min_round_interval: float = 0.0
    broadcast_files: Mapping[str, str] = field(default_factory=dict)
    hold_files: Sequence[str] = ()
    in_second_application: bool = False

    @property
    def reads_own_job(self) -> bool:
        """Whether its topic is written by stages of the same job."""
        return self.stamped or self.reads_feedback

    @property
    def module(self) -> str:
        """The module of its step; executors import it before they fork their workers."""
        return self.step.partition(":")[0]

    @property
    def consumed_topics(self) -> tuple[str, ...]:
        """The topics whose offsets it records: the topic that it reads, and its feedback topic."""
        return (self.topic, *([self.feedback] if self.feedback else []))

    def sender(self, unit: int) -> int:
        """Return the sender number of a unit in stamps, unique among all units that write to the same topics."""
        return self.sender_index * MAX_STAGE_UNITS + unit


@dataclass(frozen=True, kw_only=True)
class Stage(StageSpec):
    """A stage of a job ready to run: its declaration, and what follows from the job and the settings.

    `state` is the folder of the job's states, `spill` the one on disk (empty: none) for runs of at least `spill_bytes`.
    `outlets` are the topics of the stages downstream, with their number of units. After a round has failed
    `max_attempts` times for the same cause in a unit, it continues without the messages that make it fail, if there is
    a topic for `dead_letters`; 0: it is retried forever.
    """

    job: str
    state: str
    outlets: Mapping[str, int] = field(default_factory=dict)
    spill: str = ""
    spill_bytes: int = 0
    max_attempts: int = 3

    @property
    def id(self) -> str:
        """The stage's name, unique among all jobs."""
        return f"{self.job}.{self.name}"

    @property
    def rounds(self) -> str:
        """The topic of its rounds log."""
        return rounds_topic(self.job, self.name)

    def folder(self, unit: int) -> Path:
        """Return the folder of the versions of a unit's state."""
        return Path(self.state) / self.name / str(unit)

    def state_store(self, unit: int) -> StateStore:
        """Return the store of the versions of a unit's state."""
        spill = (
            SpillFolder(Path(self.spill) / self.job / self.name / str(unit), self.spill_bytes) if self.spill else None
        )
        return StateStore(self.folder(unit), spill)

    @property
    def checkpoint(self) -> Path:
        """Folder of Spark's own log of rounds, in memory too, since the rounds log makes up for its loss."""
        return Path(self.state) / "checkpoints" / self.name

    @contextmanager
    def with_remedy(self) -> Iterator[None]:
        """While inside, add possible remedies to the message of a `MessagesLostError`."""
        try:
            yield
        except MessagesLostError as error:
            raise type(error)(
                f"{error}; `{COMMAND} rewind {self.job}` resumes from the available messages, "
                f"`{COMMAND} reset {self.job}` deletes its state and results"
            ) from error

    def make_step(self) -> Step:
        """Return the step, ready to run; raises `UnknownStepError` if its import path cannot be resolved."""
        module, separator, factory = self.step.partition(":")
        if not (module and separator and factory):
            raise UnknownStepError(f"{self.id}: its step is {self.step!r}; write package.module:factory")
        try:
            imported = importlib.import_module(module)
        except ImportError as error:
            raise UnknownStepError(
                f"{self.id}: its step {self.step!r} cannot be imported: {error}; install its package where Spark's "
                "executors run"
            ) from error
        make = getattr(imported, factory, None)
        if not callable(make):
            raise UnknownStepError(
                f"{self.id}: its step is {self.step!r}, and the module {module} has no {factory} to call"
            )
        step: Step = make(**self.arguments)
        return step

    def reports(self) -> dict[int, UnitReport]:
        """Return the last report of each unit that has one."""
        reports = {unit: UnitReport.read(self.folder(unit)) for unit in range(self.units)}
        return {unit: report for unit, report in reports.items() if report is not None}

    def encode(self) -> str:
        """Encode the stage as an option of a Spark query: one line, the same for the same stage."""
        return _STAGES.encode(self).decode()

    @staticmethod
    def decode(text: str) -> Stage:
        """Decode an option, the inverse of `encode`; raises `DecodeError`."""
        return _STAGES.decode(text.encode(), "the option of a Spark query")


_STAGES: Codec[Stage] = Codec(
    Stage, 1, "a stage", "install the same version of Springline on Spark's executors and its driver"
)


def rounds_topic(job: str, stage: str) -> str:
    """Return the topic of the rounds log of a stage."""
    return f"{job}.{stage}.rounds"


def place_stages(
    job: str,
    specs: Sequence[StageSpec],
    state: Path,
    *,
    min_round_interval: float = 0.0,
    spill: str = "",
    spill_bytes: int = 0,
    max_attempts: int = 3,
) -> tuple[Stage, ...]:
    """Return the stages of a job, ready to run, from their declarations; states are stored below `state`.

    `min_round_interval` is the minimum of seconds between two rounds of any stage; for the other arguments see `Stage`.
    Raises `InvalidJobError` if a stage sends to a topic that none of them reads.
    """
    units = {spec.topic: spec.units for spec in specs}
    placed = []
    for spec in specs:
        sends_to = [topic for topic in (spec.downstream, spec.acks) if topic]
        if unread := [topic for topic in sends_to if topic not in units]:
            raise InvalidJobError(
                f"job {job!r}: its stage {spec.name!r} sends to {unread[0]!r}, which none of its stages reads"
            )
        declared = {each.name: getattr(spec, each.name) for each in fields(StageSpec)}
        placed.append(Stage(
            **{**declared, "min_round_interval": max(spec.min_round_interval, min_round_interval)}, job=job,
            state=str(state / job), outlets={topic: units[topic] for topic in sends_to},
            spill=spill, spill_bytes=spill_bytes, max_attempts=max_attempts,
        ))  # fmt: skip
    return tuple(placed)
