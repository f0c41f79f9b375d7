"""The command about alerts: what stands, and which rules were judged when and by whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime

from rich.markup import escape
from rich.table import Table

from springline.persistence.commands.arguments import Json
from springline.persistence.monitoring.alerts import AlertState, standing_in_all, states_in
from springline.persistence.monitoring.layers import declared_metrics
from springline.persistence.monitoring.rules import Rule, Standing, read_rules
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.text.terminal import console, print_json

_JUDGES = {"persistence": "the DAG maintenance", "streams": "the DAG of each stream"}  # by the layer of the metric


def list_alerts(as_json: Json = False) -> None:
    """Check the rules of alerts; list what stands, what is about to, and who has judged which rule when."""
    settings = MonitoringSettings()
    rules = read_rules(settings.rules, declared_metrics())
    states = states_in(settings.alerts_folder)
    judged = {rule.name: [state for state in states if rule.name in state.rules] for rule in rules}
    standing = standing_in_all(states)
    if as_json:
        print_json([_rule_fields(rule, judged[rule.name], standing) for rule in rules])
        return
    out = console()
    out.print(_standing_table(standing) if standing else _say_none(judged))
    out.print(f"\nThe rules of {escape(str(settings.rules))}:", soft_wrap=True)
    out.print(_rules_table(rules, judged))


def _say_none(judged: Mapping[str, Sequence[AlertState]]) -> str:
    """That no alert stands, as far as somebody has looked."""
    count = sum(bool(states) for states in judged.values())
    if count == len(judged):
        return "No alert stands."
    return f"No alert stands, of the {count} of {len(judged)} rules that were judged." if count else (
        "No rule was judged yet, so nobody knows whether an alert should stand."
    )  # fmt: skip


def _standing_table(standing: Iterable[Standing]) -> Table:
    table = Table("alert", "severity", "since", "value", "what it means", box=None, header_style="bold")
    for each in standing:
        severity = each.severity if each.told else "not yet"
        table.add_row(escape(each.key), severity, _moment(each.since), f"{each.value:g}", escape(each.words))
    return table


def _rules_table(rules: Iterable[Rule], judged: Mapping[str, Sequence[AlertState]]) -> Table:
    table = Table("rule", "warns of", "last judged", box=None, header_style="bold")
    for rule in rules:
        table.add_row(escape(rule.name), rule.condition, escape(_say_judged(rule, judged[rule.name])))
    return table


def _say_judged(rule: Rule, states: Sequence[AlertState]) -> str:
    """When and by whom a rule was judged; a rule about streams has a judge a stream."""
    if not states:
        return f"never; {_JUDGES[rule.metric.name.partition('.')[0]]} judges it"
    return "\n".join(f"{_moment(state.at)}, by the {state.actor}" for state in states)


def _rule_fields(rule: Rule, states: Sequence[AlertState], standing: Iterable[Standing]) -> dict[str, object]:
    return {
        "rule": rule.name,
        "condition": rule.condition,
        "where": dict(rule.where),
        "severity": rule.severity.value,
        "judged": [{"at": state.at, "actor": state.actor} for state in states],
        "standing": [asdict(each) for each in standing if each.rule == rule.name],
    }


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().isoformat(sep=" ", timespec="seconds")
