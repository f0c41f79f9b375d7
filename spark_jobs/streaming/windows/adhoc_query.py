"""Ad hoc queries of a job: answered from the newest states of its reducers, where they lie."""

from __future__ import annotations

from pathlib import Path

from springline.spark_jobs.streaming.errors import MissingStateError
from springline.spark_jobs.streaming.runtime.stage import place_stages
from springline.spark_jobs.streaming.runtime.state_store import Versions
from springline.spark_jobs.streaming.runtime.step import State
from springline.spark_jobs.streaming.windows.adhoc import AdHoc, Answer, answer
from springline.spark_jobs.streaming.windows.queryable import Queryable
from springline.spark_jobs.streaming.windows.registry import Registry

_TRIES = 5  # a version may be pruned between being found and being read


class Planners:
    """What plans the ad hoc queries of each job: reading a registry takes longer than an answer, so it is kept.

    Threads may share it.
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Registry, AdHoc]] = {}

    def of(self, job: str, registry: Registry) -> AdHoc:
        """The planner over these queries; the same one as long as they are the same."""
        kept = self._kept.get(job)
        # A job that begins anew counts its versions from the start, so the version alone does not tell.
        if kept is None or kept[0] != registry:
            kept = self._kept[job] = (registry, AdHoc(registry))
        return kept[1]


def ask(job: Queryable, registry: Registry, state: Path, sql: str, planners: Planners | None = None) -> Answer:
    """Answer `sql` from what the reducers hold.

    Raises `InvalidQueryError`, and `MissingStateError` before the first round.

    Who asks more than once hands in `planners`.
    """
    plan = (planners or Planners()).of(job.name, registry).plan(sql)
    (reducing,) = place_stages(job.name, [job.reducer()], state)
    return answer(plan, [_newest(reducing.versions(unit)) for unit in range(reducing.units)])


def _newest(versions: Versions) -> State:
    for left in reversed(range(_TRIES)):
        newest = versions.newest()
        if newest is None:
            raise MissingStateError(f"{versions.folder}: nothing is held yet: the job has not run a round")
        try:
            return versions.load(*newest).state
        except MissingStateError:
            if not left:
                raise
    raise AssertionError
