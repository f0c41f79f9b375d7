"""A round has no more bytes than a task may read, by the sizes of the messages before."""

from __future__ import annotations

import pytest

from springline.spark_jobs.streaming.runtime.driver.admission import SizeLimit
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.message_log import MAX_RECORD_BYTES
from springline.spark_jobs.streaming.runtime.report import Flow, RoundStatus, UnitReport, UnitTotals
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.testing.memory_log import MemoryLog


def reports(*read: tuple[int, int]) -> list[UnitReport]:
    """Of each unit, one a partition: the bytes that it has read, and its next offset."""
    return [
        UnitReport(unit, RoundStatus(offsets={unit: offset}), UnitTotals(flow=Flow(size)))
        for unit, (size, offset) in enumerate(read)
    ]


def test_a_message_may_be_as_large_as_any_until_sizes_are_reported() -> None:
    """So that not even the first round is too large."""
    limit = SizeLimit(4 * MAX_RECORD_BYTES)
    assert limit.apply({0: 1_000, 1: 1_000}, {0: 900, 1: 100}, []) == {0: 4, 1: 0}
    assert limit.apply({0: 1_000, 1: 1_000}, {0: 900, 1: 100}, reports((0, 50), (0, 7))) == {0: 4, 1: 0}


def test_later_rounds_are_limited_by_the_largest_mean_of_the_newest() -> None:
    """A round of small messages does not let the next one be large at once."""
    limit = SizeLimit(1_000)
    limit.apply({}, {}, reports((0, 50), (0, 7)))
    assert limit.apply({0: 90, 1: 90}, {0: 90, 1: 5}, reports((600, 60), (400, 17))) == {0: 19, 1: 1}
    assert limit.apply({0: 90}, {0: 90}, reports((700, 160), (400, 17))) == {0: 20}
    for offset in range(170, 250, 10):
        limits = limit.apply({0: 90}, {0: 90}, reports((540 + offset, offset), (400, 17)))
    assert limits == {0: 90}


def test_units_that_report_later_are_not_taken_for_small_messages() -> None:
    """The offsets of a topic, or of a new partition, begin anywhere."""
    limit = SizeLimit(4 * MAX_RECORD_BYTES)
    limit.apply({}, {}, reports((500, 10_000_000)))
    assert limit.apply({0: 90}, {0: 90}, reports((500, 10_000_000), (500, 20_000_000))) == {0: 4}
    assert limit.apply({0: 90}, {0: 90}, reports((1_500, 10_000_010), (500, 20_000_000))) == {0: 90}


@pytest.mark.parametrize("size", [0, 10, 100_000])
def test_a_round_has_at_least_one_message(size: int) -> None:
    """However large it is, and where messages have no bytes."""
    limit = SizeLimit(1_000)
    limit.apply({}, {}, reports((0, 1)))
    assert limit.apply({0: 100}, {0: 70}, reports((size * 10, 11))) in ({0: 1}, {0: 70}, {0: 100})
    assert sum(limit.apply({0: 100}, {0: 70}, reports((size * 10, 11))).values()) >= 1


def test_a_planner_reads_sizes_from_the_reports_of_its_stage() -> None:
    """The first rounds are small, those after as large as they may be."""
    stage = Stage("add", "", "numbers", 1, job="job", max_messages_per_round=500)
    log = MemoryLog({"numbers": 1, stage.rounds: 1, stage.reports: 1})
    for _ in range(2_000):
        log.put("numbers", 0, b"x" * 100)
    planner = Planner(stage, log, lambda: 100.0, dict, round_bytes=2 * MAX_RECORD_BYTES)
    plan, counts = planner.begin(), []
    for _ in range(4):
        following = planner.after(plan)
        assert isinstance(following, RoundPlan)
        plan = following
        counts.append(plan.messages)
        flow = UnitTotals(flow=Flow(100 * plan.ranges[0][1]))
        status = RoundStatus(number=plan.number, offsets={0: plan.ranges[0][1]})
        log.put(stage.reports, 0, UnitReport(0, status, flow).encode())
        assert planner.is_complete(plan)
    assert counts == [2, 2, 500, 500]
