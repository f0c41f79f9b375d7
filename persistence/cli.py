"""The command line: look at datasets, ask why, and act; every command also speaks JSON."""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer
from rich.table import Table

from persistence import planning
from persistence.errors import PersistenceError
from persistence.explain import explain as explain_one
from persistence.model import Phase, Ref
from persistence.monitoring.alerts import standing_in_all
from persistence.monitoring.logs import about, start_logging
from persistence.monitoring.measuring import Gauges
from persistence.monitoring.settings import MonitoringSettings
from persistence.persister import Outcome
from persistence.platform import Platform, open_platform, policy_of
from persistence.recovery import at_risk
from persistence.redacting import redacted, traceback_without_secrets
from persistence.replacement import evicted_by_hand
from persistence.settings import Settings
from persistence.telling import console, dataset_table, print_json, risk_row, row_of, say_event, say_risk, worst_moment
from persistence.wording import counted, say_bytes, say_list, say_seconds

logger = logging.getLogger("springline.persister")

app = typer.Typer(help=__doc__, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)

Json = Annotated[bool, typer.Option("--json", help="Print JSON")]
Dry = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing")]
_MOST_ROWS = 1000


@app.command()
def status(
    prefix: Annotated[str, typer.Argument(help="Only paths that begin so")] = "",
    all_: Annotated[bool, typer.Option("--all", help="Superseded, retired and abandoned generations too")] = False,
    as_json: Json = False,
) -> None:
    """List datasets: where each is, how it was persisted, predicted and actual seconds."""
    with _platform() as platform:
        found = platform.catalog.find(prefix=prefix, superseded=None if all_ else False, limit=_MOST_ROWS)
        shown = [d for d in found if all_ or d.phase in (Phase.OPEN, Phase.COMMITTED)]
        lineage = platform.catalog.lineage_around([d.ref for d in shown], down=False)
        states = {d.ref: d.status(recomputable=lineage.recomputable(d.ref)) for d in shown}
        if as_json:
            print_json([row_of(d, states[d.ref]) for d in shown])
            return
        out = console()
        if not shown:
            out.print("No datasets yet." if not prefix else f"No datasets below {prefix!r}.")
            return
        out.print(dataset_table(shown, states))
        counts = Counter(states.values())
        told = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        used, capacity = platform.catalog.cache_used(), platform.settings.cache_capacity
        out.print(f"{told}; cache {say_bytes(used)} of {say_bytes(capacity)}; {platform.claims.depth()} in the queue")
        if len(found) == _MOST_ROWS:
            out.print(f"Only the newest {_MOST_ROWS} are listed; give a prefix.")


@app.command()
def explain(
    path: Annotated[str, typer.Argument(help="A dataset path, or path@generation")], as_json: Json = False
) -> None:
    """Say where a dataset is, why there in the queue, how it is sent, and what would bring it back."""
    with _platform() as platform:
        ref = Ref.parse(path) if "@" in path else None
        told = explain_one(platform, ref.path if ref else path, ref.generation if ref else None)
        if as_json:
            print_json(told.as_dict())
            return
        out = console()
        for title, words in told.paragraphs():
            out.print(f"[bold]{title}[/bold]")
            out.print(f"  {words}\n", markup=False)
        out.print("[bold]What happened to it[/bold]")
        start = told.moments[0].at if told.moments else 0.0
        for moment in told.moments:
            why = f": {moment.why}" if moment.why else ""
            out.print(f"  +{moment.at - start:8.2f} s  {say_event(moment.event)}{why}", markup=False)


@app.command("at-risk")
def at_risk_(
    history: Annotated[bool, typer.Option("--history", help="Find the worst moment so far")] = False,
    as_json: Json = False,
) -> None:
    """Say what a loss of the whole cache now would cost."""
    with _platform() as platform:
        lineage = platform.catalog.lineage_of_cache()
        risk = at_risk(lineage, platform.catalog.costs(lineage))
        found = worst_moment(platform) if history else None
        if as_json:
            print_json({"now": risk_row(risk), "worst": {"at": found[0], **risk_row(found[1])} if found else None})
            return
        out = console()
        out.print(f"If the cache were lost now: {say_risk(risk)}")
        if found:
            out.print(f"At the worst moment so far: {say_risk(found[1])}")


@app.command()
def alerts(as_json: Json = False) -> None:
    """List the alerts that stand, of datasets and of streams, and what is about to become one."""
    found = standing_in_all(MonitoringSettings().alerts_folder)
    if as_json:
        print_json([asdict(each) for each in found])
        return
    out = console()
    if not found:
        out.print("No alert stands.")
        return
    table = Table("alert", "severity", "since", "value", "what it means", box=None, header_style="bold")
    for each in found:
        since = datetime.fromtimestamp(each.since).astimezone().isoformat(sep=" ", timespec="seconds")
        table.add_row(each.key, each.severity if each.told else "not yet", since, f"{each.value:g}", each.words)
    out.print(table)


@app.command()
def plan(
    what_if: Annotated[
        list[str], typer.Option(help="policy=NAME, bandwidth=BYTES_A_SECOND or cache=lost; may be repeated")
    ] = [],  # noqa: B006  (typer reads the default once)
    limit: Annotated[int, typer.Option(help="At most so many transfers")] = 50,
    as_json: Json = False,
) -> None:
    """Show what is persisted next, in order and why; or what would be, if things were otherwise."""
    with _platform() as platform:
        chosen = _what_if(what_if)
        if chosen.get("cache") == "lost":
            _plan_after_loss(platform, as_json)
            return
        catalog = platform.catalog
        refs = platform.claims.waiting(10 * limit)
        lineage = catalog.lineage_around(refs)
        costs = catalog.costs(lineage)
        if "bandwidth" in chosen:
            costs = planning.with_bandwidth(costs, _bandwidth(chosen["bandwidth"]))
        policy = policy_of(platform.settings, chosen.get("policy", ""))
        planned = planning.plan_queue(
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


@app.command()
def persist(
    forever: Annotated[bool, typer.Option(help="Go on when the queue is empty")] = False,
    patience: Annotated[float, typer.Option(help="Seconds to go on trying when nothing can be sent")] = 60.0,
    as_json: Json = False,
) -> None:
    """Work on the queue, low in priority, until it is empty."""
    os.nice(10)
    start_logging(MonitoringSettings(), sys.stdout)
    with _platform() as platform:
        platform.store.register_operations(platform.runner.operations().values())

        gauges = Gauges(platform)

        def tell(outcome: Outcome) -> None:
            gauges.tell()
            if as_json:
                return
            with about(dataset=str(outcome.ref), method=outcome.method.value):
                if outcome.error:
                    logger.warning("%s: %s failed: %s", outcome.ref, outcome.method, outcome.error)
                else:
                    logger.info("%s: %s in %s", outcome.ref, outcome.method, say_seconds(outcome.actual_seconds))

        summary = platform.persister.drain(patience=float("inf") if forever else patience, told=tell)
        while forever:
            gauges.tell()
            platform.persister.sleep(1.0)
            summary = platform.persister.drain(patience=float("inf"), told=tell)
        if as_json:
            print_json({"persisted": summary.persisted, "left": summary.left})
        else:
            logger.info("%s persisted, %s left", summary.persisted, summary.left)
        if summary.left:
            raise typer.Exit(1)


@app.command()
def recover(
    paths: Annotated[list[str], typer.Argument(help="Dataset paths; none: everything that was lost")] = [],  # noqa: B006
    deep: Annotated[bool, typer.Option(help="Compare checksums, not only names and sizes")] = False,
    dry_run: Dry = False,
    as_json: Json = False,
) -> None:
    """Find what was lost and bring it back by running its operations again; name what cannot come back."""
    with _platform() as platform:
        platform.store.register_operations(platform.runner.operations().values())
        scan = platform.maintenance.scan(deep=deep)
        targets = [platform.catalog.resolve(p).ref for p in paths] or [d.ref for d in platform.maintenance.lost()]
        planned = platform.restorer.plan(targets)
        if dry_run:
            steps, irrecoverable, seconds = list(planned.steps), dict(planned.irrecoverable), planned.seconds
        else:
            report = platform.restorer.bring_back(targets)
            steps, irrecoverable, seconds = report.steps, report.irrecoverable, report.seconds
        if as_json:
            print_json(
                {
                    "looked_at": scan.looked_at,
                    "found_lost": [str(ref) for ref in scan.lost],
                    "steps": [{"dataset": str(s.ref), "action": s.action, "words": s.words} for s in steps],
                    "seconds": seconds,
                    "irrecoverable": {str(ref): list(why) for ref, why in irrecoverable.items()},
                }
            )
        else:
            below = sum(dataset.persisted for dataset in platform.catalog.get_all(scan.lost))
            still = f", {below} of them persisted and read from the under-store" if below else ""
            print(f"{scan.looked_at} looked at, {len(scan.lost)} found lost{still}")
            for step in steps:
                print(f"  {'would ' if dry_run else ''}{step.words}")
            print(f"{counted(len(steps), 'step')}, {say_seconds(seconds)}{' predicted' if dry_run else ''}", flush=True)
            for ref, why in irrecoverable.items():
                print(f"cannot be brought back: {ref}: {'; '.join(why)}", file=sys.stderr)
        if irrecoverable:
            raise typer.Exit(1)


@app.command()
def evict(
    paths: Annotated[list[str], typer.Argument(help="Persisted datasets to let go")] = [],  # noqa: B006
    size: Annotated[int, typer.Option("--bytes", help="Let go so many bytes, chosen by the rules")] = 0,
    dry_run: Dry = False,
    as_json: Json = False,
) -> None:
    """Let datasets go from the cache: those named, or what the rules choose."""
    with _platform() as platform:
        if paths:
            named = [platform.catalog.resolve(path) for path in paths]
            for dataset in named:
                if not dataset.persisted:
                    raise PersistenceError(f"{dataset.ref} is not persisted; only persisted ones go by hand")
            victims, short = [evicted_by_hand(d.ref, d.bytes) for d in named if d.in_cache], 0
        else:
            chosen = platform.replacement.plan(size)
            victims, short = list(chosen.victims), chosen.short
        gone = victims if dry_run else [victim for victim in victims if platform.replacement.evict(victim)]
        if as_json:
            print_json(
                {"evicted": [{"dataset": str(v.ref), "rule": v.rule, "why": v.words} for v in gone], "short": short}
            )
            return
        for victim in gone:
            print(f"{victim.ref}: {'would go' if dry_run else 'went'}, {victim.rule}: {victim.words}")
        freed, datasets = say_bytes(sum(victim.bytes for victim in gone)), counted(len(gone), "dataset")
        print(f"{freed} in {datasets}{' would go' if dry_run else ''}")
        if short:
            print(f"{say_bytes(short)} more must stay: they are neither persisted nor safe to make again")


@app.command()
def pin(
    path: Annotated[str, typer.Argument(help="A dataset path")],
    off: Annotated[bool, typer.Option("--off", help="Let it go again")] = False,
) -> None:
    """Keep a dataset in the cache, and its generation from being retired, until the pin is taken off."""
    with _platform() as platform:
        ref = platform.catalog.resolve(path).ref
        platform.catalog.amend(ref, event="unpinned" if off else "pinned", why="asked for by hand", pinned=not off)
        print(f"{ref}: {'no longer pinned' if off else 'pinned'}")


@app.command()
def retire(as_json: Json = False) -> None:
    """Remove superseded generations that nobody reads, and what dead writers left."""
    with _platform() as platform:
        retired, swept = platform.maintenance.retire(), platform.maintenance.sweep()
        if as_json:
            print_json({"retired": [str(ref) for ref in retired], "swept": [str(ref) for ref in swept]})
        else:
            print(f"{len(retired)} retired{f': {say_list(retired)}' if retired else ''}, {len(swept)} swept")


@app.command()
def rebuild(as_json: Json = False) -> None:
    """Fill an empty catalog again from the sidecar files beside the persisted data."""
    with _platform() as platform:
        report = platform.maintenance.rebuild()
        if as_json:
            print_json(
                {
                    "found": [str(ref) for ref in report.found],
                    "without_source": {str(ref): why for ref, why in report.without_source.items()},
                    "unreadable": report.unreadable,
                }
            )
        else:
            print(f"{len(report.found)} generations found in the under-store")
            for ref, missing in report.without_source.items():
                print(f"  {ref}: its sources {say_list(missing)} are not persisted; it cannot be made again")
            for problem in report.unreadable:
                print(f"  {problem}", file=sys.stderr)


@app.command()
def adopt(
    path: Annotated[str, typer.Argument(help="The dataset path to give it")],
    location: Annotated[str, typer.Argument(help="Where its files are, relative to the under-store's root")],
) -> None:
    """Record files that are in the under-store already as the next generation of a dataset."""
    with _platform() as platform:
        dataset = platform.maintenance.adopt(path, location)
        print(f"{dataset.ref}: {say_bytes(dataset.bytes)} adopted from {location}")


@app.command()
def settings(
    markdown: Annotated[bool, typer.Option(help="As the table of the documentation")] = False,
) -> None:
    """List the settings, each with its environment variable and what it is now."""
    now = Settings()
    if markdown:
        print("| setting | default | what it is |\n|---|---|---|")
    for name, field in Settings.model_fields.items():
        variable = f"SPRINGLINE_{name.upper()}"
        if markdown:
            default = "`var/` beside the packages" if name == "home" else f"`{field.default!r}`"
            print(f"| `{variable}` | {default} | {field.description} |")
        else:
            print(f"{variable}={redacted(str(getattr(now, name)))}\n    {field.description}")


def _plan_after_loss(platform: Platform, as_json: bool) -> None:
    lineage = platform.catalog.lineage_of_cache()
    planned = planning.if_the_cache_were_lost(lineage, platform.catalog.costs(lineage))
    if as_json:
        print_json(
            {
                "steps": [{"dataset": str(s.ref), "action": s.action, "words": s.words} for s in planned.steps],
                "seconds": planned.seconds,
                "irrecoverable": {str(ref): list(why) for ref, why in planned.irrecoverable.items()},
            }
        )
        return
    for step in planned.steps:
        print(f"  would {step.words}")
    print(f"{counted(len(planned.steps), 'step')}, about {say_seconds(planned.seconds)}")
    for ref, why in planned.irrecoverable.items():
        print(f"would be gone for good: {ref}: {'; '.join(why)}")


def _what_if(given: Sequence[str]) -> dict[str, str]:
    chosen = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or key not in ("policy", "bandwidth", "cache") or (key == "cache" and value != "lost"):
            raise PersistenceError(f"--what-if {item!r}: give policy=NAME, bandwidth=BYTES or cache=lost")
        chosen[key] = value
    return chosen


def _bandwidth(text: str) -> float:
    units = {"k": 1e3, "M": 1e6, "G": 1e9}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    try:
        value = float(number) * unit
    except ValueError:
        value = 0.0
    if value <= 0:
        raise PersistenceError(f"bandwidth {text!r}: give bytes a second, such as 50M")
    return value


@contextmanager
def _platform() -> Iterator[Platform]:
    platform = open_platform(who=f"command line of {os.environ.get('USER') or os.getuid()}")
    try:
        yield platform
    finally:
        platform.close()


def main() -> None:
    """Run the command line; a known error is one line and exit status 2."""
    try:
        with traceback_without_secrets(PersistenceError, ValueError):
            app()
    except (PersistenceError, ValueError) as error:
        print(f"persistence: {redacted(str(error))}", file=sys.stderr)
        raise SystemExit(2) from None
