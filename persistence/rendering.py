"""Presentation of datasets and risks for people (tables, sentences) and for programs (JSON)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table

from springline.persistence.catalog.unverified_copies import describe_unverified_copies
from springline.persistence.decisions.exposure import find_worst_exposure
from springline.persistence.decisions.recovery import RecoveryStep, Risk
from springline.persistence.model.dataset import Dataset, DatasetStatus, Ref, TransferMethod
from springline.persistence.platform import Platform
from springline.persistence.text.formatting import format_bytes, format_count, format_list, format_seconds


def dataset_table(
    datasets: Sequence[Dataset], states: dict[Ref, DatasetStatus], *, is_under_store_away: bool = False
) -> Table:
    """Return a table of datasets with state, size and transfer.

    `is_under_store_away`: the under-store is unavailable.
    """
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("dataset", "state", "size", "rows", "persisted", "predicted", "actual"):
        right = column in ("size", "rows", "predicted", "actual")
        table.add_column(column, justify="right" if right else "left", no_wrap=True)
    for d in sorted(datasets, key=lambda d: d.ref):
        rows = "" if d.rows is None else f"{d.rows:,}"
        predicted = format_seconds(d.predicted_seconds) if d.persisted and d.predicted_seconds is not None else ""
        actual = format_seconds(d.actual_seconds) if d.actual_seconds is not None else ""
        table.add_row(
            str(d.ref), _STATUS_MARKUP.get(states[d.ref], states[d.ref].value), format_bytes(d.bytes), rows,
            _format_persisted(d, is_under_store_away=is_under_store_away),
            predicted, actual,
        )  # fmt: skip
    return table


def _format_persisted(dataset: Dataset, *, is_under_store_away: bool) -> str:
    method = persist_method(dataset)
    return f"{method or 'adopted'}, unavailable" if is_under_store_away and dataset.persisted else method


_STATUS_MARKUP = {
    DatasetStatus.PERSISTED: "[green]persisted[/green]",
    DatasetStatus.LOST: "[red]lost[/red]",
    DatasetStatus.IRRECOVERABLE: "[bold red]irrecoverable[/bold red]",
    DatasetStatus.CACHED: "[yellow]cached[/yellow]",
    DatasetStatus.PERSISTING: "[cyan]persisting[/cyan]",
}


def persist_method(dataset: Dataset) -> str:
    """Return `data`, `data (sync)` if before it was committed, `operation`, or "" if it is not persisted."""
    if not dataset.persisted or dataset.method is None:
        return ""
    before = dataset.committed_at is not None and (dataset.persisted_at or 0) <= dataset.committed_at
    if dataset.method is TransferMethod.DATA and before:
        return "data (sync)"
    return dataset.method.value


def format_event(event: str) -> str:
    """Return the label of a change of state."""
    return event.replace("under_store", "under-store").replace("_", " ")


def worst_moment(platform: Platform, *, since: float = 0.0) -> tuple[float, Risk] | None:
    """Return the time after `since` when a loss of the cache would have cost most, with the risk at that time."""
    moments = platform.catalog.history()
    refs = list(dict.fromkeys(moment.ref for moment in moments))
    lineage = platform.catalog.lineage_around(refs, down=False)
    worst = find_worst_exposure(lineage, moments, platform.catalog.load_cost_model(lineage), since=since)
    return (worst.timestamp, worst.risk) if worst else None


def format_risk(risk: Risk) -> str:
    """Describe a risk in one sentence."""
    if not risk.bytes:
        return "nothing would be lost."
    parts = []
    if risk.irrecoverable:
        parts.append(
            f"{format_bytes(risk.irrecoverable_bytes)} would be irrecoverable ({format_list(risk.irrecoverable)})"
        )
    if risk.unproven:
        parts.append(
            f"{format_bytes(risk.unproven_bytes)} might be irrecoverable "
            f"({format_list(risk.unproven)}), made by operations "
            "that are declared idempotent, but not proven"
        )
    if not parts:
        parts.append("nothing would be irrecoverable")
    duration = f"in about {format_seconds(risk.recompute_seconds)}"
    if risk.recomputable:
        recomputable = f"{format_bytes(risk.recomputable_bytes)} in {format_count(len(risk.recomputable), 'dataset')}"
        parts.append(f"{recomputable} would have to be recomputed{', all' if risk.unproven else ','} {duration}")
    elif risk.unproven:
        parts.append(f"Springline would try to recompute them, {duration}")
    else:
        parts.append("nothing would have to be recomputed")
    return f"{'; '.join(parts)}."


def dataset_row(dataset: Dataset, state: DatasetStatus, unavailable_reason: str) -> dict[str, Any]:
    """Return a dataset as JSON values; `unavailable_reason`: why the under-store does not respond."""
    return {
        "dataset": str(dataset.ref),
        "status": state.value,
        "bytes": dataset.bytes,
        "rows": dataset.rows,
        "digest": dataset.digest,
        "strategy": dataset.strategy.value,
        "persisted": persist_method(dataset),
        "under_store_away": unavailable_reason if dataset.persisted else "",
        "predicted_seconds": dataset.predicted_seconds,
        "actual_seconds": dataset.actual_seconds,
        "error": dataset.error,
    }


def risk_row(risk: Risk) -> dict[str, Any]:
    """Return a risk as JSON values."""
    return {
        "bytes": risk.bytes,
        "recomputable_bytes": risk.recomputable_bytes,
        "unproven_bytes": risk.unproven_bytes,
        "irrecoverable_bytes": risk.irrecoverable_bytes,
        "recompute_seconds": risk.recompute_seconds,
        "unproven": [str(ref) for ref in risk.unproven],
        "irrecoverable": [str(ref) for ref in risk.irrecoverable],
    }


def recovery_row(
    steps: Iterable[RecoveryStep], seconds: float, irrecoverable: Mapping[Ref, Iterable[str]]
) -> dict[str, Any]:
    """Return a planned or executed recovery as JSON values; `irrecoverable` with the causes."""
    return {
        "steps": [{"dataset": str(step.ref), "action": step.action, "summary": step.summary} for step in steps],
        "seconds": seconds,
        "irrecoverable": {str(ref): list(reasons) for ref, reasons in irrecoverable.items()},
    }


def format_unavailability(platform: Platform, unavailable_reason: str) -> str:
    """Describe in one or two sentences that the under-store does not respond; empty if it does."""
    if not unavailable_reason:
        return ""
    stop = "" if unavailable_reason.endswith((".", "?")) else "."
    return (
        f"{unavailable_reason[:1].upper()}{unavailable_reason[1:]}{stop} "
        f"{describe_unverified_copies(platform.catalog.unverified_copies())}"
    )
