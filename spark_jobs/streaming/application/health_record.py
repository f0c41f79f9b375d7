"""Records the health of a running job with every heartbeat, by the current alert rules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from springline.spark_jobs.streaming.application.health import DEFAULT_THRESHOLDS, JobHealth, running_health
from springline.spark_jobs.streaming.application.health_thresholds import read_thresholds


class HealthRecord:
    """The health of a job since its application started; `rules` is the file of the alert rules."""

    def __init__(self, job: str, rules: Path) -> None:
        self._job = job
        self._rules = rules
        self._rules_stamp: tuple[int, int] | None = None
        self._thresholds = DEFAULT_THRESHOLDS
        self._last: JobHealth | None = None

    def update(self, heartbeat: Mapping[str, Any]) -> JobHealth:
        """Decide the health at the time of this heartbeat."""
        self._follow_rules()
        self._last = running_health(heartbeat, heartbeat["heartbeat_at"], self._thresholds, self._last)
        return self._last

    def _follow_rules(self) -> None:
        """Read the thresholds if the file of the rules has changed."""
        try:
            status = self._rules.stat()
        except OSError:  # there are no rules
            stamp = (0, 0)
        else:
            stamp = (status.st_mtime_ns, status.st_size)
        if stamp != self._rules_stamp:
            self._thresholds, self._rules_stamp = read_thresholds(self._rules, self._job), stamp
