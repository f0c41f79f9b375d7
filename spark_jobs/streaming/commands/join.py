"""The commands of joins: how tuples are distributed and why, and the number of units."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from springline.persistence.text.tables import plain_table
from springline.persistence.text.terminal import console, print_json, print_result, progress
from springline.spark_jobs.streaming.commands.arguments import JobName, Json
from springline.spark_jobs.streaming.commands.jobs import job_named
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.join.rebalance import read_explanation, request_units, require_explanation
from springline.spark_jobs.streaming.join.rebalanced_job import RebalancedJob, as_rebalanced

_REASONS = 3
_FIRST_OBSERVATION_SECONDS, _POLL_SECONDS = 60.0, 0.1  # a busy machine takes long to start all stages
_SHOWN = 10  # rows of a table


def explain(job: JobName, as_json: Json = False) -> None:
    """Show loads, heavy keys, the routing table, migrations in progress, and the next decision with its reasons."""
    _, folder = _rebalanced_job_named(job)
    explanation = _await_explanation(job, folder, quiet=as_json)
    if as_json:
        print_json(explanation)
        return
    out = console()
    messages = (
        f"{explanation['messages_per_tuple']:.2f} messages per tuple"
        if explanation["messages_per_tuple"]
        else "no tuples yet"
    )
    requested = (
        f", {explanation['requested_units']} requested"
        if explanation["requested_units"] != explanation["units"]
        else ""
    )
    out.print(
        f"{job}: epoch {explanation['epoch']}, {explanation['strategy']}, "
        f"{explanation['units']} units{requested}, {messages}, "
        f"imbalance in tuples {explanation['imbalance']:.1%} "
        f"(limit: {explanation['max_imbalance']:.1%}), "
        f"{time.time() - explanation['observed_at']:.0f} s ago\n"
    )
    _print_loads(out, explanation["loads"])
    _print_heavy_keys(out, explanation["heavy_keys"])
    _print_entries(out, explanation["entries"])
    _print_migrations(out, explanation["migrations"])
    out.print("now: " + _first_reasons(explanation["reasons"]))
    out.print("next: " + _first_reasons(explanation["next_reasons"]))
    for each in explanation["history"][-_SHOWN:]:
        decided_at = time.strftime("%H:%M:%S", time.localtime(each["created_at"]))
        out.print(f"{decided_at}  epoch {each['epoch']}: {_first_reasons(each['reasons'])}", highlight=False)


def _await_explanation(job: str, folder: JobFolder, *, quiet: bool) -> dict[str, Any]:
    """Return the last explanation, waiting for the first one of a running job; raises `NeverBalancedError`."""
    until = time.monotonic() + _FIRST_OBSERVATION_SECONDS
    with progress(f"waiting for the first observation of {job}", quiet=quiet):
        while read_explanation(folder) is None and folder.is_running() and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
    return require_explanation(folder)


def _first_reasons(reasons: Sequence[str]) -> str:
    """Return the first reasons, and the number of the others."""
    more = len(reasons) - _REASONS
    return "; ".join(reasons[:_REASONS]) + (f"; and {more} more" if more > 0 else "")


def rescale(
    job: JobName,
    units: Annotated[int, typer.Argument(metavar="UNITS", min=1, help="Number of units")],
    as_json: Json = False,
) -> None:
    """Change the number of units of a running or stopped job without interrupting it."""
    declared, folder = _rebalanced_job_named(job)
    request_units(folder, units, declared.max_units)
    sentence = f"{job}: {units} units are requested; `springline stream explain {job}` shows the progress"
    print_result(as_json, {"job": job, "units": units}, sentence)


def _rebalanced_job_named(name: str) -> tuple[RebalancedJob, JobFolder]:
    job, folder = job_named(name)
    return as_rebalanced(job), folder


def _print_loads(out: Console, loads: Mapping[str, Sequence[int]]) -> None:
    most = max((sum(two) for two in loads.values()), default=0)
    table = plain_table("unit", "left", "right", "stored", "")
    for unit, (left, right) in loads.items():
        bar = "█" * round(30 * (left + right) / most) if most else ""
        table.add_row(unit, f"{left:,}", f"{right:,}", f"{left + right:,}", bar)
    out.print(table)


def _print_heavy_keys(out: Console, heavy: Sequence[Mapping[str, Any]]) -> None:
    rows = [each for each in heavy if each["is_heavy"]][:_SHOWN]
    if not rows:
        return
    table = plain_table("heavy key", "side", "tuples", "of mean load", "probes", "routing", "on units")
    for each in rows:
        parts = ", ".join(f"{unit}: {tuples:,}" for unit, tuples in each["parts"].items())
        table.add_row(
            str(each["key"]), each["side"], f"{each['tuples']:,}", f"{each['share']:.1%}", f"{each['probes']:,}",
            each["placement"], parts,
        )  # fmt: skip
    out.print(table)


def _print_entries(out: Console, entries: Sequence[Mapping[str, Any]]) -> None:
    if not entries:
        return
    table = plain_table("explicitly routed key", "side", "stored on", "probed on")
    for each in entries[:_SHOWN]:
        stores = ", ".join(f"{unit}: {share:.0%}" for unit, share in each["stores"].items())
        table.add_row(str(each["key"]), each["side"], stores, ", ".join(map(str, each["probed_units"])))
    out.print(table)
    if len(entries) > _SHOWN:
        out.print(f"and {len(entries) - _SHOWN} more\n")


def _print_migrations(out: Console, migrations: Sequence[Mapping[str, Any]]) -> None:
    if not migrations:
        return
    table = plain_table("piece", "", "tuples", "cost", "reason")
    for each in migrations[:_SHOWN]:
        state = "being copied" if each["copying"] else "pending"
        table.add_row(str(each["piece"]), state, f"{each['tuples']:,}", f"{each['cost']:.4f}", each["description"])
    out.print(table)
