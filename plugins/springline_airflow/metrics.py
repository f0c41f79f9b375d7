"""Metrics of processes in Airflow: sent through Airflow's metrics, unless the settings name a collector."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from types import ModuleType

from airflow.sdk.configuration import conf

from springline.persistence.monitoring.metric import PREFIX, Metric, MetricKind, MetricsReporter, NoMetricsReporter
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.monitoring.telemetry import open_metrics_reporter

_SWITCHES = ("otel_on", "statsd_on", "statsd_datadog_enabled")


class AirflowMeter(MetricsReporter):
    """Passes all metrics to Airflow's, under names that begin with `springline.`.

    `stats` is the metrics module that the process has configured: `airflow.sdk.observability.stats` in a task,
    `airflow.observability.stats` in the triggerer.
    """

    def __init__(self, stats: ModuleType) -> None:
        self._stats = stats

    def record(self, metric: Metric, value: float, tags: Mapping[str, str]) -> None:
        name = PREFIX + metric.name
        if metric.kind is MetricKind.COUNTER:
            self._stats.incr(name, int(value), tags=dict(tags))
        elif metric.kind is MetricKind.GAUGE:
            self._stats.gauge(name, value, tags=dict(tags))
        else:
            self._stats.timing(name, timedelta(seconds=value), tags=dict(tags))

    def close(self) -> None:
        """Do nothing: Airflow sends the metrics itself."""


def task_meter() -> MetricsReporter:
    """Return the metrics reporter for a task's process."""
    from airflow.sdk.observability import stats

    return _meter(stats)


def trigger_meter() -> MetricsReporter:
    """Return the metrics reporter for the triggerer."""
    from airflow.observability import stats

    return _meter(stats)


def _meter(stats: ModuleType) -> MetricsReporter:
    settings = MonitoringSettings()
    if settings.otlp_endpoint:
        return open_metrics_reporter(settings)
    if any(conf.getboolean("metrics", switch, fallback=False) for switch in _SWITCHES):
        return AirflowMeter(stats)
    return NoMetricsReporter()
