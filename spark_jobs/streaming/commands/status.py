"""The live view of jobs: health, progress and lag."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rich.table import Table

from springline.persistence.text.formatting import format_bytes
from springline.persistence.text.tables import plain_table
from springline.persistence.text.terminal import print_json
from springline.spark_jobs.streaming.application.health import Health
from springline.spark_jobs.streaming.application.status import JobStatus, read_status
from springline.spark_jobs.streaming.commands.arguments import Json, Watch
from springline.spark_jobs.streaming.commands.live import show_live
from springline.spark_jobs.streaming.commands.tables import literal_text
from springline.spark_jobs.streaming.jobs import read_jobs
from springline.spark_jobs.streaming.settings import StreamSettings


def list_jobs(watch: Watch = False, as_json: Json = False) -> None:
    """List the jobs with their health and why, the worst first, and the progress and lag of each stage."""
    settings = StreamSettings()
    if as_json:
        print_json([status.as_json() for status in _job_statuses(settings)])
        return
    show_live(lambda: _table(_job_statuses(settings), settings), watch)


def _job_statuses(settings: StreamSettings) -> list[JobStatus]:
    jobs = read_jobs(settings.declarations)
    order = list(Health)
    statuses = [read_status(name, settings.folder(name), time.time()) for name in jobs]
    return sorted(statuses, key=lambda status: (order.index(status.health), status.job))


def _table(jobs: list[JobStatus], settings: StreamSettings) -> Table:
    table = plain_table("job", "health", "since", "running for", "stage")
    table.caption_justify = "left"
    for name in ("round", "rows", "lag", "round duration", "state size", "memory", "late", "dead letters"):
        table.add_column(name, justify="right")
    for status in jobs:
        first = [status.job, status.health.value, _since(status.health_since), _elapsed(status.started_at)]
        for stage, stage_status in status.stages.items():
            table.add_row(*first, stage, *_progress(stage_status))
            first = ["", "", "", ""]
            if reason := stage_status.get("slow_reading"):
                table.add_row("", literal_text(reason, style="yellow"))
        if not status.stages:
            table.add_row(*first)
        style = "red" if status.health in (Health.FAILED, Health.STALLED) else ""
        table.add_row("", literal_text(status.health_reason, style=style))
        if status.error and status.error != status.health_reason:
            table.add_row("", literal_text(status.error, style="red"))
    if not jobs:
        table.caption = f"no jobs are declared in {settings.declarations}"
    return table


def _progress(stage_status: Mapping[str, Any]) -> list[str]:
    """Return the progress of a stage as fields of the table."""
    counts = stage_status["counts"]
    return [
        f"{stage_status['round']:,}",
        f"{counts.get('rows', counts.get('results', 0)):,}",
        f"{stage_status['lag']:,}",
        f"{stage_status['seconds'] * 1000:,.0f} ms",
        format_bytes(stage_status["state_bytes"]),
        format_bytes(stage_status["task_memory"]),
        *(f"{counts[key]:,}" if key in counts else "" for key in ("late", "dead_letters")),
    ]


def _since(timestamp: float | None) -> str:
    """Format the time of a change: the time of day, and the day if that is another one."""
    if timestamp is None:
        return ""
    moment = time.localtime(timestamp)
    today = moment[:3] == time.localtime()[:3]
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", moment)


def _elapsed(began: float | None) -> str:
    """Format the time since `began` as hours, minutes and seconds."""
    if began is None:
        return ""
    seconds = int(time.time() - began)
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
