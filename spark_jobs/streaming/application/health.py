"""The health of a job, decided by rule from its heartbeat: one word, the reason in one sentence, and since when; pure.

The words and thresholds are those of the alert rules: a job is lagging where `streams.lag.seconds` would alert, and
stalled where `streams.rounds.age` would. A job is lagging too while it needs long for what is queued, before any
message is old.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from springline.persistence.text.formatting import format_count, format_seconds

LOADING = "loading its code"  # what an application does first
SILENT_SECONDS = 15.0
"""Seconds without a heartbeat after which a job that is alive counts as stalled."""
LAG_SECONDS = 60.0
"""Age of the newest message read, in seconds, above which a job with lag is lagging, if no alert rule sets it."""
ROUND_AGE_SECONDS = 60.0
"""Seconds without a completed round above which a job is stalled, if no alert rule sets it."""
DRAIN_SECONDS = 10.0
"""Seconds of work queued before a stage above which a job with lag is lagging."""
RECOVERED_SHARE = 0.5
"""Share of a threshold below which a lagging job is ok again, so that `since` survives a value that oscillates."""


class Health(StrEnum):
    """The health of a job, the worst first."""

    FAILED = "failed"
    STALLED = "stalled"
    LAGGING = "lagging"
    STARTING = "starting"
    OK = "ok"
    STOPPED = "stopped"
    NEVER_STARTED = "never started"


@dataclass(frozen=True)
class HealthThresholds:
    """The thresholds of the rules, in seconds."""

    lag_seconds: float = LAG_SECONDS
    round_age_seconds: float = ROUND_AGE_SECONDS
    drain_seconds: float = DRAIN_SECONDS


DEFAULT_THRESHOLDS = HealthThresholds()


@dataclass(frozen=True)
class JobHealth:
    """The health of a job: the reason in one sentence, and since when (seconds since 1970; None if unknown)."""

    health: Health
    reason: str = ""
    since: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return plain values, as they are in the heartbeat."""
        return {"health": self.health.value, "reason": self.reason, "since": self.since}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> JobHealth:
        """The inverse of `as_json`."""
        return JobHealth(Health(raw["health"]), raw["reason"], raw["since"])


def lag_seconds(stage: Mapping[str, Any], now: float) -> float:
    """Return the age of the newest message that a stage has read, while it has lag; else 0."""
    newest = stage.get("newest_timestamp", 0)
    return max(now - newest, 0.0) if stage.get("lag") and newest else 0.0


def health_of(state: str, heartbeat: Mapping[str, Any], now: float) -> JobHealth:
    """Return the health of a job in this `state` (see `JobStatus`), given its last heartbeat, empty if there is none.

    A running job has decided it itself, with its own thresholds; what is no longer running cannot.
    """
    at = heartbeat.get("heartbeat_at")
    error = heartbeat.get("error", "")
    match state:
        case "never started":
            return JobHealth(Health.NEVER_STARTED, "no application of it has run yet")
        case "stopped":
            return JobHealth(Health.STOPPED, error or "it was asked to stop", at)
        case "starting":
            return JobHealth(Health.STARTING, _phase(heartbeat), heartbeat.get("started_at"))
        case "failed":
            return JobHealth(Health.FAILED, error or "it failed; its log says why", at)
        case "dead":
            return JobHealth(Health.FAILED, error or "its process ended without reporting why; see its log", at)
        case "silent":
            return JobHealth(Health.STALLED, f"no heartbeat for {format_seconds(now - (at or now))}", at)
    recorded = heartbeat.get("health")
    return JobHealth.from_json(recorded) if recorded else running_health(heartbeat, now)


def running_health(
    heartbeat: Mapping[str, Any],
    now: float,
    thresholds: HealthThresholds = DEFAULT_THRESHOLDS,
    previous: JobHealth | None = None,
) -> JobHealth:
    """Decide the health of a running job from its stages and its back-pressure; `previous` is what was decided last."""
    health, reason, since = _decide(heartbeat, now, thresholds, previous)
    if previous is not None and previous.health is health and previous.since is not None:
        since = previous.since
    return JobHealth(health, reason, since)


def bottleneck_of(pressed: Mapping[str, Mapping[str, Any]], drain_seconds: float = 1.0) -> str:
    """Return the stage that slows its job down, given the stages' back-pressure in processing order; empty: none.

    It is the last stage that throttles others and is not throttled itself; without any, the one with the longest queue
    in seconds, from `drain_seconds` on.
    """
    overloaded = [name for name, stage in pressed.items() if stage["throttles"] and not stage["throttled_by"]]
    if overloaded:
        return overloaded[-1]
    queued = {name: stage["seconds"] or 0.0 for name, stage in pressed.items()}
    slowest = max(queued, key=lambda name: queued[name], default="")
    return slowest if slowest and queued[slowest] >= drain_seconds else ""


def _decide(
    heartbeat: Mapping[str, Any], now: float, thresholds: HealthThresholds, previous: JobHealth | None
) -> tuple[Health, str, float]:
    began = heartbeat.get("started_at") or now
    stages: Mapping[str, Mapping[str, Any]] = heartbeat.get("stages", {})
    moved = {name: max(began, each["round_ended_at"]) for name, each in stages.items() if not each.get("paused")}
    stuck = min(moved, key=lambda name: moved[name], default="")
    if stuck and now - moved[stuck] > thresholds.round_age_seconds:
        idle = format_seconds(now - moved[stuck])
        return Health.STALLED, f"stage {stuck} has completed no round for {idle}", moved[stuck]
    pressed: Mapping[str, Mapping[str, Any]] = heartbeat.get("backpressure", {}).get("stages", {})
    messages = max((each.get("lag", 0) for each in stages.values()), default=0)
    age = max((lag_seconds(each, now) for each in stages.values()), default=0.0)
    drain = max((each["seconds"] for each in pressed.values() if each["seconds"] is not None), default=None)
    share = RECOVERED_SHARE if previous is not None and previous.health is Health.LAGGING else 1.0
    is_old, is_long = age > share * thresholds.lag_seconds, (drain or 0.0) > share * thresholds.drain_seconds
    is_lagging = bool(messages) and (is_old or is_long)
    return Health.LAGGING if is_lagging else Health.OK, _lag_reason(messages, age, drain, pressed), now


def _lag_reason(messages: int, age: float, drain: float | None, pressed: Mapping[str, Mapping[str, Any]]) -> str:
    """Return how far behind a job is, and which stage is the cause, as a sentence."""
    if not messages:
        return "no lag"
    lag = [f"{format_count(messages, 'message')} behind"]
    if drain is not None:
        lag.append(f"{format_seconds(drain)} to drain")
    elif age:
        lag.append(f"the newest that was read is {format_seconds(age)} old")
    slow = bottleneck_of(pressed)
    if not slow:
        return ", ".join(lag)
    throttled = [each["upstream"] for each in pressed[slow]["throttles"]]
    cause = f"is overloaded and throttles {' and '.join(throttled)}" if throttled else "is the slowest stage"
    return f"{', '.join(lag)}: {slow} {cause}"


def _phase(heartbeat: Mapping[str, Any]) -> str:
    """Return what an application does while it starts."""
    phases = heartbeat.get("phases")
    return str(phases[-1][0]) if phases else LOADING
