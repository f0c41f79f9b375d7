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
from pathlib import Path

from springline.spark_jobs.streaming.backpressure.config import USUAL, Choice
from springline.spark_jobs.streaming.config import Declared
from springline.spark_jobs.streaming.job import OwnTopics
from springline.spark_jobs.streaming.job_folder import HOLD, STOP, JobFolder
from springline.spark_jobs.streaming.runtime.stage import Part, Stage
from springline.spark_jobs.streaming.tracking.config import AGAIN, FIRST, FULL, LOW, RING, SPRING, Delivery, Tracked

_STEPS = ("springline.spark_jobs.streaming.wordcount.steps",)


@dataclass(frozen=True)
class WordCountJob(OwnTopics):
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
        return {self.words: "units", **({} if self.tracked is None else self.tracked.sized)}

    def parts(self, units: int, state: Path) -> tuple[Part, ...]:
        """Split and count; tracked, with the twin of split that sends again, and the ackers."""
        folder = str(state / self.name)
        split = Stage(
            self.name, "split", "wordcount.split", self.topic, folder,
            arguments={"units": self.units, "tracked": False}, modules=_STEPS, admitted=self.admitted,
            downstream=self.words, units=self.units, dead=self.dead,
        )  # fmt: skip
        count = Stage(
            self.name, "count", "wordcount.count", self.words, folder,
            arguments={"once": False, "every": self.every, "tracked": False}, modules=_STEPS, stamped=True,
            results=self.results, dead=self.dead, place=FIRST, admitted=10_000,
        )  # fmt: skip
        parts = (Part(split, units, {}, (STOP, HOLD)), Part(count, self.units, {}, (STOP,), self.apart))
        return parts if self.tracked is None else self._tracked_parts(self.tracked, *parts)

    def _tracked_parts(self, tracked: Tracked, split: Part, count: Part) -> tuple[Part, ...]:
        """With lines as roots: split is their spring, and they are sent again from its source."""
        sends, once = tracked.sends, tracked.delivery is Delivery.EXACTLY_ONCE
        spring = replace(split.stage, arguments={**split.stage.arguments, "tracked": True}, place=SPRING, **sends)
        again = Stage(
            self.name, "again", "wordcount.again", tracked.told, split.stage.state,
            arguments={"source": self.topic, "units": self.units}, modules=_STEPS, own=True, place=AGAIN,
            downstream=self.words, units=self.units, dead=self.dead, **sends,
        )  # fmt: skip
        counting = {**count.stage.arguments, "once": once, "tracked": True}
        sink = replace(count.stage, arguments=counting, **sends)
        return (
            Part(spring, split.units, {"ring": RING}, (*split.holds, FULL)),
            Part(again, tracked.room, {"ring": RING}, (STOP,)),
            replace(count, stage=sink, contents={"ring": RING, "low": LOW}),
            tracked.acker(split.stage.state),
        )

    def topics(self, units: int) -> Mapping[str, int]:
        """The topics that the job makes for itself, with their units."""
        room, between = (self.tracked.room, self.tracked.topics()) if self.tracked else (1, {})
        own = {self.words: self.units, self.results: self.units, self.dead: max(units, room, self.units)}
        return {**own, **between, **{part.stage.rounds: 1 for part in self.parts(units, Path())}}

    def prepare(self, folder: JobFolder) -> None:
        """Make the files that rounds name, where they are not there."""
        if self.tracked is not None:
            self.tracked.prepare(folder)


def declared_wordcount(told: Declared) -> WordCountJob:
    """A job from its table; raises `BadJob`."""
    told.check({"units", "every", "admitted", "from", "apart", "tracking"})
    tracked = None if told.table.get("tracking") is False else Tracked.declared(told)
    return WordCountJob(
        told.name, told.topic, tracked, told.number("units", 2), told.seconds("every", 5.0),
        told.number("admitted", 1_000), told.latest, apart := told.flag("apart"), Choice.declared(told, apart=apart),
    )  # fmt: skip
