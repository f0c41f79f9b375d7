"""Tracking as a separate job, for topologies that are not Springline's; their stages use `tracker.client`.

[orders]
kind = "tracker"
parallelism = 2            # partitions of the topic to which clients write

[orders.tracking]          # optional, as a whole or in part
ackers = 1                 # number of ackers at first
max_ackers = 2             # most ackers
timeout = 30.0             # seconds until a root that is not completed has failed

The topic `orders.asks` is created when the job first starts; `orders.results` contains the outcome of each root. A
root's id is any 64-bit number but the last; ids that differ only in bits 28 to 51 belong to the same acker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from springline.spark_jobs.streaming.backpressure.config import DEFAULT_CONFIG, BackpressureConfig
from springline.spark_jobs.streaming.config import JobTable
from springline.spark_jobs.streaming.job import BaseJob
from springline.spark_jobs.streaming.job_folder import HOLD, STOP
from springline.spark_jobs.streaming.kinds import Kind
from springline.spark_jobs.streaming.runtime.stage import StageSpec
from springline.spark_jobs.streaming.tracker.wire import requests_topic, results_topic
from springline.spark_jobs.streaming.tracking.config import REPLAY, RING, SPRING, TrackingConfig

_STEPS = "springline.spark_jobs.streaming.tracker"


@dataclass(frozen=True)
class TrackerJob(BaseJob):
    """Tracks roots that clients begin and ack; its topic has `parallelism` partitions."""

    name: str
    tracking: TrackingConfig
    parallelism: int = 2
    latest: bool = False
    backpressure: BackpressureConfig = DEFAULT_CONFIG

    @property
    def topic(self) -> str:
        """The topic to which clients write."""
        return requests_topic(self.name)

    @property
    def client_topics(self) -> Mapping[str, int]:
        """The same topic, with its number of partitions."""
        return {self.topic: self.parallelism}

    @property
    def results(self) -> str:
        """The topic of outcomes."""
        return results_topic(self.name)

    @property
    def dead_letters(self) -> str:
        """The dead-letter queue: messages that no Springline client has written."""
        return f"{self.name}.dead"

    def stages(self, units: int) -> tuple[StageSpec, ...]:
        """Return the stages: intake, outcome, and the ackers between them."""
        intake = StageSpec(
            "intake", f"{_STEPS}.intake:Intake", self.topic, units, written_by_clients=True, sender_index=SPRING,
            dead_letters=self.dead_letters,
            acks=self.tracking.acks, broadcast_files={"ring": RING}, hold_files=(STOP, HOLD),
        )  # fmt: skip
        outcome = StageSpec(
            "outcome", f"{_STEPS}.outcome:OutcomeStep", self.tracking.feedback, self.tracking.max_ackers,
            reads_feedback=True, sender_index=REPLAY,
            results=self.results, acks=self.tracking.acks, broadcast_files={"ring": RING}, hold_files=(STOP,),
        )  # fmt: skip
        return intake, outcome, self.tracking.acker_stage


def declared_tracker(job_table: JobTable) -> TrackerJob:
    """Return a job from its table; raises `InvalidJobError`."""
    job_table.check({"parallelism", "tracking"}, topic=False)
    tracking = TrackingConfig.from_table(job_table, foreign=True)
    return TrackerJob(
        job_table.name,
        tracking,
        job_table.number("parallelism", 2),
        backpressure=BackpressureConfig.from_table(job_table),
    )


KIND = Kind("tracker", declared_tracker)
