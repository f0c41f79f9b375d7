"""The kind `heights`: the stages and the keys of such a job.

[everest]
kind = "heights"
topic = "numbers"           # messages of one number each
least = 1                   # a number up to this one is no record
start_from = "earliest"     # or "latest": offset from which a job starts that never ran
"""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from springline.stream_kinds import DEFAULT_CONFIG, HOLD, STOP, BackpressureConfig, BaseJob, Kind, SourceKeys, StageSpec


@dataclass(frozen=True)
class HeightsJob(BaseJob):
    """Reports the records of a topic, above `least`."""

    name: str
    topic: str
    least: int = 1
    latest: bool = False
    backpressure: BackpressureConfig = DEFAULT_CONFIG

    def stages(self) -> tuple[StageSpec, ...]:
        """Return the only stage."""
        watch = StageSpec(
            "watch",
            "heights.step:Records",
            self.topic,
            arguments={"least": self.least},
            results=self.results,
            dead_letters=self.dead_letters,
            hold_files=(STOP, HOLD),
        )
        return (watch,)


class HeightsKeys(SourceKeys, frozen=True, kw_only=True):
    """Keys of a job of the kind `heights`, beside `topic` and those of every job."""

    least: Annotated[int, Meta(ge=1, description="a number up to this one is no record")] = 1


def declare_heights(name: str, keys: HeightsKeys) -> HeightsJob:
    """Create a job from its keys."""
    return HeightsJob(name, keys.topic, keys.least, keys.latest, keys.backpressure_config())


KIND = Kind("heights", HeightsKeys, declare_heights)
