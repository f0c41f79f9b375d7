"""Ad hoc queries, answered from what reducers hold; their planner is kept as long as the queries are the same."""

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
from springline.spark_jobs.streaming.runtime.report import RoundStatus, UnitReport
from springline.spark_jobs.streaming.runtime.stage import place_stages
from springline.spark_jobs.streaming.runtime.state_folders import StateFolders
from springline.spark_jobs.streaming.runtime.state_store import StateSnapshot
from springline.spark_jobs.streaming.runtime.worker.state_server import StateServer
from springline.spark_jobs.streaming.runtime.worker.unit import StageWorker
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.windows.adhoc import AdHocPlanner, Answer, answer_from_states
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
            self.worker.states.store(unit).save(StateSnapshot(1, 0), state, (1, number), {"offsets": {}})
            report = UnitReport(unit, RoundStatus(number=number))
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


# ---- what slices answer

T = 1_700_000_040  # 2023-11-14 22:14:00
ASKABLE = {
    "flows": "SELECT sip, kind, count(*), sum(bytes), count(DISTINCT load) FROM S GROUP BY sip, kind WINDOWING 60 s",
    "big": "SELECT kind, max(load) FROM S WHERE bytes > 1 GROUP BY kind WINDOWING HOP(60 s, 20 s)",
}


def job() -> TestedJob:
    """Three minutes of rows, the last of them open."""
    windows_job = TestedJob(registry(ASKABLE, stream(adhoc_retention=3600.0)), reducers=2)
    for minute in range(3):
        rows = [
            (T + 60 * minute + i, sip, kind, i, i / 2) for i, (sip, kind) in enumerate(zip("xyxy", "aabb", strict=True))
        ]
        windows_job.round([csv(*rows)])
    return windows_job


def answer_of(sql: str, of: TestedJob | None = None) -> Answer:
    of = of or job()
    return answer_from_states(
        AdHocPlanner(of.registry).plan(sql),
        [state for (stage, _), state in sorted(of.states.items()) if stage == "reduce"],
    )


def rows(answer: Answer) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values())[2:] for row in answer.rows.to_pylist())


def test_groups_are_added_up_over_all_that_is_held_and_over_units() -> None:
    """Also what is not closed yet; the bounds say which slices there are."""
    answer = answer_of("SELECT sip, count(*), sum(bytes), count(DISTINCT load) AS d FROM S GROUP BY sip")
    assert rows(answer) == [("x", 6, 6, 2), ("y", 6, 12, 2)]
    assert (answer.begin, answer.end) == (T * 10**6, (T + 180) * 10**6)
    assert answer.rows.column_names == ["window_start", "window_end", "sip", "count", "sum_bytes", "d"]


def test_conditions_may_be_on_keys_and_on_time() -> None:
    """Times are widened to whole slices."""
    sql = "SELECT sip, count(*) AS n FROM S WHERE kind = 'a' AND {} GROUP BY sip"
    for condition, n in (
        ("time >= '2023-11-14 22:15:00'", 2), ("time > '2023-11-14 22:14:59.999999'", 2),
        ("time < '2023-11-14 22:15:01'", 2), ("'2023-11-14 22:15' > time", 1), ("time <= '2023-11-14 22:15'", 2),
        ("time BETWEEN '2023-11-14 22:15:30' AND '2023-11-14 22:15:40'", 1), ("sip = 'x'", 3),
    ):  # fmt: skip
        assert {row[1] for row in rows(answer_of(sql.format(condition)))} == {n}, condition


def test_windows_may_be_asked_for() -> None:
    """Of a whole number of slices; windows of rows need more than slices."""
    answer = answer_of("SELECT count(*) AS n FROM S WINDOWING 120 s")
    assert [(row["window_start"].timestamp() - T, row["n"]) for row in answer.rows.to_pylist()] == [(0, 8), (120, 4)]
    with pytest.raises(InvalidQueryError, match="query 'ad hoc': ad hoc queries support no window"):
        answer_of("SELECT count(*) FROM S WINDOWING ROWS(5)")


def test_the_smallest_cube_that_serves_is_taken() -> None:
    """Here one with a filter, since the query has it too; HAVING and expressions are as in registered queries."""
    answer = answer_of("SELECT max(load) AS m FROM S WHERE bytes > 1 AND kind = 'b'")
    assert (answer.cube.queries, rows(answer)) == (("big",), [(1.5,)])
    assert rows(answer_of("SELECT sip, sum(bytes) / count(*) AS m FROM S GROUP BY sip HAVING sum(bytes) > 6")) == [
        ("y", 2.0)
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT kind, max(bytes) FROM S GROUP BY kind",
        "SELECT bytes, count(*) FROM S GROUP BY bytes",
        "SELECT kind, count(*) FROM S WHERE bytes > 2 GROUP BY kind",
        "SELECT kind, max(load) FROM S GROUP BY kind",
        "SELECT count(*) FROM S WINDOWING 30 s",
    ],
)
def test_what_slices_do_not_hold_is_refused_with_what_they_do(sql: str) -> None:
    """By its aggregates, keys, filter and width."""
    with pytest.raises(InvalidQueryError) as raised:
        answer_of(sql)
    assert "by sip, kind in slices of 60 s (for flows)" in str(raised.value)
    assert "by kind WHERE bytes > 1 in slices of 20 s (for big)" in str(raised.value)


def test_what_can_be_asked_is_said_before_anybody_tries() -> None:
    """And each of it is answered."""
    of = job()
    big, flows = AdHocPlanner(of.registry).askable()
    assert (flows.stream, flows.keys, flows.where) == ("S", ("sip", "kind"), "")
    assert (flows.seconds, flows.queries) == (60, ("flows",))
    assert set(flows.aggregates) == {"count(*)", "count(bytes)", "sum(bytes)", "avg(bytes)", "count(DISTINCT load)"}
    assert (big.keys, big.where, big.seconds) == (("kind",), "bytes > 1", 20)
    for each in (flows, big):
        where = f" WHERE {each.where}" if each.where else ""
        for aggregate in each.aggregates:
            for key in each.keys:
                sql = f"SELECT {key}, {aggregate} AS v FROM {each.stream}{where} GROUP BY {key}"
                assert rows(answer_of(f"{sql} WINDOWING {each.seconds:g} s", of)), sql


def test_an_answer_from_nothing_has_its_columns() -> None:
    """Nothing held yet, or nothing in the range."""
    empty = TestedJob(registry(ASKABLE))
    empty.round([])
    for answer in (
        answer_of("SELECT sip, count(*) AS n FROM S GROUP BY sip", empty),
        answer_of("SELECT sip, count(*) AS n FROM S WHERE time > '2030-01-01' GROUP BY sip"),
        answer_of("SELECT sip, count(*) AS n FROM S WHERE sip = 'nobody' GROUP BY sip"),
    ):
        assert answer.rows.column_names == ["window_start", "window_end", "sip", "n"]
        assert answer.rows.num_rows == 0


def test_slices_are_retained_as_long_as_the_stream_says() -> None:
    """And no longer."""
    for retain, n in ((0.0, 1), (60.0, 2), (3600.0, 6)):
        of = TestedJob(registry({"q": "SELECT count(*) FROM S WINDOWING 60 s"}, stream(adhoc_retention=retain)))
        for minute in range(6):
            of.round([csv((T + 60 * minute, "x", "a", 1, 1))])
        assert rows(answer_of("SELECT count(*) FROM S", of)) == [(n,)]
