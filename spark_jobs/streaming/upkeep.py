"""Saves the states of a job as datasets, and cuts the logs that no persisted state needs any more."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from persistence.errors import PersistenceError
from spark_jobs.streaming.errors import StreamError
from spark_jobs.streaming.kafka import Cluster, Kafka
from spark_jobs.streaming.saving import SavedStates
from spark_jobs.streaming.unitlog.planner import cut_before
from spark_jobs.streaming.unitlog.stage import Stage


class Upkeep(threading.Thread):
    """Does it for the stages of a job, with the number of units of each, every so many seconds and at the end.

    A thread of its own, so that an under-store that is away holds nobody up; with 0 seconds nothing is done.
    `trouble` says what went wrong last.
    """

    def __init__(
        self, stages: Sequence[tuple[Stage, int]], states: SavedStates, cluster: Cluster, seconds: float
    ) -> None:
        super().__init__(name="upkeep", daemon=True)
        self.trouble = ""
        self._stages = stages
        self._states = states
        self._log = Kafka(cluster)
        self._seconds = seconds
        self._over = threading.Event()

    def __enter__(self) -> Upkeep:
        if self._seconds:
            self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._seconds:
            self.join()
        self._log.close()

    def run(self) -> None:
        over = False
        while not over:
            over = self._over.wait(self._seconds)
            self.trouble = self._save()

    def _save(self) -> str:
        """Do it now; returns what went wrong, in words."""
        try:
            for stage, units in self._stages:
                for unit in range(units):
                    self._states.save(stage, unit)
                self._cut(stage, units)
        except (PersistenceError, StreamError) as error:
            return f"the states could not be saved: {error}"
        return ""

    def _cut(self, stage: Stage, units: int) -> None:
        """Delete what no persisted state needs: of a log between stages, and of the rounds log."""
        persisted = self._states.needed_from(stage, range(units))
        if len(persisted) < units:
            return
        if stage.stamped:
            self._log.delete(stage.topic, {unit: saved.offset for unit, saved in persisted.items()})
        extent = self._log.extents(stage.rounds)[0]
        rounds = self._log.fetch(stage.rounds, 0, extent.low, extent.high)
        if offset := cut_before(rounds, min(saved.order for saved in persisted.values())):
            self._log.delete(stage.rounds, {0: offset})
