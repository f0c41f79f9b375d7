"""`springline alert list`: it checks the rules first, shows what is firing, and who evaluated which rules when."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from springline.persistence.monitoring.alerts import AlertEvaluator
from springline.persistence.monitoring.metric import MetricSample, NoMetricsReporter, by_name
from springline.persistence.monitoring.metrics import METRICS, RISK_BYTES
from springline.persistence.monitoring.rules import read_rules
from springline.persistence.monitoring.settings import MonitoringSettings
from tests.support.commands import printed, refused

ACTOR = "task alert of the DAG maintenance"
RULES = """
[risk]
metric = "persistence.risk.bytes"
above = 100
severity = "critical"
summary = "too much"

[lag]
metric = "streams.lag.seconds"
above = 60
severity = "warning"
summary = "behind"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of rules, of a home where no rule was evaluated yet."""
    path = tmp_path / "rules.toml"
    path.write_text(RULES)
    for name, value in (("HOME", tmp_path), ("ALERT_RULES", path)):
        monkeypatch.setenv(f"SPRINGLINE_{name}", str(value))
    monkeypatch.setenv("COLUMNS", "200")
    return path


def evaluate_risk(file: Path, risk: float) -> None:
    """The rules about persistence, once."""
    evaluator = AlertEvaluator(MonitoringSettings().alerts_folder, "persistence", actor=ACTOR)
    rules = read_rules(file, by_name(METRICS))
    evaluator.evaluate(rules, [MetricSample(RISK_BYTES, risk)], NoMetricsReporter(), 1_700_000_000.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("risk.bytes", "risk.bites"), r"'risk': .*'persistence.risk.bites'; did you mean persistence.risk.bytes\?"),
        (("lag.seconds", "lag.secnds"), r"rule 'lag': .*'streams.lag.secnds'; did you mean streams.lag.seconds\?"),
        (("[risk]", "[risk"), "not valid TOML"),
    ],
)  # fmt: skip
def test_a_rule_that_is_wrong_is_refused_before_anything_is_printed(
    file: Path, change: tuple[str, str], message: str
) -> None:
    """Of datasets or of streams: with the file, the rule, the unknown name, and the nearest one."""
    file.write_text(RULES.replace(*change))
    error = refused("alert", "list")
    assert error.startswith(f"springline: {file}: ") and re.search(message, error)


@pytest.mark.usefixtures("file")
def test_rules_that_nobody_has_judged_are_listed_as_such() -> None:
    """That no alert stands would be no news."""
    output = printed("alert", "list")
    assert "No alert is active" not in output and "No rule has been evaluated yet" in output
    assert re.search(r"risk +persistence.risk.bytes above 100 +never; the DAG maintenance evaluates it", output)
    assert re.search(r"lag +streams.lag.seconds above 60 +never; the DAG of each stream evaluates it", output)


def test_rules_are_reported_with_who_has_judged_them_last_and_when(file: Path) -> None:
    """Beside those that were never evaluated; what stands is reported with its severity and what it means."""
    evaluate_risk(file, 0)
    output = printed("alert", "list")
    assert "No alert is active; 1 of 2 rules have been evaluated." in output
    assert re.search(r"risk .* 2023-11-1\d .*, by the task alert of the DAG maintenance", output)
    output = json.loads(printed("alert", "list", "--json"))
    by = [{"evaluated_at": 1_700_000_000.0, "actor": ACTOR}]
    rules = [(rule["rule"], rule["evaluations"], rule["alerts"]) for rule in output]
    assert rules == [("risk", by, []), ("lag", [], [])]
    evaluate_risk(file, 200)
    output = printed("alert", "list")
    assert re.search(r"risk +critical .* 200 +too much", output) and "No alert" not in output
