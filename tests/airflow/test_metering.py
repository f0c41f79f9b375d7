"""Metrics and alerts of what runs in Airflow: through Airflow's own metrics, unless a collector is named."""

from __future__ import annotations

import time
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowException
from airflow.sdk.observability import stats

from springline.airflow.metrics import AirflowMeter, task_meter, trigger_meter
from springline.airflow.operators.persister import MaintenanceOperator
from springline.airflow.operators.stream import StreamOperator
from springline.persistence.errors import AlertRulesError
from springline.persistence.monitoring.alerts import list_active_alerts, read_states
from springline.persistence.monitoring.metric import NoMetricsReporter
from springline.persistence.monitoring.metrics import RISK_BYTES, TRANSFER_BYTES, TRANSFER_SECONDS
from springline.persistence.monitoring.telemetry import OtlpMetricsReporter
from springline.spark_jobs.streaming.application.supervision import record_start
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.testing.lines import make_dataset as make

RULES = """
[risk]
metric = "persistence.risk.bytes"
above = 0
severity = "critical"
summary = "something is at risk"
"""
TICKS = '[ticks]\ntopic = "ticks"\n[ticks.stream]\ntime = "t"\nfields = [["t", "float"]]\n'


class Backend:
    """What Airflow's metrics hand everything to."""

    def __init__(self) -> None:
        self.reported: list[tuple] = []

    def incr(self, name, count=1, **more):
        self.reported.append((name, count, more.get("tags")))

    def gauge(self, name, value, **more):
        self.reported.append((name, value, more.get("tags")))

    def timing(self, name, dt, **more):
        self.reported.append((name, dt, more.get("tags")))


@pytest.fixture
def backend(monkeypatch):
    """Airflow's metrics are on, and end here."""
    backend = Backend()
    monkeypatch.setenv("AIRFLOW__METRICS__OTEL_ON", "True")
    monkeypatch.setitem(stats.gauge.__globals__, "_backend", backend)
    return backend


def test_metrics_go_through_airflows_own_where_these_are_on(backend):
    """A timer in the form that Airflow turns into milliseconds."""
    meter = task_meter()
    assert isinstance(meter, AirflowMeter) and meter.is_enabled
    meter.report(RISK_BYTES, 5)
    meter.report(TRANSFER_BYTES, 7, method="data")
    meter.report(TRANSFER_SECONDS, 1.5, method="data")
    assert backend.reported == [
        ("springline.persistence.risk.bytes", 5, None),
        ("springline.persistence.transfer.bytes", 7, {"method": "data"}),
        ("springline.persistence.transfer.seconds", timedelta(seconds=1.5), {"method": "data"}),
    ]


def test_a_collector_that_is_named_is_told_directly(backend, monkeypatch):
    """And Airflow's metrics are not."""
    monkeypatch.setenv("SPRINGLINE_OTLP_ENDPOINT", "http://127.0.0.1:9")
    assert isinstance(task_meter(), OtlpMetricsReporter) and isinstance(trigger_meter(), OtlpMetricsReporter)


def test_nothing_is_told_where_nothing_is_on():
    """As it is by default."""
    assert isinstance(task_meter(), NoMetricsReporter) and isinstance(trigger_meter(), NoMetricsReporter)


def alert(platform):
    """The task `alert` of the maintenance DAG."""
    return MaintenanceOperator(
        task_id="alert", action="alert", open_platform=lambda actor: nullcontext(platform)
    ).execute({})  # fmt: skip


def test_the_maintenance_dag_tells_each_alert_once(platform, tmp_path, monkeypatch):
    """Its beginning, and its end."""
    (tmp_path / "rules.toml").write_text(RULES)
    monkeypatch.setenv("SPRINGLINE_ALERT_RULES", str(tmp_path / "rules.toml"))
    make(platform, "a", "load")
    begins, stands = alert(platform), alert(platform)
    platform.persister.drain()
    ends = alert(platform)
    assert (begins["new_alerts"], stands["new_alerts"], stands["active_alerts"]) == (["risk"], [], ["risk"])
    assert (ends["resolved_alerts"], ends["active_alerts"]) == (["risk"], [])


def test_wrong_rules_fail_the_task_with_file_and_rule(platform, tmp_path, monkeypatch):
    """Nobody would be warned of anything."""
    (tmp_path / "rules.toml").write_text(RULES.replace("above", "over"))
    monkeypatch.setenv("SPRINGLINE_ALERT_RULES", str(tmp_path / "rules.toml"))
    with pytest.raises(AlertRulesError, match=r"rules.toml: rule 'risk': .*unknown key over"):
        alert(platform)


def test_a_stream_that_is_given_up_is_an_alert(tmp_path: Path, monkeypatch):
    """By the rules that are shipped; the task fails as before."""
    (tmp_path / "streams.toml").write_text(TICKS)
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path))
    monkeypatch.setenv("SPRINGLINE_STREAMS_FILE", str(tmp_path / "streams.toml"))
    folder = JobFolder(tmp_path / "streams" / "ticks")
    folder.path.mkdir(parents=True)
    folder.write_heartbeat(
        {"state": "failed", "error": "no", "heartbeat_at": time.time(), "started_at": 0, "pid": None, "stages": {}}
    )
    for _ in range(7):
        record_start(folder, "r", time.time())
    with pytest.raises(AirflowException, match="ticks is not restarted any more"):
        StreamOperator(task_id="supervise", job="ticks", start_application=lambda *_: None).execute({"run_id": "r"})
    alerts = [each.rule for each in list_active_alerts(read_states(tmp_path / "alerts")) if each.is_firing]
    assert alerts == ["stream-restart-limit"]
