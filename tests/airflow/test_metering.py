"""Metrics of what runs in Airflow: through Airflow's own metrics, unless a collector is named."""

from __future__ import annotations

from datetime import timedelta

import pytest
from airflow.sdk.observability import stats

from springline.airflow.metrics import AirflowMeter, task_meter, trigger_meter
from springline.persistence.monitoring.metric import NoMetricsReporter
from springline.persistence.monitoring.metrics import RISK_BYTES, TRANSFER_BYTES, TRANSFER_SECONDS
from springline.persistence.monitoring.telemetry import OtlpMetricsReporter


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


def test_a_collector_that_is_named_is_sent_metrics_directly(backend, monkeypatch):
    """And Airflow's metrics are not."""
    monkeypatch.setenv("SPRINGLINE_OTLP_ENDPOINT", "http://127.0.0.1:9")
    assert {type(task_meter()), type(trigger_meter())} == {OtlpMetricsReporter}


def test_nothing_is_sent_where_nothing_is_on():
    """As it is by default."""
    assert {type(task_meter()), type(trigger_meter())} == {NoMetricsReporter}
