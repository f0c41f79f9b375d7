"""The status of a job: its heartbeat, and whether its application is alive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from springline.spark_jobs.streaming.application.health import LOADING, SILENT_SECONDS, Health, health_of
from springline.spark_jobs.streaming.job_folder import JobFolder


@dataclass(frozen=True)
class StartPhase:
    """A phase of a job's start: what it did or waited for, and for how many seconds."""

    name: str
    seconds: float


@dataclass(frozen=True)
class JobStatus:
    """The status of a job at a moment.

    `state` is starting, running, silent (alive, but without a heartbeat for `SILENT_SECONDS`), stopped, failed, dead
    (it has ended without reporting why) or never started; for a stopped job, `error` is the reason if nobody asked it
    to stop. `started_at` is when it was started, and `heartbeat_at` the time of its last heartbeat, in seconds since
    1970. `phase` is what it does or waits for while it is starting, `start` the phases of its start so far, until every
    stage had completed a round. A stage is paused while no rounds are planned.
    `health` is the health by rule (`health.py`) with its reason in one sentence, and since when it is so.
    `tracking` is the status of record tracking, if enabled (`tracking/monitor.py`), `backpressure` the queue sizes and
    throttles (`backpressure/regulator.py`), `routing` the load balance of a join's units (`join/rebalance.py`).
    """

    job: str
    state: str
    error: str = ""
    started_at: float | None = None
    heartbeat_at: float = 0.0
    stages: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    pid: int | None = None
    tracking: Mapping[str, Any] = field(default_factory=dict)
    backpressure: Mapping[str, Any] = field(default_factory=dict)
    phase: str = ""
    start: tuple[StartPhase, ...] = ()
    routing: Mapping[str, Any] = field(default_factory=dict)
    health: Health = Health.OK
    health_reason: str = ""
    health_since: float | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it runs, and every stage has completed a round since it was started."""
        began = self.started_at or 0.0
        return (
            self.state == "running"
            and bool(self.stages)
            and all(s["round_ended_at"] > began for s in self.stages.values())
        )

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def read_status(job: str, folder: JobFolder, now: float) -> JobStatus:
    """Return the status of a job; `now` in seconds since 1970."""
    heartbeat = folder.heartbeat()
    is_alive = folder.is_running()
    if not is_alive and (starting := folder.starting_process()) is not None:
        status = JobStatus(
            job,
            "starting",
            started_at=starting.started_at,
            stages=heartbeat["stages"] if heartbeat else {},
            pid=starting.pid,
            phase=LOADING,
            start=(StartPhase(LOADING, now - starting.started_at),),
        )
        return _with_health(status, {"started_at": starting.started_at}, now)
    if heartbeat is None:
        return _with_health(JobStatus(job, "starting" if is_alive else "never started"), {}, now)
    state = heartbeat["state"]
    if state in ("starting", "running"):
        if not is_alive:
            state = "dead"
        elif now - heartbeat["heartbeat_at"] > SILENT_SECONDS:
            state = "silent"
    started_at, pid, heartbeat_at = (
        (heartbeat["started_at"], heartbeat["pid"], heartbeat["heartbeat_at"]) if is_alive else (None, None, 0.0)
    )
    tracking, backpressure, routing = (heartbeat.get(name, {}) for name in ("tracking", "backpressure", "routing"))
    start = _phases(heartbeat, now) if is_alive else ()
    phase = start[-1].name if start and state in ("starting", "silent") and not heartbeat.get("ready_at") else ""
    status = JobStatus(
        job,
        state,
        heartbeat["error"],
        started_at,
        heartbeat_at,
        heartbeat["stages"],
        pid,
        tracking,
        backpressure,
        phase,
        start,
        routing,
    )
    return _with_health(status, heartbeat, now)


def _phases(heartbeat: Mapping[str, Any], now: float) -> tuple[StartPhase, ...]:
    """Return the phases of a start: each ends when the next one begins, the last when every stage has a round."""
    if not (phases := heartbeat.get("phases")):
        return ()
    ends = [*(began for _, began in phases[1:]), heartbeat.get("ready_at") or now]
    return tuple(StartPhase(name, end - began) for (name, began), end in zip(phases, ends, strict=True))


def _with_health(status: JobStatus, heartbeat: Mapping[str, Any], now: float) -> JobStatus:
    decided = health_of(status.state, heartbeat, now)
    return replace(status, health=decided.health, health_reason=decided.reason, health_since=decided.since)
