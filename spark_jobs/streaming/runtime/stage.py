"""A stage: which step runs on the units of which topic, where its output goes, where its state lies.

`StageSpec` is what a job declares of one. `place_stages` makes of it a `Stage`, which a planner and workers run: the
job's id, the folders of its states and the units of the topics that it sends to follow from the job and the settings.
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
from springline.spark_jobs.streaming.runtime.report import Report
from springline.spark_jobs.streaming.runtime.segment_files import Spill
from springline.spark_jobs.streaming.runtime.stamps import PLACE
from springline.spark_jobs.streaming.runtime.state_store import Versions
from springline.spark_jobs.streaming.runtime.step import Step

COMMAND = "springline stream"


@dataclass(frozen=True)
class StageSpec:
    """A stage as a job declares it.

    Args:
        name: What it is called within its job, such as `map`.
        step: What makes its step, by import path: `package.module:factory`, called with `arguments`. Executors of
            Spark import it, so it has to be installed there.
        topic: What it reads.
        units: How many units that topic has; each has a state of its own.
        arguments: Of the step's factory; plain values, as JSON has them.
        stamped: The topic is written by stages upstream in the same job.
        own: The topic is written by what a stage of the same job tells.
        asked: The topic is written by clients, for this job alone.
        downstream: The topic of the next stage, which reads it `stamped`; empty: none.
        acks: The topic of the ackers, which read it `stamped`; empty: none.
        told: The topic in which it tells what it has to tell; empty: none.
        results: The topic of results, which others read; empty: none.
        dead: The topic of messages that could not be used; empty: none.
        admitted: Messages of a unit in a round, at most.
        place: Another number for each of the stages that write to the same topic.
        pace: Seconds between the beginnings of two rounds, at least.
        contents: Files in the job's folder that its rounds name, by the name that its step knows them by.
        holds: Files in the job's folder; while one of them is there, nothing is planned.
        apart: Whether it runs in a second Spark application.

    Example:
        >>> StageSpec("count", "package.module:Count", "words", units=2, stamped=True, results="counts").inside
        True
    """

    name: str
    step: str
    topic: str
    units: int = 1
    arguments: Mapping[str, Any] = field(default_factory=dict)
    stamped: bool = False
    own: bool = False
    asked: bool = False
    downstream: str = ""
    acks: str = ""
    told: str = ""
    results: str = ""
    dead: str = ""
    admitted: int = 1_000
    place: int = 0
    pace: float = 0.0
    contents: Mapping[str, str] = field(default_factory=dict)
    holds: Sequence[str] = ()
    apart: bool = False

    @property
    def inside(self) -> bool:
        """Whether what it reads is written by stages of the same job."""
        return self.stamped or self.own

    @property
    def module(self) -> str:
        """The module that makes its step; executors import it before they fork their workers."""
        return self.step.partition(":")[0]

    @property
    def offsets_of(self) -> tuple[str, ...]:
        """The topics whose offsets it remembers: what it reads, and what it tells and reads again."""
        return (self.topic, *([self.told] if self.told else []))

    def sender(self, unit: int) -> int:
        """The number that a unit has in stamps: another one than any unit of any stage that writes to its topics."""
        return self.place * PLACE + unit


@dataclass(frozen=True, kw_only=True)
class Stage(StageSpec):
    """A stage of a job where it runs: what the job declares of it, and what follows.

    `state` is the folder of the job's states, `spill` the one on disk (empty: none) for runs of at least `spill_bytes`.
    `outlets` are the topics of the stages downstream, with their units. A round that has failed `tries` times for the
    same cause in a unit goes on without the messages that it fails with, if there is a topic for `dead` ones; 0: it is
    tried for ever.
    """

    job: str
    state: str
    outlets: Mapping[str, int] = field(default_factory=dict)
    spill: str = ""
    spill_bytes: int = 0
    tries: int = 3

    @property
    def id(self) -> str:
        """The stage's name among all jobs'."""
        return f"{self.job}.{self.name}"

    @property
    def rounds(self) -> str:
        """The topic of its rounds."""
        return rounds_topic(self.job, self.name)

    def folder(self, unit: int) -> Path:
        """Where the versions of a unit's state lie."""
        return Path(self.state) / self.name / str(unit)

    def versions(self, unit: int) -> Versions:
        """The versions of a unit's state."""
        spill = Spill(Path(self.spill) / self.job / self.name / str(unit), self.spill_bytes) if self.spill else None
        return Versions(self.folder(unit), spill)

    @property
    def checkpoint(self) -> Path:
        """Where Spark keeps its own log of rounds: in memory too, since the rounds log tells what is lost with it."""
        return Path(self.state) / "checkpoints" / self.name

    @contextmanager
    def telling_what_helps(self) -> Iterator[None]:
        """While inside, an error of messages that are gone tells also what can be done about it."""
        try:
            yield
        except MessagesLostError as gone:
            raise type(gone)(
                f"{gone}; `{COMMAND} rewind {self.job}` lets the job go on with what is there, "
                f"`{COMMAND} reset {self.job}` lets it begin anew without what it has told"
            ) from gone

    def make_step(self) -> Step:
        """The step, ready to run; raises `UnknownStepError` where its import path leads nowhere."""
        module, separator, factory = self.step.partition(":")
        if not (module and separator and factory):
            raise UnknownStepError(f"{self.id}: its step is {self.step!r}; write package.module:factory")
        try:
            found = importlib.import_module(module)
        except ImportError as error:
            raise UnknownStepError(
                f"{self.id}: its step {self.step!r} cannot be imported: {error}; install what brings it where Spark's "
                "executors run"
            ) from error
        make = getattr(found, factory, None)
        if not callable(make):
            raise UnknownStepError(
                f"{self.id}: its step is {self.step!r}, and the module {module} has no {factory} to call"
            )
        step: Step = make(**self.arguments)
        return step

    def reports(self) -> dict[int, Report]:
        """The last report of each unit that has one."""
        found = {unit: Report.read(self.folder(unit)) for unit in range(self.units)}
        return {unit: report for unit, report in found.items() if report is not None}

    def encode(self) -> str:
        """As an option of a Spark query: one line, the same for the same stage."""
        return _STAGES.encode(self).decode()

    @staticmethod
    def decode(text: str) -> Stage:
        """The inverse of `encode`; raises `DecodeError`."""
        return _STAGES.decode(text.encode(), "the option of a Spark query")


_STAGES: Codec[Stage] = Codec(
    Stage, 1, "a stage", "Spark's executors have another version of Springline than its driver: give them the same"
)


def rounds_topic(job: str, stage: str) -> str:
    """The topic of the rounds of a stage."""
    return f"{job}.{stage}.rounds"


def place_stages(
    job: str,
    specs: Sequence[StageSpec],
    state: Path,
    *,
    pace: float = 0.0,
    spill: str = "",
    spill_bytes: int = 0,
    tries: int = 3,
) -> tuple[Stage, ...]:
    """The stages of a job where they run, from what it declares; states lie below `state`.

    Between two rounds of any stage are at least `pace` seconds; for the others see `Stage`. Raises `InvalidJobError`
    where a stage sends to a topic that none of them reads.
    """
    units = {spec.topic: spec.units for spec in specs}
    placed = []
    for spec in specs:
        sends_to = [topic for topic in (spec.downstream, spec.acks) if topic]
        if odd := [topic for topic in sends_to if topic not in units]:
            raise InvalidJobError(
                f"job {job!r}: its stage {spec.name!r} sends to {odd[0]!r}, which none of its stages reads"
            )
        declared = {each.name: getattr(spec, each.name) for each in fields(StageSpec)}
        placed.append(Stage(
            **{**declared, "pace": max(spec.pace, pace)}, job=job, state=str(state / job),
            outlets={topic: units[topic] for topic in sends_to}, spill=spill, spill_bytes=spill_bytes, tries=tries,
        ))  # fmt: skip
    return tuple(placed)
