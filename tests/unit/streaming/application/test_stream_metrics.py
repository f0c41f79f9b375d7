"""Metrics of streams: what is read from a heartbeat, and what a monitor makes of it."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from springline.persistence.monitoring.alerts import list_active_alerts, read_states
from springline.persistence.monitoring.metric import Metric
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.spark_jobs.streaming.application import metrics
from springline.spark_jobs.streaming.application.metrics import readings
from springline.spark_jobs.streaming.application.monitor import Monitor
from springline.spark_jobs.streaming.application.status import JobStatus
from springline.spark_jobs.streaming.job_folder import JobFolder
from tests.support.metered import RecordingReporter

STAGE = {
    "round": 7, "round_ended_at": 100.0, "counts": {"rows": 50, "dead_letters": 2}, "state_bytes": 10,
    "task_memory": 11, "seconds": 0.5, "newest_timestamp": 90.0, "lag": 3,
}  # fmt: skip
QUEUE = {"queue": 4096, "seconds": None, "rate": 1e6, "throttled_by": [{"stage": "reduce"}]}


def job_status(state: str = "running", **more: object) -> JobStatus:
    """A job with one stage."""
    return JobStatus("flights", state, stages={"map": {**STAGE, **more}})


def value(metric: Metric, of: JobStatus, now: float = 110.0) -> list[float]:
    """What is read of a metric."""
    return [reading.value for reading in readings(of, now) if reading.metric == metric]


@pytest.mark.parametrize(
    ("metric", "changed", "now", "expected"),
    [
        (metrics.LAG_MESSAGES, {}, 110.0, [3]),
        (metrics.LAG_SECONDS, {}, 110.0, [20]),
        (metrics.LAG_SECONDS, {}, 150.0, [60]),
        (metrics.LAG_SECONDS, {"lag": 0}, 110.0, [0]),
        (metrics.ROUNDS, {}, 110.0, [7]),
        (metrics.ROUND_AGE, {}, 110.0, [10]),
        (metrics.ROUND_AGE, {"round": 0}, 110.0, []),
        (metrics.ROWS, {}, 110.0, [50]),
        (metrics.DEAD_LETTERS, {}, 110.0, [2]),
        (metrics.TASK_MEMORY, {}, 110.0, [11]),
    ],
)
def test_a_stage_has_metrics(metric: Metric, changed: dict[str, object], now: float, expected: list[float]) -> None:
    """Its lag is the age of what it read last while more waits; before its first round it has no round age."""
    assert value(metric, job_status(**changed), now) == expected


@pytest.mark.parametrize(
    ("state", "up", "read"),
    [
        ("running", [1], True), ("starting", [1], True), ("dead", [0], False), ("failed", [0], False),
        ("stopped", [], False), ("never started", [], False),
    ],
)  # fmt: skip
def test_a_job_that_died_is_down_and_one_that_was_stopped_is_not(state: str, up: list[float], read: bool) -> None:
    """Nothing else is read of them."""
    assert value(metrics.UP, job_status(state)) == up
    assert bool(value(metrics.ROUNDS, job_status(state))) == read
    assert read or len(readings(job_status(state), 0)) == len(up)


def test_tracking_back_pressure_and_joins_are_read_where_they_are() -> None:
    """What has no bound has no rate."""
    job = JobStatus(
        "j", "running", tracking={"in_flight": 5, "failed": 1, "retried": 2},
        backpressure={"stages": {"map": QUEUE, "reduce": {**QUEUE, "rate": None, "throttled_by": []}}},
    )  # fmt: skip
    routing = {"imbalance": 0.25, "migrations": 2, "epoch": 3}
    tracked = [value(each, job) for each in (metrics.IN_FLIGHT, metrics.FAILED, metrics.RETRIED)]
    queues = [value(each, job) for each in (metrics.QUEUE_BYTES, metrics.RATE, metrics.THROTTLED)]
    joins = [
        value(each, replace(job, routing=routing)) for each in (metrics.IMBALANCE, metrics.MIGRATIONS, metrics.EPOCHS)
    ]
    assert tracked == [[5], [1], [2]]
    assert queues == [[4096, 4096], [1e6], [1, 0]]
    assert joins == [[0.25], [2], [3]]


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    """A job's folder."""
    (tmp_path / "streams").mkdir()
    return JobFolder(tmp_path / "streams")


def monitor(
    folder: JobFolder, rules: str = "", **settings: str
) -> tuple[Monitor, RecordingReporter, MonitoringSettings]:
    """One that keeps what it reports."""
    file = folder.path / "rules.toml"
    file.write_text(rules)
    monitoring_settings, meter = MonitoringSettings(home=folder.path, alert_rules=file, **settings), RecordingReporter()
    return Monitor(monitoring_settings, meter), meter, monitoring_settings


LAG = '[lag]\nmetric = "streams.lag.messages"\nabove = 1\nseverity = "warning"\nsummary = "lag"'


def test_a_monitor_reports_and_evaluates_with_a_pause_between(folder: JobFolder) -> None:
    """What it reported is the same ten seconds later."""
    job_monitor, meter, settings = monitor(folder, LAG)
    for now in (100.0, 105.0, 110.0):
        job_monitor.evaluate(job_status(), now)
    assert len(meter.of(metrics.LAG_MESSAGES)) == 2
    (alert,) = list_active_alerts(read_states(settings.alerts_folder))
    assert alert.key == "lag job=flights stage=map"


def test_the_end_of_a_job_ends_its_alerts_at_once(folder: JobFolder) -> None:
    """It is not polled again."""
    job_monitor, _, settings = monitor(folder, LAG)
    job_monitor.evaluate(job_status(), 100)
    job_monitor.evaluate(job_status("stopped"), 101)
    assert list_active_alerts(read_states(settings.alerts_folder)) == []


def test_an_alert_can_fire_for_a_job_that_is_abandoned(folder: JobFolder) -> None:
    """By the look that gives it up."""
    job_monitor, meter, _ = monitor(folder)
    job_monitor.evaluate(job_status("failed"), 100, restart_limit_reached=True)
    assert meter.of(metrics.RESTART_LIMIT_REACHED) == [(1, {"job": "flights"})]


def test_where_a_collector_is_named_the_application_sends_what_it_can(folder: JobFolder) -> None:
    """Only that it is down, it cannot."""
    job_monitor, meter, _ = monitor(folder, otlp_endpoint="http://127.0.0.1:9")
    job_monitor.evaluate(job_status(), 100)
    assert not meter.of(metrics.UP)
    job_monitor.evaluate(job_status("dead"), 101)
    assert meter.of(metrics.UP) == [(0, {"job": "flights"})]


def test_wrong_rules_are_logged_once_and_metrics_go_on(folder: JobFolder, caplog: pytest.LogCaptureFixture) -> None:
    """With file and rule, and again only when something else is wrong."""
    job_monitor, meter, _ = monitor(folder, LAG.replace("above = 1", "above = 'x'"))
    with caplog.at_level(logging.ERROR, "springline.alerts"):
        for now in (100.0, 120.0):
            job_monitor.evaluate(job_status(), now)
    assert len(caplog.records) == 1 and "rule 'lag': above = 'x'; expected a number" in caplog.text
    assert len(meter.of(metrics.LAG_MESSAGES)) == 2


def test_a_heartbeat_that_cannot_be_read_stops_nothing(folder: JobFolder, caplog: pytest.LogCaptureFixture) -> None:
    """One of another version, say; it is logged."""
    job_monitor, _, _ = monitor(folder)
    status = JobStatus("flights", "running", stages={"map": {"round": 1}})
    job_monitor.evaluate(status, 100)
    job_monitor.export(status, 101)
    assert [record.getMessage() for record in caplog.records] == ["flights is not monitored: KeyError: 'counts'"]
