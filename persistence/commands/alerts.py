"""The command for alerts: firing and pending alerts, and which rules were evaluated when and by whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime

from rich.markup import escape
from rich.table import Table

from springline.persistence.commands.arguments import Json
from springline.persistence.monitoring.alerts import AlertState, list_active_alerts, read_states
from springline.persistence.monitoring.layers import declared_metrics
from springline.persistence.monitoring.rules import ActiveAlert, AlertRule, read_rules
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.text.terminal import console, print_json

_EVALUATORS = {"persistence": "the DAG maintenance", "streams": "the DAG of each stream"}  # by the layer of the metric


def list_alerts(as_json: Json = False) -> None:
    """Check the alert rules; list firing and pending alerts, and when and by whom each rule was evaluated."""
    settings = MonitoringSettings()
    rules = read_rules(settings.rules, declared_metrics())
    states = read_states(settings.alerts_folder)
    states_by_rule = {rule.name: [state for state in states if rule.name in state.rules] for rule in rules}
    active_alerts = list_active_alerts(states)
    if as_json:
        print_json([_rule_fields(rule, states_by_rule[rule.name], active_alerts) for rule in rules])
        return
    out = console()
    out.print(_alerts_table(active_alerts) if active_alerts else _format_no_alerts(states_by_rule))
    out.print(f"\nRules of {escape(str(settings.rules))}:", soft_wrap=True)
    out.print(_rules_table(rules, states_by_rule))


def _format_no_alerts(states_by_rule: Mapping[str, Sequence[AlertState]]) -> str:
    """Say that no alert is active, and how many rules have been evaluated."""
    count = sum(bool(states) for states in states_by_rule.values())
    if count == len(states_by_rule):
        return "No alert is active."
    return f"No alert is active; {count} of {len(states_by_rule)} rules have been evaluated." if count else (
        "No rule has been evaluated yet."
    )  # fmt: skip


def _alerts_table(active_alerts: Iterable[ActiveAlert]) -> Table:
    table = Table("alert", "severity", "since", "value", "summary", box=None, header_style="bold")
    for each in active_alerts:
        severity = each.severity if each.is_firing else "pending"
        table.add_row(
            escape(each.key), severity, _format_timestamp(each.since), f"{each.value:g}", escape(each.summary)
        )
    return table


def _rules_table(rules: Iterable[AlertRule], states_by_rule: Mapping[str, Sequence[AlertState]]) -> Table:
    table = Table("rule", "condition", "last evaluated", box=None, header_style="bold")
    for rule in rules:
        table.add_row(escape(rule.name), rule.condition, escape(_format_evaluations(rule, states_by_rule[rule.name])))
    return table


def _format_evaluations(rule: AlertRule, states: Sequence[AlertState]) -> str:
    """Say when and by whom a rule was evaluated; a rule about streams is evaluated once per stream."""
    if not states:
        return f"never; {_EVALUATORS[rule.metric.name.partition('.')[0]]} evaluates it"
    return "\n".join(f"{_format_timestamp(state.evaluated_at)}, by the {state.actor}" for state in states)


def _rule_fields(
    rule: AlertRule, states: Sequence[AlertState], active_alerts: Iterable[ActiveAlert]
) -> dict[str, object]:
    return {
        "rule": rule.name,
        "condition": rule.condition,
        "where": dict(rule.where),
        "severity": rule.severity.value,
        "evaluations": [{"evaluated_at": state.evaluated_at, "actor": state.actor} for state in states],
        "alerts": [asdict(each) for each in active_alerts if each.rule == rule.name],
    }


def _format_timestamp(timestamp: float) -> str:
    return datetime.fromtimestamp(timestamp).astimezone().isoformat(sep=" ", timespec="seconds")
