"""Monitors a job from its folder: exports its gauges, and evaluates the alert rules."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from springline.persistence.errors import AlertRulesError
from springline.persistence.monitoring.alerts import AlertEvaluator
from springline.persistence.monitoring.metric import MetricSample, MetricsReporter, by_name
from springline.persistence.monitoring.rules import read_rules
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.spark_jobs.streaming.application.metrics import METRICS, RESTART_LIMIT_REACHED, readings
from springline.spark_jobs.streaming.application.status import JobStatus

_JUDGE_SECONDS = 10.0

logger = logging.getLogger("springline.alerts")


class Monitor:
    """Monitors a job on behalf of its supervisor.

    If the settings name a collector, a running application exports its own gauges. Errors here stop neither the
    supervisor nor the job.
    """

    def __init__(self, settings: MonitoringSettings, meter: MetricsReporter) -> None:
        self._settings = settings
        self._meter = meter
        self._judged_at = float("-inf")
        self._last_error = ""

    def export(self, status: JobStatus, now: float) -> None:
        """Export the gauges; called by the application itself."""
        with self._logging_errors(status):
            self._meter.report_all(readings(status, now))

    def evaluate(self, status: JobStatus, now: float, *, restart_limit_reached: bool = False) -> None:
        """Export metrics and evaluate the alert rules, at most every ten seconds."""
        is_alive = status.state in ("starting", "running")
        if is_alive and now - self._judged_at < _JUDGE_SECONDS:
            return
        self._judged_at = now
        with self._logging_errors(status):
            gauges = readings(status, now)
            samples = [*gauges, MetricSample(RESTART_LIMIT_REACHED, float(restart_limit_reached), {"job": status.job})]
            if not is_alive or not self._settings.otlp_endpoint:
                self._meter.report_all(samples)
            rules = read_rules(self._settings.rules, by_name(METRICS))
            alerts = AlertEvaluator(
                self._settings.alerts_folder, f"stream-{status.job}", actor=f"DAG of the stream {status.job}"
            )
            alerts.evaluate(rules, samples, self._meter, now)

    @contextmanager
    def _logging_errors(self, status: JobStatus) -> Iterator[None]:
        """Log errors inside the context, such as invalid rules or a full disk, once each; the stream continues."""
        message = ""
        try:
            yield
        except (AlertRulesError, OSError) as error:
            message = str(error)
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
        if message and message != self._last_error:
            logger.error("%s is not monitored: %s", status.job, message)
        self._last_error = message
