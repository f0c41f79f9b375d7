"""What the maintenance DAG does, one function a task; each returns what it did, in plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from springline.persistence.errors import StorageUnavailableError, UnderStoreUnavailableError
from springline.persistence.metrics_collector import readings
from springline.persistence.monitoring.alerts import Alerts
from springline.persistence.monitoring.metric import by_name
from springline.persistence.monitoring.metrics import METRICS
from springline.persistence.monitoring.rules import read_rules
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.platform import Platform
from springline.persistence.rendering import say_away

Report = dict[str, Any]


def recover(platform: Platform) -> Report:
    """Find what a fault took and bring it back.

    Once all is done that can be, raises `IrrecoverableError`, naming what stays lost, else what failed first, else
    `StorageUnavailableError` if something could not even be looked at, or the under-store does not answer.
    """
    scan = platform.maintenance.scan()
    lost = [dataset.ref for dataset in platform.maintenance.lost()]
    done = platform.restorer.bring_back(lost) if lost else None
    if done:
        done.require_all()
    if scan.unreached:
        told = "; ".join(f"{ref} ({why})" for ref, why in sorted(scan.unreached.items()))
        raise StorageUnavailableError(f"all else is there or back; these could not be looked at: {told}")
    if scan.away:
        raise UnderStoreUnavailableError(say_away(platform, scan.away))
    return {
        "looked_at": scan.looked_at,
        "lost": [str(ref) for ref in lost],
        "steps": [step.words for step in done.steps] if done else [],
    }


def evict(platform: Platform) -> Report:
    """Keep a tenth of the cache free, so that jobs need not wait for room."""
    capacity = platform.settings.cache_capacity
    before = platform.catalog.cache_used()
    missing = platform.replacement.make_room(capacity // 10)
    away = platform.under.why_away() if missing else ""
    freed = before - platform.catalog.cache_used()
    return {"capacity": capacity, "freed": freed, "missing": missing, "under_store_away": away}


def retire(platform: Platform) -> Report:
    """Remove superseded generations that nobody needs, and what dead writers left."""
    return {
        "retired": [str(ref) for ref in platform.maintenance.retire()],
        "abandoned": [str(ref) for ref in platform.maintenance.sweep()],
    }


def alert(platform: Platform) -> Report:
    """Read the gauges, and judge the rules of alerts over them; raises `AlertRulesError`."""
    settings = MonitoringSettings(home=platform.settings.home)
    rules = read_rules(settings.rules, by_name(METRICS))
    found = readings(platform)
    platform.meter.read_out(found)
    alerts = Alerts(settings.alerts_folder, "persistence", actor="task alert of the DAG maintenance")
    judgement = alerts.judge(rules, found, platform.meter, platform.catalog.now())
    return {
        "rules": len(rules),
        "begun": [each.key for each in judgement.begun],
        "ended": [each.key for each in judgement.ended],
        "standing": [each.key for each in judgement.standing if each.told],
    }


ACTIONS: Mapping[str, Callable[[Platform], Report]] = MappingProxyType(
    {"recover": recover, "evict": evict, "retire": retire, "alert": alert}
)
