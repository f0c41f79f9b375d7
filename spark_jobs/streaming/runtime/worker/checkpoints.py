"""Saves the states of units where they outlive the host: at intervals while rounds go on, and when the driver asks.

A state is saved once its round is reported, so that a checkpoint never is of a round that nobody knows to be complete.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from springline.persistence.errors import PersistenceError
from springline.persistence.monitoring.logs import log_context
from springline.spark_jobs.streaming.errors import MissingStateError
from springline.spark_jobs.streaming.runtime.message_log import RoundId
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.state_store import StateStore
from springline.spark_jobs.streaming.runtime.worker.unit import StageWorker

logger = logging.getLogger("springline.unit")

_UNCHANGED_INTERVALS = 20  # after which a state is saved though nothing has come, so that logs can be truncated


class CheckpointStorage(Protocol):
    """Storage of states that all hosts of a job can reach."""

    def save(self, stage: Stage, unit: int, store: StateStore, round_id: RoundId) -> object:
        """Save the state of a unit after a round, unless it is saved already; raises whatever the storage raises."""

    def fetch(self, stage: Stage, unit: int, store: StateStore, until: RoundId) -> RoundId | None:
        """Restore the newest saved state of a unit that is not after a round to `store`; returns its round, or None."""


class NoCheckpoints:
    """A storage that keeps nothing, for stages whose rounds are all in the log."""

    def save(self, stage: Stage, unit: int, store: StateStore, round_id: RoundId) -> None:
        """Save nothing."""

    def fetch(self, stage: Stage, unit: int, store: StateStore, until: RoundId) -> RoundId | None:
        """Restore nothing."""
        return None


class CheckpointWriter:
    """Saves the states of a worker's units.

    Of a unit that has neither read nor counted anything since its last checkpoint, the rounds since are replayed in a
    moment: its state is saved again after `_UNCHANGED_INTERVALS` intervals only.

    A failure is logged, and part of the unit's next report: it does not end the task, since rounds can be replayed as
    long as they are not deleted from the log, and they are deleted only once states are saved.

    Args:
        worker: the worker of the stage.
        storage: where states are saved.
    """

    def __init__(self, worker: StageWorker, storage: CheckpointStorage) -> None:
        self._worker = worker
        self._storage = storage
        self._interval = worker.stage.checkpoint_interval
        self._saved_at = time.monotonic()
        self._saved: dict[int, tuple[object, float]] = {}  # by unit, what it had read when it was saved, and when
        self._thread: threading.Thread | None = None

    def save_if_due(self, units: Sequence[int]) -> None:
        """Begin to save the newest reported states in a thread, if the interval has passed since the last was saved."""
        is_due = self._interval and time.monotonic() - self._saved_at >= self._interval
        if is_due and (self._thread is None or not self._thread.is_alive()):
            self._saved_at = time.monotonic()
            reported = {
                unit: round_id
                for unit in units
                if (round_id := self._worker.reported_round(unit)) is not None and self._has_changed(unit)
            }
            if not reported:
                return
            self._worker.retained |= reported
            self._thread = threading.Thread(target=self._save, args=(reported,), name="checkpoints", daemon=True)
            self._thread.start()

    def save(self, units: Sequence[int], round_id: RoundId) -> None:
        """Save the states after a round, which was reported; returns once all are saved, or could not be."""
        self.wait()
        self._save(dict.fromkeys(units, round_id), is_requested=True)

    def wait(self) -> None:
        """Wait until no state is being saved."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _has_changed(self, unit: int) -> bool:
        """Return whether the state of a unit is to be saved: it has come further, or was saved long ago."""
        progress, saved_at = self._saved.get(unit, (None, 0.0))
        return progress != self._progress(unit) or (
            time.monotonic() - saved_at >= self._interval * _UNCHANGED_INTERVALS
        )

    def _progress(self, unit: int) -> object:
        """Return what a unit has read, sent and counted up to its newest report, in its incarnation."""
        report = self._worker.reports[unit]
        flow, counts = report.totals.flow, report.totals.counts
        return report.round.incarnation, flow.read_bytes, dict(flow.sent_bytes), dict(counts)

    def _save(self, round_ids: Mapping[int, RoundId], *, is_requested: bool = False) -> None:
        """Save these states; once the storage has failed, which may take long, the others are not tried."""
        worker, failure = self._worker, None
        for unit, round_id in round_ids.items():
            try:
                if failure is not None:
                    raise failure
                progress = self._progress(unit) if worker.reported_round(unit) == round_id else None
                self._storage.save(worker.stage, unit, worker.states.store(unit), round_id)
                self._saved[unit] = progress, time.monotonic()
                worker.checkpoint_errors.pop(unit, None)
            except Exception as error:
                if isinstance(error, MissingStateError) and not is_requested:
                    continue  # another worker runs the unit by now, which prunes its states and saves them
                self._record_failure(unit, round_id, error)
                failure = error if isinstance(error, PersistenceError) else None
            finally:
                worker.retained.pop(unit, None)
        self._saved_at = time.monotonic()  # a slow storage is not asked without a pause

    def _record_failure(self, unit: int, round_id: RoundId, error: Exception) -> None:
        stage = self._worker.stage
        with log_context(job=stage.job, stage=stage.name, unit=unit, round=round_id[1]):
            logger.error("%s[%s]: the state after round %s is not saved: %s", stage.id, unit, round_id[1], error)
        self._worker.checkpoint_errors[unit] = f"round {round_id[1]} is not saved: {error}"
