"""The one place that speaks OpenTelemetry, the library that Airflow uses for its own metrics."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from springline.persistence.monitoring.metric import PREFIX, Kind, Meter, Metric, NoMeter
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.text.redaction import redacted

_CLOSE_MILLISECONDS = 2000  # that the last sending may take when a process ends
_SEND_SECONDS = 5


class OtlpMeter(Meter):
    """Sends to a collector from a thread of its own, every `interval` seconds, what was told until then.

    A collector that does not answer costs a line in the log; what was to be sent then is in the next sending, as
    counters and timers are sums since the process began.
    """

    def __init__(self, endpoint: str, interval: float) -> None:
        self._endpoint = endpoint
        self._interval = interval
        self._lock = threading.Lock()
        self._provider: Any = None  # made when something is told first
        self._instruments: dict[str, Any] = {}

    def record(self, metric: Metric, value: float, tags: Mapping[str, str]) -> None:
        instrument = self._instrument(metric)
        if metric.kind is Kind.COUNTER:
            instrument.add(value, attributes=tags)
        elif metric.kind is Kind.GAUGE:
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
            logging.getLogger(__name__).warning("the last metrics were not sent: %s", redacted(str(error)))

    def _instrument(self, metric: Metric) -> Any:
        with self._lock:
            if metric.name not in self._instruments:
                self._provider = self._provider or _provider(self._endpoint, self._interval)
                meter = self._provider.get_meter("springline")
                make = {
                    Kind.COUNTER: meter.create_counter,
                    Kind.GAUGE: meter.create_gauge,
                    Kind.TIMER: meter.create_histogram,
                }[metric.kind]
                made = make(PREFIX + metric.name, unit=metric.unit, description=metric.meaning)
                self._instruments[metric.name] = made
            return self._instruments[metric.name]


def _provider(endpoint: str, interval: float) -> Any:
    # They take 0.2 s to import, and only who tells metrics needs them.
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import Histogram, MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource

    exporter = OTLPMetricExporter(endpoint=f"{endpoint.rstrip('/')}/v1/metrics", timeout=_SEND_SECONDS)
    return MeterProvider(
        resource=Resource.create({SERVICE_NAME: "springline"}),
        metric_readers=[PeriodicExportingMetricReader(exporter, export_interval_millis=interval * 1000)],
        views=[View(instrument_type=Histogram, aggregation=ExponentialBucketHistogramAggregation())],
        shutdown_on_exit=False,
    )


def open_meter(settings: MonitoringSettings) -> Meter:
    """The meter that the settings ask for."""
    return OtlpMeter(settings.metrics, settings.metrics_interval) if settings.metrics else NoMeter()
