"""Ad hoc queries of a job: answered from the newest states of its reducers, where they lie."""

from __future__ import annotations

from pathlib import Path

from spark_jobs.streaming.errors import MissingVersion
from spark_jobs.streaming.jobs import Job
from spark_jobs.streaming.unitlog.step import State
from spark_jobs.streaming.unitlog.versions import Versions
from spark_jobs.streaming.windows.adhoc import AdHoc, Answer, answer
from spark_jobs.streaming.windows.registry import Registry

_TRIES = 5  # a version may be pruned between being found and being read


def ask(job: Job, registry: Registry, state: Path, sql: str) -> Answer:
    """Answer `sql` from what the reducers hold; raises `BadQuery`, and `MissingVersion` before the first round."""
    plan = AdHoc(registry).plan(sql)
    _, reducing = job.stages(1, state)
    return answer(plan, [_newest(Versions(reducing.folder(unit))) for unit in range(job.reducers)])


def _newest(versions: Versions) -> State:
    for left in reversed(range(_TRIES)):
        newest = versions.newest()
        if newest is None:
            raise MissingVersion(f"{versions.folder}: nothing is held yet: the job has not run a round")
        try:
            return versions.load(*newest).state
        except MissingVersion:
            if not left:
                raise
    raise AssertionError
