"""Commands that act: persist, recover, evict, pin, retire, rebuild, adopt."""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated

import typer

from springline.persistence.commands.arguments import NOT_SO, Dry, Json, opened, size_of
from springline.persistence.decisions.eviction import Victim
from springline.persistence.engine.persister import Outcome
from springline.persistence.engine.replacement import evicted_by_hand
from springline.persistence.engine.restorer import Restored
from springline.persistence.engine.verification import why_away
from springline.persistence.errors import PersistenceError, UnderStoreUnavailableError, UsageError
from springline.persistence.metrics_collector import Gauges
from springline.persistence.monitoring.logs import about, start_logging
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.platform import Platform
from springline.persistence.rendering import recovery_row, say_away
from springline.persistence.text.formatting import counted, say_bytes, say_list, say_seconds
from springline.persistence.text.terminal import print, print_json, print_result, progress

logger = logging.getLogger("springline.persister")


def persist(
    forever: Annotated[bool, typer.Option(help="Go on when the queue is empty")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to go on trying when nothing can be sent")] = 60.0,
    as_json: Json = False,
) -> None:
    """Work on the queue, low in priority, until it is empty; with --forever also prove operations when it is."""
    os.nice(10)
    with progress("persisting what is in the queue", quiet=as_json) as say, opened(runs=True) as platform:
        start_logging(MonitoringSettings(), sys.stderr if as_json else sys.stdout)
        platform.store.register_operations(platform.runner.operations().values())

        gauges = Gauges(platform)

        def tell(outcome: Outcome) -> None:
            gauges.tell()
            say(f"persisting; the last was {outcome.ref}")
            if as_json:
                return
            with about(dataset=str(outcome.ref), method=outcome.method.value):
                if outcome.error:
                    logger.warning("%s: %s failed: %s", outcome.ref, outcome.method, outcome.error)
                else:
                    logger.info("%s: %s in %s", outcome.ref, outcome.method, say_seconds(outcome.actual_seconds))

        summary = platform.persister.drain(patience=float("inf") if forever else timeout, told=tell)
        while forever:
            gauges.tell()
            if platform.prover.step() is None:
                platform.persister.sleep(1.0)
            summary = platform.persister.drain(patience=float("inf"), told=tell)
    if as_json:
        print_json({"persisted": summary.persisted, "left": summary.left})
    else:
        logger.info("%s persisted, %s left", summary.persisted, summary.left)
    if summary.left:
        raise typer.Exit(NOT_SO)


def recover(
    paths: Annotated[list[str], typer.Argument(help="Dataset paths; none: everything that was lost")] = [],  # noqa: B006
    deep: Annotated[bool, typer.Option(help="Compare checksums, not only names and sizes")] = False,
    dry_run: Dry = False,
    as_json: Json = False,
) -> None:
    """Find what was lost and bring it back by running its operations again; name what cannot come back."""
    with opened(runs=True) as platform:
        platform.store.register_operations(platform.runner.operations().values())
        with progress("looking at the copies that the catalog names", quiet=as_json) as say:
            scan = platform.maintenance.scan(deep=deep)
            targets = [platform.catalog.resolve(p).ref for p in paths] or [d.ref for d in platform.maintenance.lost()]
            planned = platform.restorer.plan(targets)
            if dry_run:
                report = Restored(list(planned.steps), planned.seconds, dict(planned.irrecoverable))
            else:
                about = f", predicted to take {say_seconds(planned.seconds)}" if planned.steps else ""
                say(f"bringing datasets back: {counted(len(planned.steps), 'step')}{about}")
                report = platform.restorer.bring_back(targets)
        if as_json:
            print_json(
                {
                    "looked_at": scan.looked_at,
                    "found_lost": [str(ref) for ref in scan.lost],
                    "under_store_away": scan.away,
                    "unreached": {str(ref): why for ref, why in scan.unreached.items()},
                    **recovery_row(report.steps, report.seconds, report.irrecoverable),
                    "failed": {str(ref): str(failure) for ref, failure in report.failed.items()},
                }
            )
        else:
            below = sum(dataset.persisted for dataset in platform.catalog.get_all(scan.lost))
            still = f", {below} of them persisted and read from the under-store" if below else ""
            print(f"{scan.looked_at} looked at, {len(scan.lost)} found lost{still}")
            for step in report.steps:
                print(f"  {'would ' if dry_run else ''}{step.words}")
            taken, predicted = say_seconds(report.seconds), " predicted" if dry_run else ""
            print(f"{counted(len(report.steps), 'step')}, {taken}{predicted}", flush=True)
            for ref, why in report.irrecoverable.items():
                print(f"cannot be brought back: {ref}: {'; '.join(why)}", file=sys.stderr)
            for ref, failure in report.failed.items():
                print(f"could not be brought back this time: {ref}: {failure}", file=sys.stderr)
            for ref, reason in scan.unreached.items():
                print(f"could not be looked at: {ref}: {reason}", file=sys.stderr)
            if scan.away:
                print(say_away(platform, scan.away), file=sys.stderr)
        if report.irrecoverable or report.failed or scan.unreached or scan.away:
            raise typer.Exit(NOT_SO)


def evict(
    paths: Annotated[list[str], typer.Argument(help="Persisted datasets to let go")] = [],  # noqa: B006
    size: Annotated[
        int,
        typer.Option("--bytes", parser=size_of, metavar="SIZE", help="Free so much, such as 1GB, chosen by the rules"),
    ] = 0,
    dry_run: Dry = False,
    as_json: Json = False,
) -> None:
    """Let datasets go from the cache: those named, or what the rules choose."""
    if bool(paths) == bool(size):
        raise UsageError("evict: name datasets, or say with --bytes how much is to be freed, such as --bytes 1GB")
    with opened() as platform:
        if paths:
            named = [platform.catalog.resolve(path) for path in paths]
            for dataset in named:
                if not dataset.persisted:
                    raise PersistenceError(f"{dataset.ref} is not persisted; only persisted ones go by hand")
            victims, short, away = [evicted_by_hand(d.ref, d.bytes) for d in named if d.in_cache], 0, ""
        else:
            chosen = platform.replacement.plan(size)
            victims, short, away = list(chosen.victims), chosen.short, chosen.away
        with progress(f"letting {counted(len(victims), 'dataset')} go from the cache", quiet=as_json):
            stays = {victim.ref: why for victim in victims if (why := _let_go(platform, victim, dry_run))}
        gone = [victim for victim in victims if victim.ref not in stays]
        if as_json:
            print_json(
                {
                    "evicted": [{"dataset": str(v.ref), "rule": v.rule, "why": v.words} for v in gone],
                    "stays": {str(ref): why for ref, why in stays.items()},
                    "short": short,
                    "under_store_away": why_away(platform.under),
                }
            )
        else:
            for victim in gone:
                print(f"{victim.ref}: {'would go' if dry_run else 'went'}, {victim.rule}: {victim.words}")
            freed, datasets = say_bytes(sum(victim.bytes for victim in gone)), counted(len(gone), "dataset")
            print(f"{freed} in {datasets}{' would go' if dry_run else ''}", flush=True)
            for why in stays.values():
                print(why, file=sys.stderr)
            if short:
                reason = away or "they are neither persisted nor safe to make again"
                print(f"{say_bytes(short)} more must stay: {reason}")
        if stays:
            raise typer.Exit(NOT_SO)


def _let_go(platform: Platform, victim: Victim, dry_run: bool) -> str:
    """Let one go, or try it dry; returns what stays and why, empty: it went, or would go."""
    if dry_run:
        why = platform.replacement.why_it_stays(platform.catalog.get(victim.ref))
        return f"{victim.ref} would stay in the cache: {why}" if why else ""
    try:
        return platform.replacement.let_go(victim)
    except UnderStoreUnavailableError as error:
        return str(error)


def pin(
    path: Annotated[str, typer.Argument(help="A dataset path")],
    off: Annotated[bool, typer.Option("--off", help="Let it go again")] = False,
    as_json: Json = False,
) -> None:
    """Keep a dataset in the cache, and its generation from being retired, until the pin is taken off."""
    with opened() as platform:
        ref = platform.catalog.resolve(path).ref
        platform.catalog.amend(ref, event="unpinned" if off else "pinned", why="asked for by hand", pinned=not off)
        result = {"dataset": str(ref), "pinned": not off}
        print_result(as_json, result, f"{ref}: {'no longer pinned' if off else 'pinned'}")


def retire(as_json: Json = False) -> None:
    """Remove superseded generations that nobody reads, and what dead writers left."""
    with opened() as platform:
        with progress("removing superseded generations", quiet=as_json):
            retired, swept = platform.maintenance.retire(), platform.maintenance.sweep()
        if as_json:
            print_json({"retired": [str(ref) for ref in retired], "swept": [str(ref) for ref in swept]})
        else:
            print(f"{len(retired)} retired{f': {say_list(retired)}' if retired else ''}, {len(swept)} swept")


def rebuild(as_json: Json = False) -> None:
    """Fill an empty catalog again from the sidecar files beside the persisted data."""
    with opened() as platform:
        with progress("reading the sidecar files of the under-store", quiet=as_json):
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


def adopt(
    path: Annotated[str, typer.Argument(help="The dataset path to give it")],
    location: Annotated[str, typer.Argument(help="Where its files are, relative to the under-store's root")],
    as_json: Json = False,
) -> None:
    """Record files that are in the under-store already as the next generation of a dataset."""
    with opened() as platform:
        with progress(f"reading the files of {location}", quiet=as_json):
            dataset = platform.maintenance.adopt(path, location)
        result = {"dataset": str(dataset.ref), "bytes": dataset.bytes, "location": location}
        print_result(as_json, result, f"{dataset.ref}: {say_bytes(dataset.bytes)} adopted from {location}")
