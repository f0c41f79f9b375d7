"""The commands of back-pressure: queue sizes, throttling and its reasons, and the mode."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.table import Table

from springline.persistence.text.formatting import format_bytes, format_seconds
from springline.persistence.text.tables import plain_table
from springline.persistence.text.terminal import console, print_json, print_result
from springline.spark_jobs.streaming.application.status import read_status
from springline.spark_jobs.streaming.backpressure.admission import MODES, OFF
from springline.spark_jobs.streaming.backpressure.config import (
    BackpressureConfig,
    ChannelKind,
    read_config,
    update_config,
)
from springline.spark_jobs.streaming.commands.arguments import JobName, Json
from springline.spark_jobs.streaming.commands.jobs import job_named
from springline.spark_jobs.streaming.job import Job


def show(job: JobName, as_json: Json = False) -> None:
    """Show each stage's queue, admission rate and capacity, and which stage throttles which, since when, and why."""
    declared, folder = job_named(job)
    status = read_status(job, folder, time.time())
    choice, apart = read_config(folder, declared.backpressure), _has_stages_apart(declared)
    if as_json:
        print_json({"job": job, "state": status.state, **status.backpressure, **_fields(choice, apart)})
        return
    out = console()
    out.print(f"{job}: {status.state}, {_describe_choice(choice, apart)}")
    stages = status.backpressure.get("stages", {})
    if stages:
        out.print(_table(stages))
    for stage in stages.values():
        for throttle in stage["throttles"]:
            out.print(_format_throttle(throttle), highlight=False)


def set_mode(
    job: JobName,
    mode: Annotated[
        str,
        typer.Argument(
            help="Mode: predictive, stepwise, off, or another installed one",
            autocompletion=lambda: list(MODES.names),
        ),
    ],
    signal_channel: Annotated[
        ChannelKind | None,
        typer.Option(help="Channel of signals between the two applications of a job; default: unchanged"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Change the back-pressure mode, or the signal channel, of a running or stopped job without interrupting it."""
    declared, folder = job_named(job)
    apart = _has_stages_apart(declared)
    choice = update_config(folder, declared.backpressure, mode, signal_channel, apart=apart)
    print_result(as_json, {"job": job, **_fields(choice, apart)}, f"{job}: {_describe_choice(choice, apart)}")


def _fields(choice: BackpressureConfig, apart: bool) -> dict[str, str | None]:
    return {"mode": choice.mode, "signal_channel": choice.signal_channel if apart else None}


def _has_stages_apart(job: Job) -> bool:
    return any(stage.in_second_application for stage in job.stages())


def _describe_choice(choice: BackpressureConfig, apart: bool) -> str:
    mode = f"{choice.mode} (a baseline)" if choice.mode in MODES.baselines else choice.mode
    by = f", signals between its applications by {choice.signal_channel}" if apart and choice.mode != OFF else ""
    return f"back-pressure {mode}{by}"


def _table(stages: Mapping[str, Mapping[str, Any]]) -> Table:
    table = plain_table("stage", "state")
    for name in ("queue", "time to drain", "admission limit", "capacity", "arriving", "applied"):
        table.add_column(name, justify="right")
    for name, stage in stages.items():
        seconds = "" if stage["seconds"] is None else format_seconds(stage["seconds"])
        rates = [_rate(stage["rate"]), _rate(stage["capacity"]), _rate(stage["arriving"]), _rate(stage["applied"])]
        table.add_row(name, stage["state"], format_bytes(stage["queue"]), seconds, *rates)
    return table


def _rate(rate: float | None) -> str:
    return "" if rate is None else f"{format_bytes(rate)}/s"


def _format_throttle(throttle: Mapping[str, Any]) -> str:
    limit = f"level {throttle['throttle_level']}" if throttle["rate"] is None else f"{format_bytes(throttle['rate'])}/s"
    since = time.strftime("%H:%M:%S", time.localtime(throttle["since"]))
    return f"{throttle['downstream']} throttles {throttle['upstream']} to {limit} since {since}: {throttle['reason']}"
