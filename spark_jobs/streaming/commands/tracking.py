"""The commands of tracking: records in flight, failed, retried and completed, and ackers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Annotated

import typer
from rich.table import Table

from springline.persistence.commands.arguments import EXIT_CONDITION_FAILED
from springline.persistence.text.formatting import format_bytes
from springline.persistence.text.tables import plain_table
from springline.persistence.text.terminal import print, print_json, print_result, progress
from springline.spark_jobs.streaming.application.status import JobStatus, read_status
from springline.spark_jobs.streaming.commands.arguments import JobName, Json, Watch
from springline.spark_jobs.streaming.commands.jobs import job_named, opened_log
from springline.spark_jobs.streaming.commands.live import show_live
from springline.spark_jobs.streaming.commands.tables import literal_text, print_rows
from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.job import Job
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import TrackedJob, read_tracked_job, read_tracked_jobs
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.tracking.completeness import completeness_of
from springline.spark_jobs.streaming.tracking.replay.failures import newest_failures
from springline.spark_jobs.streaming.tracking.replay.manual_replay import replay_times, retry_dead_letter
from springline.spark_jobs.streaming.tracking.ring import RingHistory
from springline.spark_jobs.streaming.tracking.ring_file import change_ring, read_ring_history

_POLL_SECONDS = 0.25
AckerNumber = Annotated[int, typer.Argument(min=0, help="The acker's number, from 0")]


def list_tracked(watch: Watch = False, as_json: Json = False) -> None:
    """List the numbers of records in flight, completed and failed in every tracked job."""
    settings = StreamSettings()
    if as_json:
        print_json(
            [{"job": status.job, "state": status.state, **status.tracking} for status in _poll_tracked_jobs(settings)]
        )
        return
    show_live(lambda: _table(_poll_tracked_jobs(settings), settings), watch)


def dead_letters(
    job: JobName,
    last: Annotated[int, typer.Option("-n", min=1, help="Maximum number of records; the newest is last")] = 10,
    as_json: Json = False,
) -> None:
    """Show the newest failed records: their offsets in the source, why they failed, and their content."""
    declared, folder = job_named(job)
    with opened_log() as log:
        failures = newest_failures(log, declared.dead_letters, last)
    sent = replay_times(folder)
    if as_json:
        rows = [{**failure.as_json(), "retried_at": sent.get(failure.record)} for failure in failures]
        print_json(rows)
        return
    if failures:
        names = ("record", "partition", "offset", "failed at", "reason", "retried at", "content")
        print_rows(
            names,
            (
                (
                    one.record, one.partition, one.offset, _when(one.failed_at), one.reason,
                    _when(sent[one.record]) if one.record in sent else "", one.as_json()["content"][:200],
                )
                for one in failures
            ),
        )  # fmt: skip
    elif not _is_foreign(declared):
        print(f"{job}: no failed records")
    if _is_foreign(declared):
        print(
            f"{job}: failed roots are reported in {declared.results}; the dead-letter "
            f"queue has messages that could not be read"
        )


def retry(
    job: JobName,
    records: Annotated[list[str], typer.Argument(help="As listed by `dead-letters`: UNIT:OFFSET")],
    as_json: Json = False,
) -> None:
    """Send failed records again, as new records at the end of the topic, each at most once."""
    declared, folder = job_named(job)
    rows = []
    with opened_log() as log:
        for record in records:
            sent = retry_dead_letter(log, declared, folder, record, time.time())
            rows.append({"record": record, "partition": sent.partition, "offset": sent.offset, "topic": sent.topic})
            if not as_json:
                print(f"{job}: partition {sent.partition}, offset {sent.offset} retried: sent to {sent.topic}")
    if as_json:
        print_json(rows)


def wait(
    job: JobName,
    to: Annotated[
        list[str] | None, typer.Option(help="PARTITION:OFFSET, repeatable; default: the current end of the topic")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait")] = 0.0,
    as_json: Json = False,
) -> None:
    """Wait until all records before some offsets are completed, up to the timeout; exit status 3 if they are not."""
    declared, folder = _tracked_job_named(job)
    if declared.tracking.foreign:
        raise StreamError(f"{job}: its roots are named by clients, so completion by offset is unknown")
    target_offsets = dict(_parse_position(text) for text in to or ())
    if not target_offsets:
        with opened_log() as log:
            target_offsets = {unit: extent.high for unit, extent in log.offset_bounds(declared.topic).items()}
    until = time.monotonic() + timeout
    with progress(f"waiting for {job}", quiet=as_json) as say:
        while not (completeness := completeness_of(folder, target_offsets)).is_complete and time.monotonic() < until:
            say(f"waiting for {job}: not completed: {completeness.describe()}")
            time.sleep(_POLL_SECONDS)
    sentence = (
        f"{job}: {completeness.describe() if completeness.is_complete else f'not completed: {completeness.describe()}'}"
    )
    print_result(
        as_json, {"job": job, "is_complete": completeness.is_complete, "missing": completeness.missing}, sentence
    )
    if not completeness.is_complete:
        raise typer.Exit(EXIT_CONDITION_FAILED)


def list_ackers(job: JobName, as_json: Json = False) -> None:
    """Show the ring: which ackers it contains, and how many records each has in flight."""
    declared, folder = _tracked_job_named(job)
    history = read_ring_history(folder, declared.tracking)
    gauges_by_acker = {each["acker"]: each for each in _poll_job(job, folder).tracking.get("ackers", ())}
    if as_json:
        print_json([_acker_fields(history, acker, gauges_by_acker.get(acker)) for acker in range(history.max_ackers)])
        return
    print_rows(
        ("acker", "in the ring", "in flight", "completed"),
        (
            (acker, "yes" if acker in history.ring.ackers else "", *_acker_counts(gauges_by_acker.get(acker)))
            for acker in range(history.max_ackers)
        ),
    )
    print(f"epoch {history.epoch} of the ring; possible ackers: 0 to {history.max_ackers - 1}")


def add(job: JobName, acker: AckerNumber, as_json: Json = False) -> None:
    """Add an acker to the ring of a running or stopped job."""
    _change(job, lambda history: history.with_acker(acker), as_json)


def remove(job: JobName, acker: AckerNumber, as_json: Json = False) -> None:
    """Remove an acker from the ring of a running or stopped job; it hands its records over to the others."""
    _change(job, lambda history: history.without_acker(acker), as_json)


def _acker_fields(history: RingHistory, acker: int, counts: Mapping[str, int] | None) -> dict[str, object]:
    return {**(counts or {}), "acker": acker, "in_ring": acker in history.ring.ackers, "epoch": history.epoch}


def _change(job: str, change: Callable[[RingHistory], RingHistory], as_json: bool) -> None:
    declared, folder = _tracked_job_named(job)
    changed = change_ring(folder, declared.tracking, change)
    ackers = list(changed.ring.ackers)
    sentence = f"{job}: epoch {changed.epoch} of the ring: ackers {', '.join(map(str, ackers))}"
    print_result(as_json, {"job": job, "epoch": changed.epoch, "ackers": ackers}, sentence)


def _is_foreign(job: Job) -> bool:
    return job.tracking is not None and job.tracking.foreign


def _tracked_job_named(job: str) -> tuple[TrackedJob, JobFolder]:
    settings = StreamSettings()
    return read_tracked_job(settings.declarations, job), settings.folder(job)


def _poll_job(job: str, folder: JobFolder) -> JobStatus:
    return read_status(job, folder, time.time())


def _poll_tracked_jobs(settings: StreamSettings) -> list[JobStatus]:
    return [_poll_job(name, settings.folder(name)) for name in read_tracked_jobs(settings.declarations)]


def _table(jobs: list[JobStatus], settings: StreamSettings) -> Table:
    table = plain_table("job", "state")
    for name in ("in flight", "completed", "retried", "failed", "p50", "p99", "memory"):
        table.add_column(name, justify="right")
    table.add_column("first not completed")
    for status in jobs:
        tracking = status.tracking
        if not tracking:
            table.add_row(status.job, status.state)
            continue
        numbers = (f"{tracking[name]:,}" for name in ("in_flight", "completed", "retried", "failed"))
        marks = ", ".join(f"{partition}:{offset:,}" for partition, offset in tracking["low_watermarks"].items())
        durations = (_seconds(tracking["seconds"][share]) for share in ("p50", "p99"))
        table.add_row(status.job, status.state, *numbers, *durations, format_bytes(tracking["bytes"]), marks)
        if reason := _hold_reason(tracking["source_paused"], tracking["pause_reason"]):
            table.add_row("", literal_text(reason, style="yellow"))
    table.caption_justify = "left"
    if not jobs:
        table.caption = f"no tracked jobs are declared in {settings.declarations}"
    return table


def _hold_reason(is_full: bool, pause_reason: str) -> str:
    reasons = ["the source is paused: the limit of roots in flight is reached"] if is_full else []
    return "; ".join([*reasons, *([f"timeouts are paused: {pause_reason}"] if pause_reason else [])])


def _acker_counts(counts: dict[str, int] | None) -> tuple[str, str]:
    return ("", "") if counts is None else (f"{counts['in_flight']:,}", f"{counts['completed']:,}")


def _seconds(span: float | None) -> str:
    if span is None:
        return ""
    return f"{span * 1000:,.0f} ms" if span < 1 else f"{span:,.1f} s"


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _parse_position(text: str) -> tuple[int, int]:
    partition, _, offset = text.partition(":")
    if not partition.isdigit() or not offset.isdigit():
        raise StreamError(f"{text!r}: write PARTITION:OFFSET, such as 0:1200")
    return int(partition), int(offset)
