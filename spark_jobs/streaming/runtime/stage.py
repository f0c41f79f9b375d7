"""A stage: which step runs on the units of which topic, where its output goes, where its state lies."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from springline.spark_jobs.streaming.errors import MessagesGone, UnknownStep
from springline.spark_jobs.streaming.runtime.report import Report
from springline.spark_jobs.streaming.runtime.segment_files import Spill
from springline.spark_jobs.streaming.runtime.stamps import PLACE
from springline.spark_jobs.streaming.runtime.state_store import Versions
from springline.spark_jobs.streaming.runtime.step import Step

COMMAND = "springline stream"
_STEPS: dict[str, Callable[..., Step]] = {}


@dataclass(frozen=True)
class Stage:
    """One stage of a job.

    `step` and `arguments` name a registered step, found in one of `modules`. With `stamped`, the topic is written by
    stages upstream; with `own`, by what a stage of the same job tells; with `asked`, by clients, for this job alone.
    `downstream` is the topic of the next stage, with `units` units, `acks` that of the ackers, with `ackers` units,
    `told` where it tells what it has to tell; `results` and `dead` are what others read. Stages that write to the same
    topic have different places there. `state` is the folder of the units' states, `spill` the one on disk (empty: none)
    for runs of at least `spill_bytes`. At most `admitted` messages of a unit go into a round; between the beginnings of
    two rounds are at least `pace` seconds. A round that has failed `tries` times for the same cause in a unit goes on
    without the messages that it fails with, if there is a topic for `dead` ones; 0: it is tried for ever.
    """

    job: str
    name: str
    step: str
    topic: str
    state: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    modules: Sequence[str] = ()
    stamped: bool = False
    downstream: str = ""
    units: int = 0
    results: str = ""
    dead: str = ""
    admitted: int = 1_000
    own: bool = False
    asked: bool = False
    place: int = 0
    acks: str = ""
    ackers: int = 0
    told: str = ""
    pace: float = 0.02
    spill: str = ""
    spill_bytes: int = 0
    tries: int = 3

    @property
    def inside(self) -> bool:
        """Whether what it reads is written by stages of the same job."""
        return self.stamped or self.own

    @property
    def offsets_of(self) -> tuple[str, ...]:
        """The topics whose offsets it remembers: what it reads, and what it tells and reads again."""
        return (self.topic, *([self.told] if self.told else []))

    @property
    def outlets(self) -> Mapping[str, int]:
        """The topics of the stages downstream, with their units."""
        found = {self.downstream: self.units, self.acks: self.ackers}
        return {topic: units for topic, units in found.items() if topic}

    def sender(self, unit: int) -> int:
        """The number that a unit has in stamps: another one than any unit of any stage that writes to its topics."""
        return self.place * PLACE + unit

    @property
    def id(self) -> str:
        """The stage's name among all jobs'."""
        return f"{self.job}.{self.name}"

    @property
    def rounds(self) -> str:
        """The topic of its rounds."""
        return f"{self.id}.rounds"

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
        except MessagesGone as gone:
            raise type(gone)(
                f"{gone}; `{COMMAND} rewind {self.job}` lets the job go on with what is there, "
                f"`{COMMAND} reset {self.job}` lets it begin anew without what it has told"
            ) from gone

    def make_step(self) -> Step:
        """The step, ready to run; raises `UnknownStep`."""
        for module in self.modules:
            importlib.import_module(module)
        if self.step not in _STEPS:
            raise UnknownStep(f"{self.id}: no step {self.step!r}; registered: {', '.join(sorted(_STEPS)) or 'none'}")
        return _STEPS[self.step](**self.arguments)

    def as_json(self) -> str:
        """One line, the same for the same stage."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Stage:
        """The inverse of `as_json`."""
        return Stage(**json.loads(text))


@dataclass(frozen=True)
class Part:
    """A stage with the number of its units.

    `contents` are files in the job's folder that its rounds name, by the name that its step knows them by; in the
    presence of one of `holds`, nothing is planned. What is `apart` runs in a second Spark application.
    """

    stage: Stage
    units: int
    contents: Mapping[str, str] = field(default_factory=dict)
    holds: Sequence[str] = ()
    apart: bool = False

    def reports(self) -> dict[int, Report]:
        """What its units have told last, those that have told something."""
        found = {unit: Report.read(self.stage.folder(unit)) for unit in range(self.units)}
        return {unit: report for unit, report in found.items() if report is not None}


def register_step(name: str, make: Callable[..., Step]) -> None:
    """Let stages name a step.

    Args:
        name: by which a stage names it; a later one takes the place of an earlier one.
        make: `make(**arguments)` makes the step: a function from `State` and `Input` to `Output`.

    Example:
        >>> def nothing(state: State, given: Input) -> Output:
        ...     return Output(state, counts={"messages": sum(1 for _ in given.messages)})
        >>> register_step("nothing", lambda: nothing)
    """
    _STEPS[name] = make
