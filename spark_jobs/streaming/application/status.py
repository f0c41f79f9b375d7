"""How a job is, as anybody can see it: its heartbeat, and whether its application lives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from springline.spark_jobs.streaming.job_folder import JobFolder

SILENT_SECONDS = 15.0  # without a heartbeat


@dataclass(frozen=True)
class Seen:
    """A job at a moment.

    `state` is starting, running, silent (it lives, and has not beaten for `SILENT_SECONDS`), stopped, failed, dead (it
    lives no more, and did not say why) or never started; of one that is stopped, `error` is why, where nobody has
    asked for it. `began` is when it was started, and `beaten` when it told how it is, in seconds since 1970; a stage is
    held where it is to plan nothing for now.
    `phase` is what it does or waits for while it is starting.
    `tracking` is how its records are, where they are tracked (`tracking/monitor.py`), `backpressure` how full its
    queues are, and who throttles whom (`backpressure/regulator.py`), `routing` how even the loads of a join's units are
    (`join/rebalance.py`).
    """

    job: str
    state: str
    error: str = ""
    began: float | None = None
    beaten: float = 0.0
    stages: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    pid: int | None = None
    tracking: Mapping[str, Any] = field(default_factory=dict)
    backpressure: Mapping[str, Any] = field(default_factory=dict)
    phase: str = ""
    routing: Mapping[str, Any] = field(default_factory=dict)

    @property
    def works(self) -> bool:
        """Whether it runs, and every stage has ended a round since it was started."""
        began = self.began or 0.0
        return self.state == "running" and bool(self.stages) and all(s["at"] > began for s in self.stages.values())

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def look(job: str, folder: JobFolder, now: float) -> Seen:
    """Look at a job; `now` in seconds since 1970."""
    beat = folder.heartbeat()
    lives = folder.runs()
    if not lives and (coming := folder.coming()) is not None:
        stages = beat["stages"] if beat else {}
        return Seen(job, "starting", began=coming.at, stages=stages, pid=coming.pid, phase="its code is being loaded")
    if beat is None:
        return Seen(job, "starting" if lives else "never started")
    state = beat["state"]
    if state in ("starting", "running"):
        if not lives:
            state = "dead"
        elif now - beat["at"] > SILENT_SECONDS:
            state = "silent"
    began, pid, at = (beat["began"], beat["pid"], beat["at"]) if lives else (None, None, 0.0)
    tracking, backpressure, routing = (beat.get(name, {}) for name in ("tracking", "backpressure", "routing"))
    phase = beat.get("phase", "") if lives else ""
    return Seen(job, state, beat["error"], began, at, beat["stages"], pid, tracking, backpressure, phase, routing)
