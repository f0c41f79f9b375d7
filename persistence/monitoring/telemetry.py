"""The one module that uses OpenTelemetry, the library that Airflow uses for its own metrics."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from springline.persistence.monitoring.metric import PREFIX, Metric, MetricKind, MetricsReporter, NoMetricsReporter
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.text.redaction import redact_secrets

_CLOSE_MILLISECONDS = 2000  # limit for the last export when a process ends
_SEND_TIMEOUT = 5


class OtlpMetricsReporter(MetricsReporter):
    """Exports metrics to a collector from a separate thread, every `interval` seconds.

    A failed export is logged; its values are contained in the next one, as
    counters and timers are sums since the process began.
    """

    def __init__(self, endpoint: str, interval: float) -> None:
        self._endpoint = endpoint
        self._interval = interval
        self._lock = threading.Lock()
        self._provider: Any = None  # created when the first value is reported
        self._instruments: dict[str, Any] = {}

    def record(self, metric: Metric, value: float, tags: Mapping[str, str]) -> None:
        instrument = self._instrument(metric)
        if metric.kind is MetricKind.COUNTER:
            instrument.add(value, attributes=tags)
        elif metric.kind is MetricKind.GAUGE:
            instrument.set(value, attributes=tags)
        else:
            instrument.record(value, attributes=tags)

    def close(self) -> None:
        with self._lock:
            provider, self._provider = self._provider, None
            self._instruments.clear()
        if provider is None:
            return
        try:
            provider.shutdown(timeout_millis=_CLOSE_MILLISECONDS)
        except Exception as error:  # whatever it is, the work was done
            logging.getLogger(__name__).warning("the final metrics were not sent: %s", redact_secrets(str(error)))

    def _instrument(self, metric: Metric) -> Any:
        with self._lock:
            if metric.name not in self._instruments:
                self._provider = self._provider or _build_provider(self._endpoint, self._interval)
                meter = self._provider.get_meter("springline")
                create = {
                    MetricKind.COUNTER: meter.create_counter,
                    MetricKind.GAUGE: meter.create_gauge,
                    MetricKind.TIMER: meter.create_histogram,
                }[metric.kind]
                instrument = create(PREFIX + metric.name, unit=metric.unit, description=metric.description)
                self._instruments[metric.name] = instrument
            return self._instruments[metric.name]


def _build_provider(endpoint: str, interval: float) -> Any:
    # These take 0.2 s to import, and only a process that reports metrics needs them.
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import Histogram, MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource

    exporter = OTLPMetricExporter(endpoint=f"{endpoint.rstrip('/')}/v1/metrics", timeout=_SEND_TIMEOUT)
    return MeterProvider(
        resource=Resource.create({SERVICE_NAME: "springline"}),
        metric_readers=[PeriodicExportingMetricReader(exporter, export_interval_millis=interval * 1000)],
        views=[View(instrument_type=Histogram, aggregation=ExponentialBucketHistogramAggregation())],
        shutdown_on_exit=False,
    )


def open_metrics_reporter(settings: MonitoringSettings) -> MetricsReporter:
    """Return the reporter that the settings configure."""
    return (
        OtlpMetricsReporter(settings.otlp_endpoint, settings.metrics_interval)
        if settings.otlp_endpoint
        else NoMetricsReporter()
    )
