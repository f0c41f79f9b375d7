"""The word count as a job: counts the words in lines of text, with each line tracked; `WordCountJobKeys` lists the
keys.

[words]
kind = "wordcount"
topic = "lines"
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from msgspec import Meta

from springline.persistence.model.toml_table import Count, Seconds
from springline.spark_jobs.streaming.backpressure.config import DEFAULT_CONFIG, BackpressureConfig
from springline.spark_jobs.streaming.job import BaseJob
from springline.spark_jobs.streaming.job_folder import HOLD, STOP
from springline.spark_jobs.streaming.job_keys import SourceKeys
from springline.spark_jobs.streaming.kinds import Kind
from springline.spark_jobs.streaming.runtime.stage import StageSpec
from springline.spark_jobs.streaming.tracking.config import (
    FIRST_PROCESSOR,
    FULL,
    LOW_WATERMARKS,
    MAX_ACKERS,
    REPLAY,
    RING,
    SPRING,
    Delivery,
    TrackingConfig,
    TrackingKeys,
)

_STEPS = "springline.spark_jobs.streaming.wordcount"


@dataclass(frozen=True)
class WordCountJob(BaseJob):
    """Counts the words in the lines of a topic, in `parallelism` units of each stage."""

    name: str
    topic: str
    tracking: TrackingConfig | None = None
    parallelism: int = 2
    emit_interval: float = 5.0
    max_messages_per_round: int = 1_000
    latest: bool = False
    second_application: bool = False
    backpressure: BackpressureConfig = DEFAULT_CONFIG

    @property
    def words_topic(self) -> str:
        """The topic between the stages."""
        return f"{self.name}.words"

    def stages(self) -> tuple[StageSpec, ...]:
        """The stages split and count; with tracking, also a copy of split that replays lines, and the ackers."""
        split = StageSpec(
            "split", f"{_STEPS}.split:Split", self.topic, self.parallelism,
            {"units": self.parallelism, "tracked": False},
            max_messages_per_round=self.max_messages_per_round, downstream=self.words_topic,
            dead_letters=self.dead_letters, hold_files=(STOP, HOLD),
        )  # fmt: skip
        count = StageSpec(
            "count", f"{_STEPS}.count:Count", self.words_topic, self.parallelism,
            {"exactly_once": False, "emit_interval": self.emit_interval, "tracked": False}, stamped=True,
            max_messages_per_round=10_000,
            results=self.results, dead_letters=self.dead_letters, sender_index=FIRST_PROCESSOR, hold_files=(STOP,),
            in_second_application=self.second_application,
        )  # fmt: skip
        return (split, count) if self.tracking is None else self._tracked_stages(self.tracking, split, count)

    def _tracked_stages(self, tracked: TrackingConfig, split: StageSpec, count: StageSpec) -> tuple[StageSpec, ...]:
        """Return the stages with lines as roots: split is the spring, and lines are replayed from its source."""
        exactly_once = tracked.delivery is Delivery.EXACTLY_ONCE
        spring = replace(
            split, arguments={**split.arguments, "tracked": True}, sender_index=SPRING, acks=tracked.acks,
            broadcast_files={"ring": RING}, hold_files=(*split.hold_files, FULL),
        )  # fmt: skip
        replay_stage = StageSpec(
            "retry", f"{_STEPS}.split:line_replayer", tracked.feedback, tracked.max_ackers,
            {"source": self.topic, "units": self.parallelism},
            reads_feedback=True, sender_index=REPLAY, downstream=self.words_topic, acks=tracked.acks,
            dead_letters=self.dead_letters,
            broadcast_files={"ring": RING}, hold_files=(STOP,), parallelism_key=MAX_ACKERS,
        )  # fmt: skip
        sink = replace(
            count, arguments={**count.arguments, "exactly_once": exactly_once, "tracked": True}, acks=tracked.acks,
            broadcast_files={"ring": RING, "low_watermarks": LOW_WATERMARKS},
        )  # fmt: skip
        return spring, replay_stage, sink, tracked.acker_stage


class WordCountJobKeys(SourceKeys, frozen=True, kw_only=True):
    """Keys of a word count."""

    parallelism: Annotated[Count, Meta(description="units of the stage `count`, and partitions of its topic")] = 2
    emit_interval: Annotated[Seconds, Meta(description="seconds between two results of a word")] = 5.0
    max_messages_per_round: Annotated[Count, Meta(description="messages that a unit reads at most in a round")] = 1_000
    second_application: Annotated[
        bool, Meta(description="whether the stage `count` runs in a Spark application of its own")
    ] = False
    tracking: Annotated[
        bool | TrackingKeys, Meta(description="false: lines are not tracked; a table: how they are")
    ] = True


def declare_wordcount(name: str, keys: WordCountJobKeys) -> WordCountJob:
    """Create a job from its keys; raises `InvalidJobError`."""
    tracking = None if keys.tracking is False else TrackingConfig.from_keys(name, keys.tracking)
    return WordCountJob(
        name, keys.topic, tracking, keys.parallelism, keys.emit_interval, keys.max_messages_per_round, keys.latest,
        keys.second_application, keys.backpressure_config(second_application=keys.second_application),
    )  # fmt: skip


KIND = Kind("wordcount", WordCountJobKeys, declare_wordcount)
