"""Tracking as a separate job, for topologies that are not Springline's; their stages use `tracker.client`.

[orders]
kind = "tracker"

`TrackerJobKeys` lists the keys. The topic `orders.requests` is created when the job first starts; `orders.results`
contains the outcome of each root. A root's id is any 64-bit number but the last; ids that differ only in bits 28 to 51
belong to the same acker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from springline.persistence.model.toml_table import Count
from springline.spark_jobs.streaming.backpressure.config import DEFAULT_CONFIG, BackpressureConfig
from springline.spark_jobs.streaming.job import BaseJob
from springline.spark_jobs.streaming.job_folder import HOLD, STOP
from springline.spark_jobs.streaming.job_keys import JobKeys
from springline.spark_jobs.streaming.kinds import Kind
from springline.spark_jobs.streaming.runtime.stage import StageSpec
from springline.spark_jobs.streaming.tracker.wire import requests_topic, results_topic
from springline.spark_jobs.streaming.tracking.config import (
    MAX_ACKERS,
    REPLAY,
    RING,
    SPRING,
    ForeignTrackingKeys,
    TrackingConfig,
)

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
        return f"{self.name}.dead-letters"

    def stages(self) -> tuple[StageSpec, ...]:
        """Return the stages: intake, outcome, and the ackers between them."""
        intake = StageSpec(
            "intake", f"{_STEPS}.intake:Intake", self.topic, self.parallelism, written_by_clients=True,
            sender_index=SPRING, dead_letters=self.dead_letters,
            acks=self.tracking.acks, broadcast_files={"ring": RING}, hold_files=(STOP, HOLD),
        )  # fmt: skip
        outcome = StageSpec(
            "outcome", f"{_STEPS}.outcome:OutcomeStep", self.tracking.feedback, self.tracking.max_ackers,
            reads_feedback=True, sender_index=REPLAY,
            results=self.results, acks=self.tracking.acks, broadcast_files={"ring": RING}, hold_files=(STOP,),
            parallelism_key=MAX_ACKERS,
        )  # fmt: skip
        return intake, outcome, self.tracking.acker_stage


class TrackerJobKeys(JobKeys, frozen=True, kw_only=True):
    """Keys of a job that tracks the topology of other programs."""

    parallelism: Annotated[Count, Meta(description="partitions of the topic that the clients write")] = 2
    tracking: Annotated[ForeignTrackingKeys, Meta(description="how the roots are tracked")] = ForeignTrackingKeys()


def declare_tracker(name: str, keys: TrackerJobKeys) -> TrackerJob:
    """Create a job from its keys; raises `InvalidJobError`."""
    tracking = TrackingConfig.from_keys(name, keys.tracking, foreign=True)
    return TrackerJob(name, tracking, keys.parallelism, backpressure=keys.backpressure_config())


KIND = Kind("tracker", TrackerJobKeys, declare_tracker)
