"""The command line of back-pressure: how full the queues of a job are, who throttles whom and why, under which mode."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.table import Table

from springline.persistence.text.formatting import say_bytes, say_seconds
from springline.persistence.text.tables import plain_table
from springline.persistence.text.terminal import console, print_json, print_result
from springline.spark_jobs.streaming.application.status import look
from springline.spark_jobs.streaming.backpressure.admission import MODES, OFF
from springline.spark_jobs.streaming.backpressure.config import Choice, Control, choice_of, choose
from springline.spark_jobs.streaming.commands.arguments import JobName, Json, job_named
from springline.spark_jobs.streaming.job import Job


def show(job: JobName, as_json: Json = False) -> None:
    """Show each stage's queue, what it may admit and what it can do, and who throttles whom, since when, and why."""
    declared, folder = job_named(job)
    seen = look(job, folder, time.time())
    choice, apart = choice_of(folder, declared.backpressure), _has_stages_apart(declared)
    if as_json:
        print_json({"job": job, "state": seen.state, **seen.backpressure, **_fields(choice, apart)})
        return
    out = console()
    out.print(f"{job}: {seen.state}, {_said(choice, apart)}")
    stages = seen.backpressure.get("stages", {})
    if stages:
        out.print(_table(stages))
    for stage in stages.values():
        for each in stage["throttles"]:
            out.print(_throttle(each), highlight=False)


def set_mode(
    job: JobName,
    mode: Annotated[
        str,
        typer.Argument(
            help="How admission is decided: predictive, stepwise, off, or another mode that is installed",
            autocompletion=lambda: list(MODES.names),
        ),
    ],
    control: Annotated[
        Control | None, typer.Option(help="How signals travel to and from stages that are apart; none: as now")
    ] = None,
    as_json: Json = False,
) -> None:
    """Go on under another mode, or with another channel, while the job runs or not; nothing stops for that."""
    declared, folder = job_named(job)
    apart = _has_stages_apart(declared)
    choice = choose(folder, declared.backpressure, mode, control, apart=apart)
    print_result(as_json, {"job": job, **_fields(choice, apart)}, f"{job}: {_said(choice, apart)}")


def _fields(choice: Choice, apart: bool) -> dict[str, str | None]:
    return {"mode": choice.mode, "control": choice.control if apart else None}


def _has_stages_apart(job: Job) -> bool:
    return any(stage.apart for stage in job.stages(1))


def _said(choice: Choice, apart: bool) -> str:
    mode = f"{choice.mode} (a baseline)" if choice.mode in MODES.baselines else choice.mode
    by = f", signals to and from stages apart by {choice.control}" if apart and choice.mode != OFF else ""
    return f"back-pressure {mode}{by}"


def _table(stages: Mapping[str, Mapping[str, Any]]) -> Table:
    table = plain_table("stage", "state")
    for name in ("queue", "takes", "may admit", "can do", "arriving", "applied"):
        table.add_column(name, justify="right")
    for name, told in stages.items():
        seconds = "" if told["seconds"] is None else say_seconds(told["seconds"])
        rates = [_rate(told["rate"]), _rate(told["capacity"]), _rate(told["arriving"]), _rate(told["applied"])]
        table.add_row(name, told["state"], say_bytes(told["queue"]), seconds, *rates)
    return table


def _rate(rate: float | None) -> str:
    return "" if rate is None else f"{say_bytes(rate)}/s"


def _throttle(told: Mapping[str, Any]) -> str:
    asked = f"level {told['level']}" if told["rate"] is None else f"{say_bytes(told['rate'])}/s"
    since = time.strftime("%H:%M:%S", time.localtime(told["since"]))
    return f"{told['downstream']} throttles {told['upstream']} to {asked} since {since}: {told['why']}"
