"""The status of a job: its heartbeat, and whether its application is alive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from springline.spark_jobs.streaming.job_folder import JobFolder

SILENT_SECONDS = 15.0  # without a heartbeat


@dataclass(frozen=True)
class JobStatus:
    """The status of a job at a moment.

    `state` is starting, running, silent (alive, but without a heartbeat for `SILENT_SECONDS`), stopped, failed, dead
    (it has ended without reporting why) or never started; for a stopped job, `error` is the reason if nobody asked it
    to stop. `started_at` is when it was started, and `heartbeat_at` the time of its last heartbeat, in seconds since
    1970. `phase` is what it does or waits for while it is starting. A stage is paused while no rounds are planned.
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
    routing: Mapping[str, Any] = field(default_factory=dict)

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
        stages = heartbeat["stages"] if heartbeat else {}
        return JobStatus(
            job,
            "starting",
            started_at=starting.started_at,
            stages=stages,
            pid=starting.pid,
            phase="loading its code",
        )
    if heartbeat is None:
        return JobStatus(job, "starting" if is_alive else "never started")
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
    phase = heartbeat.get("phase", "") if is_alive else ""
    return JobStatus(
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
        routing,
    )
