"""What oversight decides from the reports of ackers and stages: marks, whether time stands still."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from springline.spark_jobs.streaming.backpressure.rate_limit import PlannedRound, write_planned
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import read_tracked_job
from springline.spark_jobs.streaming.runtime.report import RoundStatus, UnitReport
from springline.spark_jobs.streaming.runtime.stage import place_stages
from springline.spark_jobs.streaming.tracking.monitor import (
    TrackingMonitor,
    has_open_round,
    low_watermarks,
    pause_reason,
)
from tests.support.streams.declarations import written


def gauge(offsets: dict[str, int], **counters: int) -> dict[str, Any]:
    """The report of an acker."""
    names = ("in_flight", "audit_requests", "audited", "replay_requests", "failed", "retried", "forwarded", "adopted")
    return {"low_watermarks": offsets, **dict.fromkeys(names, 0), **counters}


def report(at: float, *, number: int = 1, lag: int = 0, newest: float = 0.0, **more: Any) -> UnitReport:
    """The report of a unit."""
    return UnitReport(0, RoundStatus(number=number, lag=lag, newest_timestamp=newest, ended_at=at, **more))


def test_the_mark_of_a_partition_is_that_of_the_acker_that_is_least_far() -> None:
    """Of those of the ring."""
    gauges = [gauge({"0": 7, "1": 9}), gauge({"0": 5, "1": 9}), gauge({})]
    assert low_watermarks({}, gauges, gauges, [0, 1], 0) == {"0": 5, "1": 9}


AT_9 = gauge({"0": 9})
AUDITED = gauge({"0": 9}, audited=1)


@pytest.mark.parametrize(
    ("gauges", "ring", "handled", "expected"),
    [
        pytest.param([gauge({"0": 5}), gauge({"0": 3}, in_flight=1)], [0], 0, 3, id="holds roots outside of the ring"),
        pytest.param([gauge({"0": 5}), gauge({"0": 3})], [0], 0, 5, id="holds nothing outside of the ring"),
        pytest.param([gauge({"0": 9}, replay_requests=2, retried=1), AT_9], [0, 1], 2, 1, id="a root is to be retried"),
        pytest.param([gauge({"0": 9}, audit_requests=3), AUDITED], [0, 1], 3, 1, id="a fold is to be audited"),
        pytest.param(
            [gauge({"0": 9}, audit_requests=3, audited=2), AUDITED], [0, 1], 2, 1, id="an audit is not handled"
        ),
        pytest.param([gauge({"0": 9}, audit_requests=3, audited=2), AUDITED], [0, 1], 3, 9, id="all is audited"),
        pytest.param([gauge({"0": 9}, forwarded=5), gauge({"0": 9}, adopted=4)], [0, 1], 0, 1, id="records are moving"),
        pytest.param([AT_9], [0, 1], 0, 1, id="no second acker"),
        pytest.param([AT_9, None], [0, 1], 0, 1, id="the second acker has not reported"),
        pytest.param([None, AT_9], [0, 1], 0, 1, id="the first acker has not reported"),
        pytest.param([AT_9, gauge({})], [0, 1], 0, 1, id="an acker knows no offset"),
        pytest.param([AT_9, None], [0], 0, 9, id="nothing is expected outside of the ring"),
        pytest.param([gauge({"0": 9}, failed=3)], [0], 2, 1, id="a failure is not yet a dead letter"),
        pytest.param([gauge({"0": 9}, failed=3)], [0], 3, 9, id="all failures are dead letters"),
        pytest.param([gauge({"0": 0})], [0], 0, 1, id="never back"),
    ],
)
def test_the_mark_advances_only_when_no_root_below_it_is_open(
    gauges: list[dict[str, Any] | None], ring: list[int], handled: int, expected: int
) -> None:
    """From offset 1: a root that no acker holds may be on its way between ackers, or to be audited or retried."""
    assert low_watermarks({"0": 1}, gauges, gauges, ring, handled) == {"0": expected}


def test_marks_stand_while_numbers_move_between_two_looks() -> None:
    """The ackers are not read in one moment: equal sums may be those of different moments."""
    before = [gauge({"0": 9}, replay_requests=1), gauge({"0": 9}, retried=1)]
    after = [gauge({"0": 9}, replay_requests=2), gauge({"0": 9}, retried=2)]
    assert low_watermarks({"0": 4}, after, before, [0, 1], 2) == {"0": 4}
    assert low_watermarks({"0": 4}, after, after, [0, 1], 2) == {"0": 9}


@pytest.mark.parametrize(
    ("reports", "began", "reason"),
    [
        ({"count": [report(99.0)], "acker": [report(99.5), report(99.9)]}, 50.0, ""),
        ({"count": [report(85.0)]}, 50.0, "count is down"),
        ({"count": [report(89.0)]}, 50.0, ""),
        ({"count": [report(99.0), None]}, 50.0, "count is down"),
        ({"count": [report(99.0)]}, 99.5, "count is down"),
        ({"count": [report(99.0, lag=5, newest=80.0)]}, 50.0, "count lags"),
        ({"count": [report(99.0, lag=5, newest=90.0)]}, 50.0, ""),
        ({"count": [report(99.0, newest=10.0)]}, 50.0, ""),
    ],
)
def test_a_stage_that_lags_stops_time(reports: dict[str, list[UnitReport | None]], began: float, reason: str) -> None:
    """One that has not run since the start, and one that reads what is older than half a time-out."""
    assert pause_reason(reports, began, 100.0, 30.0) == reason


def test_time_stands_still_while_a_source_s_round_takes_long() -> None:
    """A task of it may have died after it registered its roots, and before it sent what is to ack them."""
    planned = PlannedRound(7, 90.0, 5)
    late, completed = report(99.0, number=6), report(99.0, number=7)
    assert has_open_round(planned, [completed, late], 50.0, 100.0)
    assert has_open_round(planned, [None, completed], 50.0, 100.0)
    assert not has_open_round(planned, [completed, completed], 50.0, 100.0)
    assert not has_open_round(planned, [completed, late], 50.0, 93.0), "every round takes a moment"
    assert not has_open_round(planned, [completed, late], 95.0, 100.0), "it was finished when the application began"


def test_oversight_looks_at_the_rounds_of_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As planners have noted them."""
    monkeypatch.setattr("springline.spark_jobs.streaming.tracking.monitor.time.time", lambda: 100.0)
    job = read_tracked_job(written(tmp_path, '[words]\nkind = "wordcount"\ntopic = "t"\n'), "words")
    job.prepare(JobFolder(tmp_path))
    stages = place_stages(job.name, job.stages())
    reports: dict[str, dict[int, UnitReport]] = {}
    oversight = TrackingMonitor(job.tracking, JobFolder(tmp_path), stages, SimpleNamespace(reports=reports.get))
    monkeypatch.setattr("springline.spark_jobs.streaming.tracking.monitor.time.time", lambda: 110.0)
    for stage in stages:
        for unit in range(stage.units):
            gauges = {**gauge({}), "completed": 0, "bytes": 0}
            reports.setdefault(stage.name, {})[unit] = report(110.0, gauges=gauges)
    oversight._observe()
    assert oversight._observation.pause_reason == ""
    write_planned(tmp_path, stages[0].name, [PlannedRound(2, 105.0, 3)])
    oversight._observe()
    assert oversight._observation.pause_reason == "split has a round in progress"
