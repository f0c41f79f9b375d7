"""How datasets and risks are shown to a person (tables, sentences) and told to a machine (JSON)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from persistence.exposure import exposures, worst
from persistence.model import Dataset, Method, Ref, Status
from persistence.platform import Platform
from persistence.recovery import Risk, Step
from persistence.transitions import Event
from persistence.wording import counted, say_bytes, say_list, say_seconds


def dataset_table(datasets: Sequence[Dataset], states: dict[Ref, Status]) -> Table:
    """Datasets as a table: state, size, and how each went to the under-store."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("dataset", "state", "size", "rows", "persisted", "predicted", "actual"):
        right = column in ("size", "rows", "predicted", "actual")
        table.add_column(column, justify="right" if right else "left", no_wrap=True)
    for d in sorted(datasets, key=lambda d: d.ref):
        rows = "" if d.rows is None else f"{d.rows:,}"
        predicted = say_seconds(d.predicted_seconds) if d.persisted and d.predicted_seconds is not None else ""
        actual = say_seconds(d.actual_seconds) if d.actual_seconds is not None else ""
        table.add_row(
            str(d.ref), _COLOURED.get(states[d.ref], states[d.ref].value), say_bytes(d.bytes), rows, how_persisted(d),
            predicted, actual,
        )  # fmt: skip
    return table


_COLOURED = {
    Status.PERSISTED: "[green]persisted[/green]",
    Status.LOST: "[red]lost[/red]",
    Status.IRRECOVERABLE: "[bold red]irrecoverable[/bold red]",
    Status.CACHED: "[yellow]cached[/yellow]",
    Status.PERSISTING: "[cyan]persisting[/cyan]",
}


def how_persisted(dataset: Dataset) -> str:
    """`data`, `data (sync)` if before it was committed, `operation`, or nothing yet."""
    if not dataset.persisted or dataset.method is None:
        return ""
    before = dataset.committed_at is not None and (dataset.persisted_at or 0) <= dataset.committed_at
    if dataset.method is Method.DATA and before:
        return "data (sync)"
    return dataset.method.value


def say_event(event: str) -> str:
    """A change of state as a person says it."""
    told = {Event.UNDER_LOST.value: "lost from the under-store", Event.WRITTEN_DOWN.value: "written straight down"}
    return told.get(event, event)


def worst_moment(platform: Platform, *, since: float = 0.0) -> tuple[float, Risk] | None:
    """The moment since then at which a loss of the cache would have cost most, and what it would have cost."""
    moments = platform.catalog.history(since=since)
    refs = list(dict.fromkeys(moment.ref for moment in moments))
    lineage = platform.catalog.lineage_around(refs, down=False)
    found = worst(exposures(lineage, moments, platform.catalog.costs(lineage)))
    return (found.at, found.risk) if found else None


def say_risk(risk: Risk) -> str:
    """A risk in one sentence."""
    if not risk.bytes:
        return "nothing would be lost."
    gone = (
        f"{say_bytes(risk.irrecoverable_bytes)} would be gone for good ({say_list(risk.irrecoverable)})"
        if risk.irrecoverable
        else "nothing would be gone for good"
    )
    back = (
        f"{say_bytes(risk.recomputable_bytes)} in {counted(len(risk.recomputable), 'dataset')} would have to be "
        f"made again, in about {say_seconds(risk.recompute_seconds)}"
        if risk.recomputable
        else "nothing would have to be made again"
    )
    return f"{gone}; {back}."


def row_of(dataset: Dataset, state: Status) -> dict[str, Any]:
    """A dataset as the JSON of `status` has it."""
    return {
        "dataset": str(dataset.ref),
        "status": state.value,
        "bytes": dataset.bytes,
        "rows": dataset.rows,
        "digest": dataset.digest,
        "strategy": dataset.strategy.value,
        "persisted": how_persisted(dataset),
        "predicted_seconds": dataset.predicted_seconds,
        "actual_seconds": dataset.actual_seconds,
        "error": dataset.error,
    }


def risk_row(risk: Risk) -> dict[str, Any]:
    """A risk as JSON has it."""
    return {
        "bytes": risk.bytes,
        "recomputable_bytes": risk.recomputable_bytes,
        "recompute_seconds": risk.recompute_seconds,
        "irrecoverable_bytes": risk.irrecoverable_bytes,
        "irrecoverable": [str(ref) for ref in risk.irrecoverable],
    }


def recovery_row(steps: Iterable[Step], seconds: float, irrecoverable: Mapping[Ref, Iterable[str]]) -> dict[str, Any]:
    """A recovery, planned or carried out, as JSON has it; `irrecoverable` with the causes."""
    return {
        "steps": [{"dataset": str(step.ref), "action": step.action, "words": step.words} for step in steps],
        "seconds": seconds,
        "irrecoverable": {str(ref): list(why) for ref, why in irrecoverable.items()},
    }


def console() -> Console:
    """A console as wide as the terminal; into a file or a pipe, wide enough for a table."""
    return Console(width=None if sys.stdout.isatty() else 160, highlight=False)


def print_json(value: object) -> None:
    """Print a value as JSON, names in their own script."""
    print(json.dumps(value, ensure_ascii=False, indent=2))
