"""Asking a job: its planner is kept as long as its queries are the same."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from springline.persistence.platform import Platform
from springline.spark_jobs.streaming.checkpoints.store import CheckpointStore
from springline.spark_jobs.streaming.errors import MissingStateError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from springline.spark_jobs.streaming.runtime.report import UnitReport
from springline.spark_jobs.streaming.runtime.stage import place_stages
from springline.spark_jobs.streaming.runtime.state_folders import StateFolders
from springline.spark_jobs.streaming.runtime.state_store import StateSnapshot
from springline.spark_jobs.streaming.runtime.worker.state_server import StateServer
from springline.spark_jobs.streaming.runtime.worker.unit import StageWorker
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.windows.adhoc_query import AdHocPlannerCache, ask
from springline.spark_jobs.streaming.windows.job import WindowsJob
from springline.testing.memory_log import MemoryLog
from tests.support.decoding.windows_job import Job as TestedJob
from tests.support.decoding.windows_job import csv, registry, stream

STREAM = stream(adhoc_retention=3600.0)
QUERIES = {"all": "SELECT kind, count(*) FROM S GROUP BY kind WINDOWING 60 s"}
ASKED = {"question": b"2", "until": b"4e9"}
AD_HOC = "SELECT kind, count(*) AS n FROM S GROUP BY kind"


def test_the_planner_stays_until_the_queries_change() -> None:
    """Another job has one of its own; one that starts over, with the same versions, is not asked by its old ones."""
    planners, first, by_sip = AdHocPlannerCache(), registry(QUERIES), QUERIES["all"].replace("kind", "sip")
    planner = planners.planner_of("job", first)
    assert planners.planner_of("job", registry(QUERIES)) is planner
    assert planners.planner_of("other", first) is not planner
    assert planners.planner_of("job", first.register("more", by_sip)).plan(AD_HOC.replace("kind", "sip"))
    new_registry = registry({"all": by_sip})
    assert new_registry.version == first.version
    with pytest.raises(InvalidQueryError, match="no slices can answer it"):
        planners.planner_of("job", new_registry).plan(AD_HOC)


class Simulation:
    """A job whose reducers answer while it runs, and whose states are saved when it ends."""

    def __init__(self, folder: Path, platform: Platform) -> None:
        self.job = WindowsJob("S", "S", STREAM)
        self.steps = TestedJob(registry(QUERIES, STREAM), reducers=2)
        (self.stage,) = place_stages(self.job.name, [self.job.reducer()])
        self.folder = JobFolder(folder / "job")
        self.platform = platform
        self.planners = AdHocPlannerCache()
        stage = self.stage
        self.log = MemoryLog(dict.fromkeys((stage.reports, stage.state_requests, stage.state_replies), 1))
        self.worker = StageWorker(stage, StateFolders(folder / "states"), self.log)
        self.server = StateServer(self.worker, stage.load_state_query(), lambda: self.log)

    def round(self, number: int) -> None:
        """A row more, in a round that both units report."""
        self.steps.round([csv((1_700_000_040, "x", "a", 1, 0.5))])
        for unit in range(2):
            state = self.steps.states["reduce", unit]
            self.worker.states.store(unit).save(StateSnapshot(1, 0), state, (1, number), {"offset": number})
            report = UnitReport(unit, number, {}, 0, 0, 0.0)
            self.worker.resume(unit, report)
            with self.log.record_sender() as sending:
                sending.send(OutgoingRecord(self.stage.reports, 0, report.encode(), key=report.key))

    def save(self, number: int) -> None:
        """Save the states after a round, as tasks do."""
        for unit in range(2):
            store = self.worker.states.store(unit)
            CheckpointStore(self.platform).save(self.stage, unit, store, (1, number))

    def ask(self) -> dict[str, Any]:
        """The only row of the answer."""
        answer = ask(
            self.job, self.steps.registry, AD_HOC, self.folder, lambda: nullcontext(self.log),
            lambda: nullcontext(self.platform), self.planners,
        )  # fmt: skip
        (row,) = answer.rows.to_pylist()
        return dict(row)


@pytest.fixture
def simulation(tmp_path: Path, platform: Platform) -> Simulation:
    """Nothing has run."""
    return Simulation(tmp_path, platform)


def test_a_job_that_runs_is_answered_by_its_reducers(simulation: Simulation) -> None:
    """From their newest states, also with a planner that was kept; before the first round there is none."""
    with simulation.folder.application_lock():
        with pytest.raises(MissingStateError, match="has not completed a round"):
            simulation.ask()
        simulation.server.serve([0, 1])
        for number in (1, 2):
            simulation.round(number)
            row = simulation.ask()
            assert (row["kind"], row["n"]) == ("a", number)


def test_a_job_that_is_stopped_is_answered_from_its_checkpoints(simulation: Simulation) -> None:
    """The states may be on another host; before there are any, the error says so."""
    with pytest.raises(MissingStateError, match=r"S\.reduce\[0\]: no saved slices: the job is stopped"):
        simulation.ask()
    for number in (1, 2):
        simulation.round(number)
        simulation.save(number)
        assert simulation.ask()["n"] == number


def test_a_unit_that_does_not_answer_in_time_is_named(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a state that is older than what was complete when the question was asked."""
    monkeypatch.setattr("springline.spark_jobs.streaming.windows.adhoc_query._ANSWER_SECONDS", 0.5)
    simulation.round(1)
    simulation.server.serve([0])
    with simulation.folder.application_lock():
        with pytest.raises(MissingStateError, match=r"S\.reduce\[1\] does not answer: its stage is paused"):
            simulation.ask()
        simulation.round(2)
        simulation.worker.reports[0] = replace(simulation.worker.reports[0], round=1)
        with pytest.raises(MissingStateError, match=r"S\.reduce\[0\] does not answer"):
            simulation.ask()


def test_a_question_that_fails_is_logged_and_others_answered(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever is in the topic of questions."""
    simulation.round(1)
    simulation.server.serve([0, 1])
    with simulation.log.record_sender() as sending:
        for value, headers in ((b"x", {}), (b"x", {"question": b"1", "until": b"soon"}), (b"\xff", ASKED)):
            sending.send(OutgoingRecord(simulation.stage.state_requests, 0, value, headers))
    with simulation.folder.application_lock():
        assert simulation.ask()["n"] == 1
    assert "a question to its state failed" in caplog.text
