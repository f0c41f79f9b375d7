"""What stages have counted, from the reports of their units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.backpressure.relay_job import RelayJob
from springline.spark_jobs.streaming.backpressure.accounting import StageAccounting, upstreams_of
from springline.spark_jobs.streaming.backpressure.rate_limit import PlannedRound, write_planned
from springline.spark_jobs.streaming.backpressure.stage_meter import StageCounts
from springline.spark_jobs.streaming.runtime.report import Flow, RoundStatus, UnitReport, UnitTotals
from springline.spark_jobs.streaming.runtime.stage import Stage, place_stages
from springline.spark_jobs.streaming.tracking.config import TrackingConfig
from springline.spark_jobs.streaming.wordcount.job import WordCountJob

ROUND = 100_000  # bytes of each unit


class Stages:
    """A relay of two units a stage, whose reports a test writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        stages = place_stages("r", RelayJob("r", "in", units=2).stages())
        self.stages: dict[str, Stage] = {stage.name: stage for stage in stages}
        self._reports: dict[str, dict[int, UnitReport]] = {name: {} for name in self.stages}
        self.counting = StageAccounting(folder, stages, 2, self)

    def reports(self, stage: str) -> dict[int, UnitReport]:
        """The newest of each unit."""
        return self._reports[stage]

    def ended(
        self, name: str, unit: int, number: int, busy: float = 0.1, *, lag: int = 0, ended_at: float = 0.0
    ) -> None:
        """A unit reports that it has ended a round, of `ROUND` bytes as all before, each of so many seconds."""
        stage = self.stages[name]
        flows = [
            Flow(ROUND * at, {f"{topic}[{unit}]": ROUND * at for topic in stage.outlets}, busy * at)
            for at in (number, number - 1, number - 2)
        ]
        self._reports[name][unit] = UnitReport(
            unit,
            RoundStatus(number=number, lag=lag, ended_at=ended_at, offsets={unit: number * 10}),
            UnitTotals(flow=flows[0], earlier_flows=tuple(flows[1:])),
        )

    def both(self, name: str, number: int, busy: float = 0.1, **more: Any) -> None:
        """Both units do."""
        for unit in (0, 1):
            self.ended(name, unit, number, busy, **more)

    def count(self, name: str, at: float) -> StageCounts:
        """What a stage has counted."""
        return self.counting.count(at)[name]


@pytest.fixture
def stages(tmp_path: Path) -> Stages:
    """Nothing has run."""
    return Stages(tmp_path)


def test_the_queue_is_what_upstreams_have_sent_and_is_not_taken(stages: Stages) -> None:
    """By unit too."""
    stages.both("take", 5)
    stages.both("parse", 2)
    counted = stages.count("parse", 1.0)
    assert (counted.sent, counted.applied, counted.queue) == ({"take": 10 * ROUND}, 4 * ROUND, 6 * ROUND)
    assert counted.unit_queues == {0: 3 * ROUND, 1: 3 * ROUND}
    assert counted.produced == {"count": 4 * ROUND, "keep": 4 * ROUND}


def test_what_waits_in_a_source_is_reckoned_by_the_size_of_its_messages(stages: Stages) -> None:
    """A round was of ten offsets."""
    stages.both("take", 1)
    stages.count("take", 1.0)
    stages.both("take", 2, lag=30)
    assert stages.count("take", 2.0).queue == 3 * ROUND


def test_a_round_counts_when_every_unit_has_ended_it(stages: Stages) -> None:
    """So a rate is never that of half a stage; a unit may be two rounds ahead, as so many are open."""
    stages.both("take", 9)
    stages.both("parse", 3)
    for newest in (4, 5):
        stages.ended("parse", 0, newest)
        counted = stages.count("parse", 1.0)
        assert (counted.applied, counted.produced["count"]) == (6 * ROUND, 6 * ROUND)
    stages.ended("parse", 1, 4)
    assert stages.count("parse", 1.1).applied == 8 * ROUND


@pytest.mark.parametrize(
    ("planned", "admitted", "began"),
    [
        ([PlannedRound(8, 7.5, 10)], 15 * ROUND, 7.5),
        ([PlannedRound(8, 6.5, 10), PlannedRound(9, 7.2, 20)], 17 * ROUND, 7.0),  # the second while the first runs
    ],
)
def test_open_rounds_are_counted_as_taken_once_the_stage_is_warm(
    stages: Stages, planned: list[PlannedRound], admitted: int, began: float
) -> None:
    """With when the first of them began, which is not before the round before has ended."""
    stages.both("take", 20)
    for number in range(1, 8):
        stages.both("parse", number, ended_at=float(number))
        stages.count("parse", float(number))
    write_planned(stages.folder, "parse", planned)
    counted = stages.count("parse", 8.0)
    assert (counted.admitted, counted.round_started_at) == (admitted, began)


def test_work_is_of_the_task_with_most_of_it_and_without_the_first_rounds(stages: Stages) -> None:
    """Those load code; units run beside one another in two tasks."""
    stages.both("take", 30)
    for number in range(1, 5):
        stages.both("parse", number, busy=5.0)
        counted = stages.count("parse", float(number))
    assert (counted.busy, counted.busy_bytes) == (0.0, 0)
    last = 0.0
    for number in range(5, 15):
        stages.ended("parse", 0, number, 5.1)
        stages.ended("parse", 1, number, 5.2)
        counted = stages.count("parse", float(number))
        if last:
            assert counted.busy - last == pytest.approx(5.2)
        last = counted.busy
    assert counted.busy_bytes == 18 * ROUND


def test_edges_that_lead_back_are_left_out() -> None:
    """An acker throttles those that send to it, and no stage throttles an acker for what it sends them."""
    stages = place_stages("w", WordCountJob("w", "lines", TrackingConfig("w")).stages())
    assert upstreams_of(stages) == {
        "split": (), "retry": (), "count": ("split", "retry"), "acker": ("split", "retry", "count"),
    }  # fmt: skip
