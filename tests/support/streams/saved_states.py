"""The states that are saved elsewhere, in memory: checkpoints and savepoints of tests without a platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from springline.spark_jobs.streaming.runtime.driver.drain import find_drained_plans
from springline.spark_jobs.streaming.runtime.driver.savepoints import Savepoint, StageSavepoint
from springline.spark_jobs.streaming.runtime.message_log import MessageLog, RoundId
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.state_folders import StateFolders
from springline.spark_jobs.streaming.runtime.state_store import PackedSnapshot, StateStore


class SavedStates:
    """The newest checkpoint of each unit; it is a `CheckpointStorage`."""

    def __init__(self) -> None:
        self.newest: dict[tuple[str, int], tuple[RoundId, PackedSnapshot]] = {}  # by stage and unit

    def save(self, stage: Stage, unit: int, store: StateStore, round_id: RoundId) -> None:
        """Keep the state after a round."""
        self.save_packed(stage, unit, round_id, store.pack(*round_id))

    def save_packed(self, stage: Stage, unit: int, round_id: RoundId, packed: PackedSnapshot) -> None:
        """Keep a state as the one after a round."""
        self.newest[stage.name, unit] = round_id, packed

    def fetch(self, stage: Stage, unit: int, store: StateStore, until: RoundId) -> RoundId | None:
        """Put back what is kept, if it is not later."""
        round_id, packed = self.newest.get((stage.name, unit), (None, None))
        if round_id is None or packed is None or round_id > until:
            return None
        store.unpack(*round_id, packed)
        return round_id

    def round_id(self, stage: Stage, unit: int) -> RoundId | None:
        """The round of the checkpoint of a unit."""
        return self.newest[stage.name, unit][0] if (stage.name, unit) in self.newest else None


def packed_savepoint(stages: Sequence[Stage], states: Mapping[str, StateFolders], log: MessageLog) -> Savepoint | None:
    """A savepoint of the states as they are; None while the stages are not drained."""
    plans = find_drained_plans(stages, log)
    if plans is None:
        return None
    return {
        name: StageSavepoint(
            plan.round_id, {unit: states[name].store(unit).pack(*plan.round_id) for unit in range(plan.units)}
        )
        for name, plan in plans.items()
    }
