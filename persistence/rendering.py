"""How datasets and risks are shown to a person (tables, sentences) and told to a machine (JSON)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table

from springline.persistence.catalog.belief import say_belief
from springline.persistence.decisions.exposure import worst_exposure
from springline.persistence.decisions.recovery import Risk, Step
from springline.persistence.model.dataset import Dataset, Method, Ref, Status
from springline.persistence.model.transitions import Event
from springline.persistence.platform import Platform
from springline.persistence.text.formatting import counted, say_bytes, say_list, say_seconds


def dataset_table(datasets: Sequence[Dataset], states: dict[Ref, Status], *, away: bool = False) -> Table:
    """Datasets as a table: state, size, and how each went to the under-store, which may be `away`."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("dataset", "state", "size", "rows", "persisted", "predicted", "actual"):
        right = column in ("size", "rows", "predicted", "actual")
        table.add_column(column, justify="right" if right else "left", no_wrap=True)
    for d in sorted(datasets, key=lambda d: d.ref):
        rows = "" if d.rows is None else f"{d.rows:,}"
        predicted = say_seconds(d.predicted_seconds) if d.persisted and d.predicted_seconds is not None else ""
        actual = say_seconds(d.actual_seconds) if d.actual_seconds is not None else ""
        table.add_row(
            str(d.ref), _COLOURED.get(states[d.ref], states[d.ref].value), say_bytes(d.bytes), rows,
            f"{how_persisted(d) or 'there'}, away" if away and d.persisted else how_persisted(d), predicted, actual,
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
    moments = platform.catalog.history()
    refs = list(dict.fromkeys(moment.ref for moment in moments))
    lineage = platform.catalog.lineage_around(refs, down=False)
    worst = worst_exposure(lineage, moments, platform.catalog.costs(lineage), since=since)
    return (worst.at, worst.risk) if worst else None


def say_risk(risk: Risk) -> str:
    """A risk in one sentence."""
    if not risk.bytes:
        return "nothing would be lost."
    parts = []
    if risk.irrecoverable:
        parts.append(f"{say_bytes(risk.irrecoverable_bytes)} would be gone for good ({say_list(risk.irrecoverable)})")
    if risk.unproven:
        parts.append(
            f"{say_bytes(risk.unproven_bytes)} might be gone for good ({say_list(risk.unproven)}), made by operations "
            "that are declared idempotent and were never seen to repeat"
        )
    if not parts:
        parts.append("nothing would be gone for good")
    takes = f"in about {say_seconds(risk.recompute_seconds)}"
    if risk.recomputable:
        again = f"{say_bytes(risk.recomputable_bytes)} in {counted(len(risk.recomputable), 'dataset')}"
        parts.append(f"{again} would have to be made again{', all' if risk.unproven else ','} {takes}")
    elif risk.unproven:
        parts.append(f"making them again would be tried, {takes}")
    else:
        parts.append("nothing would have to be made again")
    return f"{'; '.join(parts)}."


def row_of(dataset: Dataset, state: Status, away: str) -> dict[str, Any]:
    """A dataset as the JSON of `status` has it; `away`: why its copy in the under-store cannot be asked for."""
    return {
        "dataset": str(dataset.ref),
        "status": state.value,
        "bytes": dataset.bytes,
        "rows": dataset.rows,
        "digest": dataset.digest,
        "strategy": dataset.strategy.value,
        "persisted": how_persisted(dataset),
        "under_store_away": away if dataset.persisted else "",
        "predicted_seconds": dataset.predicted_seconds,
        "actual_seconds": dataset.actual_seconds,
        "error": dataset.error,
    }


def risk_row(risk: Risk) -> dict[str, Any]:
    """A risk as JSON has it."""
    return {
        "bytes": risk.bytes,
        "recomputable_bytes": risk.recomputable_bytes,
        "unproven_bytes": risk.unproven_bytes,
        "irrecoverable_bytes": risk.irrecoverable_bytes,
        "recompute_seconds": risk.recompute_seconds,
        "unproven": [str(ref) for ref in risk.unproven],
        "irrecoverable": [str(ref) for ref in risk.irrecoverable],
    }


def recovery_row(steps: Iterable[Step], seconds: float, irrecoverable: Mapping[Ref, Iterable[str]]) -> dict[str, Any]:
    """A recovery, planned or carried out, as JSON has it; `irrecoverable` with the causes."""
    return {
        "steps": [{"dataset": str(step.ref), "action": step.action, "words": step.words} for step in steps],
        "seconds": seconds,
        "irrecoverable": {str(ref): list(why) for ref, why in irrecoverable.items()},
    }


def say_away(platform: Platform, away: str) -> str:
    """That the under-store does not answer, in one or two sentences; empty if it does."""
    if not away:
        return ""
    stop = "" if away.endswith((".", "?")) else "."
    return f"{away[:1].upper()}{away[1:]}{stop} {say_belief(platform.catalog.belief())}"
