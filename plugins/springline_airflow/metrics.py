"""Metrics of what runs in Airflow: through Airflow's own, unless the settings name a collector."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from types import ModuleType

from airflow.sdk.configuration import conf

from springline.persistence.monitoring.metric import PREFIX, Kind, Meter, Metric, NoMeter
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.monitoring.telemetry import open_meter

_SWITCHES = ("otel_on", "statsd_on", "statsd_datadog_enabled")


class AirflowMeter(Meter):
    """Hands everything to Airflow's metrics, under names that begin with `springline.`.

    `stats` is the module of them that the process has set up: a task's is `airflow.sdk.observability.stats`, that of
    the triggerer `airflow.observability.stats`.
    """

    def __init__(self, stats: ModuleType) -> None:
        self._stats = stats

    def record(self, metric: Metric, value: float, tags: Mapping[str, str]) -> None:
        name = PREFIX + metric.name
        if metric.kind is Kind.COUNTER:
            self._stats.incr(name, int(value), tags=dict(tags))
        elif metric.kind is Kind.GAUGE:
            self._stats.gauge(name, value, tags=dict(tags))
        else:
            self._stats.timing(name, timedelta(seconds=value), tags=dict(tags))

    def close(self) -> None:
        """Airflow sends them itself."""


def task_meter() -> Meter:
    """The meter of a task's process."""
    from airflow.sdk.observability import stats

    return _meter(stats)


def trigger_meter() -> Meter:
    """The meter of the triggerer."""
    from airflow.observability import stats

    return _meter(stats)


def _meter(stats: ModuleType) -> Meter:
    settings = MonitoringSettings()
    if settings.metrics:
        return open_meter(settings)
    if any(conf.getboolean("metrics", switch, fallback=False) for switch in _SWITCHES):
        return AirflowMeter(stats)
    return NoMeter()
