"""The word count as a job: lines of text to counts, with each line tracked.

[words]
kind = "wordcount"
topic = "lines"            # messages of lines of text
units = 2                  # that count words
every = 5.0                # seconds between two tellings of the counts that have changed
admitted = 1000            # messages of a unit in a round, at most
apart = false              # true: words are counted in a second Spark application
control = "kafka"          # where it is apart: how signals travel between the two, or "zookeeper"
from = "earliest"          # or "latest": where a job begins that never ran

[words.tracking]           # tracking/config.py; tracking = false: lines are not tracked
timeout = 30.0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from springline.spark_jobs.streaming.backpressure.config import USUAL, Choice
from springline.spark_jobs.streaming.config import Declared
from springline.spark_jobs.streaming.job import BaseJob
from springline.spark_jobs.streaming.job_folder import HOLD, STOP
from springline.spark_jobs.streaming.kinds import Kind
from springline.spark_jobs.streaming.runtime.stage import StageSpec
from springline.spark_jobs.streaming.tracking.config import AGAIN, FIRST, FULL, LOW, RING, SPRING, Delivery, Tracked

_STEPS = "springline.spark_jobs.streaming.wordcount"


@dataclass(frozen=True)
class WordCountJob(BaseJob):
    """Counts the words of a topic's lines, in so many `units`."""

    name: str
    topic: str
    tracked: Tracked | None = None
    units: int = 2
    every: float = 5.0
    admitted: int = 1_000
    latest: bool = False
    apart: bool = False
    backpressure: Choice = USUAL

    @property
    def words(self) -> str:
        """The topic between the stages."""
        return f"{self.name}.words"

    @property
    def sized(self) -> Mapping[str, str]:
        """That between the stages, and that of acks."""
        return {self.words: "units", **super().sized}

    def stages(self, units: int) -> tuple[StageSpec, ...]:
        """Split and count; tracked, with the twin of split that sends again, and the ackers."""
        split = StageSpec(
            "split", f"{_STEPS}.split:Split", self.topic, units, {"units": self.units, "tracked": False},
            admitted=self.admitted, downstream=self.words, dead=self.dead, holds=(STOP, HOLD),
        )  # fmt: skip
        count = StageSpec(
            "count", f"{_STEPS}.count:Count", self.words, self.units,
            {"once": False, "every": self.every, "tracked": False}, stamped=True, admitted=10_000,
            results=self.results, dead=self.dead, place=FIRST, holds=(STOP,), apart=self.apart,
        )  # fmt: skip
        return (split, count) if self.tracked is None else self._tracked_stages(self.tracked, split, count)

    def _tracked_stages(self, tracked: Tracked, split: StageSpec, count: StageSpec) -> tuple[StageSpec, ...]:
        """With lines as roots: split is their spring, and they are sent again from its source."""
        once = tracked.delivery is Delivery.EXACTLY_ONCE
        spring = replace(
            split, arguments={**split.arguments, "tracked": True}, place=SPRING, acks=tracked.acks,
            contents={"ring": RING}, holds=(*split.holds, FULL),
        )  # fmt: skip
        again = StageSpec(
            "again", f"{_STEPS}.split:again", tracked.told, tracked.room, {"source": self.topic, "units": self.units},
            own=True, place=AGAIN, downstream=self.words, acks=tracked.acks, dead=self.dead,
            contents={"ring": RING}, holds=(STOP,),
        )  # fmt: skip
        sink = replace(
            count, arguments={**count.arguments, "once": once, "tracked": True}, acks=tracked.acks,
            contents={"ring": RING, "low": LOW},
        )  # fmt: skip
        return spring, again, sink, tracked.acker


def declared_wordcount(told: Declared) -> WordCountJob:
    """A job from its table; raises `InvalidJobError`."""
    told.check({"units", "every", "admitted", "from", "apart", "tracking"})
    tracked = None if told.table.get("tracking") is False else Tracked.declared(told)
    return WordCountJob(
        told.name, told.topic, tracked, told.number("units", 2), told.seconds("every", 5.0),
        told.number("admitted", 1_000), told.latest, apart := told.flag("apart"), Choice.declared(told, apart=apart),
    )  # fmt: skip


KIND = Kind("wordcount", declared_wordcount)
