"""Ad hoc queries of a job: answered by its reducers while it runs, and from its last checkpoints when it is stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import pyarrow as pa

from springline.persistence.platform import Platform
from springline.spark_jobs.streaming.checkpoints.store import CheckpointStore
from springline.spark_jobs.streaming.errors import MissingStateError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.message_log import MessageLog
from springline.spark_jobs.streaming.runtime.queryable_state import query_states
from springline.spark_jobs.streaming.runtime.stage import Stage, place_stages
from springline.spark_jobs.streaming.windows.adhoc import AdHocPlanner, Answer, answer_from_slices
from springline.spark_jobs.streaming.windows.queryable import Queryable
from springline.spark_jobs.streaming.windows.registry import QueryRegistry
from springline.spark_jobs.streaming.windows.retained_slices import SliceQuestion, slices_of

_ANSWER_SECONDS = 10.0  # until all reducers must have answered


class AdHocPlannerCache:
    """Keeps the ad hoc planner of each job, because reading a registry takes longer than an answer. Thread-safe."""

    def __init__(self) -> None:
        self._planners: dict[str, tuple[QueryRegistry, AdHocPlanner]] = {}

    def planner_of(self, job: str, registry: QueryRegistry) -> AdHocPlanner:
        """Return the planner for these queries; the same object as long as the queries are unchanged."""
        entry = self._planners.get(job)
        # A job that was reset counts its versions from the start, so comparing the version alone is not enough.
        if entry is None or entry[0] != registry:
            entry = self._planners[job] = (registry, AdHocPlanner(registry))
        return entry[1]


def ask(
    job: Queryable,
    registry: QueryRegistry,
    sql: str,
    folder: JobFolder,
    open_log: Callable[[], AbstractContextManager[MessageLog]],
    open_platform: Callable[[], AbstractContextManager[Platform]],
    planners: AdHocPlannerCache | None = None,
) -> Answer:
    """Answer `sql` from the states of the reducers: by them if the job runs, else from its checkpoints.

    Pass `planners` to reuse planners over several calls.
    Raises `InvalidQueryError`; `MissingStateError` before the first round, or if a unit does not answer;
    `LogUnavailableError`; and `PersistenceError`.
    """
    plan = (planners or AdHocPlannerCache()).planner_of(job.name, registry).plan(sql)
    (reduce_stage,) = place_stages(job.name, [job.reducer()])
    if folder.is_running():
        with open_log() as log:
            answers = query_states(reduce_stage, log, plan.question.encode(), _ANSWER_SECONDS)
            return answer_from_slices(plan, list(answers.values()))
    with open_platform() as platform:
        return answer_from_slices(plan, _saved_slices(reduce_stage, CheckpointStore(platform), plan.question))


def _saved_slices(
    stage: Stage, checkpoints: CheckpointStore, question: SliceQuestion
) -> list[Sequence[pa.RecordBatch]]:
    """Return the answers of all units from their newest checkpoints; raises `MissingStateError` if there are none."""
    answers: list[Sequence[pa.RecordBatch]] = []
    for unit in range(stage.units):
        if (saved := checkpoints.load(stage, unit)) is None:
            raise MissingStateError(
                f"{stage.id}[{unit}]: no saved slices: the job is stopped, and has not completed a round since its "
                "last reset, or saves no checkpoints"
            )
        answers.append(list(slices_of(saved.state(), question)))
    return answers
