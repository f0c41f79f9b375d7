"""Metrics of what runs in Airflow: through Airflow's own metrics, unless a collector is named."""

from __future__ import annotations

from datetime import timedelta
from unittest.mock import Mock, call

import pytest
from airflow.sdk.observability import stats

from springline.airflow.metrics import AirflowMeter, task_meter, trigger_meter
from springline.persistence.monitoring.metric import NoMetricsReporter
from springline.persistence.monitoring.metrics import RISK_BYTES, TRANSFER_BYTES, TRANSFER_SECONDS
from springline.persistence.monitoring.telemetry import OtlpMetricsReporter


@pytest.fixture
def backend(monkeypatch):
    """Airflow's metrics are on, and end here."""
    backend = Mock()
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
    assert backend.method_calls == [
        call.gauge("springline.persistence.risk.bytes", 5),
        call.incr("springline.persistence.transfer.bytes", count=7, tags={"method": "data"}),
        call.timing("springline.persistence.transfer.seconds", timedelta(seconds=1.5), tags={"method": "data"}),
    ]


def test_a_collector_that_is_named_is_sent_metrics_directly(monkeypatch):
    """And Airflow's metrics are not; nothing is sent where nothing is on, as it is by default."""
    assert {type(task_meter()), type(trigger_meter())} == {NoMetricsReporter}
    monkeypatch.setenv("AIRFLOW__METRICS__OTEL_ON", "True")
    monkeypatch.setenv("SPRINGLINE_OTLP_ENDPOINT", "http://127.0.0.1:9")
    assert {type(task_meter()), type(trigger_meter())} == {OtlpMetricsReporter}
