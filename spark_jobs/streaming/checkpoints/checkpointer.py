"""Saves the states of a job as datasets, makes savepoints, and cuts the logs that no persisted state needs."""

from __future__ import annotations

import time
from collections.abc import Sequence

from springline.persistence.errors import PersistenceError
from springline.persistence.platform import Platform
from springline.spark_jobs.streaming.checkpoints.savepoints import Savepoints, make_asked
from springline.spark_jobs.streaming.checkpoints.store import SavedStates, told_needed_from
from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.history import cut_before
from springline.spark_jobs.streaming.runtime.stage import Stage

_LOOK_SECONDS = 0.2  # between two looks whether a savepoint is asked for


class Upkeep(BackgroundService):
    """Does it for the stages of a job.

    States are saved every so many seconds and at the end, with 0 seconds never; savepoints when `folder` says that
    one is asked for. A thread of its own, so that an under-store that is away holds nobody up.
    """

    def __init__(
        self,
        folder: JobFolder,
        stages: Sequence[Stage],
        platform: Platform,
        cluster: Cluster,
        seconds: float,
    ) -> None:
        super().__init__("upkeep")
        self._folder = folder
        self._stages = stages
        self._states = SavedStates(platform)
        self._savepoints = Savepoints(platform, stages[0].job)
        self._log = Kafka(cluster)
        self._seconds = seconds

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        super().__exit__(kind)
        self._log.close()

    def _work(self) -> None:
        due = time.monotonic() + self._seconds
        over = False
        while not over:
            over = self._over.wait(_LOOK_SECONDS)
            with self._trying("a savepoint could not be made"):
                self._answer()
            if self._seconds and (over or time.monotonic() > due):
                with self._trying("the states could not be saved"):
                    self._save()
                due = time.monotonic() + self._seconds

    def _answer(self) -> None:
        """Make a savepoint, if one is asked for; raises what nobody foresaw."""
        try:
            make_asked(self._folder, self._stages, self._log, self._savepoints)
        except (PersistenceError, StreamError) as error:
            self._folder.answer_savepoint(self._folder.asked_savepoint() or "", str(error))
        except Exception as error:
            self._folder.answer_savepoint(self._folder.asked_savepoint() or "", f"{type(error).__name__}: {error}")
            raise

    def _save(self) -> None:
        """Do it now; raises `PersistenceError`, `StreamError`."""
        for stage in self._stages:
            for unit in range(stage.units):
                self._states.save(stage, unit)
            self._cut(stage, stage.units)

    def _cut(self, stage: Stage, units: int) -> None:
        """Delete what no persisted state needs: of a log that is the job's own, of what is told, of the rounds log."""
        persisted = self._states.needed_from(stage, range(units))
        if len(persisted) < units:
            return
        if stage.inside or stage.asked:
            self._log.delete(stage.topic, {unit: saved.offset for unit, saved in persisted.items()})
        if told := told_needed_from(persisted.values()):
            self._log.delete(stage.told, told)
        extent = self._log.extents(stage.rounds)[0]
        rounds = self._log.fetch(stage.rounds, 0, extent.low, extent.high)
        if offset := cut_before(rounds, min(saved.order for saved in persisted.values())):
            self._log.delete(stage.rounds, {0: offset})
