"""Saves the states of a job as datasets, and cuts the logs that no persisted state needs any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from persistence.errors import PersistenceError
from spark_jobs.streaming.errors import StreamError
from spark_jobs.streaming.kafka import Kafka
from spark_jobs.streaming.saving import SavedStates
from spark_jobs.streaming.unitlog.planner import cut_before
from spark_jobs.streaming.unitlog.stage import Stage


@dataclass
class Upkeep:
    """Does it for the stages of a job, with the number of units of each, every so many seconds; 0: never."""

    stages: Sequence[tuple[Stage, int]]
    states: SavedStates
    log: Kafka
    seconds: float
    _due: float | None = None
    _said: str = ""

    def turn(self, now: float) -> str:
        """Do it if it is due; returns what went wrong last, in words."""
        if self._due is None:
            self._due = now + self.seconds
        if self.seconds and now >= self._due:
            self._due = now + self.seconds
            self._said = self.save()
        return self._said

    def save(self) -> str:
        """Do it now; returns what went wrong, in words."""
        if not self.seconds:
            return ""
        try:
            for stage, units in self.stages:
                for unit in range(units):
                    self.states.save(stage, unit)
                self._cut(stage, units)
        except (PersistenceError, StreamError) as error:
            return f"the states could not be saved: {error}"
        return ""

    def _cut(self, stage: Stage, units: int) -> None:
        """Delete what no persisted state needs: of a log between stages, and of the rounds log."""
        persisted = self.states.needed_from(stage, range(units))
        if len(persisted) < units:
            return
        if stage.stamped:
            self.log.delete(stage.topic, {unit: saved.offset for unit, saved in persisted.items()})
        extent = self.log.extents(stage.rounds)[0]
        rounds = self.log.fetch(stage.rounds, 0, extent.low, extent.high)
        if offset := cut_before(rounds, min(saved.order for saved in persisted.values())):
            self.log.delete(stage.rounds, {0: offset})
