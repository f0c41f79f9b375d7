"""Asking a job: its planner is kept as long as its queries are the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from springline.spark_jobs.streaming.errors import MissingStateError
from springline.spark_jobs.streaming.runtime.stage import place_stages
from springline.spark_jobs.streaming.runtime.state_store import StateSnapshot, StateStore
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.windows.adhoc_query import AdHocPlannerCache, ask
from springline.spark_jobs.streaming.windows.job import WindowsJob
from tests.support.decoding.windows_job import Job as TestedJob
from tests.support.decoding.windows_job import csv, registry, stream

STREAM = stream(adhoc_retention=3600.0)
QUERIES = {"all": "SELECT kind, count(*) FROM S GROUP BY kind WINDOWING 60 s"}
AD_HOC = "SELECT kind, count(*) AS n FROM S GROUP BY kind"


def test_the_planner_stays_until_the_queries_change() -> None:
    """Another job has one of its own."""
    planners, first = AdHocPlannerCache(), registry(QUERIES)
    planner = planners.planner_of("job", first)
    assert planners.planner_of("job", registry(QUERIES)) is planner
    assert planners.planner_of("other", first) is not planner
    changed_registry = first.register("more", "SELECT sip, count(*) FROM S GROUP BY sip WINDOWING 60 s")
    assert planners.planner_of("job", changed_registry).plan("SELECT sip, count(*) AS n FROM S GROUP BY sip")


def test_a_job_that_begins_anew_is_not_answered_by_its_old_queries() -> None:
    """Its versions are counted from the start again."""
    planners = AdHocPlannerCache()
    planners.planner_of("job", registry(QUERIES))
    new_registry = registry({"all": "SELECT sip, count(*) FROM S GROUP BY sip WINDOWING 60 s"})
    assert new_registry.version == registry(QUERIES).version
    with pytest.raises(InvalidQueryError, match="no slices can answer it"):
        planners.planner_of("job", new_registry).plan(AD_HOC)


def test_an_answer_is_of_the_newest_states(tmp_path: Path) -> None:
    """Also with a planner that was kept; before the first round there is none."""
    job, planners, tested_job = (
        WindowsJob("S", "S", STREAM),
        AdHocPlannerCache(),
        TestedJob(registry(QUERIES, STREAM), reducers=2),
    )
    with pytest.raises(MissingStateError, match="has not completed a round"):
        ask(job, tested_job.registry, tmp_path, AD_HOC, planners)
    _, reducing = place_stages(job.name, job.stages(1), tmp_path)
    for number in (1, 2):
        tested_job.round([csv((1_700_000_040, "x", "a", 1, 0.5))])
        for unit in range(2):
            StateStore(Path(reducing.folder(unit))).save(
                StateSnapshot(1, 0), tested_job.states["reduce", unit], (1, number)
            )
        (row,) = ask(job, tested_job.registry, tmp_path, AD_HOC, planners).rows.to_pylist()
        assert (row["kind"], row["n"]) == ("a", number)
