"""`springline alert list`: it checks the rules first, tells what stands, and who judged which rules when."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from springline import cli
from springline.persistence.monitoring.alerts import AlertEvaluator
from springline.persistence.monitoring.metric import MetricSample, NoMetricsReporter, by_name
from springline.persistence.monitoring.metrics import METRICS, RISK_BYTES
from springline.persistence.monitoring.rules import read_rules
from springline.persistence.monitoring.settings import MonitoringSettings

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
    """The file of rules, of a home where nobody has judged yet."""
    path = tmp_path / "rules.toml"
    path.write_text(RULES)
    for name, value in (("HOME", tmp_path), ("ALERT_RULES", path)):
        monkeypatch.setenv(f"SPRINGLINE_{name}", str(value))
    monkeypatch.setenv("COLUMNS", "200")
    return path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit status of the command."""
    monkeypatch.setattr(sys, "argv", ["springline", "alert", "list", *arguments])
    with pytest.raises(SystemExit) as exit_info:
        cli.main()
    return int(exit_info.value.code or 0)


def evaluate_risk(file: Path, risk: float) -> None:
    """The rules about persistence, once."""
    alerts = AlertEvaluator(
        MonitoringSettings().alerts_folder, "persistence", actor="task alert of the DAG maintenance"
    )
    alerts.evaluate(
        read_rules(file, by_name(METRICS)), [MetricSample(RISK_BYTES, risk)], NoMetricsReporter(), 1_700_000_000.0
    )


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        (("risk.bytes", "risk.bites"), r"'risk': .*'persistence.risk.bites'; did you mean persistence.risk.bytes\?"),
        (("lag.seconds", "lag.secnds"), r"rule 'lag': .*'streams.lag.secnds'; did you mean streams.lag.seconds\?"),
        (("streams.lag", "stream.lag"), r"rule 'lag': .*'stream.lag.seconds'; did you mean streams.lag.seconds\?"),
        (("above = 60", "abov = 60"), "rule 'lag': unknown key abov; did you mean above"),
        (("[risk]", "[risk"), "not valid TOML"),
    ],
)  # fmt: skip
def test_a_rule_that_is_wrong_is_refused_before_anything_is_told(
    file: Path,
    change: tuple[str, str],
    refused: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of datasets or of streams: with the file, the rule, the unknown name, and the nearest one."""
    file.write_text(RULES.replace(*change))
    assert run(monkeypatch) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith(f"springline: {file}: ") and re.search(refused, captured.err)


def test_rules_that_nobody_has_judged_are_told_as_such(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That no alert stands would be no news."""
    assert run(monkeypatch) == 0
    output = capsys.readouterr().out
    assert "No alert is active" not in output and "No rule has been evaluated yet" in output
    assert re.search(r"risk +persistence.risk.bytes above 100 +never; the DAG maintenance evaluates it", output)
    assert re.search(r"lag +streams.lag.seconds above 60 +never; the DAG of each stream evaluates it", output)


def test_rules_are_told_with_who_has_judged_them_last_and_when(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside those that nobody has judged."""
    evaluate_risk(file, 0)
    assert run(monkeypatch) == 0
    output = capsys.readouterr().out
    assert "No alert is active; 1 of 2 rules have been evaluated." in output
    assert re.search(r"risk .* 2023-11-1\d .*, by the task alert of the DAG maintenance", output)
    assert run(monkeypatch, "--json") == 0
    output = json.loads(capsys.readouterr().out)
    by = [{"evaluated_at": 1_700_000_000.0, "actor": "task alert of the DAG maintenance"}]
    assert [(rule["rule"], rule["evaluations"], rule["alerts"]) for rule in output] == [
        ("risk", by, []),
        ("lag", [], []),
    ]


def test_what_stands_is_told_first(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its severity and what it means."""
    evaluate_risk(file, 200)
    assert run(monkeypatch) == 0
    output = capsys.readouterr().out
    assert re.search(r"risk +critical .* 200 +too much", output) and "No alert" not in output
