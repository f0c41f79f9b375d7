"""When the stages of a job are level, where one of them reads what another one emits."""

from __future__ import annotations

from pathlib import Path

from springline.spark_jobs.streaming.runtime.driver.drain import find_drained_plans
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.rounds import OffsetBounds
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.state_folders import StateFolders
from springline.spark_jobs.streaming.runtime.step import Input, Output, State, Step
from springline.spark_jobs.streaming.runtime.worker.unit import StageWorker
from springline.testing.memory_log import MemoryLog


def reading(state: State, step_input: Input) -> Output:
    """Reads its messages."""
    return Output(State({"seen": state.scalars.get("seen", 0) + sum(1 for _ in step_input.messages)}))


def make_reading() -> Step:
    """As a stage names it."""
    return reading


class Telling(MemoryLog):
    """A log that gets a result when the rounds of `teller` are read, as if it had just ended one."""

    teller = ""

    def offset_bounds(self, topic: str) -> dict[int, OffsetBounds]:
        if topic == self.teller:
            self.put("audits", 0, b"again")
        return super().offset_bounds(topic)


def test_a_stage_that_reads_feedback_is_drained_when_it_has_read_that_of_the_last_round(tmp_path: Path) -> None:
    """It is read again once that round is known; a savepoint would leave out what was emitted in between."""
    step = f"{__name__}:make_reading"
    stages = [
        Stage("again", step, "audits", job="job", reads_feedback=True),
        Stage("acker", step, "numbers", job="job", feedback="audits"),
    ]
    log = Telling(
        {"audits": 1, "numbers": 1, **{topic: 1 for stage in stages for topic in (stage.rounds, stage.reports)}}
    )
    for stage in stages:
        planner = Planner(stage, log, lambda: 5.0, dict)
        plan = planner.after(planner.begin())
        assert plan is not None
        StageWorker(stage, StateFolders(tmp_path / stage.name), log).run(plan, {}, 0)
    plans = find_drained_plans(stages, log)
    assert plans is not None and {name: plan.number for name, plan in plans.items()} == {"again": 1, "acker": 1}
    log.teller = stages[1].rounds
    assert find_drained_plans(stages, log) is None
