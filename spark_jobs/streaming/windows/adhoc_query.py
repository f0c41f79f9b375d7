"""Ad hoc queries of a job, answered from the newest states of its reducers in their state stores."""

from __future__ import annotations

from pathlib import Path

from springline.spark_jobs.streaming.errors import MissingStateError
from springline.spark_jobs.streaming.runtime.stage import place_stages
from springline.spark_jobs.streaming.runtime.state_store import StateStore
from springline.spark_jobs.streaming.runtime.step import State
from springline.spark_jobs.streaming.windows.adhoc import AdHocPlanner, Answer, answer_from_states
from springline.spark_jobs.streaming.windows.queryable import Queryable
from springline.spark_jobs.streaming.windows.registry import QueryRegistry

_TRIES = 5  # a version may be pruned after it was listed and before it is read


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
    job: Queryable, registry: QueryRegistry, state: Path, sql: str, planners: AdHocPlannerCache | None = None
) -> Answer:
    """Answer `sql` from the states of the reducers.

    Pass `planners` to reuse planners over several calls.
    Raises `InvalidQueryError`, and `MissingStateError` before the first round.
    """
    plan = (planners or AdHocPlannerCache()).planner_of(job.name, registry).plan(sql)
    (reduce_stage,) = place_stages(job.name, [job.reducer()], state)
    return answer_from_states(plan, [_newest(reduce_stage.state_store(unit)) for unit in range(reduce_stage.units)])


def _newest(versions: StateStore) -> State:
    for left in reversed(range(_TRIES)):
        newest = versions.newest()
        if newest is None:
            raise MissingStateError(f"{versions.folder}: no slices yet: the job has not completed a round")
        try:
            return versions.load(*newest).state
        except MissingStateError:
            if not left:
                raise
    raise AssertionError
