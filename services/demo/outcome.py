"""What came of the demo's streams, in words: how each is, what came out, and how level its stages are kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from springline.persistence.text.formatting import say_bytes
from springline.persistence.text.tables import plain_table
from springline.spark_jobs.streaming.application.status import Seen


@dataclass(frozen=True)
class Outcome:
    """One stream: what it is, its state, the rows that it has read, what came out of it, its back-pressure."""

    job: str
    what: str
    state: str
    rows: int
    out: str
    pressure: str


def windows_outcome(what: str, seen: Seen) -> Outcome:
    """Of a job of windowed statistics."""
    mapped, reduced = counts_of(seen, "map"), counts_of(seen, "reduce")
    out = f"{reduced.get('results', 0):,} results of windows\n{mapped.get('late', 0):,} rows late"
    return _outcome(what, seen, mapped.get("rows", 0), f"{out}, {mapped.get('dead', 0):,} not used")


def tracked_outcome(what: str, seen: Seen) -> Outcome:
    """Of a job whose records are tracked, each of them the root of a tree of tuples."""
    told = {"completed": 0, "in_flight": 0, "again": 0, "gone": 0, **seen.tracking}
    out = (
        f"{told['completed']:,} roots completed, {told['in_flight']:,} in flight\n"
        f"{told['again']:,} sent again, {told['gone']:,} failed"
    )
    return _outcome(what, seen, counts_of(seen, "split").get("rows", 0), out)


def join_outcome(what: str, seen: Seen, explained: Mapping[str, Any] | None) -> Outcome:
    """Of a join; `explained` is what its steering tells of loads, None before the first look."""
    out = f"{counts_of(seen, 'join').get('pairs', 0):,} pairs"
    if explained is not None:
        if explained["messages"]:
            out += f", {explained['messages']:.2f} messages a tuple"
        out += f"\nloads of {explained['units']} units level to {explained['imbalance']:.1%}"
    return _outcome(what, seen, counts_of(seen, "route").get("rows", 0), out)


def counts_of(seen: Seen, stage: str) -> Mapping[str, int]:
    """What a stage has counted; nothing before its first round."""
    found: Mapping[str, int] = seen.stages.get(stage, {}).get("counts", {})
    return found


def say_pressure(told: Mapping[str, Any]) -> str:
    """How a job's stages are kept level: the mode, how much waits before the fullest, who throttles whom."""
    stages: Mapping[str, Any] = told.get("stages", {})
    if not stages:
        return ""
    throttles = [each for stage in stages.values() for each in stage["throttles"]]
    state = ", ".join(f"{each['downstream']} throttles {each['upstream']}" for each in throttles) or "level"
    return f"{told['mode']}: {state}\n{say_bytes(max(stage['queue'] for stage in stages.values()))} wait at most"


def streams_table(outcomes: Iterable[Outcome]) -> Table:
    """One row a stream."""
    table = plain_table()
    for column in ("stream", "what it is", "state", "rows", "what came out", "back-pressure"):
        table.add_column(column, justify="right" if column == "rows" else "left")
    for each in outcomes:
        state = f"[green]{each.state}[/green]" if each.state == "running" else f"[red]{each.state}[/red]"
        table.add_row(each.job, each.what, state, f"{each.rows:,}", each.out, each.pressure)
    return table


def _outcome(what: str, seen: Seen, rows: int, out: str) -> Outcome:
    return Outcome(seen.job, what, seen.state, rows, out, say_pressure(seen.backpressure))
