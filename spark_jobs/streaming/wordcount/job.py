"""The word count as a job: counts the words in lines of text, with each line tracked.

[words]
kind = "wordcount"
topic = "lines"                  # messages with lines of text
parallelism = 2                  # units that count words
emit_interval = 5.0              # seconds between two emissions of the counts that have changed
max_messages_per_round = 1000    # at most so many messages per unit and round
second_application = false       # true: count words in a second Spark application
signal_channel = "kafka"         # with a second application: carries the signals between the two, or "zookeeper"
start_from = "earliest"          # or "latest": where a job starts that has never run

[words.tracking]                 # see tracking/config.py; tracking = false: lines are not tracked
timeout = 30.0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from springline.spark_jobs.streaming.backpressure.config import DEFAULT_CONFIG, BackpressureConfig
from springline.spark_jobs.streaming.config import JobTable
from springline.spark_jobs.streaming.job import BaseJob
from springline.spark_jobs.streaming.job_folder import HOLD, STOP
from springline.spark_jobs.streaming.kinds import Kind
from springline.spark_jobs.streaming.runtime.stage import StageSpec
from springline.spark_jobs.streaming.tracking.config import (
    FIRST_PROCESSOR,
    FULL,
    LOW_WATERMARKS,
    REPLAY,
    RING,
    SPRING,
    Delivery,
    TrackingConfig,
)

_STEPS = "springline.spark_jobs.streaming.wordcount"


@dataclass(frozen=True)
class WordCountJob(BaseJob):
    """Counts the words in the lines of a topic, in `parallelism` units."""

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

    @property
    def parallelism_settings(self) -> Mapping[str, str]:
        """The setting that determines the partitions of the words topic, and that of the acks topic."""
        return {self.words_topic: "parallelism", **super().parallelism_settings}

    def stages(self, units: int) -> tuple[StageSpec, ...]:
        """The stages split and count; with tracking, also a copy of split that replays lines, and the ackers."""
        split = StageSpec(
            "split", f"{_STEPS}.split:Split", self.topic, units, {"units": self.parallelism, "tracked": False},
            max_messages_per_round=self.max_messages_per_round, downstream=self.words_topic,
            dead_letters=self.dead_letters, hold_files=(STOP, HOLD),
        )  # fmt: skip
        count = StageSpec(
            "count", f"{_STEPS}.count:Count", self.words_topic, self.parallelism,
            {"once": False, "every": self.emit_interval, "tracked": False}, stamped=True, max_messages_per_round=10_000,
            results=self.results, dead_letters=self.dead_letters, sender_index=FIRST_PROCESSOR, hold_files=(STOP,),
            in_second_application=self.second_application,
        )  # fmt: skip
        return (split, count) if self.tracking is None else self._tracked_stages(self.tracking, split, count)

    def _tracked_stages(self, tracked: TrackingConfig, split: StageSpec, count: StageSpec) -> tuple[StageSpec, ...]:
        """Return the stages with lines as roots: split is the spring, and lines are replayed from its source."""
        once = tracked.delivery is Delivery.EXACTLY_ONCE
        spring = replace(
            split, arguments={**split.arguments, "tracked": True}, sender_index=SPRING, acks=tracked.acks,
            broadcast_files={"ring": RING}, hold_files=(*split.hold_files, FULL),
        )  # fmt: skip
        replay_stage = StageSpec(
            "again", f"{_STEPS}.split:line_replayer", tracked.feedback, tracked.max_ackers,
            {"source": self.topic, "units": self.parallelism},
            reads_feedback=True, sender_index=REPLAY, downstream=self.words_topic, acks=tracked.acks,
            dead_letters=self.dead_letters,
            broadcast_files={"ring": RING}, hold_files=(STOP,),
        )  # fmt: skip
        sink = replace(
            count, arguments={**count.arguments, "once": once, "tracked": True}, acks=tracked.acks,
            broadcast_files={"ring": RING, "low": LOW_WATERMARKS},
        )  # fmt: skip
        return spring, replay_stage, sink, tracked.acker_stage


def declared_wordcount(config: JobTable) -> WordCountJob:
    """Read a job from its table; raises `InvalidJobError`."""
    config.check(
        {"parallelism", "emit_interval", "max_messages_per_round", "start_from", "second_application", "tracking"}
    )
    tracked = None if config.table.get("tracking") is False else TrackingConfig.from_table(config)
    return WordCountJob(
        config.name, config.topic, tracked, config.number("parallelism", 2), config.seconds("emit_interval", 5.0),
        config.number("max_messages_per_round", 1_000), config.latest, apart := config.flag("second_application"),
        BackpressureConfig.from_table(config, apart=apart),
    )  # fmt: skip


KIND = Kind("wordcount", declared_wordcount)
