"""The kind `heights`: which stages such a job has, and what its table says.

[everest]
kind = "heights"
topic = "numbers"          # messages of one number each
least = 1                  # numbers up to this one are no records
from = "earliest"          # or "latest": where a job begins that never ran
"""

from dataclasses import dataclass

from springline.stream_kinds import HOLD, STOP, USUAL, BaseJob, Choice, Declared, Kind, StageSpec


@dataclass(frozen=True)
class HeightsJob(BaseJob):
    """Tells the records of each unit of a topic, above `least`."""

    name: str
    topic: str
    least: int = 1
    latest: bool = False
    backpressure: Choice = USUAL

    def stages(self, units: int) -> tuple[StageSpec, ...]:
        """One, on all units of the topic."""
        watch = StageSpec(
            "watch",
            "heights.step:Records",
            self.topic,
            units,
            {"least": self.least},
            results=self.results,
            dead=self.dead,
            holds=(STOP, HOLD),
        )
        return (watch,)


def declared_heights(table: Declared) -> HeightsJob:
    """A job from its table; raises `InvalidJobError`."""
    table.check({"least", "from"})
    return HeightsJob(table.name, table.topic, table.number("least", 1), table.latest, Choice.declared(table))


KIND = Kind("heights", declared_heights)
