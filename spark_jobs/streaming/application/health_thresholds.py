"""The thresholds of a job's health as the alert rules set them, so that a page and an alert do not contradict."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from springline.persistence.errors import AlertRulesError
from springline.persistence.monitoring.metric import Metric, by_name
from springline.persistence.monitoring.rules import AlertRule, read_rules
from springline.spark_jobs.streaming.application.health import LAG_SECONDS, ROUND_AGE_SECONDS, HealthThresholds
from springline.spark_jobs.streaming.application.metrics import LAG_SECONDS as LAG_METRIC
from springline.spark_jobs.streaming.application.metrics import METRICS, ROUND_AGE


def thresholds_of(rules: Iterable[AlertRule], job: str) -> HealthThresholds:
    """Return the thresholds of a job: of each metric the lowest that a rule about the job has, else the default."""
    own = [rule for rule in rules if rule.above and rule.where.get("job", job) == job]

    def lowest(metric: Metric, default: float) -> float:
        return min((rule.value for rule in own if rule.metric == metric), default=default)

    return HealthThresholds(lowest(LAG_METRIC, LAG_SECONDS), lowest(ROUND_AGE, ROUND_AGE_SECONDS))


def read_thresholds(file: Path, job: str) -> HealthThresholds:
    """Return the thresholds of a job by the rules in `file`; the defaults if it is invalid, which its monitor logs."""
    try:
        return thresholds_of(read_rules(file, by_name(METRICS)), job)
    except AlertRulesError:
        return HealthThresholds()
