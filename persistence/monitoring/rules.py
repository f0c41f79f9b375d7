"""Rules of alerts: read from a file, and judged over readings; pure but for reading the file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any

from springline.persistence.errors import AlertRulesError
from springline.persistence.monitoring.layers import LAYERS
from springline.persistence.monitoring.metric import Kind, Metric, Reading

_KEYS = {"metric", "where", "above", "below", "for", "severity", "words"}


class Severity(StrEnum):
    """How bad it is: whether somebody is to come at once, to look today, or to know."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True)
class Rule:
    """An alert stands while a metric is above (or below) `value`, from the moment it has been so for `seconds` on.

    It stands for each subject alone, that is for each set of tags of the metric, where these have the values in
    `where`.
    """

    name: str
    metric: Metric
    above: bool
    value: float
    seconds: float
    severity: Severity
    words: str
    where: Mapping[str, str] = field(default_factory=dict)

    def broken_by(self, reading: Reading) -> bool:
        """Whether the value is one that it warns of."""
        return reading.value > self.value if self.above else reading.value < self.value

    def concerns(self, reading: Reading) -> bool:
        """Whether it is about this reading."""
        same = all(reading.tags.get(tag) == wanted for tag, wanted in self.where.items())
        return reading.metric == self.metric and same

    @property
    def condition(self) -> str:
        """What it warns of, in words."""
        long = f" for {self.seconds:g} s" if self.seconds else ""
        return f"{self.metric.name} {'above' if self.above else 'below'} {self.value:g}{long}"


@dataclass(frozen=True)
class Standing:
    """What a rule warns of, as it is with one subject: since when (seconds since 1970), whether that was told."""

    rule: str
    subject: Mapping[str, str]
    severity: str
    words: str
    since: float
    value: float
    told: bool = False

    @property
    def key(self) -> str:
        """The rule and the subject, in one name."""
        return " ".join((self.rule, *(f"{tag}={value}" for tag, value in sorted(self.subject.items()))))


@dataclass(frozen=True)
class Judgement:
    """What stands, or is about to; what of it begins now, and what has ended."""

    standing: tuple[Standing, ...]
    begun: tuple[Standing, ...]
    ended: tuple[Standing, ...]


def judge(rules: Iterable[Rule], readings: Iterable[Reading], before: Iterable[Standing], now: float) -> Judgement:
    """Judge once; each alert is among `begun` once and among `ended` once.

    What a rule warned of has ended when the value is all right again, when there is no reading of it any more, and when
    the rule is gone.
    """
    known = {each.key: each for each in before}
    values = list(readings)
    standing, begun = [], []
    for rule in rules:
        for reading in values:
            if not rule.concerns(reading) or not rule.broken_by(reading):
                continue
            fresh = Standing(rule.name, dict(reading.tags), rule.severity.value, rule.words, now, reading.value)
            earlier = known.get(fresh.key, fresh)
            this = replace(fresh, since=earlier.since, told=earlier.told)
            if not this.told and now - this.since >= rule.seconds:
                this = replace(this, told=True)
                begun.append(this)
            standing.append(this)
    left = {each.key for each in standing}
    ended = [each for each in known.values() if each.told and each.key not in left]
    return Judgement(tuple(standing), tuple(begun), tuple(ended))


def read_rules(path: Path, metrics: Mapping[str, Metric]) -> tuple[Rule, ...]:
    """The rules of a file that are about these metrics, by name; those about another layer's are left out.

    Raises `AlertRulesError`, naming the file, the rule, and what is wrong with it.
    """
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise AlertRulesError(f"{path}: there is no such file; SPRINGLINE_ALERTS names another") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise AlertRulesError(f"{path}: it is not TOML: {error}") from None
    layers = {name.partition(".")[0] for name in metrics}
    found = []
    for name, table in told.items():
        try:
            rule = _rule(name, table, metrics, layers)
        except ValueError as error:
            raise AlertRulesError(f"{path}: rule {name!r}: {error}") from None
        if rule is not None:
            found.append(rule)
    return tuple(found)


def _rule(name: str, table: Any, metrics: Mapping[str, Metric], layers: set[str]) -> Rule | None:
    """A rule, or None if it is about another layer's metric; raises `ValueError` in words."""
    if not isinstance(table, dict):
        raise ValueError(f"it is {table!r}; give it as a table [{name}]")
    if unknown := sorted(set(table) - _KEYS):
        near = _nearest(unknown[0], _KEYS) or f"; there are {', '.join(sorted(_KEYS))}"
        raise ValueError(f"{unknown[0]!r} means nothing{near}")
    about = _text(table, "metric")
    if about.partition(".")[0] not in LAYERS:
        near = _nearest(about, metrics) or f"; names begin with {' or '.join(f'{o}.' for o in LAYERS)}"
        raise ValueError(f"there is no metric {about!r}{near}")
    if ("above" in table) == ("below" in table):
        raise ValueError("give either above = NUMBER or below = NUMBER")
    value = _number(table, "above" if "above" in table else "below")
    seconds = _number(table, "for", 0.0)
    if seconds < 0:
        raise ValueError(f"for = {seconds:g}: give seconds, 0 or more")
    severity = _text(table, "severity")
    if severity not in list(Severity):
        raise ValueError(f"severity = {severity!r}: it is one of {', '.join(Severity)}")
    words, where = _text(table, "words"), table.get("where", {})
    if about.partition(".")[0] not in layers:
        return None
    metric = metrics.get(about)
    if metric is None:
        raise ValueError(f"there is no metric {about!r}{_nearest(about, metrics)}")
    if metric.kind is not Kind.GAUGE:
        raise ValueError(f"{about} is a {metric.kind}; rules are about gauges")
    if not isinstance(where, dict) or (unknown := sorted(set(where) - set(metric.tags))):
        raise ValueError(f"where = {where!r}: {about} has the tags {', '.join(metric.tags) or '(none)'}")
    chosen = {tag: str(wanted) for tag, wanted in where.items()}
    return Rule(name, metric, "above" in table, value, seconds, Severity(severity), words, chosen)


def _nearest(name: str, known: Iterable[str]) -> str:
    """What may have been meant, as the end of a sentence; empty where nothing is spelled nearly so."""
    near = get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def _text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise ValueError(f'{key} is missing; give {key} = "…"' if value is None else f"{key} = {value!r}: give a text")
    return value


def _number(table: Mapping[str, Any], key: str, default: float | None = None) -> float:
    value = table.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{key} = {value!r}: give a number")
    return float(value)
