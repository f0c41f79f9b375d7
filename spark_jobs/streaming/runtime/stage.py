"""A stage: the step that it runs, the topic that it reads, and the topics that it writes.

A job declares a `StageSpec`. `place_stages` turns it into a `Stage`, which the planner and workers run: it adds the
job's name, the units of downstream topics and limits, from the job and the settings. Where states are is known only to
the workers that run its units (`state_folders`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import pyarrow as pa

from springline.spark_jobs.streaming.errors import InvalidJobError, MessagesLostError, UnknownStepError
from springline.spark_jobs.streaming.runtime.message_log import TopicSpec
from springline.spark_jobs.streaming.runtime.stamps import MAX_STAGE_UNITS
from springline.spark_jobs.streaming.runtime.step import State, Step

COMMAND = "springline stream"
QUESTION_SECONDS = 60.0  # for which questions to states and their answers are retained

StateQuery: TypeAlias = Callable[[State, bytes], Iterable[pa.RecordBatch]]
"""Answers a question from the state of one unit, with batches of one schema."""


@dataclass(frozen=True)
class StageSpec:
    """A stage as a job declares it.

    Args:
        name: Name within its job, such as `map`.
        step: Import path of the step's factory, `package.module:factory`; it is called with `arguments`. Spark's
            executors import it, so it must be installed there.
        topic: The topic that it reads.
        units: Number of units that run it; each has its own state. Unit u reads the partitions u, u + units, … of the
            topic; a topic that another stage of the job writes has as many partitions as there are units.
        parallelism_key: The key of the job's declaration that says how many units there are, for messages of errors.
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
        state_query: Import path of the function that answers questions to its states (`queryable_state`); empty: none.

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
    state_query: str = ""
    parallelism_key: str = "parallelism"

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

    def topics(self, job: str) -> list[TopicSpec]:
        """Return the topics that `job` creates for the stage: its own, the one that it reads if a stage writes it, and
        those of its output.

        A topic between stages has as many partitions as the stage that reads it has units, an output topic as many as
        the stage.
        """
        specs = log_topics(job, self.name)
        if self.state_query:
            specs += [TopicSpec(topic, retention_seconds=QUESTION_SECONDS) for topic in state_topics(job, self.name)]
        between = [self.topic] if self.reads_own_job else []
        outputs = (*between, self.feedback, self.results, self.dead_letters)
        specs += [TopicSpec(topic, self.units) for topic in outputs if topic]
        return specs

    def sender(self, unit: int) -> int:
        """Return the sender number of a unit in stamps, unique among all units that write to the same topics."""
        return self.sender_index * MAX_STAGE_UNITS + unit


@dataclass(frozen=True, kw_only=True)
class Stage(StageSpec):
    """A stage of a job ready to run: its declaration, and what follows from the job and the settings.

    `outlets` are the topics of the stages downstream, with their number of units. After a round has failed
    `max_attempts` times for the same cause in a unit, it continues without the messages that make it fail, if there is
    a topic for `dead_letters`; 0: it is retried forever. States are saved every `checkpoint_interval` seconds; 0: only
    for savepoints. `life` is the id of the topic of its rounds: states of another life are not used, since their rounds
    were planned in another log. `upstream_reports` are the topics in which those stages of the job report that send to
    it, and `upstream` has the sender numbers of all of their units.
    """

    job: str
    outlets: Mapping[str, int] = field(default_factory=dict)
    max_attempts: int = 3
    checkpoint_interval: float = 0.0
    life: str = ""
    upstream_reports: tuple[str, ...] = ()
    upstream: tuple[int, ...] = ()

    @property
    def id(self) -> str:
        """The stage's name, unique among all jobs."""
        return f"{self.job}.{self.name}"

    @property
    def rounds(self) -> str:
        """The topic of its rounds log."""
        return rounds_topic(self.job, self.name)

    @property
    def reports(self) -> str:
        """The topic of the reports of its units."""
        return reports_topic(self.job, self.name)

    @property
    def state_requests(self) -> str:
        """The topic of questions to its states."""
        return state_topics(self.job, self.name)[0]

    @property
    def state_replies(self) -> str:
        """The topic of the answers to questions to its states."""
        return state_topics(self.job, self.name)[1]

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
        step: Step = self._load("step", self.step)(**self.arguments)
        return step

    def load_state_query(self) -> StateQuery:
        """Return the function that answers questions to its states; raises `UnknownStepError` as `make_step` does."""
        function: StateQuery = self._load("state query", self.state_query)
        return function

    def _load(self, what: str, path: str) -> Callable[..., Any]:
        """Return the function at an import path."""
        module, separator, name = path.partition(":")
        if not (module and separator and name):
            raise UnknownStepError(f"{self.id}: its {what} is {path!r}; write package.module:factory")
        try:
            imported = importlib.import_module(module)
        except ImportError as error:
            raise UnknownStepError(
                f"{self.id}: its {what} {path!r} cannot be imported: {error}; install its package where Spark's "
                "executors run"
            ) from error
        function: Callable[..., Any] | None = getattr(imported, name, None)
        if not callable(function):
            raise UnknownStepError(f"{self.id}: its {what} is {path!r}, and the module {module} has no {name} to call")
        return function


def log_topics(job: str, stage: str) -> list[TopicSpec]:
    """Return the topics of a stage's rounds and reports."""
    return [TopicSpec(rounds_topic(job, stage)), TopicSpec(reports_topic(job, stage), compacted=True)]


def rounds_topic(job: str, stage: str) -> str:
    """Return the topic of the rounds log of a stage."""
    return f"{job}.{stage}.rounds"


def reports_topic(job: str, stage: str) -> str:
    """Return the compacted topic of the reports of a stage's units."""
    return f"{job}.{stage}.reports"


def state_topics(job: str, stage: str) -> tuple[str, str]:
    """Return the topics of questions to a stage's states, and of the answers."""
    return f"{job}.{stage}.state-requests", f"{job}.{stage}.state-replies"


def place_stages(
    job: str,
    specs: Sequence[StageSpec],
    *,
    min_round_interval: float = 0.0,
    max_attempts: int = 3,
    checkpoint_interval: float = 0.0,
) -> tuple[Stage, ...]:
    """Return the stages of a job, ready to run, from their declarations.

    `min_round_interval` is the minimum of seconds between two rounds of any stage; for the other arguments see `Stage`.
    Raises `InvalidJobError` if a stage sends to a topic that none of them reads.
    """
    units = {spec.topic: spec.units for spec in specs}
    placed = []
    for spec in specs:
        sends_to = _sends_to(spec)
        if unread := [topic for topic in sends_to if topic not in units]:
            raise InvalidJobError(
                f"job {job!r}: its stage {spec.name!r} sends to {unread[0]!r}, which none of its stages reads"
            )
        declared = {each.name: getattr(spec, each.name) for each in fields(StageSpec)}
        senders = [each for each in specs if spec.topic in _sends_to(each)]
        placed.append(Stage(
            **{**declared, "min_round_interval": max(spec.min_round_interval, min_round_interval)}, job=job,
            outlets={topic: units[topic] for topic in sends_to}, max_attempts=max_attempts,
            checkpoint_interval=checkpoint_interval,
            upstream_reports=tuple(reports_topic(job, each.name) for each in senders),
            upstream=tuple(each.sender(unit) for each in senders for unit in range(each.units)),
        ))  # fmt: skip
    return tuple(placed)


def _sends_to(spec: StageSpec) -> list[str]:
    """Return the topics of other stages that a stage sends to."""
    return [topic for topic in (spec.downstream, spec.acks) if topic]
