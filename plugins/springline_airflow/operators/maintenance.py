"""The actions of the maintenance DAG, one function per task; each returns a report in plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from springline.persistence.errors import StorageUnavailableError, UnderStoreUnavailableError
from springline.persistence.metrics_collector import read_gauges
from springline.persistence.monitoring.alerts import AlertEvaluator
from springline.persistence.monitoring.metric import by_name
from springline.persistence.monitoring.metrics import METRICS
from springline.persistence.monitoring.rules import read_rules
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.platform import Platform
from springline.persistence.rendering import format_unavailability

ActionReport = dict[str, Any]


def recover(platform: Platform) -> ActionReport:
    """Detect data lost by a fault and recover it.

    After recovering what is possible, raises `IrrecoverableError`, naming what stays lost, otherwise the first failure,
    otherwise `StorageUnavailableError` if something could not be checked, or the under-store does not respond.
    """
    scan = platform.maintenance.scan()
    lost = [dataset.ref for dataset in platform.maintenance.find_lost()]
    recovery = platform.restorer.restore(lost) if lost else None
    if recovery:
        recovery.require_all()
    if scan.unreachable:
        unreached = "; ".join(f"{ref} ({reason})" for ref, reason in sorted(scan.unreachable.items()))
        raise StorageUnavailableError(
            f"all other datasets are available or restored; these could not be checked: {unreached}"
        )
    if scan.unavailable_reason:
        raise UnderStoreUnavailableError(format_unavailability(platform, scan.unavailable_reason))
    return {
        "checked": scan.checked_count,
        "lost": [str(ref) for ref in lost],
        "steps": [step.summary for step in recovery.steps] if recovery else [],
    }


def evict(platform: Platform) -> ActionReport:
    """Keep a tenth of the cache free, so that jobs need not wait for space."""
    capacity = platform.replacement.capacity
    before = platform.catalog.cache_used()
    missing = platform.replacement.ensure_free_bytes(capacity // 10)
    away = platform.under.unavailable_reason() if missing else ""
    freed = before - platform.catalog.cache_used()
    return {"capacity": capacity, "freed": freed, "missing": missing, "under_store_away": away}


def retire(platform: Platform) -> ActionReport:
    """Remove superseded generations without readers, and the remains of dead writers."""
    return {
        "retired": [str(ref) for ref in platform.maintenance.retire()],
        "abandoned": [str(ref) for ref in platform.maintenance.sweep()],
    }


def alert(platform: Platform) -> ActionReport:
    """Read the gauges, and evaluate the alert rules on them; raises `AlertRulesError`."""
    settings = MonitoringSettings(home=platform.settings.home)
    rules = read_rules(settings.rules, by_name(METRICS))
    samples = read_gauges(platform)
    platform.metrics_reporter.report_all(samples)
    alerts = AlertEvaluator(settings.alerts_folder, "persistence", actor="task alert of the DAG maintenance")
    evaluation = alerts.evaluate(rules, samples, platform.metrics_reporter, platform.catalog.now())
    return {
        "rules": len(rules),
        "new_alerts": [each.key for each in evaluation.new_alerts],
        "resolved_alerts": [each.key for each in evaluation.resolved_alerts],
        "active_alerts": [each.key for each in evaluation.active_alerts if each.is_firing],
    }


ACTIONS: Mapping[str, Callable[[Platform], ActionReport]] = MappingProxyType(
    {"recover": recover, "evict": evict, "retire": retire, "alert": alert}
)
