"""Summaries of the demo's streams: the state, the output and the back-pressure of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from springline.persistence.text.formatting import format_bytes
from springline.persistence.text.tables import plain_table
from springline.spark_jobs.streaming.application.status import JobStatus


@dataclass(frozen=True)
class StreamOutcome:
    """The summary of one stream: description, state, number of rows read, output, back-pressure."""

    job: str
    description: str
    state: str
    rows: int
    output: str
    pressure: str


def windows_outcome(description: str, stream_status: JobStatus) -> StreamOutcome:
    """Summarize a job of windowed statistics."""
    mapped, reduced = counts_of(stream_status, "map"), counts_of(stream_status, "reduce")
    output = f"{reduced.get('results', 0):,} window results\n{mapped.get('late', 0):,} late rows"
    return _outcome(
        description, stream_status, mapped.get("rows", 0), f"{output}, {mapped.get('dead_letters', 0):,} dead letters"
    )


def tracked_outcome(description: str, stream_status: JobStatus) -> StreamOutcome:
    """Summarize a job whose records are tracked, each as the root of a tree of tuples."""
    tracking = {"completed": 0, "in_flight": 0, "retried": 0, "failed": 0, **stream_status.tracking}
    output = (
        f"{tracking['completed']:,} roots completed, {tracking['in_flight']:,} in flight\n"
        f"{tracking['retried']:,} retried, {tracking['failed']:,} failed"
    )
    return _outcome(description, stream_status, counts_of(stream_status, "split").get("rows", 0), output)


def join_outcome(description: str, stream_status: JobStatus, explanation: Mapping[str, Any] | None) -> StreamOutcome:
    """Summarize a join; `explanation` is the rebalancer's report on loads, None before the first one."""
    output = f"{counts_of(stream_status, 'join').get('pairs', 0):,} pairs"
    if explanation is not None:
        if explanation["messages_per_tuple"]:
            output += f", {explanation['messages_per_tuple']:.2f} messages per tuple"
        output += f"\nimbalance of {explanation['units']} units: {explanation['imbalance']:.1%}"
    return _outcome(description, stream_status, counts_of(stream_status, "route").get("rows", 0), output)


def counts_of(stream_status: JobStatus, stage: str) -> Mapping[str, int]:
    """Return the counters of a stage; empty before its first round."""
    counts: Mapping[str, int] = stream_status.stages.get(stage, {}).get("counts", {})
    return counts


def format_backpressure(backpressure: Mapping[str, Any]) -> str:
    """Format the back-pressure of a job: its mode, which stage throttles which, and the longest queue."""
    stages: Mapping[str, Any] = backpressure.get("stages", {})
    if not stages:
        return ""
    throttles = [each for stage in stages.values() for each in stage["throttles"]]
    state = ", ".join(f"{each['downstream']} throttles {each['upstream']}" for each in throttles) or "level"
    return (
        f"{backpressure['mode']}: {state}\nat most {format_bytes(max(stage['queue'] for stage in stages.values()))} "
        f"queued"
    )


def streams_table(outcomes: Iterable[StreamOutcome]) -> Table:
    """Return a table with one row per stream."""
    table = plain_table()
    for column in ("stream", "description", "state", "rows", "output", "back-pressure"):
        table.add_column(column, justify="right" if column == "rows" else "left")
    for each in outcomes:
        state = f"[green]{each.state}[/green]" if each.state == "running" else f"[red]{each.state}[/red]"
        table.add_row(each.job, each.description, state, f"{each.rows:,}", each.output, each.pressure)
    return table


def _outcome(description: str, stream_status: JobStatus, rows: int, output: str) -> StreamOutcome:
    return StreamOutcome(
        stream_status.job,
        description,
        stream_status.state,
        rows,
        output,
        format_backpressure(stream_status.backpressure),
    )
