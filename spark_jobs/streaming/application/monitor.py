"""Monitors a job from its folder: tells its gauges, and judges the rules of alerts over them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from springline.persistence.errors import AlertRulesError
from springline.persistence.monitoring.alerts import Alerts
from springline.persistence.monitoring.metric import Meter, Reading, by_name
from springline.persistence.monitoring.rules import read_rules
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.spark_jobs.streaming.application.metrics import GIVEN_UP, METRICS, readings
from springline.spark_jobs.streaming.application.status import Seen

_JUDGE_SECONDS = 10.0

logger = logging.getLogger("springline.alerts")


class Monitor:
    """For who supervises a job.

    Where the settings name a collector, an application that lives tells its gauges itself. Nothing that goes wrong here
    stops anybody.
    """

    def __init__(self, settings: MonitoringSettings, meter: Meter) -> None:
        self._settings = settings
        self._meter = meter
        self._judged_at = float("-inf")
        self._trouble = ""

    def tell(self, seen: Seen, now: float) -> None:
        """Tell the gauges; for the application itself."""
        with self._going_on(seen):
            self._meter.read_out(readings(seen, now))

    def note(self, seen: Seen, now: float, *, given_up: bool = False) -> None:
        """Tell and judge, every ten seconds at most."""
        lives = seen.state in ("starting", "running")
        if lives and now - self._judged_at < _JUDGE_SECONDS:
            return
        self._judged_at = now
        with self._going_on(seen):
            gauges = readings(seen, now)
            found = [*gauges, Reading(GIVEN_UP, float(given_up), {"job": seen.job})]
            if not lives or not self._settings.metrics:
                self._meter.read_out(found)
            rules = read_rules(self._settings.rules, by_name(METRICS))
            alerts = Alerts(self._settings.alerts_folder, f"stream-{seen.job}", actor=f"DAG of the stream {seen.job}")
            alerts.judge(rules, found, self._meter, now)

    @contextmanager
    def _going_on(self, seen: Seen) -> Iterator[None]:
        """What goes wrong inside, such as wrong rules or a full disk, is logged, once; the stream goes on."""
        trouble = ""
        try:
            yield
        except (AlertRulesError, OSError) as error:
            trouble = str(error)
        except Exception as error:
            trouble = f"{type(error).__name__}: {error}"
        if trouble and trouble != self._trouble:
            logger.error("%s is not monitored: %s", seen.job, trouble)
        self._trouble = trouble
