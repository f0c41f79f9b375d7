"""Monitors a job from its folder: tells its gauges, and judges the rules of alerts over them."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from persistence.errors import BadRules
from persistence.monitoring.alerts import Alerts
from persistence.monitoring.metric import Meter, Reading, by_name
from persistence.monitoring.rules import Rule, read_rules
from persistence.monitoring.settings import MonitoringSettings
from spark_jobs.streaming.folder import JobFolder
from spark_jobs.streaming.join.steering import explained
from spark_jobs.streaming.metrics import GIVEN_UP, METRICS, readings
from spark_jobs.streaming.watching import Seen

_JUDGE_SECONDS = 10.0

logger = logging.getLogger("springline.alerts")


class Monitor:
    """For who supervises a job.

    Where the settings name a collector, an application that lives tells its gauges itself.
    """

    def __init__(self, folder: JobFolder, settings: MonitoringSettings, meter: Meter) -> None:
        self._folder = folder
        self._settings = settings
        self._meter = meter
        self._judged_at = float("-inf")
        self._trouble = ""

    def note(self, seen: Seen, now: float, *, given_up: bool = False) -> None:
        """Tell and judge, every ten seconds at most; rules that cannot be used are told in the log, once."""
        lives = seen.state in ("starting", "running")
        if lives and now - self._judged_at < _JUDGE_SECONDS:
            return
        self._judged_at = now
        found = [*gauges_of(seen, self._folder, now), Reading(GIVEN_UP, float(given_up), {"job": seen.job})]
        if not lives or not self._settings.metrics:
            self._meter.read_out(found)
        alerts = Alerts(self._settings.alerts_folder, f"stream-{seen.job}")
        try:
            alerts.judge(self._rules(), found, self._meter, now)
        except OSError as error:  # a full disk: it may come back, and the stream is watched on
            self._warn(f"alerts are not judged: {error}")

    def _rules(self) -> Sequence[Rule]:
        try:
            rules = read_rules(self._settings.rules, by_name(METRICS))
        except BadRules as error:
            self._warn(str(error))
            return ()
        self._trouble = ""
        return rules

    def _warn(self, trouble: str) -> None:
        if trouble != self._trouble:
            logger.error("%s", trouble)
        self._trouble = trouble


def gauges_of(seen: Seen, folder: JobFolder, now: float) -> list[Reading]:
    """All gauges of a job as it was seen."""
    return readings(seen, explained(folder), now)
