"""Commands that query datasets: what exists, explanations, what is at risk, what is persisted next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from textwrap import fill
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from springline.persistence.commands.arguments import EXIT_CONDITION_FAILED, Json, platform_session
from springline.persistence.decisions import queue_plan
from springline.persistence.decisions.recovery import assess_risk
from springline.persistence.errors import UsageError
from springline.persistence.explain import explain as explain_dataset
from springline.persistence.model.dataset import Ref
from springline.persistence.platform import Platform
from springline.persistence.policies import load_policy
from springline.persistence.rendering import (
    dataset_row,
    dataset_table,
    format_event,
    format_risk,
    format_unavailability,
    recovery_row,
    risk_row,
    worst_moment,
)
from springline.persistence.text.formatting import format_bytes, format_count, format_list, format_seconds, parse_bytes
from springline.persistence.text.terminal import console, print, print_json

_MAX_ROWS = 1000


def list_datasets(
    prefix: Annotated[str, typer.Argument(help="List only paths with this prefix")] = "",
    all_: Annotated[bool, typer.Option("--all", help="Include superseded, retired and abandoned generations")] = False,
    as_json: Json = False,
) -> None:
    """List datasets with state and location, how they were persisted, and predicted and actual seconds."""
    with platform_session() as platform:
        datasets = platform.catalog.find(
            prefix=prefix, live=not all_, superseded=None if all_ else False, limit=_MAX_ROWS
        )
        lineage = platform.catalog.lineage_around([d.ref for d in datasets], down=False)
        states = {d.ref: d.status(recomputable=lineage.is_restorable(d.ref)) for d in datasets}
        unavailable_reason = platform.watch.unavailable_reason()
        if as_json:
            print_json([dataset_row(d, states[d.ref], unavailable_reason) for d in datasets])
            return
        out = console()
        if not datasets:
            out.print("No datasets yet." if not prefix else f"No datasets with the prefix {prefix!r}.")
            return
        out.print(dataset_table(datasets, states, is_under_store_away=bool(unavailable_reason)))
        counts = Counter(states.values())
        counts_text = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        used, capacity = platform.catalog.cache_used(), platform.replacement.capacity
        out.print(
            f"{counts_text}; cache {format_bytes(used)} of {format_bytes(capacity)}; "
            f"{platform.claims.depth()} in the queue"
        )
        if len(datasets) == _MAX_ROWS:
            out.print(f"Only the newest {_MAX_ROWS} are listed; give a prefix.")
        if unavailable_reason:
            out.print(format_unavailability(platform, unavailable_reason), style="red", markup=False)


def show(
    path: Annotated[str, typer.Argument(help="A dataset path, or path@generation")], as_json: Json = False
) -> None:
    """Show the catalog's record of a dataset: its state, its operation and sources, and where its files are."""
    with platform_session() as platform:
        dataset = platform.catalog.get(Ref.parse(path)) if "@" in path else platform.catalog.resolve(path)
        lineage = platform.catalog.lineage_around([dataset.ref], down=False)
        state = dataset.status(recomputable=lineage.is_restorable(dataset.ref))
        fields = {
            **dataset_row(dataset, state, platform.watch.unavailable_reason()),
            "operation": dataset.call.name if dataset.call else None,
            "version": dataset.call.version if dataset.call else None,
            "parameters": dict(dataset.call.params) if dataset.call else {},
            "sources": [str(source) for source in dataset.sources],
            "pinned": dataset.pinned,
            "compute_seconds": dataset.compute_seconds,
            "committed_at": dataset.committed_at,
            "persisted_at": dataset.persisted_at,
            "cache_uri": platform.cache.uri(dataset.cache_location) if dataset.in_cache else None,
            "under_uri": platform.under.uri(dataset.under_location) if dataset.persisted else None,
            "report": dataset.report,
        }
    if as_json:
        print_json(fields)
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in fields.items():
        if value not in (None, "", {}, []):
            table.add_row(name.replace("_", " "), escape(_format_field(name, value)))
    console().print(table)


def _format_field(name: str, value: object) -> str:
    if isinstance(value, float):
        return format_seconds(value) if name.endswith("_seconds") else _format_timestamp(value)
    if name == "bytes" and isinstance(value, int):
        return format_bytes(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={each}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _format_timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(sep=" ", timespec="seconds")


def explain(
    path: Annotated[str, typer.Argument(help="A dataset path, or path@generation")], as_json: Json = False
) -> None:
    """Explain where a dataset is, its position in the queue, how it is sent, and how it could be restored."""
    with platform_session() as platform:
        ref = Ref.parse(path) if "@" in path else None
        explanation = explain_dataset(platform, ref.path if ref else path, ref.generation if ref else None)
        if as_json:
            print_json(explanation.as_dict())
            return
        out = console()
        for title, paragraph in explanation.paragraphs():
            out.print(f"[bold]{title}[/bold]")
            indented = fill(paragraph, out.width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
            out.print(f"{indented}\n", markup=False, soft_wrap=True)
        out.print("[bold]History[/bold]")
        start = explanation.moments[0].timestamp if explanation.moments else 0.0
        for moment in explanation.moments:
            reason = f": {moment.reason}" if moment.reason else ""
            out.print(f"  +{moment.timestamp - start:8.2f} s  {format_event(moment.event)}{reason}", markup=False)


def risk(
    history: Annotated[
        bool, typer.Option("--history", help="Also show the worst risk in the recorded history")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what a loss of the whole cache would cost now.

    While the under-store is unavailable, its copies do not count. Exit status 3: data is or would be lost for good.
    """
    with platform_session() as platform:
        unavailable_reason = platform.watch.unavailable_reason()
        lineage = platform.catalog.lineage_of_cache(ignore_under_store=bool(unavailable_reason))
        now = assess_risk(lineage, platform.catalog.load_cost_model(lineage))
        lost = [dataset.ref for dataset in platform.maintenance.find_lost()]
        unrecoverable = platform.restorer.plan(lost).irrecoverable
        worst = worst_moment(platform) if history else None
        if as_json:
            print_json(
                {
                    "now": risk_row(now),
                    "lost": [str(ref) for ref in lost],
                    "worst": {"timestamp": worst[0], **risk_row(worst[1])} if worst else None,
                    "under_store_away": unavailable_reason,
                    "unverified_copies": asdict(platform.catalog.unverified_copies()) if unavailable_reason else None,
                }
            )
        else:
            out = console()
            if unavailable_reason:
                out.print(format_unavailability(platform, unavailable_reason), style="red", markup=False)
            if lost:
                irrecoverable = f", irrecoverable: {format_list(sorted(unrecoverable))}" if unrecoverable else ""
                text = f"Lost already: {format_list(lost)}{irrecoverable}; run `springline dataset recover`."
                out.print(text, style="red", markup=False)
            out.print(f"If the cache were lost now: {format_risk(now)}")
            if worst:
                out.print(f"At the worst time so far: {format_risk(worst[1])}")
        if now.irrecoverable or unrecoverable:
            raise typer.Exit(EXIT_CONDITION_FAILED)


def list_queue(
    what_if: Annotated[
        list[str], typer.Option(help="policy=NAME, bandwidth=BYTES_A_SECOND or cache=lost; may be repeated")
    ] = [],  # noqa: B006  (typer reads the default once)
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of transfers")] = 50,
    as_json: Json = False,
) -> None:
    """Show what is persisted next, in order and with reasons; with --what-if, under other assumptions."""
    with platform_session() as platform:
        assumptions = _parse_what_if(what_if)
        if assumptions.get("cache") == "lost":
            _print_plan_after_loss(platform, as_json)
            return
        catalog = platform.catalog
        refs = platform.claims.list_claimable(10 * limit)
        lineage = catalog.lineage_around(refs)
        costs = catalog.load_cost_model(lineage)
        if "bandwidth" in assumptions:
            costs = queue_plan.with_bandwidth(costs, _parse_bandwidth(assumptions["bandwidth"]))
        policy = load_policy(platform.settings, assumptions.get("policy", ""))
        queue = queue_plan.plan_queue(
            refs, lineage, costs, policy, small_bytes=platform.settings.min_operation_bytes, now=catalog.now()
        )[:limit]
        if as_json:
            print_json(
                [
                    {
                        "position": p.position, "dataset": str(p.ref), "score": p.score.value,
                        "terms": dict(p.score.terms),
                        "reason": p.score.reason, "method": p.plan.method.value, "method_reason": p.plan.reason,
                        "completes_in": p.completes_in,
                    }
                    for p in queue
                ]
            )  # fmt: skip
            return
        out = console()
        if not queue:
            out.print("The queue is empty.")
            return
        table = Table("#", "dataset", "method", "ETA", "reason", box=None, header_style="bold")
        for p in queue:
            completes_in = format_seconds(p.completes_in) if p.completes_in is not None else "?"
            table.add_row(str(p.position), str(p.ref), p.plan.method.value, completes_in, p.score.reason)
        out.print(table)


def _print_plan_after_loss(platform: Platform, as_json: bool) -> None:
    lineage = platform.catalog.lineage_of_cache(ignore_under_store=bool(platform.watch.unavailable_reason()))
    plan = queue_plan.plan_cache_loss_recovery(lineage, platform.catalog.load_cost_model(lineage))
    if as_json:
        unproven = {str(ref): list(reasons) for ref, reasons in plan.unproven.items()}
        print_json({**recovery_row(plan.steps, plan.seconds, plan.irrecoverable), "unproven": unproven})
        return
    for step in plan.steps:
        print(f"  would {step.summary}")
    print(f"{format_count(len(plan.steps), 'step')}, about {format_seconds(plan.seconds)}")
    for ref, reasons in plan.unproven.items():
        print(f"possibly irrecoverable: {ref}: {'; '.join(reasons)}")
    for ref, reasons in plan.irrecoverable.items():
        print(f"irrecoverable: {ref}: {'; '.join(reasons)}")


def _parse_what_if(assignments: Sequence[str]) -> dict[str, str]:
    assumptions = {}
    for item in assignments:
        key, equals, value = item.partition("=")
        if not equals or key not in ("policy", "bandwidth", "cache") or (key == "cache" and value != "lost"):
            raise UsageError(f"--what-if {item!r}: give policy=NAME, bandwidth=BYTES or cache=lost")
        assumptions[key] = value
    return assumptions


def _parse_bandwidth(text: str) -> float:
    try:
        value = int(str(parse_bytes(text)))
    except ValueError:
        value = 0
    if value <= 0:
        raise UsageError(f"bandwidth {text!r}: give bytes per second, such as 50MB")
    return value
