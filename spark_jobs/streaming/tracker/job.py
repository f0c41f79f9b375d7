"""The tracker alone, as a job: for a topology that is not ours, whose stages write to it by `tracker.client`.

[orders]
kind = "tracker"
units = 2                  # of the topic in which clients write

[orders.tracking]          # all of it may be left out
ackers = 1                 # how many there are at first
room = 2                   # how many there can be
timeout = 30.0             # seconds until a root that is not through has failed

The topic `orders.asks` is made when the job first starts, and `orders.results` tells what became of each root. A root
has any 64-bit id but the last; ids that differ in bits 28 to 51 alone are all held by one acker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from springline.spark_jobs.streaming.backpressure.config import USUAL, Choice
from springline.spark_jobs.streaming.config import Declared
from springline.spark_jobs.streaming.job_folder import HOLD, STOP, JobFolder
from springline.spark_jobs.streaming.runtime.stage import Part, Stage
from springline.spark_jobs.streaming.tracker.wire import asks_topic, results_topic
from springline.spark_jobs.streaming.tracking.config import AGAIN, RING, SPRING, Tracked

_STEPS = ("springline.spark_jobs.streaming.tracker.steps",)


@dataclass(frozen=True)
class TrackerJob:
    """Tracks roots that clients begin and ack; its topic has so many `units`."""

    name: str
    tracked: Tracked
    units: int = 2
    latest: bool = False
    backpressure: Choice = USUAL

    @property
    def topic(self) -> str:
        """Where clients write."""
        return asks_topic(self.name)

    @property
    def opens(self) -> Mapping[str, int]:
        """That topic."""
        return {self.topic: self.units}

    @property
    def results(self) -> str:
        """The topic of outcomes."""
        return results_topic(self.name)

    @property
    def dead(self) -> str:
        """The topic of messages that no client of ours has written."""
        return f"{self.name}.dead"

    @property
    def sized(self) -> Mapping[str, str]:
        """That of acks."""
        return self.tracked.sized

    def parts(self, units: int, state: Path) -> tuple[Part, ...]:
        """Intake, outcome, and the ackers between them."""
        folder, sends = str(state / self.name), self.tracked.sends
        intake = Stage(
            self.name, "intake", "tracker.intake", self.topic, folder,
            modules=_STEPS, asked=True, place=SPRING, dead=self.dead, **sends,
        )  # fmt: skip
        outcome = Stage(
            self.name, "outcome", "tracker.outcome", self.tracked.told, folder,
            modules=_STEPS, own=True, place=AGAIN, results=self.results, **sends,
        )  # fmt: skip
        return (
            Part(intake, units, {"ring": RING}, (STOP, HOLD)),
            Part(outcome, self.tracked.room, {"ring": RING}, (STOP,)),
            self.tracked.acker(folder),
        )

    def topics(self, units: int) -> Mapping[str, int]:
        """The topics that the job makes for itself, with their units."""
        own = {self.results: self.tracked.room, self.dead: units}
        rounds = {part.stage.rounds: 1 for part in self.parts(units, Path())}
        return {**own, **self.tracked.topics(), **rounds}

    def prepare(self, folder: JobFolder) -> None:
        """Make the files that rounds name, where they are not there."""
        self.tracked.prepare(folder)


def declared_tracker(told: Declared) -> TrackerJob:
    """A job from its table; raises `BadJob`."""
    told.check({"units", "tracking"}, topic=False)
    tracked = Tracked.declared(told, foreign=True)
    return TrackerJob(told.name, tracked, told.number("units", 2), backpressure=Choice.declared(told))
