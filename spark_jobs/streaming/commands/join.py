"""The command line of joins: how tuples are placed and why, and how many units there are."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from springline.persistence.text.tables import plain_table
from springline.persistence.text.terminal import console, print_json, print_result
from springline.spark_jobs.streaming.commands.arguments import JobName, Json, job_named
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.join.rebalance import explanation_of, want_units
from springline.spark_jobs.streaming.join.rebalanced import Rebalanced, as_rebalanced

_REASONS = 3
_SHOWN = 10  # lines of a table


def explain(job: JobName, as_json: Json = False) -> None:
    """Tell loads, heavy keys, the routing table, what is under way, and what would be done now, and why."""
    _, folder = _named(job)
    told = explanation_of(folder)
    if as_json:
        print_json(told)
        return
    out = console()
    messages = f"{told['messages']:.2f} messages a tuple" if told["messages"] else "no tuples yet"
    wanted = f", {told['wanted']} are wanted" if told["wanted"] != told["units"] else ""
    out.print(
        f"{job}: epoch {told['epoch']}, {told['strategy']}, {told['units']} units{wanted}, {messages}, "
        f"imbalance in tuples {told['imbalance']:.1%} "
        f"(bound of what is made level: {told['bound']:.1%}), {time.time() - told['at']:.0f} s ago\n"
    )
    _loads(out, told["loads"])
    _heavy(out, told["heavy"])
    _entries(out, told["entries"])
    _pieces(out, told["under_way"])
    out.print("now: " + _some(told["reasons"]))
    out.print("next: " + _some(told["would"]))
    for each in told["history"][-_SHOWN:]:
        at = time.strftime("%H:%M:%S", time.localtime(each["at"]))
        out.print(f"{at}  epoch {each['epoch']}: {_some(each['reasons'])}", highlight=False)


def _some(reasons: Sequence[str]) -> str:
    """The first reasons, and how many more there are."""
    more = len(reasons) - _REASONS
    return "; ".join(reasons[:_REASONS]) + (f"; and {more} more" if more > 0 else "")


def rescale(
    job: JobName,
    wanted: Annotated[int, typer.Argument(metavar="UNITS", min=1, help="How many there are to be")],
    as_json: Json = False,
) -> None:
    """Go on with another number of units, while the job runs or not; nothing stops for that."""
    declared, folder = _named(job)
    want_units(folder, wanted, declared.room)
    sentence = f"{job}: {wanted} units are wanted; `springline stream explain {job}` tells how far it is"
    print_result(as_json, {"job": job, "units": wanted}, sentence)


def _named(name: str) -> tuple[Rebalanced, JobFolder]:
    job, folder = job_named(name)
    return as_rebalanced(job), folder


def _loads(out: Console, loads: Mapping[str, Sequence[int]]) -> None:
    most = max((sum(two) for two in loads.values()), default=0)
    table = plain_table("unit", "left", "right", "stored", "")
    for unit, (left, right) in loads.items():
        bar = "█" * round(30 * (left + right) / most) if most else ""
        table.add_row(unit, f"{left:,}", f"{right:,}", f"{left + right:,}", bar)
    out.print(table)


def _heavy(out: Console, heavy: Sequence[Mapping[str, Any]]) -> None:
    if not heavy:
        return
    table = plain_table("heavy key", "side", "tuples", "probes", "on units")
    for each in heavy[:_SHOWN]:
        parts = ", ".join(f"{unit}: {tuples:,}" for unit, tuples in each["parts"].items())
        table.add_row(str(each["key"]), each["side"], f"{each['tuples']:,}", f"{each['probes']:,}", parts)
    out.print(table)


def _entries(out: Console, entries: Sequence[Mapping[str, Any]]) -> None:
    if not entries:
        return
    table = plain_table("key with a place of its own", "side", "stored on", "probed on")
    for each in entries[:_SHOWN]:
        stores = ", ".join(f"{unit}: {share:.0%}" for unit, share in each["stores"].items())
        table.add_row(str(each["key"]), each["side"], stores, ", ".join(map(str, each["holds"])))
    out.print(table)
    if len(entries) > _SHOWN:
        out.print(f"and {len(entries) - _SHOWN} more\n")


def _pieces(out: Console, pieces: Sequence[Mapping[str, Any]]) -> None:
    if not pieces:
        return
    table = plain_table("piece", "", "tuples", "cost", "what and why")
    for each in pieces[:_SHOWN]:
        state = "being copied" if each["copying"] else "waits"
        table.add_row(str(each["piece"]), state, f"{each['tuples']:,}", f"{each['cost']:.4f}", each["words"])
    out.print(table)
