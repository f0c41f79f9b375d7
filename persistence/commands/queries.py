"""Commands that look: what there is, why, what is at risk, what comes next."""

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

from springline.persistence.commands.arguments import NOT_SO, Json, opened
from springline.persistence.decisions import queue_plan
from springline.persistence.decisions.recovery import at_risk as risk_of
from springline.persistence.errors import UsageError
from springline.persistence.explain import explain as explained
from springline.persistence.model.dataset import Ref
from springline.persistence.platform import Platform
from springline.persistence.policies import policy_of
from springline.persistence.rendering import (
    dataset_table,
    recovery_row,
    risk_row,
    row_of,
    say_away,
    say_event,
    say_risk,
    worst_moment,
)
from springline.persistence.text.formatting import counted, parse_bytes, say_bytes, say_seconds
from springline.persistence.text.terminal import console, print, print_json

_MOST_ROWS = 1000


def list_datasets(
    prefix: Annotated[str, typer.Argument(help="Only paths that begin so")] = "",
    all_: Annotated[bool, typer.Option("--all", help="Superseded, retired and abandoned generations too")] = False,
    as_json: Json = False,
) -> None:
    """List datasets: where each is, how it was persisted, predicted and actual seconds."""
    with opened() as platform:
        shown = platform.catalog.find(
            prefix=prefix, live=not all_, superseded=None if all_ else False, limit=_MOST_ROWS
        )
        lineage = platform.catalog.lineage_around([d.ref for d in shown], down=False)
        states = {d.ref: d.status(recomputable=lineage.recomputable(d.ref)) for d in shown}
        away = platform.watch.why_away()
        if as_json:
            print_json([row_of(d, states[d.ref], away) for d in shown])
            return
        out = console()
        if not shown:
            out.print("No datasets yet." if not prefix else f"No datasets below {prefix!r}.")
            return
        out.print(dataset_table(shown, states, away=bool(away)))
        counts = Counter(states.values())
        told = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        used, capacity = platform.catalog.cache_used(), platform.settings.cache_capacity
        out.print(f"{told}; cache {say_bytes(used)} of {say_bytes(capacity)}; {platform.claims.depth()} in the queue")
        if len(shown) == _MOST_ROWS:
            out.print(f"Only the newest {_MOST_ROWS} are listed; give a prefix.")
        if away:
            out.print(say_away(platform, away), style="red", markup=False)


def show(
    path: Annotated[str, typer.Argument(help="A dataset path, or path@generation")], as_json: Json = False
) -> None:
    """Show what the catalog has of a dataset: its state, what made it of what, and where its files are."""
    with opened() as platform:
        dataset = platform.catalog.get(Ref.parse(path)) if "@" in path else platform.catalog.resolve(path)
        lineage = platform.catalog.lineage_around([dataset.ref], down=False)
        state = dataset.status(recomputable=lineage.recomputable(dataset.ref))
        fields = {
            **row_of(dataset, state, platform.watch.why_away()),
            "operation": dataset.call.name if dataset.call else None,
            "version": dataset.call.version if dataset.call else None,
            "parameters": dict(dataset.call.params) if dataset.call else {},
            "sources": [str(source) for source in dataset.sources],
            "pinned": dataset.pinned,
            "made_seconds": dataset.made_seconds,
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
            table.add_row(name.replace("_", " "), escape(_written(name, value)))
    console().print(table)


def _written(name: str, value: object) -> str:
    if isinstance(value, float):
        return say_seconds(value) if name.endswith("_seconds") else _moment(value)
    if name == "bytes" and isinstance(value, int):
        return say_bytes(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={each}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(sep=" ", timespec="seconds")


def explain(
    path: Annotated[str, typer.Argument(help="A dataset path, or path@generation")], as_json: Json = False
) -> None:
    """Say where a dataset is, why there in the queue, how it is sent, and what would bring it back."""
    with opened() as platform:
        ref = Ref.parse(path) if "@" in path else None
        told = explained(platform, ref.path if ref else path, ref.generation if ref else None)
        if as_json:
            print_json(told.as_dict())
            return
        out = console()
        for title, words in told.paragraphs():
            out.print(f"[bold]{title}[/bold]")
            indented = fill(words, out.width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
            out.print(f"{indented}\n", markup=False, soft_wrap=True)
        out.print("[bold]What happened to it[/bold]")
        start = told.moments[0].at if told.moments else 0.0
        for moment in told.moments:
            why = f": {moment.why}" if moment.why else ""
            out.print(f"  +{moment.at - start:8.2f} s  {say_event(moment.event)}{why}", markup=False)


def risk(
    history: Annotated[bool, typer.Option("--history", help="Find the worst moment so far")] = False,
    as_json: Json = False,
) -> None:
    """Say what a loss of the whole cache would cost now.

    While the under-store is away, its copies do not count. Exit status 3: something would be gone for good.
    """
    with opened() as platform:
        away = platform.watch.why_away()
        lineage = platform.catalog.lineage_of_cache(away=bool(away))
        now = risk_of(lineage, platform.catalog.costs(lineage))
        found = worst_moment(platform) if history else None
        if as_json:
            print_json(
                {
                    "now": risk_row(now),
                    "worst": {"at": found[0], **risk_row(found[1])} if found else None,
                    "under_store_away": away,
                    "believed": asdict(platform.catalog.belief()) if away else None,
                }
            )
        else:
            out = console()
            if away:
                out.print(say_away(platform, away), style="red", markup=False)
            out.print(f"If the cache were lost now: {say_risk(now)}")
            if found:
                out.print(f"At the worst moment so far: {say_risk(found[1])}")
        if now.irrecoverable:
            raise typer.Exit(NOT_SO)


def list_queue(
    what_if: Annotated[
        list[str], typer.Option(help="policy=NAME, bandwidth=BYTES_A_SECOND or cache=lost; may be repeated")
    ] = [],  # noqa: B006  (typer reads the default once)
    limit: Annotated[int, typer.Option(min=1, help="At most so many transfers")] = 50,
    as_json: Json = False,
) -> None:
    """Show what is persisted next, in order and why; or what would be, if things were otherwise."""
    with opened() as platform:
        chosen = _what_if(what_if)
        if chosen.get("cache") == "lost":
            _plan_after_loss(platform, as_json)
            return
        catalog = platform.catalog
        refs = platform.claims.waiting(10 * limit)
        lineage = catalog.lineage_around(refs)
        costs = catalog.costs(lineage)
        if "bandwidth" in chosen:
            costs = queue_plan.with_bandwidth(costs, _bandwidth(chosen["bandwidth"]))
        policy = policy_of(platform.settings, chosen.get("policy", ""))
        planned = queue_plan.plan_queue(
            refs, lineage, costs, policy, small_bytes=platform.settings.small_bytes, now=catalog.now()
        )[:limit]
        if as_json:
            print_json(
                [
                    {
                        "turn": p.turn, "dataset": str(p.ref), "score": p.score.value, "terms": dict(p.score.terms),
                        "why": p.score.words, "method": p.plan.method.value, "how": p.plan.words,
                        "through_in": p.through_in,
                    }
                    for p in planned
                ]
            )  # fmt: skip
            return
        out = console()
        if not planned:
            out.print("Nothing waits to be persisted.")
            return
        table = Table("turn", "dataset", "how", "through in", "why", box=None, header_style="bold")
        for p in planned:
            through = say_seconds(p.through_in) if p.through_in is not None else "?"
            table.add_row(str(p.turn), str(p.ref), p.plan.method.value, through, p.score.words)
        out.print(table)


def _plan_after_loss(platform: Platform, as_json: bool) -> None:
    lineage = platform.catalog.lineage_of_cache(away=bool(platform.watch.why_away()))
    planned = queue_plan.if_the_cache_were_lost(lineage, platform.catalog.costs(lineage))
    if as_json:
        told = {str(ref): list(why) for ref, why in planned.unproven.items()}
        print_json({**recovery_row(planned.steps, planned.seconds, planned.irrecoverable), "unproven": told})
        return
    for step in planned.steps:
        print(f"  would {step.words}")
    print(f"{counted(len(planned.steps), 'step')}, about {say_seconds(planned.seconds)}")
    for ref, why in planned.unproven.items():
        print(f"might be gone for good: {ref}: {'; '.join(why)}")
    for ref, why in planned.irrecoverable.items():
        print(f"would be gone for good: {ref}: {'; '.join(why)}")


def _what_if(given: Sequence[str]) -> dict[str, str]:
    chosen = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or key not in ("policy", "bandwidth", "cache") or (key == "cache" and value != "lost"):
            raise UsageError(f"--what-if {item!r}: give policy=NAME, bandwidth=BYTES or cache=lost")
        chosen[key] = value
    return chosen


def _bandwidth(text: str) -> float:
    try:
        value = int(str(parse_bytes(text)))
    except ValueError:
        value = 0
    if value <= 0:
        raise UsageError(f"bandwidth {text!r}: give bytes a second, such as 50MB")
    return value
