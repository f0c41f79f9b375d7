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

from springline.spark_jobs.streaming.backpressure.config import USUAL, Choice
from springline.spark_jobs.streaming.config import Declared
from springline.spark_jobs.streaming.job import BaseJob
from springline.spark_jobs.streaming.job_folder import HOLD, STOP
from springline.spark_jobs.streaming.kinds import Kind
from springline.spark_jobs.streaming.runtime.stage import StageSpec
from springline.spark_jobs.streaming.tracker.wire import asks_topic, results_topic
from springline.spark_jobs.streaming.tracking.config import AGAIN, RING, SPRING, Tracked

_STEPS = "springline.spark_jobs.streaming.tracker"


@dataclass(frozen=True)
class TrackerJob(BaseJob):
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

    def stages(self, units: int) -> tuple[StageSpec, ...]:
        """Intake, outcome, and the ackers between them."""
        intake = StageSpec(
            "intake", f"{_STEPS}.intake:Intake", self.topic, units, asked=True, place=SPRING, dead=self.dead,
            acks=self.tracked.acks, contents={"ring": RING}, holds=(STOP, HOLD),
        )  # fmt: skip
        outcome = StageSpec(
            "outcome", f"{_STEPS}.outcome:Outcome", self.tracked.told, self.tracked.room, own=True, place=AGAIN,
            results=self.results, acks=self.tracked.acks, contents={"ring": RING}, holds=(STOP,),
        )  # fmt: skip
        return intake, outcome, self.tracked.acker


def declared_tracker(told: Declared) -> TrackerJob:
    """A job from its table; raises `InvalidJobError`."""
    told.check({"units", "tracking"}, topic=False)
    tracked = Tracked.declared(told, foreign=True)
    return TrackerJob(told.name, tracked, told.number("units", 2), backpressure=Choice.declared(told))


KIND = Kind("tracker", declared_tracker)
