"""Commands that change datasets: persist, recover, evict, pin, retire, rebuild, adopt."""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated

import typer

from springline.persistence.commands.arguments import EXIT_CONDITION_FAILED, DryRun, Json, parse_size, platform_session
from springline.persistence.decisions.eviction import Victim
from springline.persistence.engine.persister import TransferOutcome
from springline.persistence.engine.replacement import victim_by_hand
from springline.persistence.engine.restorer import RecoveryReport
from springline.persistence.engine.table_writer import TableOutcome
from springline.persistence.engine.verification import under_store_unavailable_reason
from springline.persistence.errors import PersistenceError, UnderStoreUnavailableError, UsageError
from springline.persistence.metrics_collector import GaugeCollector
from springline.persistence.monitoring.logs import configure_logging, log_context
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.platform import Platform
from springline.persistence.rendering import format_unavailability, recovery_row
from springline.persistence.text.formatting import format_bytes, format_count, format_list, format_seconds
from springline.persistence.text.terminal import print, print_json, print_result, progress

logger = logging.getLogger("springline.persister")


def persist(
    forever: Annotated[bool, typer.Option(help="Keep running when the queue is empty")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to keep retrying while no transfer succeeds")] = 60.0,
    as_json: Json = False,
) -> None:
    """Persist queued datasets and put them into their tables, at low CPU priority; with --forever prove operations."""
    os.nice(10)
    with (
        progress("persisting queued datasets", quiet=as_json) as update_progress,
        platform_session(runs_operations=True) as platform,
    ):
        configure_logging(MonitoringSettings(), sys.stderr if as_json else sys.stdout)
        platform.store.register_operations(platform.runner.operations().values())

        collector = GaugeCollector(platform)

        def report_outcome(outcome: TransferOutcome) -> None:
            collector.collect()
            update_progress(f"persisting; last: {outcome.ref}")
            if as_json:
                return
            with log_context(dataset=str(outcome.ref), method=outcome.method.value):
                if outcome.error:
                    logger.warning("%s: %s failed: %s", outcome.ref, outcome.method, outcome.error)
                else:
                    logger.info("%s: %s in %s", outcome.ref, outcome.method, format_seconds(outcome.actual_seconds))

        def report_table_outcome(outcome: TableOutcome) -> None:
            if not as_json and not outcome.error:  # errors are logged already
                names = ", ".join(outcome.versions) or "a table, with no rows"
                logger.info("%s: in %s, in %s", outcome.ref, names, format_seconds(outcome.seconds))

        summary = platform.persister.drain(timeout=float("inf") if forever else timeout, on_outcome=report_outcome)
        tables = platform.table_writer.drain(report_table_outcome)
        while forever:
            collector.collect()
            if platform.table_writer.step() is None and platform.prover.step() is None:
                platform.persister.sleep(1.0)
            summary = platform.persister.drain(timeout=float("inf"), on_outcome=report_outcome)
    not_in_tables = sum(bool(outcome.error) for outcome in tables)
    written = len(tables) - not_in_tables
    if as_json:
        print_json(
            {"persisted": summary.persisted, "remaining": summary.remaining,
             "in_tables": written, "not_in_tables": not_in_tables}
        )  # fmt: skip
    else:
        in_tables = f", {written} put into tables" if platform.table_writer.targets else ""
        logger.info("%s persisted, %s remaining%s", summary.persisted, summary.remaining, in_tables)
    if summary.remaining or not_in_tables:
        raise typer.Exit(EXIT_CONDITION_FAILED)


def recover(
    paths: Annotated[list[str], typer.Argument(help="Dataset paths; default: all lost datasets")] = [],  # noqa: B006
    deep: Annotated[bool, typer.Option(help="Compare checksums, not only names and sizes")] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Detect lost datasets and restore them by re-running their operations; list those that are irrecoverable."""
    with platform_session(runs_operations=True) as platform:
        platform.store.register_operations(platform.runner.operations().values())
        with progress("checking the copies recorded in the catalog", quiet=as_json) as update_progress:
            scan = platform.maintenance.scan(deep=deep)
            targets = [platform.catalog.resolve(p).ref for p in paths] or [
                d.ref for d in platform.maintenance.find_lost()
            ]
            plan = platform.restorer.plan(targets)
            if dry_run:
                report = RecoveryReport(list(plan.steps), plan.seconds, dict(plan.irrecoverable))
            else:
                estimate = f", predicted to take {format_seconds(plan.seconds)}" if plan.steps else ""
                update_progress(f"restoring datasets: {format_count(len(plan.steps), 'step')}{estimate}")
                report = platform.restorer.restore(targets)
        if as_json:
            print_json(
                {
                    "checked": scan.checked_count,
                    "lost": [str(ref) for ref in scan.lost],
                    "under_store_away": scan.unavailable_reason,
                    "unreachable": {str(ref): reason for ref, reason in scan.unreachable.items()},
                    **recovery_row(report.steps, report.seconds, report.irrecoverable),
                    "failed": {str(ref): str(failure) for ref, failure in report.failed.items()},
                }
            )
        else:
            persisted_count = sum(dataset.persisted for dataset in platform.catalog.get_all(scan.lost))
            persisted_note = (
                f", {persisted_count} of them persisted and read from the under-store" if persisted_count else ""
            )
            print(f"{scan.checked_count} checked, {len(scan.lost)} lost{persisted_note}")
            for step in report.steps:
                print(f"  {'would ' if dry_run else ''}{step.summary}")
            duration, predicted = format_seconds(report.seconds), " predicted" if dry_run else ""
            print(f"{format_count(len(report.steps), 'step')}, {duration}{predicted}", flush=True)
            for ref, causes in report.irrecoverable.items():
                print(f"irrecoverable: {ref}: {'; '.join(causes)}", file=sys.stderr)
            for ref, failure in report.failed.items():
                print(f"recovery failed: {ref}: {failure}", file=sys.stderr)
            for ref, reason in scan.unreachable.items():
                print(f"could not be checked: {ref}: {reason}", file=sys.stderr)
            if scan.unavailable_reason:
                print(format_unavailability(platform, scan.unavailable_reason), file=sys.stderr)
        if report.irrecoverable or report.failed or scan.unreachable or scan.unavailable_reason:
            raise typer.Exit(EXIT_CONDITION_FAILED)


def evict(
    paths: Annotated[list[str], typer.Argument(help="Persisted datasets to evict")] = [],  # noqa: B006
    size: Annotated[
        int,
        typer.Option(
            "--bytes", parser=parse_size, metavar="SIZE", help="Bytes to free, such as 1GB, by the eviction rules"
        ),
    ] = 0,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Evict datasets from the cache: the named ones, or those that the rules choose."""
    if bool(paths) == bool(size):
        raise UsageError("evict: give either dataset paths or the bytes to free, such as --bytes 1GB")
    with platform_session() as platform:
        if paths:
            named_datasets = [platform.catalog.resolve(path) for path in paths]
            for dataset in named_datasets:
                if not dataset.persisted:
                    raise PersistenceError(
                        f"{dataset.ref} is not persisted; only persisted datasets can be evicted manually"
                    )
            victims, missing_bytes, unavailable_reason = (
                [victim_by_hand(d.ref, d.bytes) for d in named_datasets if d.in_cache],
                0,
                "",
            )
        else:
            eviction_plan = platform.replacement.plan(size)
            victims, missing_bytes, unavailable_reason = (
                list(eviction_plan.victims),
                eviction_plan.missing_bytes,
                eviction_plan.unavailable_reason,
            )
        with progress(f"evicting {format_count(len(victims), 'dataset')} from the cache", quiet=as_json):
            refusals = {
                victim.ref: refusal for victim in victims if (refusal := _evict_victim(platform, victim, dry_run))
            }
        evicted_victims = [victim for victim in victims if victim.ref not in refusals]
        if as_json:
            print_json(
                {
                    "evicted": [{"dataset": str(v.ref), "rule": v.rule, "reason": v.reason} for v in evicted_victims],
                    "refused": {str(ref): reason for ref, reason in refusals.items()},
                    "missing_bytes": missing_bytes,
                    "under_store_away": under_store_unavailable_reason(platform.under),
                }
            )
        else:
            for victim in evicted_victims:
                print(f"{victim.ref}: {'would be evicted' if dry_run else 'evicted'}, {victim.rule}: {victim.reason}")
            freed, datasets = (
                format_bytes(sum(victim.bytes for victim in evicted_victims)),
                format_count(len(evicted_victims), "dataset"),
            )
            print(f"{freed} in {datasets} {'would be freed' if dry_run else 'freed'}", flush=True)
            for refusal in refusals.values():
                print(refusal, file=sys.stderr)
            if missing_bytes:
                reason = unavailable_reason or "those datasets are neither persisted nor reliably recomputable"
                print(f"{format_bytes(missing_bytes)} more cannot be freed: {reason}")
        if refusals:
            raise typer.Exit(EXIT_CONDITION_FAILED)


def _evict_victim(platform: Platform, victim: Victim, dry_run: bool) -> str:
    """Evict one generation, or check it in a dry run; returns why it stays, empty if it is or would be evicted."""
    if dry_run:
        reason = platform.replacement.retention_reason(platform.catalog.get(victim.ref))
        return f"{victim.ref} would stay in the cache: {reason}" if reason else ""
    try:
        return platform.replacement.try_evict(victim)
    except UnderStoreUnavailableError as error:
        return str(error)


def pin(
    path: Annotated[str, typer.Argument(help="A dataset path")],
    off: Annotated[bool, typer.Option("--off", help="Unpin it")] = False,
    as_json: Json = False,
) -> None:
    """Keep a dataset in the cache, and its generation from being retired, until it is unpinned."""
    with platform_session() as platform:
        ref = platform.catalog.resolve(path).ref
        platform.catalog.amend(ref, event="unpinned" if off else "pinned", reason="requested manually", pinned=not off)
        result = {"dataset": str(ref), "pinned": not off}
        print_result(as_json, result, f"{ref}: {'no longer pinned' if off else 'pinned'}")


def retire(as_json: Json = False) -> None:
    """Remove superseded generations without readers, and files left by dead writers."""
    with platform_session() as platform:
        with progress("removing superseded generations", quiet=as_json):
            retired, swept = platform.maintenance.retire(), platform.maintenance.sweep()
        if as_json:
            print_json({"retired": [str(ref) for ref in retired], "swept": [str(ref) for ref in swept]})
        else:
            print(f"{len(retired)} retired{f': {format_list(retired)}' if retired else ''}, {len(swept)} swept")


def rebuild(as_json: Json = False) -> None:
    """Fill an empty catalog from the manifests beside the persisted data."""
    with platform_session() as platform:
        with progress("reading the manifests in the under-store", quiet=as_json):
            report = platform.maintenance.rebuild()
        if as_json:
            print_json(
                {
                    "recorded": [str(ref) for ref in report.recorded_refs],
                    "without_source": {
                        str(ref): missing_sources for ref, missing_sources in report.without_source.items()
                    },
                    "unusable": report.unusable,
                }
            )
        else:
            print(f"{len(report.recorded_refs)} generations recorded from the under-store")
            for ref, missing in report.without_source.items():
                print(f"  {ref}: its sources {format_list(missing)} are not persisted; it cannot be recomputed")
            for problem in report.unusable:
                print(f"  {problem}", file=sys.stderr)


def adopt(
    path: Annotated[str, typer.Argument(help="Dataset path to register the files as")],
    location: Annotated[str, typer.Argument(help="Folder of the files, relative to the under-store's root")],
    as_json: Json = False,
) -> None:
    """Record files that are already in the under-store as the next generation of a dataset."""
    with platform_session() as platform:
        with progress(f"reading the files of {location}", quiet=as_json):
            dataset = platform.maintenance.adopt(path, location)
        result = {"dataset": str(dataset.ref), "bytes": dataset.bytes, "location": location}
        print_result(as_json, result, f"{dataset.ref}: {format_bytes(dataset.bytes)} adopted from {location}")
