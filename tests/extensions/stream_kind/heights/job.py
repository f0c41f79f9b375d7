"""The kind `heights`: which stages such a job has, and what its table says.

[everest]
kind = "heights"
topic = "numbers"           # messages of one number each
least = 1                   # numbers up to this one are no records
start_from = "earliest"     # or "latest": where a job begins that never ran
"""

from dataclasses import dataclass

from springline.stream_kinds import DEFAULT_CONFIG, HOLD, STOP, BackpressureConfig, BaseJob, JobTable, Kind, StageSpec


@dataclass(frozen=True)
class HeightsJob(BaseJob):
    """Tells the records of each unit of a topic, above `least`."""

    name: str
    topic: str
    least: int = 1
    latest: bool = False
    backpressure: BackpressureConfig = DEFAULT_CONFIG

    def stages(self, units: int) -> tuple[StageSpec, ...]:
        """One, on all units of the topic."""
        watch = StageSpec(
            "watch",
            "heights.step:Records",
            self.topic,
            units,
            {"least": self.least},
            results=self.results,
            dead_letters=self.dead_letters,
            hold_files=(STOP, HOLD),
        )
        return (watch,)


def declared_heights(table: JobTable) -> HeightsJob:
    """A job from its table; raises `InvalidJobError`."""
    table.check({"least", "start_from"})
    return HeightsJob(
        table.name, table.topic, table.number("least", 1), table.latest, BackpressureConfig.from_table(table)
    )


KIND = Kind("heights", declared_heights)
