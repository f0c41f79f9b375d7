"""Makes savepoints, and truncates logs that no saved state needs any more.

Tasks save the states of their units as checkpoints; here they are only looked up in the catalog.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from springline.persistence.errors import PersistenceError
from springline.persistence.platform import Platform
from springline.spark_jobs.streaming.checkpoints.savepoints import Savepoints, make_requested
from springline.spark_jobs.streaming.checkpoints.store import CheckpointStore, UnitCheckpoint, feedback_needed_by
from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.background import BackgroundService
from springline.spark_jobs.streaming.runtime.history import truncation_point
from springline.spark_jobs.streaming.runtime.stage import Stage

_POLL_SECONDS = 0.2  # between two checks for a requested savepoint


class Checkpointer(BackgroundService):
    """Makes savepoints of a job, when `folder` has a request, and truncates its logs, in a background thread.

    Logs are truncated every `seconds` seconds and at the end, never with 0 seconds. It has its own thread, so that an
    unavailable under-store blocks nothing else.
    """

    def __init__(
        self,
        folder: JobFolder,
        stages: Sequence[Stage],
        platform: Platform,
        cluster: Cluster,
        seconds: float,
    ) -> None:
        super().__init__("checkpointer")
        self._folder = folder
        self._stages = stages
        self._checkpoints = CheckpointStore(platform)
        self._savepoints = Savepoints(platform, stages[0].job)
        self._log = Kafka(cluster)
        self._seconds = seconds

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        super().__exit__(kind)
        self._log.close()

    def _work(self) -> None:
        next_truncation = time.monotonic() + self._seconds
        is_stopping = False
        while not is_stopping:
            is_stopping = self._stopping.wait(_POLL_SECONDS)
            with self._trying("savepoint failed"):
                self._make_savepoint()
            if self._seconds and (is_stopping or time.monotonic() > next_truncation):
                with self._trying("truncating logs failed"):
                    self._truncate_logs()
                next_truncation = time.monotonic() + self._seconds

    def _make_savepoint(self) -> None:
        """Make a savepoint if one is requested; unexpected errors are recorded in the request and raised."""
        try:
            make_requested(self._folder, self._stages, self._log, self._checkpoints, self._savepoints)
        except (PersistenceError, StreamError) as error:
            self._folder.finish_savepoint(self._folder.requested_savepoint() or "", str(error))
        except Exception as error:
            self._folder.finish_savepoint(self._folder.requested_savepoint() or "", f"{type(error).__name__}: {error}")
            raise

    def _truncate_logs(self) -> None:
        """Delete what no persisted state needs from the job's own topics, its feedback topics, and the rounds logs.

        Raises `PersistenceError`, `StreamError`.
        """
        for stage in self._stages:
            persisted = self._checkpoints.needed_from(stage, range(stage.units))
            if len(persisted) == stage.units:
                self._truncate(stage, persisted)

    def _truncate(self, stage: Stage, persisted: Mapping[int, UnitCheckpoint]) -> None:
        """Delete what a stage does not need after the persisted states of all its units."""
        if stage.reads_own_job or stage.written_by_clients:
            offsets = {partition: at for saved in persisted.values() for partition, at in saved.offsets.items()}
            self._log.delete(stage.topic, offsets)
        if feedback_offsets := feedback_needed_by(persisted.values()):
            self._log.delete(stage.feedback, feedback_offsets)
        bounds = self._log.offset_bounds(stage.rounds)[0]
        rounds = self._log.fetch(stage.rounds, 0, bounds.low, bounds.high)
        if offset := truncation_point(rounds, min(saved.round_id for saved in persisted.values())):
            self._log.delete(stage.rounds, {0: offset})
