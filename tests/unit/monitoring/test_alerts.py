"""Rules of alerts: read with clear errors, judged over readings, each beginning and end reported once."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from springline.persistence.errors import AlertRulesError
from springline.persistence.monitoring.alerts import AlertEvaluator, list_active_alerts, read_states
from springline.persistence.monitoring.metric import MetricSample, by_name
from springline.persistence.monitoring.metrics import ALERT, BROKEN_RATIO, METRICS, RISK_BYTES
from springline.persistence.monitoring.rules import AlertRule, Severity, evaluate_rules, read_rules
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.spark_jobs.streaming.application.metrics import LAG_SECONDS
from springline.spark_jobs.streaming.application.metrics import METRICS as STREAMS
from tests.support.metered import RecordingReporter

METRICS_BY_NAME = by_name(METRICS)
RISK = AlertRule("risk", RISK_BYTES, True, 100, 60, Severity.CRITICAL, "too much is at risk")
RULE = """
[risk]
metric = "persistence.risk.bytes"
above = 100
severity = "critical"
summary = "too much"
"""


def risk(value: float) -> list[MetricSample]:
    """The bytes at risk."""
    return [MetricSample(RISK_BYTES, value)]


def evaluate_counts(*values: tuple[float, float]) -> list[tuple[int, int]]:
    """How many alerts begin and end at each look, at (time, bytes at risk)."""
    standing, counts = (), []
    for now, value in values:
        judgement = evaluate_rules([RISK], risk(value), standing, now)
        standing = judgement.active_alerts
        counts.append((len(judgement.new_alerts), len(judgement.resolved_alerts)))
    return counts


def write_rules(folder: Path, text: str) -> Path:
    """A file of rules."""
    path = folder / "rules.toml"
    path.write_text(text)
    return path


# ---- judging


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        ([(0, 200), (59, 200), (60, 200), (120, 300)], [(0, 0), (0, 0), (1, 0), (0, 0)]),
        ([(0, 200), (60, 200), (70, 100), (80, 100)], [(0, 0), (1, 0), (0, 1), (0, 0)]),
        ([(0, 200), (50, 50), (60, 200), (119, 200), (120, 200)], [(0, 0)] * 4 + [(1, 0)]),
    ],
    ids=["begins", "ends", "all right in between"],
)
def test_an_alert_begins_once_its_condition_has_lasted_and_ends_once(
    values: list[tuple[float, float]], counts: list[tuple[int, int]]
) -> None:
    """It has to last from when it was last all right; what never began does not end."""
    assert evaluate_counts(*values) == counts


def test_an_alert_whose_subject_or_rule_is_gone_has_ended() -> None:
    """A job that was stopped is not behind any more."""
    before = evaluate_rules([RISK], risk(200), evaluate_rules([RISK], risk(200), (), 0).active_alerts, 60).active_alerts
    for rules, samples in (([RISK], []), ([], risk(200))):
        assert len(evaluate_rules(rules, samples, before, 70).resolved_alerts) == 1


def test_each_subject_stands_alone() -> None:
    """Two operations, one of them bad; `where` chooses among them. A rule may warn of what is too low."""
    rule = AlertRule("quality", BROKEN_RATIO, True, 0.1, 0, Severity.WARNING, "bad")
    both = [MetricSample(BROKEN_RATIO, ratio, {"operation": name}) for name, ratio in (("a", 0.5), ("b", 0.0))]
    assert [each.key for each in evaluate_rules([rule], both, (), 0).new_alerts] == ["quality operation=a"]
    filtered_rule = AlertRule("quality", BROKEN_RATIO, True, 0.1, 0, Severity.WARNING, "bad", {"operation": "b"})
    assert not evaluate_rules([filtered_rule], both, (), 0).new_alerts
    low = AlertRule("low", RISK_BYTES, False, 10, 0, Severity.INFO, "low")
    assert evaluate_rules([low], risk(9), (), 0).new_alerts and not evaluate_rules([low], risk(10), (), 0).new_alerts


# ---- telling


def test_beginning_and_end_are_logged_once_and_metered(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By the severity's level; whoever judges next goes on from the file."""
    caplog.set_level(logging.INFO, "springline.alerts")
    meter = RecordingReporter()
    for now, value in ((0, 200), (60, 200), (61, 200), (75, 0), (76, 0)):
        AlertEvaluator(tmp_path, "persistence", actor="test").evaluate([RISK], risk(value), meter, now)
    messages = [(record.levelname, record.getMessage()) for record in caplog.records]
    firing = ("ERROR", "alert firing or pending: risk: too much is at risk (200)")
    assert messages == [firing, ("INFO", "alert resolved: risk, after 75 s")]
    assert [value for value, _ in meter.of(ALERT)] == [0, 1, 1, 0, 0]


def test_what_stands_is_listed_over_all_files(tmp_path: Path) -> None:
    """The oldest first, also what is only about to become an alert."""
    lag = AlertRule("lag", LAG_SECONDS, True, 1, 0, Severity.WARNING, "behind")
    AlertEvaluator(tmp_path, "persistence", actor="test").evaluate([RISK], risk(200), RecordingReporter(), 10)
    samples = [MetricSample(LAG_SECONDS, 5, {"job": "flights", "stage": "map"})]
    AlertEvaluator(tmp_path, "stream-flights", actor="test").evaluate([lag], samples, RecordingReporter(), 5)
    alerts = list_active_alerts(read_states(tmp_path))
    assert [(each.key, each.is_firing) for each in alerts] == [("lag job=flights stage=map", True), ("risk", False)]


@pytest.mark.parametrize("content", ["{", "[{}]", "[1]", '{"a": 1}', "1"])
def test_a_damaged_file_of_alerts_is_recreated(tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str) -> None:
    """With a warning that names it; the next look finds it whole."""
    file = tmp_path / "persistence.json"
    file.write_text(content)
    AlertEvaluator(tmp_path, "persistence", actor="test").evaluate([RISK], risk(200), RecordingReporter(), 0)
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith(f"{file}: the state of the alerts cannot be read: ")
    assert [each.rule for each in list_active_alerts(read_states(tmp_path))] == ["risk"]


# ---- reading the rules


def test_the_rules_that_are_shipped_can_be_used() -> None:
    """Every one belongs to the layer whose metrics it is about, and there are some on lag, risk and quality."""
    path = MonitoringSettings().rules
    ours, streams = read_rules(path, METRICS_BY_NAME), read_rules(path, by_name(STREAMS))
    about = {rule.metric.name for rule in (*ours, *streams)}
    assert {"persistence.risk.bytes", "persistence.quality.broken_ratio", "streams.lag.seconds"} <= about
    assert len(ours) + len(streams) == path.read_text().count("\nmetric = ")


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (("persistence.risk.bytes", "persistence.risk.bites"), "bites'; did you mean persistence.risk.bytes"),
        (("persistence.risk.bytes", "risk"), "no metric 'risk'; names begin with persistence. or streams."),
        (("persistence.risk.bytes", "persistence.recoveries"), "recoveries is a counter; a rule needs a gauge"),
        (("above = 100", "above = 'much'"), "above = 'much'; expected a number"),
        (("above = 100", "above = 1\nbelow = 2"), "set either above or below, to a number"),
        (("above = 100", ""), "set either above or below, to a number"),
        (("above = 100", "above = 1\nfor = -5"), "for = -5; expected a number of at least 0"),
        (('"critical"', '"bad"'), 'severity = \'bad\'; expected "critical"'),
        (('summary = "too much"', ""), "the key summary is missing; expected a text"),
        (("above = 100", "abov = 100"), "unknown key abov; did you mean above"),
        (("above = 100", "zzz = 100"), "unknown key zzz; the keys are above, below"),
        (("above = 100", "above = 1\nwhere = { job = 'x' }"), r"bytes has no tag job; its tags are \(none\)"),
    ],
)  # fmt: skip
def test_a_rule_that_is_wrong_is_named_with_its_file_and_what_is_wrong(
    tmp_path: Path, change: tuple[str, str], wrong: str
) -> None:
    """One line says where to look."""
    path = write_rules(tmp_path, RULE.replace(*change))
    with pytest.raises(AlertRulesError, match=f"{path}: rule 'risk': .*{wrong}"):
        read_rules(path, METRICS_BY_NAME)


def test_a_file_that_is_no_toml_or_not_there_is_named(tmp_path: Path) -> None:
    """With the place of the error."""
    with pytest.raises(AlertRulesError, match=r"rules.toml: not valid TOML: .*line 1"):
        read_rules(write_rules(tmp_path, "risk = = 1"), METRICS_BY_NAME)
    with pytest.raises(AlertRulesError, match=r"other.toml: no such file; set SPRINGLINE_ALERT_RULES"):
        read_rules(tmp_path / "other.toml", METRICS_BY_NAME)
