"""Alert rules: read from a file, and evaluated on samples; pure except for reading the file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from springline.persistence.errors import AlertRulesError
from springline.persistence.model.toml_table import Name, TomlTable, read_table
from springline.persistence.monitoring.layers import LAYERS
from springline.persistence.monitoring.metric import Metric, MetricKind, MetricSample
from springline.persistence.text.formatting import format_suggestion

_TagValues = dict[str, str | int | float]


class Severity(StrEnum):
    """Severity of an alert: act at once, look today, or be informed."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True)
class AlertRule:
    """An alert is active while a metric is above (or below) `value`, and fires after `seconds` of that.

    It is evaluated for each subject separately, that is, for each set of tags of the metric that has the values in
    `where`.
    """

    name: str
    metric: Metric
    above: bool
    value: float
    seconds: float
    severity: Severity
    summary: str
    where: Mapping[str, str] = field(default_factory=dict)

    def is_violated_by(self, sample: MetricSample) -> bool:
        """Whether the value is beyond the threshold."""
        return sample.value > self.value if self.above else sample.value < self.value

    def applies_to(self, sample: MetricSample) -> bool:
        """Whether the rule is about this sample."""
        has_same_tags = all(sample.tags.get(tag) == expected for tag, expected in self.where.items())
        return sample.metric == self.metric and has_same_tags

    @property
    def condition(self) -> str:
        """The condition of the rule as text."""
        duration = f" for {self.seconds:g} s" if self.seconds else ""
        return f"{self.metric.name} {'above' if self.above else 'below'} {self.value:g}{duration}"


class AlertRuleKeys(TomlTable, frozen=True, kw_only=True, rename={"seconds": "for"}):
    """Keys of a rule in the file of alert rules."""

    metric: Annotated[Name, Meta(description="a gauge; docs/monitoring.md lists the metrics")]
    severity: Annotated[Severity, Meta(description="how soon to act: at once, today, or not at all")]
    summary: Annotated[Name, Meta(description="what it means and what to do, in one sentence")]
    above: Annotated[float | None, Meta(description="the alert is active while the metric is above it")] = None
    below: Annotated[float | None, Meta(description="the alert is active while the metric is below it")] = None
    seconds: Annotated[float, Meta(ge=0, description="seconds for which it must be active before it fires")] = 0.0
    where: Annotated[_TagValues, Meta(description="only the subjects that have these tags")] = msgspec.field(
        default_factory=dict
    )


@dataclass(frozen=True)
class ActiveAlert:
    """An alert of a rule for one subject: since when (seconds since 1970), and whether it is firing."""

    rule: str
    subject: Mapping[str, str]
    severity: str
    summary: str
    since: float
    value: float
    is_firing: bool = False

    @property
    def key(self) -> str:
        """The rule and the subject, in one name."""
        return " ".join((self.rule, *(f"{tag}={value}" for tag, value in sorted(self.subject.items()))))


@dataclass(frozen=True)
class AlertEvaluation:
    """The firing and pending alerts; those that begin to fire now, and those that have ended."""

    active_alerts: tuple[ActiveAlert, ...]
    new_alerts: tuple[ActiveAlert, ...]
    resolved_alerts: tuple[ActiveAlert, ...]


def evaluate_rules(
    rules: Iterable[AlertRule], samples: Iterable[MetricSample], previous_alerts: Iterable[ActiveAlert], now: float
) -> AlertEvaluation:
    """Evaluate the rules once; each alert is in `new_alerts` once and in `resolved_alerts` once.

    An alert is resolved when the value is within the threshold again, when there is no sample of it any more, and when
    the rule was removed.
    """
    previous_by_key = {each.key: each for each in previous_alerts}
    sample_list = list(samples)
    active_alerts, new_alerts = [], []
    for rule in rules:
        for sample in sample_list:
            if not rule.applies_to(sample) or not rule.is_violated_by(sample):
                continue
            candidate = ActiveAlert(rule.name, dict(sample.tags), rule.severity.value, rule.summary, now, sample.value)
            previous = previous_by_key.get(candidate.key, candidate)
            alert = replace(candidate, since=previous.since, is_firing=previous.is_firing)
            if not alert.is_firing and now - alert.since >= rule.seconds:
                alert = replace(alert, is_firing=True)
                new_alerts.append(alert)
            active_alerts.append(alert)
    active_keys = {each.key for each in active_alerts}
    resolved_alerts = [each for each in previous_by_key.values() if each.is_firing and each.key not in active_keys]
    return AlertEvaluation(tuple(active_alerts), tuple(new_alerts), tuple(resolved_alerts))


def read_rules(path: Path, metrics: Mapping[str, Metric]) -> tuple[AlertRule, ...]:
    """Read the rules of a file that are about `metrics`, by name; those about metrics of other layers are left out.

    Raises `AlertRulesError`, naming the file, the rule, and the fault.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise AlertRulesError(f"{path}: no such file; set SPRINGLINE_ALERT_RULES to another one") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise AlertRulesError(f"{path}: not valid TOML: {error}") from None
    layers = {name.partition(".")[0] for name in metrics}
    rules = []
    for name, table in tables.items():
        try:
            rule = _parse_rule(name, table, metrics, layers)
        except ValueError as error:
            raise AlertRulesError(f"{path}: {error}") from None
        if rule is not None:
            rules.append(rule)
    return tuple(rules)


def _parse_rule(name: str, table: Any, metrics: Mapping[str, Metric], layers: set[str]) -> AlertRule | None:
    """Parse a rule; returns None if it is about another layer's metric; raises `ValueError` with an explanation."""
    keys = read_table(AlertRuleKeys, table, f"rule {name!r}")
    layer = keys.metric.partition(".")[0]
    if layer not in LAYERS:
        hint = (
            format_suggestion(keys.metric, metrics)
            or f"; names begin with {' or '.join(f'{each}.' for each in LAYERS)}"
        )
        raise ValueError(f"rule {name!r}: there is no metric {keys.metric!r}{hint}")
    threshold = keys.below if keys.above is None else keys.above
    if threshold is None or None not in (keys.above, keys.below):
        raise ValueError(f"rule {name!r}: set either above or below, to a number")
    if layer not in layers:
        return None
    metric = metrics.get(keys.metric)
    if metric is None:
        raise ValueError(f"rule {name!r}: there is no metric {keys.metric!r}{format_suggestion(keys.metric, metrics)}")
    if metric.kind is not MetricKind.GAUGE:
        raise ValueError(f"rule {name!r}: {keys.metric} is a {metric.kind}; a rule needs a gauge")
    if unknown := sorted(set(keys.where) - set(metric.tags)):
        tags = ", ".join(metric.tags) or "(none)"
        raise ValueError(f"rule {name!r}: where: {keys.metric} has no tag {unknown[0]}; its tags are {tags}")
    tag_values = {tag: str(value) for tag, value in keys.where.items()}
    return AlertRule(
        name, metric, keys.above is not None, threshold, keys.seconds, keys.severity, keys.summary, tag_values
    )
