"""What oversight decides from what ackers and stages tell: marks, whether time stands still."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from springline.spark_jobs.streaming.backpressure.rate_limit import PlannedRound, write_planned
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import read_tracked_job
from springline.spark_jobs.streaming.runtime.report import UnitReport
from springline.spark_jobs.streaming.runtime.stage import place_stages
from springline.spark_jobs.streaming.tracking.monitor import (
    TrackingMonitor,
    has_open_round,
    low_watermarks,
    pause_reason,
)
from tests.support.streams.declarations import written


def gauge(offsets: dict[str, int], **counters: int) -> dict[str, Any]:
    """What an acker tells."""
    return {
        "low_watermarks": offsets,
        "in_flight": 0,
        "audit_requests": 0,
        "audited": 0,
        "replay_requests": 0,
        "failed": 0,
        "retried": 0,
        "forwarded": 0,
        "adopted": 0,
        **counters,
    }


def report(at: float, *, lag: int = 0, newest: float = 0.0) -> UnitReport:
    """What a unit tells."""
    return UnitReport(0, 1, {}, 0, lag, newest, ended_at=at)


def test_the_mark_of_a_partition_is_that_of_the_acker_that_is_least_far() -> None:
    """Of those of the ring."""
    gauges = [gauge({"0": 7, "1": 9}), gauge({"0": 5, "1": 9}), gauge({})]
    assert low_watermarks({}, gauges, gauges, [0, 1], 0) == {"0": 5, "1": 9}


def test_an_acker_that_left_the_ring_counts_as_long_as_it_holds_something() -> None:
    """Then no more."""
    for in_flight, low in ((1, 3), (0, 5)):
        gauges = [gauge({"0": 5}), gauge({"0": 3}, in_flight=in_flight)]
        assert low_watermarks({}, gauges, gauges, [0], 0) == {"0": low}


def test_marks_stand_while_a_root_is_on_its_way_to_be_sent_again() -> None:
    """No acker holds it then."""
    gauges = [gauge({"0": 9}, replay_requests=2, retried=1), gauge({"0": 9})]
    assert low_watermarks({"0": 4}, gauges, gauges, [0, 1], 2) == {"0": 4}


def test_marks_stand_while_a_fold_is_on_its_way_to_be_audited() -> None:
    """No acker holds its roots then; nor do they count as dealt with before they were registered individually."""
    for audited, handled, low in ((0, 3, 4), (3, 2, 4), (3, 3, 9)):
        gauges = [gauge({"0": 9}, audit_requests=3, audited=audited - 1), gauge({"0": 9}, audited=1)]
        assert low_watermarks({"0": 4}, gauges, gauges, [0, 1], handled) == {"0": low}


def test_marks_stand_while_records_are_on_their_way_between_ackers() -> None:
    """Nor does one hold these."""
    gauges = [gauge({"0": 9}, forwarded=5), gauge({"0": 9}, adopted=4)]
    assert low_watermarks({"0": 4}, gauges, gauges, [0, 1], 0) == {"0": 4}


def test_marks_stand_while_numbers_move_between_two_looks() -> None:
    """The ackers are not looked at in one moment: equal sums may be those of different moments."""
    before = [gauge({"0": 9}, replay_requests=1), gauge({"0": 9}, retried=1)]
    after = [gauge({"0": 9}, replay_requests=2), gauge({"0": 9}, retried=2)]
    assert low_watermarks({"0": 4}, after, before, [0, 1], 2) == {"0": 4}
    assert low_watermarks({"0": 4}, after, after, [0, 1], 2) == {"0": 9}


def test_an_acker_of_the_ring_that_has_told_nothing_holds_the_marks() -> None:
    """It may hold anything."""
    gauges = gauge({"0": 9})
    for all_ in ([gauges], [gauges, None], [None, gauges], [gauges, gauge({})]):
        assert low_watermarks({"0": 4}, all_, all_, [0, 1], 0) == {"0": 4}
    assert low_watermarks({"0": 4}, [gauges, None], [gauges, None], [0], 0) == {"0": 9}


def test_marks_stand_until_what_was_given_up_is_among_the_dead_letters() -> None:
    """Below them, whoever asks finds it there."""
    gauges = [gauge({"0": 9}, failed=3)]
    assert low_watermarks({"0": 4}, gauges, gauges, [0], 2) == {"0": 4}
    assert low_watermarks({"0": 4}, gauges, gauges, [0], 3) == {"0": 9}


def test_marks_never_go_back() -> None:
    """What was through stays through."""
    gauges = [gauge({"0": 2})]
    assert low_watermarks({"0": 4}, gauges, gauges, [0], 0) == {"0": 4}


def test_time_goes_on_while_every_stage_keeps_up() -> None:
    """An idle one has a round every second."""
    assert not pause_reason({"count": [report(99.0)], "acker": [report(99.5), report(99.9)]}, 50.0, 100.0, 30.0)


def test_time_stands_still_while_a_stage_is_away_or_has_not_run_since_the_start() -> None:
    """Nobody is there to be late."""
    assert pause_reason({"count": [report(90.0)]}, 50.0, 100.0, 30.0) == "count is down"
    assert pause_reason({"count": [report(99.0), None]}, 50.0, 100.0, 30.0) == "count is down"
    assert pause_reason({"count": [report(99.0)]}, 99.5, 100.0, 30.0) == "count is down"


def test_time_stands_still_while_a_source_s_round_takes_long() -> None:
    """A task of it may have died after it told the ackers of its roots, and before it sent what is to ack them."""
    planned = PlannedRound(7, 90.0, 5)
    late, completed = replace(report(99.0), round=6), replace(report(99.0), round=7)
    assert has_open_round(planned, [completed, late], 50.0, 100.0) and has_open_round(
        planned, [None, completed], 50.0, 100.0
    )
    assert not has_open_round(planned, [completed, completed], 50.0, 100.0)
    assert not has_open_round(planned, [completed, late], 50.0, 93.0), "every round takes a moment"
    assert not has_open_round(planned, [completed, late], 95.0, 100.0), "it was finished when the application began"


def test_oversight_looks_at_the_rounds_of_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As planners have noted them."""
    monkeypatch.setattr("springline.spark_jobs.streaming.tracking.monitor.time.time", lambda: 100.0)
    job = read_tracked_job(written(tmp_path, '[words]\nkind = "wordcount"\ntopic = "t"\n'), "words")
    job.prepare(JobFolder(tmp_path))
    stages = place_stages(job.name, job.stages(1))
    reports: dict[str, dict[int, UnitReport]] = {}
    oversight = TrackingMonitor(job.tracking, JobFolder(tmp_path), stages, SimpleNamespace(reports=reports.get))
    monkeypatch.setattr("springline.spark_jobs.streaming.tracking.monitor.time.time", lambda: 110.0)
    for stage in stages:
        for unit in range(stage.units):
            gauges = {**gauge({}), "completed": 0, "bytes": 0}
            reports.setdefault(stage.name, {})[unit] = replace(report(110.0), gauges=gauges)
    oversight._observe()
    assert oversight._observation.pause_reason == ""
    write_planned(tmp_path, stages[0].name, [PlannedRound(2, 105.0, 3)])
    oversight._observe()
    assert oversight._observation.pause_reason == "split has a round in progress"


def test_time_stands_still_while_a_stage_reads_what_is_older_than_half_a_time_out() -> None:
    """As long as there is more of it."""
    assert pause_reason({"count": [report(99.0, lag=5, newest=80.0)]}, 50.0, 100.0, 30.0) == "count lags"
    assert not pause_reason({"count": [report(99.0, lag=5, newest=90.0)]}, 50.0, 100.0, 30.0)
    assert not pause_reason({"count": [report(99.0, newest=10.0)]}, 50.0, 100.0, 30.0)
